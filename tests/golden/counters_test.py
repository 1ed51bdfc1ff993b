#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hardware counters through the program: every command that measures counts, or says in one line why
it does not, and no zero stands for what was not counted.

Usage: counters_test.py SHEAF CAPTURE REPORT.py
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SHEAF, CAPTURE, REPORT = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
EVENTS = ["instructions", "cycles", "llc_misses", "l1d_misses", "dtlb_misses", "branch_misses"]
SMALL = ("--flows", 200, "--packets", 2000)
COMMANDS = {
    "replay": ("replay", CAPTURE, "--no-huge", "--workers", 2, "--repeat", 2),
    "compare": ("compare", CAPTURE, "--no-huge", "--ablations", "none", "--repeat", 1),
    "lb": ("bench", "lb", *SMALL, "--repeat", 1, "--flood", 1, "--policies", "maglev,stateless"),
    "deletion": ("bench", "deletion", "--packets", "5k", "--strategies", "wheel,none", "--due", 0,
                 "--repeat", 1),
    "sharing": ("bench", "sharing", *SMALL, "--sharing", "shard,lockfree", "--rounds", 1),
    "tables": ("bench", "tables", "--tables", "bucket,dlht", "--entries", 256, "--load", 0.5,
               "--repeat", 1, "--no-huge"),
}
# How many groups of counters a document has, by command.
GROUPS = {"replay": 1, "compare": 2, "lb": 4, "deletion": 2, "sharing": 4, "tables": 2 * 7}


def found(value, key):
    """Every value of a key, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            else:
                yield from found(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from found(inner, key)


class Counters(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_one(self, name, *arguments):
        path = pathlib.Path(self.folder.name) / f"{name}.json"
        done = subprocess.run([SHEAF, *map(str, (*COMMANDS[name], *arguments)), "--json", path],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        reasons = {line for texts in found(json.loads(path.read_text(encoding="utf-8")), "not_measured")
                   if isinstance(texts, list) for line in texts if line.startswith("hardware_counters")}
        return path, reasons, re.findall(r"^counters   not measured: (.+)$", done.stdout, re.M), done.stdout

    def check_group(self, group):
        self.assertEqual(list(group), [*EVENTS, "operations"])
        self.assertGreater(group["operations"], 0)
        if group["instructions"] is not None:
            self.assertGreater(group["instructions"], 1)
        self.assertTrue(any(group[event] is not None for event in EVENTS))

    def test_every_command_counts_or_says_why(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                path, reasons, printed, text = self.run_one(name)
                document = json.loads(path.read_text(encoding="utf-8"))
                groups = list(found(document, "hardware_counters"))
                self.assertGreaterEqual(len(groups), GROUPS[name])
                counted = [group for group in groups if group is not None]
                for group in counted:
                    self.check_group(group)
                if not counted:
                    self.assertEqual(len(reasons), 1)
                    self.assertNotIn("counted by the processor", text)
                # What is printed is what the document says, in one line.
                self.assertEqual([f"hardware_counters: {line}" for line in printed],
                                 sorted(reasons)[:1])

    def test_off_is_off(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                path, reasons, printed, _ = self.run_one(name, "--counters", "off")
                self.assertEqual(reasons, {"hardware_counters: turned off"})
                self.assertEqual(printed, ["turned off"])
                document = json.loads(path.read_text(encoding="utf-8"))
                self.assertEqual(set(found(document, "hardware_counters")), {None})

    def fill(self, value):
        """As a machine with counters would have written it."""
        if isinstance(value, list):
            return [self.fill(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        made = {name: self.fill(inner) for name, inner in value.items()}
        if "hardware_counters" in made:
            self.next += 1
            made["hardware_counters"] = {event: self.next + 0.125 for event in EVENTS}
            made["hardware_counters"].update(llc_misses=None, operations=1000)
        return made

    def test_reports_show_what_was_counted_and_what_was_not(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                path, reasons, printed, _ = self.run_one(name)
                page = path.with_suffix(".html")
                for counted in (False, True) if name in ("replay", "lb") else (True,):
                    if counted:
                        self.next = 31337000
                        path.write_text(json.dumps(self.fill(json.loads(path.read_text()))))
                    done = subprocess.run(["/usr/bin/python3", REPORT, "-o", page, path],
                                          capture_output=True, text=True, timeout=300, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    text = page.read_text(encoding="utf-8")
                    if printed and not counted:
                        self.assertIn(printed[0], text)
                    if counted:
                        self.assertIn("Counted by the processor", text)
                        self.assertIn("31,337,001.1", text.replace("\u202f", ","))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
