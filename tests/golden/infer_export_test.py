#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every number of sheaf infer export, made again from the capture by the formulas of
docs/inference.md, with nothing of sheaf but the side file's line per flow.

Usage: infer_export_test.py SHEAF SAMPLE.pcap.gz
"""

import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import unittest

from infer_flows import Packet, frames, index, npy

SHEAF, SAMPLE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
FLAGS = (0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01)


def sheaf(*arguments):
    return subprocess.run([SHEAF, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)


def summary(values):
    if not values:
        return [0.0] * 6
    mean = math.fsum(values) / len(values)
    return [math.fsum(values), mean, min(values), max(values), statistics.median(values),
            math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))]


def stat67(flow, packets):
    mine = [[p for p in packets if (p.source == flow["opener"]) == first] for first in (True, False)]
    dur = (packets[-1].time_ns - packets[0].time_ns) / 1e9
    sums = [sum(p.bytes for p in side) for side in mine]
    loads = [8 * size / dur if dur else 0.0 for size in sums]
    syn = next((p for p in mine[0] if p.flags & 0x12 == 0x02), None)
    later = packets[packets.index(syn):] if syn else []
    answer = next((p for p in later if p in mine[1] and p.flags & 0x12 == 0x12), None)
    later = packets[packets.index(answer):] if answer else []
    ack = next((p for p in later if p in mine[0] and p.flags & 0x12 == 0x10), None)
    syn_ack = (answer.time_ns - syn.time_ns) / 1e9 if answer else 0.0
    ack_dat = (ack.time_ns - answer.time_ns) / 1e9 if ack else 0.0
    row = [dur, flow["protocol"], flow["opener"][1], flow["responder"][1], *loads,
           len(mine[0]), len(mine[1]), syn_ack + ack_dat if ack else 0.0, syn_ack, ack_dat]
    gaps = [[(b.time_ns - a.time_ns) / 1e9 for a, b in zip(side, side[1:])] for side in mine]
    for values in ([[p.bytes for p in side] for side in mine], gaps,
                   [[p.window for p in side if p.window is not None] for side in mine],
                   [[p.ttl for p in side] for side in mine]):
        row += summary(values[0]) + summary(values[1])
    return row + [sum(p.flags & flag != 0 for p in packets) for flag in FLAGS]


def spi30(flow, packets):
    sizes = [min(p.bytes, 32767) for p in packets]
    directions = [1 if p.source == flow["opener"] else -1 for p in packets]
    times = [p.time_ns for p in packets]
    gaps = [0.0] + [math.log2(1 + (b - a) / 1e3) for a, b in zip(times, times[1:])]
    return [value for channel in (sizes, directions, gaps)
            for value in channel + [0] * (30 - len(packets))]


def n3ic20(flow, packets):
    s = stat67(flow, packets)
    values = [(s[1], 1), (s[3], 2), (s[0] * 1e6, 3), (s[6], 1), (s[7], 1), (s[11], 3), (s[17], 3),
              (s[51], 1), (s[57], 1), (s[4] / 1e3, 3), (s[5] / 1e3, 3), (s[38], 2), (s[44], 2),
              (s[12], 2), (s[18], 2), (s[24] * 1e6, 3), (s[30] * 1e6, 3), (s[8] * 1e6, 3),
              (s[9] * 1e6, 3), (s[10] * 1e6, 3)]
    return [min(math.floor(value), 256 ** size - 1) for value, size in values]


def img1600(_, packets):
    row = []
    for packet in packets:
        header = bytes(0 if i in packet.hidden else byte for i, byte in enumerate(packet.header))
        row += header[:80].ljust(80, b"\0") + packet.payload[:240].ljust(240, b"\0")
    return [byte / 255 for byte in row] + [0] * (1600 - len(row))


# name, depth, largest difference: relative, absolute
KINDS = {
    "spi30": (spi30, (30, 4), 1e-6, 0.0015),
    "stat67": (stat67, (10, 64, 1), 2**-16, 1e-12),
    "n3ic20": (n3ic20, (10,), 0, 1),  # a whole microsecond may fall on either side
    "img1600": (img1600, (5, 2), 1e-6, 0),
}


class Export(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)

    def tearDown(self):
        self.holder.cleanup()

    def export(self, capture, name, *more):
        path = self.folder / f"{name}.npy"
        done = sheaf("infer", "export", capture, "--features", name, "-o", path, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        flows, rows = index(path.with_suffix(".csv")), npy(path)
        self.assertEqual(len(rows), len(flows))
        self.assertEqual([p for p in self.folder.iterdir() if p.suffix not in (".npy", ".csv", ".rec", ".pcap")], [])
        return flows, rows

    def check_missing(self, known, tuples):
        """The tracker opens no connection for a RST."""
        seen = {(flow["protocol"], frozenset((flow["opener"], flow["responder"]))) for flow, _ in known}
        for key in (key for key in tuples.keys() - seen if key[0] == 6):
            self.assertTrue(all(p.flags & 4 for p in tuples[key]), (key, [p.flags for p in tuples[key]]))

    def check(self, capture, flows_min):
        tuples, fragments = {}, {}
        for time_ns, frame in frames(capture):
            packet = Packet.parse(time_ns, frame, fragments)
            if packet:
                key = (packet.protocol, frozenset((packet.source, packet.destination)))
                tuples.setdefault(key, []).append(packet)
        for name, (formula, depths, relative, absolute) in KINDS.items():
            for depth in depths:
                flows, rows = self.export(capture, name, "--depth", depth)
                known = [(flow, row) for flow, row in zip(flows, rows) 
                         if flow["protocol"] in (6, 17) or (flow["protocol"] == 1 and flow["opener"][1])]
                self.assertGreaterEqual(len(known), flows_min)
                self.check_missing(known, tuples)
                for flow, row in known:
                    key = (flow["protocol"], frozenset((flow["opener"], flow["responder"])))
                    packets = [p for p in tuples[key] if p.time_ns >= flow["first_ns"]]
                    packets = packets[:flow["packets"]]
                    self.assertEqual(packets[-1].time_ns, flow["last_ns"], (name, flow))
                    self.assertEqual(flow["whole"], flow["packets"] == depth)
                    if packets[0].flags & 0x12 == 2:
                        self.assertEqual(packets[0].source, flow["opener"])
                    for i, value in enumerate(formula(flow, packets)):
                        bound = relative * abs(value) + absolute
                        self.assertLessEqual(abs(row[i] - value), bound, (name, i, value, row[i], flow))

    def test_recorded(self):
        self.check(SAMPLE, 20)

    def test_generated(self):
        path = self.folder / "made.pcap"
        done = sheaf("trace", "gen", "--preset", "campus", "--packets", 20000, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check(path, 500)

    def test_identity_and_limits(self):
        flows, rows = self.export(SAMPLE, "spi30")
        self.assertEqual(len({flow["flow_id"] for flow in flows}), len(flows))
        hosts = {(flow["opener"][0], flow["host_id"]) for flow in flows}
        self.assertEqual(len(hosts), len({flow["opener"][0] for flow in flows}))
        longer, some = self.export(SAMPLE, "spi30", "--min-packets", 6)
        self.assertEqual([row for flow, row in zip(flows, rows) if flow["packets"] >= 6], some)
        whole, _ = self.export(SAMPLE, "spi30", "--depth", 6, "--whole")
        self.assertTrue(all(flow["packets"] == 6 for flow in whole))
        self.assertEqual(len(whole), len(longer))

    def test_records_are_the_rows(self):
        path = self.folder / "out.rec"
        for name, size in (("spi30", 256), ("stat67", 256), ("n3ic20", 128), ("img1600", 1664)):
            done = sheaf("infer", "export", SAMPLE, "--features", name, "-o", path, "-q")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            flows, rows = self.export(SAMPLE, name)
            data = path.read_bytes()
            self.assertEqual(len(data), size * len(rows))
            for i, (flow, row) in enumerate(zip(flows, rows)):
                record = data[i * size:(i + 1) * size]
                magic, version, _, flags, _, _, flow_id, first, last, host, packets, _ = \
                    struct.unpack("<4sHBBIIQQQIHH", record[:48])
                self.assertEqual((magic, version, flags, packets), (b"SHAF", 1, flow["whole"], flow["packets"]))
                self.assertEqual((f"{flow_id:016x}", f"{host:08x}"), (flow["flow_id"], flow["host_id"]))
                self.assertEqual((first, last), (flow["first_ns"], flow["last_ns"]))
                if name == "stat67":
                    codes = [record[48 + 3 * j:51 + 3 * j] for j in range(67)]
                    values = [struct.unpack("<f", b"\0" + code)[0] for code in codes]
                    self.assertEqual(values, list(row))

    def test_names_lead_where_they_lead(self):
        target, link, pipe = (self.folder / name for name in ("target.npy", "link.npy", "pipe.npy"))
        link.symlink_to(target)
        self.assertEqual(sheaf("infer", "export", SAMPLE, "-o", link, "-q").returncode, 3)  # to nothing
        target.touch()
        self.assertEqual(sheaf("infer", "export", SAMPLE, "-o", link, "-q").returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertGreater(target.stat().st_size, 128)
        os.mkfifo(pipe)
        done = sheaf("infer", "export", SAMPLE, "-o", pipe, "-q")
        self.assertEqual((done.returncode, done.stderr), (3, f"sheaf: {pipe}: not a regular file\n"))
        self.assertTrue(pipe.is_fifo())

    def test_same_bytes_twice(self):
        first, second = (self.export(SAMPLE, "stat67") for _ in range(2))
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
