#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every interleaving of the lock-free protocol, by spin; and protocols with a known fault, which spin
must refuse, or it would not be known that the check can fail.

Usage: shared_lockfree_test.py MODEL.pml
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MODEL = pathlib.Path(sys.argv[1]).resolve()
SKIPPED = 77


def explore(*variants):
    """What the verifier says of the model, compiled with these names defined."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*command):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600,
                                  check=False)
            if done.returncode != 0:
                raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
            return done.stdout
        run("spin", *(f"-D{name}" for name in variants), "-a", str(MODEL))
        run("cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
        return run("./pan", "-m1000000")


def errors(text):
    return int(re.search(r"errors: (\d+)", text).group(1))


class Lockfree(unittest.TestCase):
    def test_every_interleaving_is_right(self):
        said = explore()
        self.assertEqual(errors(said), 0, said)
        self.assertNotIn("max search depth too small", said)
        self.assertGreater(int(re.search(r"(\d+) states, stored", said).group(1)), 100000)
        # A worker's whole part was reached, or it would show nothing.
        self.assertRegex(said, r"unreached in proctype packet\n\t\(0 of \d+ states\)")

    def test_faults_are_found(self):
        for variant in ("BROKEN_PUBLISH", "BROKEN_REUSE"):
            with self.subTest(variant=variant):
                said = explore(variant)
                self.assertGreater(errors(said), 0)
                self.assertIn("assertion violated", said)


if __name__ == "__main__":
    if shutil.which("spin") is None or shutil.which("cc") is None:
        print("spin or a C compiler is not there")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
