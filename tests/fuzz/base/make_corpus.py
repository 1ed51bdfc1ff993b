#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Write the seeds of parse_fuzz into corpus/: one file per kind of packet.

Usage: make_corpus.py [directory]. Needs scapy. The seeds are committed, so tests do without it.
"""
import logging
import pathlib
import struct
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import (  # noqa: E402
    AH, ARP, Dot1AD, Dot1Q, Ether, GRE, ICMP, ICMPv6DestUnreach, ICMPv6EchoRequest, IP,
    IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, LLC, PPP,
    PPPoE, SCTP, SNAP, TCP, UDP, VXLAN, Raw, fragment, fragment6)

ETHERNET, RAW, NULL, LOOP, SLL, SLL2, PPP_LINK, PPP_HDLC, C_HDLC = range(9)
INNER, VLAN_ZONE, CHECKSUMS, SIPHASH = 1, 2, 4, 8


def records(packets, link=ETHERNET, wire_extra=0):
    out = b""
    for packet in packets:
        frame = bytes(packet)
        out += struct.pack(">BHB", link, len(frame), wire_extra) + frame
    return out


def kinds():
    e = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    ip6 = IPv6(src="2001:db8::1", dst="2001:db8::2")
    tcp, udp = TCP(sport=4000, dport=80), UDP(sport=4000, dport=53)
    data = Raw(bytes(range(40)))
    inner = IP(src="192.168.0.1", dst="192.168.0.2") / tcp / data
    yield "tcp4", CHECKSUMS, records([e / ip / tcp / data, e / ip / udp / data])
    yield "tcp6", CHECKSUMS | SIPHASH, records([e / ip6 / tcp / data, e / ip6 / udp / data])
    yield "sctp_gre_esp", 0, records(
        [e / ip / SCTP(sport=1, dport=2), e / ip / GRE() / inner, e / IP(proto=50) / data])
    cut = [Raw(bytes(packet / data)[:size]) for packet, size in
           ((ip / tcp, 40), (ip / udp, 28), (ip6 / tcp, 64), (ip6 / udp, 48), (ip / tcp, 33))]
    yield "raw_cut", 0, records(cut, RAW, 5)
    yield "ethernet_cut", SIPHASH, records([e / packet for packet in cut[:2]], ETHERNET, 5)
    yield "short_udp", 0, records([e / ip / udp, e / Dot1Q(vlan=5) / ip / udp])
    yield "tags", VLAN_ZONE, records(
        [e / Dot1Q(vlan=5) / ip / tcp, e / Dot1AD(vlan=1) / Dot1Q(vlan=2) / ip6 / udp,
         e / Dot1Q(type=0x8847) / Raw(struct.pack(">I", 16 << 12 | 1 << 8 | 64)) / ip / tcp])
    yield "pppoe_snap_arp", 0, records(
        [e / PPPoE(sessionid=1) / PPP() / ip / tcp, e / ARP(),
         Ether(type=60) / LLC(dsap=0xaa, ssap=0xaa, ctrl=3) / SNAP(code=0x0800) / ip / tcp])
    yield "extensions", 0, records(
        [e / ip6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt() / tcp,
         e / ip6 / AH(icv=b"0" * 12) / tcp, e / ip6 / IPv6ExtHdrFragment(id=7) / tcp])
    yield "fragments4", 0, records(
        [e / f for f in fragment(ip / udp / Raw(b"x" * 300), fragsize=104)])
    yield "fragments6", 0, records(
        [e / f for f in fragment6(ip6 / IPv6ExtHdrFragment(id=9) / udp / Raw(b"x" * 3000), 1280)])
    yield "icmp", CHECKSUMS, records(
        [e / ip / ICMP(id=7) / data, e / ip / ICMP(type=3, code=1) / IP(bytes(inner)[:28]),
         e / ip6 / ICMPv6EchoRequest(id=8), e / ip6 / ICMPv6DestUnreach() / ip6 / udp])
    gtp = Raw(b"\x30\xff" + struct.pack(">HI", len(inner), 5) + bytes(inner))
    gtp_extended = Raw(b"\x36\xff" + struct.pack(">HI", len(inner) + 8, 5) +
                       b"\0\0\0\x85\x01\x02\x03\0" + bytes(inner))
    geneve = Raw(b"\x00\x00\x65\x58" + b"\0\0\5\0" + bytes(e / inner))
    yield "tunnels", INNER, records(
        [e / ip / UDP(dport=4789) / VXLAN(vni=5, flags=8) / e / inner,
         e / ip / UDP(dport=2152) / gtp, e / ip / UDP(dport=2152) / gtp_extended,
         e / ip / UDP(dport=6081) / geneve, e / ip / GRE(key_present=1) / inner,
         e / ip / inner, e / ip / ip6 / udp])
    yield "cut", 0, b"".join(
        records([Raw(bytes(e / p / tcp / data)[:size])], wire_extra=20)
        for p in (ip, ip6) for size in (13, 20, 34, 38, 47, 53, 54, 60))
    yield "links", 0, b"".join([
        records([ip / tcp], RAW), records([Raw(b"\2\0\0\0") / ip / tcp], NULL),
        records([Raw(b"\0\0\0\x18") / ip6 / tcp], LOOP),
        records([Raw(b"\0" * 14 + b"\x08\0") / ip / tcp], SLL),
        records([Raw(b"\x86\xdd" + b"\0" * 18) / ip6 / tcp], SLL2),
        records([Raw(b"\0\x21") / ip / tcp], PPP_LINK),
        records([Raw(b"\xff\x03\x21") / ip / tcp], PPP_HDLC),
        records([Raw(b"\x0f\0\x08\0") / ip / tcp], C_HDLC)])


def main():
    directory = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                             pathlib.Path(__file__).parent / "corpus")
    directory.mkdir(exist_ok=True)
    for name, config, body in kinds():
        (directory / f"{name}.bin").write_bytes(bytes([config]) + body)


if __name__ == "__main__":
    main()
