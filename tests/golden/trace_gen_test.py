#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""sheaf trace gen from the outside: what other programs say of its files.

Usage: trace_gen_test.py SHEAF
"""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SHEAF = pathlib.Path(sys.argv[1]).resolve()
TIMEOUT_S = 120
PRESETS = ("campus", "backbone", "scan", "datacenter")


def run(*arguments, **options):
    settings = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    return subprocess.run([str(argument) for argument in arguments], **settings)


def gen(*arguments, **options):
    return run(SHEAF, "trace", "gen", *arguments, **options)


class Presets(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)

    def tearDown(self):
        self.holder.cleanup()

    def made(self, *arguments, name="made.pcap"):
        path = self.folder / name
        done = gen(*arguments, path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], [name])
        return path

    def info(self, path):
        done = run(SHEAF, "trace", "info", path, "--json", "-", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["files"][0]

    def test_same_seed_same_bytes(self):
        for preset in PRESETS:
            line = ("--preset", preset, "--packets", 20000, "--snaplen", 65535)
            first = gen(*line, "-", text=False).stdout
            self.assertEqual(gen(*line, "-", text=False).stdout, first)
            self.assertNotEqual(gen(*line, "--seed", 2, "-", text=False).stdout, first)

    @unittest.skipUnless(shutil.which("tcpdump"), "tcpdump is not installed")
    def test_tcpdump_finds_nothing_wrong(self):
        for preset in PRESETS:
            path = self.made("--preset", preset, "--packets", 20000, "--snaplen", 65535,
                             "--fragmented", "5%", "--icmp-errors", "10%", "--ip6-share", "30%")
            done = run("tcpdump", "-nvvvr", path, errors="replace")
            self.assertEqual(done.returncode, 0, done.stderr)
            checked = len(re.findall(r"\(correct\)|sum ok", done.stdout))
            self.assertGreater(checked, 5000)
            self.assertNotRegex(done.stdout, r"incorrect|bad (?:ip |icmp6? |udp )?cksum|\[\|ip|trunc")
            path.unlink()

    @unittest.skipUnless(shutil.which("capinfos"), "capinfos is not installed")
    def test_capinfos_counts_the_same(self):
        for name, encapsulation in (("campus.pcapng", "ether"), ("backbone.pcap", "rawip")):
            path = self.made("--preset", name.split(".")[0], "--packets", 12345, name=name)
            done = run("capinfos", "-TMm", "-c", "-E", "-o", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            titles, values = (line.split(",") for line in done.stdout.strip().splitlines())
            table = dict(zip(titles, values))
            self.assertEqual(table["Number of packets"], "12345")
            self.assertEqual(table["File encapsulation"], encapsulation)
            self.assertIn("True", table["Strict time order"])
            path.unlink()

    def test_options_say_what_is_in_it(self):
        entry = self.info(self.made("--preset", "campus", "--duration", "300ms", "--pps", 100000,
                                    "--us", "--snaplen", 80, "--vlans", 3, "--ip6-share", 1))
        self.assertAlmostEqual(entry["packets"], 30000, delta=1500)
        self.assertAlmostEqual(entry["duration_ns"], 300e6, delta=1e6)
        self.assertFalse(entry["nanoseconds"])
        self.assertLessEqual(entry["captured_bytes"], 80 * entry["packets"])
        self.assertEqual(entry["ip6_packets"], entry["packets"])
        self.assertEqual(entry["traits"]["vlan"], entry["packets"])

    def test_flows_end_the_trace(self):
        entry = self.info(self.made("--preset", "campus", "--flows", 500, "--cold"))
        self.assertEqual(entry["flows"], 500)

    def test_memory_does_not_grow_with_the_trace(self):
        def peak_kib(packets):
            child = subprocess.Popen(
                [SHEAF, "trace", "gen", "--preset", "campus", "--packets", str(packets), "-"],
                stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            return usage.ru_maxrss

        small, large = peak_kib(100000), peak_kib(2000000)
        self.assertLess(large - small, 8192)

    def test_a_reader_that_goes_away_and_a_full_disk_are_errors(self):
        child = subprocess.Popen(
            [SHEAF, "trace", "gen", "--preset", "campus", "--packets", "1M", "-"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        child.stdout.close()
        message = child.stderr.read()
        child.stderr.close()
        self.assertEqual((child.wait(TIMEOUT_S), message), (3, "sheaf: standard output: Broken pipe\n"))

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

        path = self.folder / "large.pcap"
        done = gen("--preset", "campus", "--packets", 100000, path, preexec_fn=small_files)
        self.assertEqual((done.returncode, done.stderr), (3, f"sheaf: {path}: File too large\n"))
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
