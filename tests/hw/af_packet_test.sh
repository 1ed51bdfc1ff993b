#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Two sheaf processes over a veth pair in a network namespace made for the test, through DPDK's
# af_packet driver: one replays a capture onto the wire by the wall clock, the other tracks what it
# receives. Needs root and iproute2. Usage: af_packet_test.sh SHEAF
set -eu
sheaf=$1
skip() {
	echo "skipped: $1"
	exit 77
}
[ "$(id -u)" = 0 ] || skip "needs root"
command -v ip >/dev/null || skip "needs iproute2"
ls /usr/lib/*/dpdk/pmds-*/librte_net_af_packet.so >/dev/null 2>&1 ||
	skip "DPDK's af_packet driver is not installed"
space=sheaf-test-$$
dir=$(mktemp -d)
ip netns add "$space" 2>/dev/null || {
	rm -rf "$dir"
	skip "no network namespaces here"
}
trap 'ip netns del "$space"; rm -rf "$dir"' EXIT
inside() { ip netns exec "$space" "$@"; }
# Some containers let a namespace be made and not entered.
inside true 2>/dev/null || skip "network namespaces cannot be entered here"
inside sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 || true
ip -n "$space" link add va type veth peer name vb
ip -n "$space" link set va up
ip -n "$space" link set vb up

packets=10000
"$sheaf" trace gen --flows 200 --packets $packets --pps 10k "$dir/in.pcap"
inside "$sheaf" replay --source port:net_af_packet1,iface=vb --clock wall --duration 5s \
	--chain stats,lb --reframer delay=1ms --no-huge --quiet --json "$dir/received.json" &
receiver=$!
sleep 2
inside "$sheaf" replay "$dir/in.pcap" --clock wall --sink port:net_af_packet0,iface=va --no-huge \
	--quiet --json "$dir/sent.json"
wait $receiver

field() { sed -n "/\"$2\": *{/,\$s/.*\"$3\": *\\([a-z0-9]*\\).*/\\1/p" "$1" | head -n 1; }
failed=0
expect() {
	echo "$1: $2"
	[ "$2" = "$3" ] || {
		echo "FAILED: $1: got '$2', expected '$3'"
		failed=1
	}
}
expect "packets sent" "$(field "$dir/sent.json" books forwarded)" $packets
expect "packets received" "$(field "$dir/received.json" books read)" $packets
expect "books of the receiver" "$(field "$dir/received.json" books balanced)" true
expect "connections tracked" "$(field "$dir/received.json" conntrack inserted)" 200
expect "packets of a flow reordered" \
	"$(field "$dir/received.json" books reorder_violations)" 0
exit $failed
