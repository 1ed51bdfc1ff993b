#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Deletion strategies through the program: a replay gives the same results with each of them, and
the benchmark's judge finds them right.

Usage: deletion_test.py SHEAF CAPTURE
"""

import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

SHEAF, CAPTURE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
SANITIZED = b"__asan_init" in SHEAF.read_bytes() or b"__tsan_init" in SHEAF.read_bytes()
TIMEOUTS = "tcp_established=1s,udp_replied=500ms,udp_unreplied=300ms"


def sheaf(*arguments):
    return subprocess.run([SHEAF, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, check=False)


def strategies():
    refusal = sheaf("replay", CAPTURE, "--deletion", "no-such").stderr
    return re.search(r"expected (\S+)", refusal).group(1).split("|")


def replay(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "out.json"
        done = sheaf("replay", CAPTURE, "--overlay", 4, "--no-huge", "--quiet", "--timeout",
                     TIMEOUTS, "--json", path, *arguments)
        if done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.stderr}")
        return json.loads(path.read_text(encoding="utf-8"))


class Deletion(unittest.TestCase):
    def test_replays_do_not_depend_on_the_strategy(self):
        names = strategies()
        self.assertGreater(len(names), 15)
        usual = replay()["conntrack"]
        self.assertGreater(usual["expired"], 100)
        self.assertEqual(replay()["run"]["conntrack"]["deletion"], None)
        for name in names:
            if name == "lazy_stale":  # what is over may come back
                continue
            table = ("--table", "trlp") if name == "trlp" else ()
            for hints in ("off",) if SANITIZED else ("on", "off"):
                document = replay("--deletion", f"{name},hints={hints}", *table)
                with self.subTest(name=name, hints=hints):
                    said = document["run"]["conntrack"]["deletion"]
                    self.assertEqual((said["name"], said["close_hints"]), (name, hints == "on"))
                    for key in ("flow_digest", "inserted", "expired", "closed", "evicted", "live",
                                "hits", "misses", "state_live"):
                        self.assertEqual(document["conntrack"][key], usual[key], key)

    def test_a_strategy_that_does_not_fit_the_table_is_refused(self):
        for table, deletion in (("bucket", "trlp"), ("growing", "trlp")):
            done = sheaf("replay", CAPTURE, "--no-huge", "--table", table, "--deletion", deletion)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"deletion {deletion} does not work with table {table}", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_the_judge_follows_evictions_within_a_burst(self):
        for conns in (2, 64, 1024):
            done = sheaf("bench", "deletion", "--strategies", "lru,clock", "--preset", "scan",
                         "--packets", "30k", "--conns", conns, "--due", 0, "--repeat", 1, "-q")
            self.assertEqual((done.returncode, done.stderr), (0, ""), conns)

    def test_a_knob_out_of_range_is_named(self):
        for arguments in (("bench", "deletion", "--strategies", "generations", "--slots", 1,
                           "--packets", "20k"),
                          ("replay", CAPTURE, "--no-huge", "--deletion", "generations,slots=1")):
            done = sheaf(*arguments)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn("generations: a knob is out of its range", done.stderr)

    def test_rates_follow_any_timeout(self):
        for arguments in (("--timeout", 0), ("--timeout", "1ns"), ("--packets", 1)):
            done = sheaf("bench", "deletion", "--packets", "5k", "--strategies", "wheel", "--due", 0,
                         "--repeat", 1, "-q", "--warm", 0, *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        # The largest child so far, in KiB: rates made of tiny timeouts once took 7 GB.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 3 << 20)

    def test_the_benchmark_judges_all_right(self):
        done = sheaf("bench", "deletion", "--trace", CAPTURE, "--timeout", "300ms", "--repeat", 1, "--warm", 0,
                     "--due", 2000, "--conns", 2000, "--sweep", "--quiet", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["schema"], "sheaf-bench-deletion-1")
        self.assertEqual([row["deletion"] for row in document["strategies"]], strategies())
        for row in document["strategies"]:
            with self.subTest(deletion=row["deletion"]):
                self.assertTrue(row["works"])
                self.assertEqual(sum(row["judge"]["failures"].values()), 0)
                self.assertGreater(row["judge"]["hits"], 0)
                self.assertGreater(row["cost"]["cycles_per_packet"], 0)
                self.assertGreaterEqual(row["cost"]["resident_per_live"], 0.999)
                # No faster than the mean of the least cycles allows; the median is above it.
                self.assertGreater(row["cost"]["zero_loss_packets_per_s"], 0)
                self.assertLess(row["cost"]["zero_loss_packets_per_s"], document["tsc_hz"] / 5)
                self.assertEqual(set(row["curves"]), set(row["knobs"]))
        rows = {row["deletion"]: row for row in document["strategies"]}
        self.assertEqual(rows["wheel"]["burst"]["left"], 0)
        self.assertEqual(rows["none"]["burst"]["left"], 2000)
        self.assertLess(rows["wheel"]["cost"]["late_max_ns"], rows["class_fifo"]["cost"]["late_max_ns"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
