#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sharing models through the program: the benchmark's judge finds them all right, by hash and spread,
on made traffic and a capture, and its document holds what the manual says.

Usage: sharing_test.py SHEAF CAPTURE
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

SHEAF, CAPTURE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])


def sheaf(*arguments):
    return subprocess.run([SHEAF, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, check=False)


def models():
    refusal = sheaf("bench", "sharing", "--sharing", "no-such").stderr
    return re.search(r"expected (\S+)", refusal).group(1).split("|")


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

    def test_a_replay_has_shards(self):
        done = sheaf("replay", CAPTURE, "--workers", 2, "--sharing", "shard", "--no-huge", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in models()[1:]:
            done = sheaf("replay", CAPTURE, "--sharing", name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("sheaf bench sharing", done.stderr)

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
