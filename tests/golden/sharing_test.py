#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sharing models through the program: the benchmark's judge finds them all right, by hash and spread,
on made traffic and a capture, and its document holds what the manual says; replays give the same
results of flows under every model that they take, for any number of workers.

Usage: sharing_test.py SHEAF CAPTURE MODEL
"""

import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

SHEAF, CAPTURE, MODEL = (pathlib.Path(path).resolve() for path in sys.argv[1:4])


def sheaf(*arguments):
    return subprocess.run([SHEAF, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, check=False)


def models(*command):
    refusal = sheaf(*(command or ("bench", "sharing")), "--sharing", "no-such").stderr
    return re.search(r"expected (\S+)", refusal).group(1).split("|")


# Connections that end by every kind of timeout while the capture is played, twice, in eight copies.
LIVELY = ("--overlay", 8, "--overlay-shift", "300ms", "--loop", 2, "--timeout",
          "udp_unreplied=100ms,tcp_close=50ms,udp_replied=200ms,tcp_time_wait=100ms,icmp=1ms")
CHAIN = ("--chain", "stats,nat,lb")


def replay(*arguments, capture=CAPTURE):
    done = sheaf("replay", capture, "--no-huge", "--quiet", "--json", "-", *arguments)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout)


def flow_results(document):
    """What must not depend on how connections are shared."""
    conntrack, infer = document["conntrack"], document["gpu_offload"]
    names = ("inserted", "live", "expired", "closed", "evicted", "insert_failures", "hits", "misses",
             "invalid_packets", "related_packets", "untracked_packets", "resyncs", "state_live",
             "out_of_window_packets", "flow_digest")
    books = {key: value for key, value in document["books"].items() if key != "workers"}
    flows = infer and [infer["flows"][name] for name in ("seen", "short", "asked", "answered")]
    return ({name: conntrack[name] for name in names}, document["chain"], books,
            infer and infer["labels"], infer and infer["labels_digest"], flows)


def bench(*arguments):
    done = sheaf("bench", "sharing", "--rounds", 1, "--quiet", "--json", "-", *arguments)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


class Sharing(unittest.TestCase):
    def rows_are_right(self, document, workers):
        self.assertEqual(document["schema"], "sheaf-bench-sharing-1")
        rows = document["models"]
        self.assertEqual([(row["sharing"], row["workers"]) for row in rows],
                         [(name, count) for name in models() for count in workers])
        for row in rows:
            if not row["works"]:
                continue
            with self.subTest(model=row["sharing"], workers=row["workers"]):
                self.assertEqual((row["judge"]["failures"], row["judge"]["refused"]), (0, 0))
                self.assertGreater(row["judge"]["compared_flows"], 0)
                self.assertEqual(row["refused_pool"] + row["refused_bucket"], 0)
                self.assertEqual(row["inserted"], row["expired"] + row["live"])
                self.assertEqual(row["inserted"] + row["hits"] + row["untracked"],
                                 document["packets"])
                self.assertGreater(row["cycles_per_packet"], 0)
        return {(row["sharing"], row["workers"]): row for row in rows}

    def test_made_traffic_by_hash(self):
        document = bench("--flows", 2000, "--packets", 30000, "--workers", "1,3")
        rows = self.rows_are_right(document, (1, 3))
        # The same connections whoever shares them.
        self.assertEqual(len({row["inserted"] for row in rows.values()}), 1)
        self.assertGreater(rows["shard", 1]["inserted"], document["flows"])
        for (name, _), row in rows.items():
            self.assertEqual(row["dump"] is not None, name in ("readers", "lockfree"))
        self.assertIsNone(rows["handover", 1]["handover"])
        self.assertGreater(rows["handover", 3]["handover"]["buckets"], 50)
        self.assertEqual(rows["handover", 3]["handover"]["reordered_packets"], 0)

    def test_a_capture_spread_over_workers(self):
        document = bench("--trace", CAPTURE, "--workers", "1,2,4", "--spread", "--timeout", "1s",
                         "--burst", 8)
        rows = self.rows_are_right(document, (1, 2, 4))
        self.assertFalse(rows["shard", 2]["works"])
        self.assertTrue(rows["shard", 1]["works"])
        self.assertTrue(rows["lockfree", 4]["works"])

    def test_a_table_that_runs_full_is_told(self):
        done = sheaf("bench", "sharing", "--flows", 2000, "--packets", 10000, "--conns", 50,
                     "--rounds", 1, "--sharing", "shard,lockfree", "--no-dump")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("ran full"), 4)

    def test_more_workers_than_cpus_are_told(self):
        done = sheaf("bench", "sharing", "--flows", 100, "--packets", 1000, "--workers", 64,
                     "--rounds", 1, "--sharing", "mutex")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rows with more workers share them", done.stdout)
        self.assertIn("no TCP states", done.stdout)


class Replay(unittest.TestCase):
    def same_for_all(self, *arguments, conns=20000, counts=(2, 3)):
        first = flow_results(replay("--sharing", "shard", "--conns", conns, *arguments))
        self.assertGreater(first[0]["expired"] + first[0]["closed"], 1000)
        self.assertTrue(first[2]["balanced"])
        self.assertEqual((first[2]["reorder_violations"], first[0]["insert_failures"]), (0, 0))
        for name in models("replay"):
            if name == "handover" or (name == "bucket_lock" and "--infer" in arguments):
                continue  # refused: tests/golden/cli_errors.tsv
            for workers in counts:
                with self.subTest(model=name, workers=workers):
                    document = replay("--sharing", name, "--workers", workers, "--conns", conns,
                                      *arguments)
                    self.assertEqual(flow_results(document), first)
                    self.assertEqual(document["run"]["sharing"], name)
                    self.assertEqual(document["cost"]["locks"] is None, name == "shard")

    def test_the_whole_chain_behind_the_reframer(self):
        self.same_for_all(*LIVELY, "--chain", "stats,router,firewall:rules=100,nat,lb",
                          "--reframer", "delay=64us", counts=(1, 2, 3))

    def test_windows_and_repeats_without_the_reframer(self):
        self.same_for_all(*LIVELY, *CHAIN, "--tcp-window", "strict", "--repeat", 2, "--burst", 16)

    def test_a_stream(self):
        self.same_for_all(*LIVELY, *CHAIN, "--stream", "on", counts=(3,))

    def test_inference_that_holds_and_drops(self):
        self.same_for_all(*LIVELY, *CHAIN, "--reframer", "delay=64us", "--infer",
                          f"model={MODEL},hold=20ms,batch=8,delay=5ms,mark=1:10")

    def test_a_crowded_table_holds_workers_back(self):
        # Of three workers one of which is far ahead this would not hold all that they have seen.
        self.same_for_all(*LIVELY, *CHAIN, conns=1000, counts=(3,))

    def test_repeats_may_differ_where_workers_share_what_runs_short(self):
        for what in (("--conns", 3), ("--chain", "nat:ports=1024-1060"), ("--chain", "lb:policy=round-robin"),
                     ("--conns", 3, "--full", "evict")):
            with self.subTest(what=what):
                document = replay("--sharing", "mutex", "--workers", 3, "--repeat", 4, *LIVELY, *what)
                self.assertTrue(document["books"]["balanced"])

    def test_waits_are_told(self):
        for name in models("replay")[1:]:
            if name == "handover":
                continue
            locks = replay("--sharing", name, "--workers", 2, *LIVELY)["cost"]["locks"]
            self.assertGreater(locks["taken"], 1000)
            self.assertGreaterEqual(locks["taken"], locks["contended"])
            self.assertEqual(locks["contended"] > 0, locks["waited_s"] > 0)
            self.assertLessEqual(locks["waited_share"], 1)
        text = sheaf("replay", CAPTURE, "--sharing", "mutex", "--no-huge")
        self.assertIn("locks taken", text.stdout)


def pcap(path, packets):
    """Raw IPv4 packets at times in microseconds."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        for at_us, data in packets:
            file.write(struct.pack("<IIII", 1000 + at_us // 10**6, at_us % 10**6, len(data), len(data)))
            file.write(data)


def fragments(number, first):
    """The first fragment of a UDP datagram, or a later one."""
    payload = struct.pack(">HHHH", 1024 + number, 53, 8 + 16 + 24, 0) + bytes(16) if first else bytes(24)
    word = 0x2000 if first else 3
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), number, word, 64, 17, 0,
                         bytes((10, 0, number >> 8, number & 255)), bytes((10, 9, 9, 9)))
    return header + payload


class Handover(unittest.TestCase):
    """Groups of flows that change their worker thousands of times."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.capture = pathlib.Path(cls.directory.name) / "copies.pcap"
        done = sheaf("trace", "scale", "--overlay", 8, "--overlay-shift", "300ms", CAPTURE, cls.capture,
                     "--quiet")
        if not cls.capture.exists():
            raise AssertionError(done.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def same(self, *arguments, every=("100us", "10ms"), counts=(1, 2, 3), conns=20000):
        lively = (*LIVELY[-2:], "--conns", conns, *arguments)
        first = flow_results(replay(*lively, capture=self.capture))
        self.assertGreater(first[0]["expired"] + first[0]["closed"], 1000)
        for epoch in every:
            for workers in counts:
                with self.subTest(every=epoch, workers=workers):
                    document = replay("--sharing", f"handover,every={epoch}", "--workers", workers,
                                      *lively, capture=self.capture)
                    self.assertEqual(flow_results(document), first)
                    self.assertEqual(document["run"]["sharing"], "handover")
                    self.assertIsNone(document["cost"]["locks"])
                    told = document["cost"]["handover"]
                    self.assertGreaterEqual(told["waited_share"], 0)
                    self.assertLess(told["waited_share"], 1)
                    if workers == 1:
                        self.assertEqual(told["groups"], 0)
                    else:
                        self.assertGreater(told["groups"], 5000)

    def test_the_whole_chain_behind_the_reframer(self):
        self.same("--chain", "stats,router,firewall:rules=100,nat,lb", "--reframer", "delay=64us")

    def test_packets_that_are_held_longer_than_an_epoch(self):
        self.same("--reframer", "delay=5ms", every=("1ms",))

    def test_windows_and_repeats_and_small_bursts(self):
        # Repeats are compared by the program, moments of removal and peaks among what it compares.
        self.same(*CHAIN, "--tcp-window", "strict", "--repeat", 2, "--burst", 16, counts=(2, 4))

    def test_deletion_that_looks_at_some_connections_at_a_time(self):
        self.same(*CHAIN, "--deletion", "budgeted_scan", every=("1ms",), counts=(2,))

    def test_fragments_whose_first_one_was_somebody_elses(self):
        capture = pathlib.Path(self.directory.name) / "fragments.pcap"
        packets = []
        for number in range(300):
            packets += [(100 * number, fragments(number, True)), (100 * number + 250, fragments(number, False))]
        pcap(capture, sorted(packets, key=lambda packet: packet[0]))
        first = replay(*CHAIN, capture=capture)
        self.assertEqual((first["conntrack"]["inserted"], first["conntrack"]["hits"]), (300, 300))
        for workers in (2, 3):
            document = replay(*CHAIN, "--sharing", "handover,every=100us", "--workers", workers,
                              capture=capture)
            self.assertEqual(flow_results(document), flow_results(first))

    def test_it_is_told(self):
        text = sheaf("replay", self.capture, "--sharing", "handover", "--workers", 2, "--no-huge").stdout
        self.assertRegex(text, r"handover +[0-9,]+ groups of flows changed their worker, [0-9,]+ turns")
        document = replay()
        self.assertIsNone(document["cost"]["handover"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
