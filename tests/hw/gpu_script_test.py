#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""gpu.sh on a TEST DOUBLE of libcuda: it runs to its end, and nothing of it can be taken for a GPU's.
Usage: gpu_script_test.py gpu.sh MOCK_CUDA SHEAF MODELS GPU_CHECK FOLDER
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT, MOCK, *ARGUMENTS = (pathlib.Path(path).resolve() for path in sys.argv[1:7])
SMALL = {"GPU_LIBRARY": str(MOCK), "GPU_RECORDS": "200", "GPU_TIME": "1ms", "GPU_BATCH_MAX": "16",
         "GPU_MODELS": "tree-spi30 mlp-spi30"}


def run(folder, **environment):
    return subprocess.run(["sh", SCRIPT, *ARGUMENTS[:3], folder], capture_output=True, text=True,
                          timeout=280, check=False, env={**os.environ, **SMALL, **environment})


class Script(unittest.TestCase):
    def test_it_runs_and_says_what_it_is(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            done = run(folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            lines = done.stdout.splitlines()
            self.assertGreater(len(lines), 100)
            for line in lines:
                self.assertTrue(line.startswith("TEST DOUBLE: "), line)
                self.assertNotIn("FAILED", line)
                self.assertNotIn("DISAGREES", line)
                self.assertNotIn("NOT RUN:", line)
                self.assertFalse(line.endswith("reached"), line)
            self.assertEqual([path.name for path in folder.iterdir()], ["TEST-DOUBLE"])
            for name in ("gpu.csv", "checks.csv"):
                with open(folder / "TEST-DOUBLE" / name, encoding="utf-8") as file:
                    rows = list(csv.DictReader(file))
                self.assertGreater(len(rows), 10)
                for row in rows:
                    self.assertEqual(row["device"], "TEST DOUBLE, not a GPU: no GPU 0")
            for what in ("stop", "watchdog"):
                told = (folder / "TEST-DOUBLE" / f"{what}.txt").read_text().splitlines()
                self.assertEqual([line.split(",")[:2] for line in told],
                                 [[what, mode] for mode in ("launch", "graph", "persistent")])
                for line in told:
                    self.assertIn("TEST DOUBLE of no GPU 0", line)

    def test_what_fails_is_told(self):
        with tempfile.TemporaryDirectory() as name:
            done = run(name, MOCK_CUDA_WRONG="1", GPU_MODELS="tree-spi30")
            self.assertEqual(done.returncode, 1)
            self.assertIn("TEST DOUBLE: FAILED: agreement of tree-spi30: status 4", done.stdout)

    def test_without_a_gpu_it_is_skipped_with_the_reason(self):
        with tempfile.TemporaryDirectory() as name:
            done = run(name, GPU_LIBRARY="/nowhere/libcuda.so")
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (77, "skipped: /nowhere/libcuda.so: not found\n", ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
