#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures and NumPy files for the tests of flow inference, read with nothing of sheaf."""

import array
import ast
import csv
import gzip
import ipaddress
import struct


def frames(path):
    """(time since the first packet in ns, frame) of a little-endian pcap file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        data = file.read()
    magic, link = struct.unpack("<I16xI", data[:24])
    scale = {0xa1b2c3d4: 1000, 0xa1b23c4d: 1}[magic]
    assert link == 1
    at, epoch, now = 24, None, 0
    while at < len(data):
        seconds, fraction, size, _ = struct.unpack("<IIII", data[at:at + 16])
        time_ns = seconds * 10**9 + fraction * scale
        epoch = time_ns if epoch is None else epoch
        now = max(now, time_ns - epoch)
        yield now, data[at + 16:at + 16 + size]
        at += 16 + size


class Packet:
    """One TCP or UDP packet or ping, or None from parse(). fragments: ports of datagrams, by identification."""

    @staticmethod
    def parse(time_ns, frame, fragments):
        self, offset, datagram = Packet(), 0, None
        self.time_ns, kind, at = time_ns, struct.unpack(">H", frame[12:14])[0], 14
        while kind in (0x8100, 0x88a8):
            kind, at = struct.unpack(">H", frame[at + 2:at + 4])[0], at + 4
        ip = frame[at:]
        if kind == 0x800:
            if struct.unpack(">H", ip[6:8])[0] & 0x3fff:
                offset, datagram = struct.unpack(">H", ip[6:8])[0] & 0x1fff, ip[4:6] + ip[9:10] + ip[12:20]
            self.bytes, self.ttl, protocol = struct.unpack(">2xH4xBB", ip[:10])
            header, addresses = (ip[0] & 15) * 4, (ip[12:16], ip[16:20])
            self.hidden = range(12, 20)
        elif kind == 0x86dd:
            payload, protocol, self.ttl = struct.unpack(">4xHBB", ip[:8])
            self.bytes, header, addresses = 40 + payload, 40, (ip[8:24], ip[24:40])
            self.hidden = range(8, 40)
        else:
            return None
        ping = protocol in (1, 58) and (offset or ip[header] in (0, 8, 128, 129))
        if not (ping or protocol in (6, 17)) or \
                (not offset and len(ip) < header + (20 if protocol == 6 else 8)):
            return None
        ports = fragments.get(datagram) if offset else struct.unpack(">HH", ip[header:header + 4])
        if ping and not offset:
            ports = struct.unpack(">H", ip[header + 4:header + 6]) * 2
        if ports is None:
            return None
        if datagram:
            fragments[datagram] = ports
        self.source, self.destination = zip(map(ipaddress.ip_address, addresses), ports)
        self.protocol, self.flags, self.window = protocol, 0, None
        size = 0 if offset else 8
        if protocol == 6 and not offset:
            size = (ip[header + 12] >> 4) * 4
            self.flags, self.window = ip[header + 13], struct.unpack(">H", ip[header + 14:header + 16])[0]
        if not offset and not ping:
            self.hidden = {*self.hidden, *range(header, header + 4)}
        self.header, self.payload = ip[:header + size], ip[header + size:self.bytes]
        return self


def npy(path):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"] and (10 + size) % 64 == 0
    rows, columns = header["shape"]
    values = array.array("f", data[10 + size:])
    assert len(values) == rows * columns
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def index(path):
    """The side file of an export."""
    with open(path, newline="", encoding="ascii") as file:
        flows = list(csv.DictReader(file))
    for flow in flows:
        for side in ("opener", "responder"):
            flow[side] = (ipaddress.ip_address(flow[side]), int(flow[side + "_port"]))
        for number in ("protocol", "packets", "first_ns", "last_ns", "whole"):
            flow[number] = int(flow[number])
    return flows
