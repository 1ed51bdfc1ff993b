#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# DPDK ports as source and sink, with drivers that need no hardware: what a port receives is read,
# what a port is sent arrives, and the books balance. Usage: ports_test.sh SHEAF
set -eu
sheaf=$1
ls /usr/lib/*/dpdk/pmds-*/librte_net_pcap.so >/dev/null 2>&1 || {
	echo "skipped: DPDK's net_pcap driver is not installed"
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$sheaf" trace gen --flows 50 --packets 3000 --pps 100k "$dir/in.pcap"

count() { # packets in a capture
	"$sheaf" trace info "$1" --json - | sed -n 's/.*"packets": *\([0-9]*\).*/\1/p' | head -n 1
}
book() { # a field of the books of a result
	sed -n "/\"books\"/,\$s/.*\"$2\": *\\([a-z0-9]*\\).*/\\1/p" "$1" | head -n 1
}
expect() {
	[ "$2" = "$3" ] || {
		echo "FAILED: $1: got '$2', expected '$3'"
		exit 1
	}
}

"$sheaf" replay --source "port:net_pcap0,rx_pcap=$dir/in.pcap" --clock wall --duration 500ms \
	--chain stats,lb --sink "port:net_pcap1,tx_pcap=$dir/out.pcap" --no-huge --quiet \
	--json "$dir/port.json"
expect "packets a port source reads" "$(book "$dir/port.json" read)" 3000
expect "packets that reach a port sink" "$(count "$dir/out.pcap")" 3000
expect "books of a port run" "$(book "$dir/port.json" balanced)" true

"$sheaf" replay "$dir/in.pcap" --sink port:net_null0 --reframer delay=64us --loop 20 --no-huge \
	--quiet --json "$dir/null.json"
expect "packets a looped trace sends" "$(book "$dir/null.json" forwarded)" 60000

rc=0
"$sheaf" replay "$dir/in.pcap" --sink port:no_such_device --quiet 2>"$dir/error" || rc=$?
expect "exit code for an unknown device" "$rc" 3
expect "lines of its message" "$(wc -l <"$dir/error")" 1
rc=0
"$sheaf" replay "$dir/in.pcap" --sink port:net_pcap0,tx_pcap="$dir/x" --workers 3 --quiet \
	2>"$dir/error" || rc=$?
expect "exit code for more workers than queues" "$rc" 3
