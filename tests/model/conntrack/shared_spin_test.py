#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every interleaving of a sharing model's protocol, by spin; and protocols with a known fault, which
spin must refuse, or it would not be known that the check can fail. A model's own text says what it
shows, and names its faults: BROKEN_....

Usage: shared_spin_test.py MODEL.pml
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
# By model: what is defined to be explored whole (each with the processes of which every statement
# must be reached, or they would show nothing), and what faults are looked for with.
WHOLE = {
    "shared_lockfree": {(): ("packet",)},
    "shared_readers": {(): ("writer", "onlooker"), ("WRITES=4", "NO_LOOK_BETWEEN"): ("writer",)},
    "shared_handover": {(): (), ("LONG",): ("worker",)},
}
SMALL = {"shared_readers": ("WRITES=3",)}
STATES_MIN = 100000


def explore(*defines):
    """What the verifier says of the model, compiled with these names defined."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*command):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600,
                                  check=False)
            if done.returncode != 0:
                raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
            return done.stdout
        run("spin", *(f"-D{name}" for name in defines), "-a", str(MODEL))
        run("cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
        return run("./pan", "-m1000000")


def errors(text):
    return int(re.search(r"errors: (\d+)", text).group(1))


def faults():
    """Every variant that the model's text has."""
    return sorted(set(re.findall(r"^#ifn?def (BROKEN_\w+)", MODEL.read_text(encoding="utf-8"), re.M)))


class Protocol(unittest.TestCase):
    def test_every_interleaving_is_right(self):
        for defines, processes in WHOLE[MODEL.stem].items():
            with self.subTest(defines=defines):
                said = explore(*defines)
                self.assertEqual(errors(said), 0, said)
                self.assertNotIn("max search depth too small", said)
                self.assertGreater(int(re.search(r"(\d+) states, stored", said).group(1)),
                                   STATES_MIN)
                for name in processes:
                    self.assertRegex(said, rf"unreached in proctype {name}\n\t\(0 of \d+ states\)")

    def test_faults_are_found(self):
        self.assertGreaterEqual(len(faults()), 2)
        for variant in faults():
            with self.subTest(variant=variant):
                self.assertIn(variant, MODEL.read_text(encoding="utf-8").split("*/", 2)[1])
                said = explore(variant, *SMALL.get(MODEL.stem, ()))
                self.assertGreater(errors(said), 0, said)
                self.assertRegex(said, "assertion violated|invalid end state")


if __name__ == "__main__":
    if shutil.which("spin") is None or shutil.which("cc") is None:
        print("spin or a C compiler is not there")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
