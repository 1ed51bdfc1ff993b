#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""sheaf bench tables through the program: what its document and its printed tables say.

Usage: tables_test.py SHEAF REPORT
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SHEAF, REPORT = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
OWN = {"bucket", "cuckoo", "robin_hood", "hopscotch", "chaining", "dlht", "growing", "trlp"}
CELL = {"table", "places", "load", "pairs", "refused", "bytes", "bytes_per_pair", "lookup",
        "insert_cycles", "open_cycles", "remove_cycles", "fill_cycles", "bursts_interrupted"}
FULL = {"table", "places", "first_refused_pairs", "pairs", "attempts", "refused",
        "no_place_cycles", "at_bound_cycles"}
FACTS = {"schema", "version", "command", "date", "cpu", "kernel", "flags", "memory", "burst",
         "order", "repeats", "seed", "tsc_hz", "tables", "cells", "full", "not_measured"}


def sheaf(*arguments):
    return subprocess.run([SHEAF, "bench", "tables", *map(str, arguments)], capture_output=True,
                          text=True, timeout=300, check=False)


def document(*arguments):
    done = sheaf("--quiet", "--json", "-", *arguments)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


class Tables(unittest.TestCase):
    def check_cost(self, cost, repeats):
        self.assertEqual(set(cost), {"median", "min", "max", "each", "hardware_counters"})
        self.assertEqual(len(cost["each"]), repeats)
        self.assertEqual((cost["min"], cost["max"]), (min(cost["each"]), max(cost["each"])))
        self.assertTrue(0 < cost["min"] <= cost["median"] <= cost["max"])

    def test_every_table_is_measured_and_gives_right_answers(self):
        made = document("--entries", "3k", "--load", "0.5,0.9", "--hit-ratio", "1,0.25",
                        "--repeat", 2, "--no-huge")
        self.assertEqual(set(made), FACTS)
        self.assertEqual(made["schema"], "sheaf-bench-tables-1")
        self.assertEqual((made["burst"], made["order"], made["repeats"]), (64, "uniform", 2))
        self.assertIn("pages", made["memory"])
        measured = [table["name"] for table in made["tables"] if not table["not_measured"]]
        self.assertLessEqual(OWN, set(measured))
        for table in made["tables"]:
            self.assertTrue(table["name"] in OWN or table["library"] or table["not_measured"])
        self.assertEqual(len(made["cells"]), 2 * len(measured))
        for cell in made["cells"]:
            with self.subTest(table=cell["table"], load=cell["load"]):
                self.assertEqual(set(cell), CELL)
                self.assertEqual(cell["places"], 4096)
                self.assertEqual([each["hit_ratio"] for each in cell["lookup"]], [1, 0.25])
                self.assertGreater(cell["bytes"], 4 * cell["pairs"])
                if cell["load"] == 0.5:
                    self.assertEqual((cell["pairs"], cell["refused"]), (2048, 0))
                for cost in (cell["insert_cycles"], cell["open_cycles"], cell["remove_cycles"],
                             cell["fill_cycles"], *(each["cycles"] for each in cell["lookup"])):
                    self.check_cost(cost, 2)
        self.assertEqual([row["table"] for row in made["full"]], measured)
        for row in made["full"]:
            with self.subTest(table=row["table"]):
                self.assertEqual(set(row), FULL)
                self.assertGreater(row["refused"], 0)
                self.assertLessEqual(row["refused"], row["attempts"])
                self.assertLessEqual(row["first_refused_pairs"], row["places"])
                self.assertTrue(row["no_place_cycles"] or row["at_bound_cycles"])

    def test_only_the_tables_that_were_asked_for_are_measured(self):
        made = document("--tables", "dlht,bucket", "--entries", 1024, "--load", 1, "--hit-ratio",
                        "50%", "--repeat", 1, "--order", "zipf", "--burst", 7, "--seed", 9)
        self.assertEqual([cell["table"] for cell in made["cells"]], ["dlht", "bucket"])
        self.assertEqual((made["order"], made["burst"], made["seed"]), ("zipf", 7, 9))
        self.assertEqual(made["cells"][0]["lookup"][0]["hit_ratio"], 0.5)

    def test_loads_can_be_a_range(self):
        made = document("--tables", "bucket", "--entries", 64,
                        "--load", "0.3,0.5..0.75..0.1,0.8..0.97",  # by 0.1 unless said
                        "--hit-ratio", "0..1..0.5", "--repeat", 1)
        self.assertEqual([cell["load"] for cell in made["cells"]],
                         [0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.97])
        self.assertEqual([cell["pairs"] for cell in made["cells"]],
                         [19, 32, 38, 44, 48, 51, 57, 62])
        self.assertEqual([each["hit_ratio"] for each in made["cells"][0]["lookup"]], [0, 0.5, 1])

    def test_the_printed_table_has_a_line_for_each(self):
        done = sheaf("--tables", "bucket,chaining", "--entries", 512, "--load", "0.5,0.8",
                     "--repeat", 1, "--no-huge")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"^512 places, load 0\.[58]: cycles", done.stdout, re.M)),
                         2)
        # At two loads, and full.
        self.assertEqual(len(re.findall(r"^bucket +\S", done.stdout, re.M)), 3)
        self.assertEqual(len(re.findall(r"^chaining +\S", done.stdout, re.M)), 3)
        self.assertRegex(done.stdout, r"\Abursts of 64, hits uniform, 1 rounds, \S.* GHz\n")

    def test_tables_that_do_not_fit_the_machine_are_refused(self):
        memory = re.search(r"MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
        if int(memory.group(1)) > 24 << 20:
            self.skipTest("they may fit this one, and take hours")
        done = sheaf("--entries", 134217728, "--repeat", 100)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\Asheaf: 134217728 entries need \d+ MB, the machine has "
                         r"\d+ MB free: lower --entries\n\Z")

    def test_a_report_is_drawn_from_the_document(self):
        with tempfile.TemporaryDirectory() as folder:
            path, page = pathlib.Path(folder, "tables.json"), pathlib.Path(folder, "page.html")
            path.write_text(json.dumps(document(
                "--tables", "bucket,cuckoo", "--entries", 256, "--load", "0.5,0.9", "--repeat",
                1)), encoding="utf-8")
            done = subprocess.run([sys.executable, REPORT, "-o", page, path], capture_output=True,
                                  text=True, timeout=300, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            text = page.read_text(encoding="utf-8")
            for word in ("256 places", "cuckoo", "Load 90 %", "<svg"):
                self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
