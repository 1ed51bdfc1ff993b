#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replays whose GPU never answers, fails or cannot be had: they end in time, say why, and their books
balance. Usage: infer_lost_test.py SHEAF MODELS SAMPLE.pcap.gz MOCK_CUDA OLD_MOCK_CUDA

MOCK_CUDA is a TEST DOUBLE of libcuda: nothing that it gives is a GPU's.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

SHEAF, MODELS, SAMPLE, MOCK, OLD = (pathlib.Path(path).resolve() for path in sys.argv[1:6])
MLP, TREE = MODELS / "mlp-spi30.onnx", MODELS / "tree-spi30.onnx"
LAUNCH_FAILED, OUT_OF_MEMORY, NO_BINARY = 719, 2, 209
MODES = ("launch", "graph", "persistent")


def run(infer, *more, library=MOCK, backend="cuda", **environment):
    """Status, lines of errors, document (None without one), seconds."""
    begin = time.monotonic()
    done = subprocess.run(
        [SHEAF, "replay", SAMPLE, "--infer", f"{infer},backend={backend},cuda-library={library}",
         "--json", "-", "-q", *map(str, more)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment})
    document = json.loads(done.stdout) if done.stdout else None
    return done.returncode, done.stderr, document, time.monotonic() - begin


class Lost(unittest.TestCase):
    def balanced(self, document):
        flows, packets = document["gpu_offload"]["flows"], document["gpu_offload"]["packets"]
        self.assertTrue(document["books"]["balanced"])
        self.assertEqual(document["books"]["held"], 0)
        self.assertEqual(flows["asked"], sum(
            flows[key] for key in ("answered", "rejected", "expired", "failed")))
        self.assertEqual(flows["asked"], flows["applied"] + flows["given_up"] + flows["stale"])
        self.assertEqual(packets["held"], sum(
            packets[f"held_{why}"] for why in ("answered", "bound", "pressed", "orphaned")))
        return flows

    def lost(self, outcome, reason):
        status, errors, document, seconds = outcome
        self.assertEqual(status, 7, errors)
        flows = self.balanced(document)
        self.assertGreater(flows["failed"], 0)
        self.assertEqual(errors.count("\n"), 1)
        self.assertRegex(errors, rf"^sheaf: infer: worker \d: TEST DOUBLE of no GPU 0: {reason} "
                         rf"\({flows['failed']} flows failed\)$")
        self.assertIn(reason, document["run"]["infer"]["lost"])
        return flows, seconds

    def test_a_device_that_never_answers(self):
        for mode in MODES:
            for more in ((), ("--workers", 2), ("--clock", "wall", "--speed", 50), ("--repeat", 2)):
                for infer in (f"model={MLP},depth=3,batch=8,wait=block", f"model={MLP},depth=3,batch=8,hold=1s"):
                    with self.subTest(mode=mode, more=more, infer=infer):
                        flows, seconds = self.lost(
                            run(f"{infer},mode={mode},watchdog=300ms", *more, MOCK_CUDA_HANG="2"),
                            "no answer within 0.3 s")
                        if "--repeat" not in more:  # the last repeat meets a device that hangs
                            self.assertGreater(flows["answered"], 0)
                        self.assertLess(seconds, 20)

    def test_a_device_that_never_answers_the_last_batch(self):
        """All flows wait for the end of the run."""
        for mode in MODES:
            flows, seconds = self.lost(run(
                f"model={MLP},depth=3,batch=4096,delay=1h,mode={mode},watchdog=300ms",
                MOCK_CUDA_HANG="0"), "no answer within 0.3 s")
            self.assertEqual(flows["answered"], 0)
            self.assertLess(seconds, 20)

    def test_a_device_that_fails_in_mid_run(self):
        for mode, call in (("launch", "cuEventQuery"), ("launch", "cuLaunchKernel"), ("launch", "cuCtxSetCurrent"),
                           ("launch", "cuMemcpyHtoDAsync_v2"), ("graph", "cuGraphLaunch"),
                           ("graph", "cuEventRecord"), ("persistent", "cuEventQuery")):
            for workers in (1, 2):
                with self.subTest(mode=mode, call=call, workers=workers):
                    self.lost(run(f"model={MLP},depth=3,batch=8,mode={mode}", "--workers", workers,
                                  MOCK_CUDA_FAIL=f"{call}:6:{LAUNCH_FAILED}"),
                              "CUDA_ERROR_LAUNCH_FAILED")

    def test_memory_that_runs_out_in_mid_run(self):
        """Graphs are made when they are first needed."""
        flows, _ = self.lost(run(f"model={MLP},depth=3,batch=8,mode=graph",
                                 MOCK_CUDA_FAIL=f"cuGraphInstantiateWithFlags:1:{OUT_OF_MEMORY}"),
                             "CUDA_ERROR_OUT_OF_MEMORY")
        self.assertGreater(flows["answered"], 0)

    def test_no_device_to_begin_with(self):
        cases = (
            (MOCK, {"MOCK_CUDA_VERSION": "11080"}, "driver: got CUDA 11.8, expected 12.0 or later"),
            (OLD, {}, f"{OLD}: has no cuGraphInstantiateWithFlags: the driver is too old"),
            (MOCK, {"MOCK_CUDA_FAIL": f"cuModuleLoadData:0:{NO_BINARY}"},
             "kernels for sm_80 and later: CUDA_ERROR_NO_BINARY_FOR_GPU"),
            (MOCK, {"MOCK_CUDA_FAIL": f"cuMemAlloc_v2:0:{OUT_OF_MEMORY}"},
             "no GPU 0: CUDA_ERROR_OUT_OF_MEMORY"),
            ("/nowhere/libcuda.so", {}, "/nowhere/libcuda.so: not found"),
        )
        for library, environment, reason in cases:
            with self.subTest(reason=reason):
                status, errors, document, _ = run(f"model={TREE},depth=3", library=library, **environment)
                self.assertEqual((status, errors, document),
                                 (3, f"sheaf: worker 0: infer: cuda: {reason}\n", None))
                status, errors, document, _ = run(f"model={TREE},depth=3", library=library,
                                                  backend="auto", **environment)
                self.assertEqual((status, errors), (0, ""))
                self.assertRegex(document["run"]["infer"]["taken"], r"^cpu \(")
                self.assertIn(f"; cuda: {reason}", document["run"]["infer"]["taken"])
                self.assertEqual(self.balanced(document)["failed"], 0)

    def test_labels_are_those_of_the_cpu(self):
        _, _, expected, _ = run(f"model={MLP},depth=3,batch=8", backend="cpu-ref")
        for mode in MODES:
            status, errors, document, _ = run(f"model={MLP},depth=3,batch=8,mode={mode}")
            self.assertEqual((status, errors), (0, ""))
            self.assertIn("TEST DOUBLE", document["run"]["infer"]["taken"])
            self.assertIsNone(document["run"]["infer"]["lost"])
            self.assertEqual(document["gpu_offload"], expected["gpu_offload"])
            for wait in ("yield", "block"):
                status, errors, document, _ = run(f"model={MLP},depth=3,batch=8,mode={mode},wait={wait}")
                self.assertEqual((status, errors), (0, ""))
                self.assertEqual(document["gpu_offload"], expected["gpu_offload"])

    def test_memory_that_cannot_be_pinned_is_copied(self):
        _, _, expected, _ = run(f"model={MLP},depth=3,batch=8")
        self.assertNotIn("pinned", expected["run"]["infer"]["taken"])
        for mode in MODES:
            status, errors, document, _ = run(f"model={MLP},depth=3,batch=8,mode={mode}",
                                              MOCK_CUDA_FAIL="cuMemHostRegister_v2:0:712")
            self.assertEqual((status, errors), (0, ""))
            self.assertIn("; inputs are copied, not pinned: Input/output error",
                          document["run"]["infer"]["taken"])
            self.assertEqual(document["gpu_offload"], expected["gpu_offload"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
