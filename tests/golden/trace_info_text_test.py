#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sheaf trace info` as people and programs see it: its text, what it calls exact, its memory.

Usage: trace_info_text_test.py SHEAF SAMPLE EXPECTED_FOLDER [--update]

EXPECTED_FOLDER holds the texts for the sample capture; --update writes them anew.
"""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SHEAF, SAMPLE, EXPECTED = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
UPDATE = "--update" in sys.argv[4:]
TIMEOUT_S = 120
FEW = ("--flows-max", 10, "--idle-timeout", "200ms")
PCAP_HEADER = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)


def run(*arguments, **options):
    settings = {"capture_output": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    return subprocess.run([SHEAF, "trace", "info", *map(str, arguments)], **settings)


def records(count, first=0, flows=50):
    """UDP packets, a microsecond apart."""
    parts = []
    for i in range(first, first + count):
        frame = (bytes(12) + b"\x08\x00" +
                 struct.pack("!BBHHHBBHII", 0x45, 0, 46, i & 0xffff, 0, 64, 17, 0,
                             0x0a000000 + i % flows, 0x0b000001) +
                 struct.pack("!HHHH", 1000, 80, 26, 0) + bytes(18))
        parts.append(struct.pack("<IIII", i // 1000000, i % 1000000, len(frame), len(frame)) +
                     frame)
    return b"".join(parts)


def peak_memory_kb(path):
    """Of the command over a capture."""
    pid = os.posix_spawn(SHEAF, [SHEAF, "trace", "info", path, "-q"], os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise RuntimeError(f"exit status {status}")
    return usage.ru_maxrss


class TraceInfo(unittest.TestCase):
    def check_text(self, name, *options):
        done = run(SAMPLE, *options)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        path = EXPECTED / name
        if UPDATE:
            path.write_bytes(done.stdout)
        self.assertEqual(done.stdout.decode(), path.read_text())

    def document(self, *options):
        done = run(SAMPLE, *options, "--json", "-", "-q")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout)["files"][0]

    def test_text_of_the_sample(self):
        self.check_text("sample.txt")

    def test_text_with_few_flows_kept(self):
        self.check_text("sample_few_flows.txt", *FEW)

    def test_a_pipe_gives_what_the_file_gives(self):
        done = run("-", input=SAMPLE.read_bytes())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout, run(SAMPLE).stdout)

    def test_the_document_says_what_is_exact(self):
        whole, few = self.document(), self.document(*FEW)
        exact = whole["exactness"]
        self.assertEqual(exact["flows_max"], 1 << 22)
        self.assertEqual({exact[name] for name in
                          ("flows", "flows_unidirectional", "peak_live", "insertions")} |
                         set(exact["best_slf"].values()), {"exact"})
        self.assertEqual(exact["flows_standard_error"], 0)
        self.assertEqual(exact["insertions_min"], whole["insertions"])
        about = few["exactness"]
        self.assertEqual((about["flows"], about["peak_live"], about["insertions"]),
                         ("estimated", "at least", "at most"))
        self.assertGreater(about["flows_standard_error"], 0)
        self.assertEqual(about["flows_max"], 10)
        # What is still exact is the same, and the bounds are kept.
        for name in ("packets", "flow_runs", "slf", "traits", "protocols", "duration_ns"):
            self.assertEqual(few[name], whole[name])
        self.assertAlmostEqual(few["flows"] / whole["flows"], 1, delta=0.02)
        true = self.document("--idle-timeout", "200ms")
        self.assertLessEqual(about["insertions_min"], true["insertions"])
        self.assertGreaterEqual(few["insertions"], true["insertions"])
        self.assertLessEqual(few["peak_live"], true["peak_live"])
        for window, slf in few["best_slf"].items():
            self.assertLessEqual(slf, true["best_slf"][window])

    def test_memory_does_not_grow_with_the_capture(self):
        with tempfile.TemporaryDirectory() as folder:
            small, large = pathlib.Path(folder, "small.pcap"), pathlib.Path(folder, "large.pcap")
            chunk = records(20000)
            small.write_bytes(PCAP_HEADER + chunk * 2)
            with open(large, "wb") as file:
                file.write(PCAP_HEADER)
                for _ in range(60):
                    file.write(chunk)
            growth_bytes = large.stat().st_size - small.stat().st_size
            growth_kb = peak_memory_kb(large) - peak_memory_kb(small)
            self.assertLess(growth_kb * 1024, growth_bytes / 20)

    def test_a_signal_stops_it_between_packets(self):
        process = subprocess.Popen([SHEAF, "trace", "info", "-"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        chunk = records(5000)

        def feed():
            try:
                process.stdin.write(PCAP_HEADER)
                while True:
                    process.stdin.write(chunk)
            except BrokenPipeError:
                pass

        feeder = threading.Thread(target=feed)
        feeder.start()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT_S)
        feeder.join(TIMEOUT_S)
        error = process.stderr.read().decode()
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.returncode, 6, error)
        self.assertRegex(error, r"\Asheaf: interrupted\n\Z")

    def test_the_help_names_the_limit(self):
        self.assertIsNotNone(re.search(rb"--flows-max N", run("--help").stdout))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
