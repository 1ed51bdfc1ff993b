#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Record the bundled capture: real programs in three network namespaces (client, router, server)
# talk over veth pairs for a few seconds; tcpdump listens at the router's client side.
#
#	sudo scripts/record_sample.sh OUT.pcap.gz
#
# Needs iproute2, ethtool, tcpdump, python3, curl, iperf3, dnsmasq-base, bind9-dnsutils,
# netcat-openbsd, iputils-ping, traceroute. Touches nothing outside its own namespaces and a
# temporary folder, both removed at the end.
set -u

out=${1:?usage: scripts/record_sample.sh OUT.pcap.gz}
snaplen=128
tag=rec$$
client=$tag-client router=$tag-router server=$tag-server
folder=$(mktemp -d)
web=$folder/web
server4=10.20.2.2 server6=fd20:2::2

cleanup()
{
	local namespace pid
	for namespace in $client $router $server; do
		for pid in $(ip netns pids $namespace 2>/dev/null); do
			kill "$pid" 2>/dev/null
		done
	done
	sleep 0.3
	for namespace in $client $router $server; do
		ip netns del $namespace 2>/dev/null
	done
	rm -rf "$folder"
}
trap cleanup EXIT

at()
{
	local namespace=$1
	shift
	ip netns exec "$namespace" timeout 30 "$@"
}

# link A A_DEVICE B B_DEVICE MTU RATE: a pair without offloads (so that frames look as on a wire),
# shaped, because queues at a bottleneck are what interleaves flows.
link()
{
	ip netns exec "$1" ip link add "$2" type veth peer name "$4" netns "$3"
	local namespace device
	while read -r namespace device; do
		at "$namespace" ethtool -K "$device" tso off gso off gro off tx off >/dev/null
		at "$namespace" ip link set "$device" mtu "$5" up
		at "$namespace" tc qdisc add dev "$device" root tbf rate "$6" burst 16k latency 40ms
	done <<<"$1 $2"$'\n'"$3 $4"
}

address()
{
	at "$1" ip addr add "$3" dev "$2"
	at "$1" ip addr add "$4" dev "$2" nodad
}

network()
{
	local namespace
	for namespace in $client $router $server; do
		ip netns add $namespace || exit 1
		at $namespace ip link set lo up
	done
	link $client eth0 $router lan 1500 60mbit
	link $router wan $server eth0 1400 40mbit
	address $client eth0 10.20.1.2/24 fd20:1::2/64
	address $router lan 10.20.1.1/24 fd20:1::1/64
	address $router wan 10.20.2.1/24 fd20:2::1/64
	address $server eth0 $server4/24 $server6/64
	at $router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	at $router sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
	at $server sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
	at $client ip route add default via 10.20.1.1
	at $client ip -6 route add default via fd20:1::1
	at $server ip route add default via 10.20.2.1
	at $server ip -6 route add default via fd20:2::1
	# Half-open connections: SYNs to these vanish; the other one answers with an ICMP error.
	at $router ip route add blackhole 10.20.66.0/24
	at $router ip -6 route add blackhole fd20:66::/64
	at $router ip route add prohibit 10.20.67.0/24
}

# Files whose sizes spread as on the web: many small ones, few large ones.
files()
{
	mkdir -p "$web"
	python3 - "$web" <<'PYTHON'
import random, sys
random.seed(7)
line = "the quick brown fox jumps over the lazy dog %06d\n"
text = "".join(line % number for number in range(40000))
for index in range(420):
    size = min(int(900 * random.paretovariate(0.85)), 400000)
    with open(f"{sys.argv[1]}/{index}.html", "w") as out:
        out.write(text[:size])
PYTHON
}

servers()
{
	(cd "$web" && ip netns exec $server timeout 60 python3 -m http.server 80 --bind :: \
		>/dev/null 2>&1) &
	at $server dnsmasq --no-daemon --no-resolv --no-hosts --conf-file=/dev/null --port=53 \
		--address=/example.test/$server4 --address=/example.test/$server6 \
		>/dev/null 2>&1 &
	at $server iperf3 -s -1 -p 5201 >/dev/null 2>&1 &
	at $server iperf3 -s -1 -p 5202 >/dev/null 2>&1 &
	at $server iperf3 -s -1 -p 5203 >/dev/null 2>&1 &
	(while sleep 0.1; do echo "the time is $SECONDS"; done | at $server nc -l -p 7000) \
		>/dev/null 2>&1 &
	sleep 1
}

# downloads HOST FIRST LAST PARALLEL
downloads()
{
	local index
	for index in $(seq "$2" "$3"); do
		printf 'url = "http://%s/%d.html"\noutput = "/dev/null"\n' "$1" "$index"
	done >"$folder/urls-$2"
	at $client curl -s --globoff --parallel --parallel-max "$4" -K "$folder/urls-$2"
}

queries()
{
	local index
	for index in $(seq 1 150); do
		echo "host$index.example.test A"
		echo "host$index.example.test AAAA"
	done >"$folder/queries"
	at $client dig +tries=1 +time=1 "@$server4" -f "$folder/queries"
	head -n 60 "$folder/queries" >"$folder/queries6"
	at $client dig +tries=1 +time=1 "@$server6" -f "$folder/queries6"
}

faults()
{
	local port
	for port in $(seq 8100 8112); do
		at $client nc -z -w 1 $server4 "$port"        # closed: RST
		at $client nc -z -w 1 $server6 "$port"
		echo lost | at $client nc -u -q 0 $server4 "$port" # closed: ICMP unreachable
		echo lost | at $client nc -u -q 0 $server6 "$port"
	done
	for port in $(seq 9000 9007); do
		at $client nc -z -w 2 10.20.66.9 "$port" & # nobody answers
		at $client nc -z -w 2 fd20:66::9 "$port" &
		at $client nc -z -w 2 10.20.67.9 "$port" & # prohibited: ICMP error
	done
	wait
	at $client traceroute -n -q 2 -w 1 -m 3 $server4
	at $client traceroute -n -q 2 -w 1 -m 3 $server6
	at $client ping -q -c 3 -i 0.05 -s 3000 $server4          # ICMP fragments
	at $client ping -q -c 3 -i 0.05 -s 3000 $server6
	at $client ping -q -c 2 -i 0.05 -W 1 -M do -s 1450 $server4 # too big: ICMP error
	at $client ping -q -c 2 -i 0.05 -W 1 -t 1 $server4        # dies at the router
}

traffic()
{
	(
		downloads $server4 0 239 40 &
		downloads "[$server6]" 240 419 30 &
		queries &
		at $client ping -q -c 20 -i 0.1 $server4 &
		at $client ping -q -c 20 -i 0.1 $server6 &
		at $client timeout 2 nc -d $server4 7000 &
		at $client iperf3 -c $server4 -p 5201 -P 4 -n 300K &   # upload
		at $client iperf3 -c $server6 -p 5202 -u -l 172 -b 400K -t 2 & # voice-like
		at $client iperf3 -c $server4 -p 5203 -u -l 4000 -b 1M -t 1 & # fragments
		faults &
		wait
	) >"$folder/client.log" 2>&1
}

[ "$(id -u)" -eq 0 ] || { echo "needs root for network namespaces" >&2; exit 1; }
umask 022
network
files
servers
ip netns exec $router tcpdump -q -i lan -s $snaplen -B 16384 --time-stamp-precision=nano \
	-w "$folder/out.pcap" 2>"$folder/tcpdump.log" &
capture=$!
sleep 1
traffic
sleep 0.5
# The child is "ip netns exec", which becomes tcpdump.
kill -INT $capture
wait $capture 2>/dev/null
grep -E 'captured|dropped' "$folder/tcpdump.log" >&2
gzip -9 -n -c "$folder/out.pcap" >"$out"
ls -l "$out" >&2
