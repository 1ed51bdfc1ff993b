#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""sheaf infer verify and bench from the outside. Usage: infer_test.py SHEAF MODELS MOCK_CUDA

MOCK_CUDA is a test double of libcuda: nothing that it gives is a GPU's.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHEAF, MODELS, MOCK = (pathlib.Path(path).resolve() for path in sys.argv[1:4])


def sheaf(*arguments, **environment):
    return subprocess.run([SHEAF, "infer", *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False, env={**os.environ, **environment})


def document(*arguments):
    done = sheaf(*arguments, "--json", "-", "-q")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Infer(unittest.TestCase):
    def test_back_ends_agree_on_every_shipped_model(self):
        for model in sorted(MODELS.glob("*.onnx")):
            features = model.stem.rsplit("-", 1)[1]
            golden = "golden.rows.npy" if features == "spi30" else f"golden-{features}.rows.npy"
            found = document("verify", "--model", model, "--records", 300, MODELS / golden)
            self.assertEqual(found["schema"], "sheaf-infer-verify-1")
            self.assertEqual((found["rows"], found["model"]["inputs"]),
                             (364, {"spi30": 90, "stat67": 67, "n3ic20": 20}[features]))
            cpu = next(b for b in found["backends"] if b["backend"] == "cpu")
            self.assertEqual((cpu["ran"], cpu["rows"], cpu["labels_differ"], cpu["scores_differ"]),
                             (True, 364, 0, 0), model)
            self.assertLess(cpu["worst"], 1e-3)

    def test_same_seed_same_result(self):
        a, b, c = (document("verify", "--widths", "9-8-7", "--seed", seed, "--backends", "cpu")["backends"]
                   for seed in (3, 3, 4))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_bench_measures_each_batch_size(self):
        found = document("bench", "--widths", "16-8-4", "--backends", "cpu-ref,cpu", "--batch-min", 2,
                         "--batch-max", 40, "--time", "1ms")
        self.assertEqual(found["schema"], "sheaf-infer-bench-1")
        self.assertEqual([b["backend"] for b in found["backends"]], ["cpu-ref", "cpu"])
        for backend in found["backends"]:
            self.assertEqual([p["batch"] for p in backend["points"]], [2, 4, 8, 16, 32])
            for point in backend["points"]:
                self.assertGreaterEqual(point["batches"], 3)
                self.assertGreater(point["flows_per_s"], 0)
                self.assertLessEqual(point["p50_us"], point["p99_us"])
                self.assertLessEqual(point["p99_us"], point["p999_us"])

    def test_double_of_a_gpu_is_measured_in_every_way(self):
        found = document("bench", "--widths", "16-8-4", "--backends", "cpu,cuda", "--batch-min", 8,
                         "--batch-max", 32, "--time", "1ms", "--wait", "poll,yield,block",
                         "--inflight", "1,2,4", "--cuda-library", MOCK)
        ways = [(b["backend"], b["wait"], b["inflight"]) for b in found["backends"]]
        self.assertEqual(ways, [("cpu", None, 1)] + [
            (f"cuda {mode}", wait, inflight) for mode in ("launch", "graph", "persistent")
            for wait in ("poll", "yield", "block") for inflight in (1, 2, 4)])
        for backend in found["backends"]:
            self.assertEqual([p["batch"] for p in backend["points"]], [8, 16, 32])
            self.assertEqual("TEST DOUBLE" in backend["why"], backend["backend"] != "cpu")
            for point in backend["points"]:
                self.assertGreaterEqual(point["batches"], 3 * backend["inflight"])
                self.assertGreater(point["cpu"], 0)
                self.assertLessEqual(point["p50_us"], point["p999_us"])
        rates = found["rates"]
        self.assertEqual((rates["ran"], rates["test_double"], rates["why"]), (True, True, ""))
        self.assertEqual([p["batch"] for p in rates["resident"]], [8, 16, 32])
        for rate in ("to_device_bytes_per_s", "to_host_bytes_per_s", "both_bytes_per_s"):
            self.assertGreater(rates[rate], 0)
        none = document("bench", "--widths", "16-8-4", "--batch-max", 1, "--time", "1ms",
                        "--cuda-library", "/nowhere/libcuda.so")
        self.assertEqual((none["rates"]["ran"], none["rates"]["why"]),
                         (False, "/nowhere/libcuda.so: not found"))
        self.assertIsNone(document("bench", "--widths", "4-2", "--backends", "cpu", "--batch-max", 1,
                                   "--time", "1ms")["rates"])

    def test_nothing_measured_is_no_success(self):
        done = sheaf("bench", "--widths", "4-2", "--backends", "cuda", "--cuda-library", "/nowhere/libcuda.so",
                     "--time", "1ms", "--json", "-", "-q")
        self.assertEqual((done.returncode, done.stderr),
                         (3, "sheaf: infer bench: no back end could be measured\n"))
        self.assertFalse(any(series["ran"] for series in json.loads(done.stdout)["backends"]))

    def test_gpu_that_is_lost_ends_a_measurement(self):
        for what in (("verify", "--records", 1000), ("bench", "--time", "1ms", "--batch-max", 4)):
            done = sheaf(*what, "--widths", "16-8-4", "--cuda-library", MOCK,
                         MOCK_CUDA_FAIL="cuEventQuery:3:719")
            self.assertEqual((done.returncode, done.stderr), (
                7, "sheaf: cuda launch: TEST DOUBLE of no GPU 0: CUDA_ERROR_LAUNCH_FAILED\n"))

    def test_probe(self):
        found = document("probe", "--cuda-library", MOCK)
        self.assertEqual(found["schema"], "sheaf-infer-probe-1")
        self.assertEqual((found["test_double"], found["name"], found["pci"], found["processors"],
                          found["memory_bytes"], found["dma_buf_exported"], found["driver"]),
                         (True, "no GPU 0", "0000:00:00.0", 132, 1 << 36, True, 13000))
        text = sheaf("probe", "--cuda-library", MOCK).stdout
        self.assertTrue(text.startswith("TEST DOUBLE of libcuda"))
        for call, line in (("cuMemGetHandleForAddressRange", "export of 2 MiB: failed: CUDA_ERROR_INVALID_VALUE"),
                           ("cuMemAlloc_v2", "export of 2 MiB: failed: CUDA_ERROR_INVALID_VALUE")):
            done = sheaf("probe", "--cuda-library", MOCK, MOCK_CUDA_FAIL=f"{call}:0:1")
            self.assertEqual(done.returncode, 0)
            self.assertIn(line, done.stdout)
        # What one attribute, or all behind it, cannot tell is null.
        partly = sheaf("probe", "--cuda-library", MOCK, "--json", "-", "-q", MOCK_CUDA_FAIL="cuDeviceGetAttribute:4:1")
        self.assertIsNone(json.loads(partly.stdout)["dma_buf"])
        done = sheaf("probe", "--cuda-library", MOCK, "--device", 3)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (3, "", "sheaf: infer probe: GPU: got number 3, there are 1\n"))
        done = sheaf("probe", "--cuda-library", MOCK, MOCK_CUDA_FAIL="cuInit:0:100")
        self.assertEqual((done.returncode, done.stderr),
                         (3, "sheaf: infer probe: no GPU: CUDA_ERROR_NO_DEVICE\n"))

    def test_kernels_can_be_chosen(self):
        for name, text in (("plain", "cpu (plain C)"), ("avx2", "cpu (AVX2)"), ("avx512", "cpu (AVX-512)")):
            cpu = document("verify", "--widths", "20-30-5", "--kernels", name, "--backends", "cpu")["backends"][0]
            if cpu["ran"]:
                self.assertEqual((cpu["why"], cpu["scores_differ"]), (text, 0))
            else:
                self.assertIn("cpu: this machine has no AVX", cpu["why"])

    def test_integers_give_the_same_bits_with_all_kernels(self):
        ran = 0
        for name in ("plain", "avx2", "avx512"):
            cpu = document("verify", "--model", MODELS / "mlp-int8-n3ic20.onnx", "--kernels", name,
                           "--backends", "cpu", "--records", 3001)["backends"][0]
            ran += cpu["ran"]
            if cpu["ran"]:
                self.assertEqual((cpu["worst"], cpu["labels_differ"], cpu["near_ties"]), (0, 0, 0))
        self.assertGreater(ran, 0)
        gpu = document("verify", "--model", MODELS / "mlp-int8-n3ic20.onnx", "--records", 9,
                       "--modes", "launch", "--cuda-library", MOCK)["backends"][1]
        self.assertEqual((gpu["ran"], gpu["why"]), (False, "cuda: the kernels do no integer "
                                                    "arithmetic (QuantizeLinear)"))

    def test_a_report_is_drawn_from_the_document(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for model, words in (("plain", ("cpu-ref", "break-even", "not measured", "flows/s", "<svg")),
                                 ("double", ("<h3>TEST DOUBLE: cuda launch", "a test double: no GPU"))):
                path, page = folder / f"{model}.json", folder / f"{model}.html"
                more = ("--cuda-library", MOCK, "--modes", "launch") if model == "double" else \
                    ("--backends", "cpu-ref,cpu")
                found = document("bench", "--widths", "16-8-4", "--batch-min", 2, "--batch-max", 16,
                                 "--time", "1ms", *more)
                path.write_text(json.dumps(found))
                done = subprocess.run([SHEAF, "report", path, "-o", page], capture_output=True, text=True,
                                      timeout=300, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                text = page.read_text()
                for word in words:
                    self.assertTrue(word in text or word == "break-even", (model, word))
            # What JSON can hold and a page cannot, and numbers at the end of what is drawn.
            found["cpu"], found["backends"][0]["backend"] = "\ud800", "\ud800$\\frac{</text>"
            found["backends"][0]["points"][0].update(batch=1e249, flows_per_s=1e249, p50_us=1e-300)
            path.write_text(json.dumps(found))
            done = subprocess.run([SHEAF, "report", path, "-o", page], capture_output=True, text=True,
                                  timeout=300, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertNotIn("{</text>", page.read_text())
            found["backends"][0]["points"][0]["batch"] = "many"
            path.write_text(json.dumps(found))
            done = subprocess.run([SHEAF, "report", path, "-o", page], capture_output=True, text=True,
                                  timeout=300, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("batch: expected a number", done.stderr)

    def test_what_floats_cannot_hold_is_not_judged(self):
        """Numbers that overflow 32 bits on the way and fit again in the end."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            wide, narrow = (np.full((4, 4), v, np.float32) for v in (1e25, 1e-30))
            nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
            info = helper.make_tensor_value_info
            graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, ["N", 4])],
                                      [info("y", TensorProto.FLOAT, ["N", 4])],
                                      [numpy_helper.from_array(wide, "w"), numpy_helper.from_array(narrow, "v")])
            (folder / "m.onnx").write_bytes(helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
            rows = np.ones((5, 4), np.float32)
            rows[:3] = 1e15
            np.save(folder / "rows.npy", rows)
            found = document("verify", "--model", folder / "m.onnx", "--records", 10, "--backends", "cpu",
                             folder / "rows.npy")["backends"][0]
            self.assertEqual((found["rows"], found["overflows"], found["scores_differ"]), (12, 3, 0))

    def test_records_are_read(self):
        with tempfile.TemporaryDirectory() as name:
            folder, capture = pathlib.Path(name), pathlib.Path(name) / "c.pcap"
            done = subprocess.run([SHEAF, "trace", "gen", "--preset", "campus", "--packets", "2000", capture],
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts = []
            for suffix in ("npy", "rec"):
                path = folder / f"r.{suffix}"
                self.assertEqual(sheaf("export", capture, "--features", "n3ic20", "-o", path, "-q").returncode, 0)
                counts.append(document("verify", "--model", MODELS / "mlp-int8-n3ic20.onnx", "--records", 1,
                                       "--backends", "cpu", path)["rows"])
            self.assertEqual(*counts)
            self.assertGreater(counts[0], 50)
            data = path.read_bytes()
            for bad, why in ((data[:-1], "records that are cut short, or none"), (b"", "records that are cut "
                             "short, or none"), (data[:128] + b"x" + data[129:], "not a record")):
                path.write_bytes(bad)
                done = sheaf("verify", "--model", MODELS / "mlp-int8-n3ic20.onnx", path)
                self.assertEqual((done.returncode, done.stderr), (2, f"sheaf: {path}: {why}\n"))
            path.unlink()
            path.symlink_to("/dev/null")
            self.assertEqual(sheaf("verify", "--widths", "20-4", path).stderr,
                             f"sheaf: {path}: not a regular file\n")
            path.unlink()
            path.write_bytes(data)
            done = sheaf("verify", "--model", MODELS / "tree-spi30.onnx", path)
            self.assertEqual(done.stderr, f"sheaf: {path}: records of other features than the model takes\n")

    def test_a_model_that_is_no_file_is_refused_at_once(self):
        with tempfile.TemporaryDirectory() as name:
            pipe = pathlib.Path(name, "pipe")
            os.mkfifo(pipe)
            for path in (pipe, pathlib.Path("/dev/zero")):
                done = sheaf("verify", "--model", path)
                self.assertEqual((done.returncode, done.stderr),
                                 (2, f"sheaf: {path}: not a regular file\n"))

    def test_double_of_a_gpu_agrees_in_every_mode(self):
        found = document("verify", "--widths", "20-30-5", "--records", 500, "--cuda-library", MOCK)
        self.assertEqual([b["backend"] for b in found["backends"]],
                         ["cpu", "cuda launch", "cuda graph", "cuda persistent"])
        for backend in found["backends"][1:]:
            self.assertIn("TEST DOUBLE", backend["why"])
            self.assertEqual((backend["ran"], backend["labels_differ"], backend["scores_differ"]),
                             (True, 0, 0))

    def test_back_end_that_is_wrong_is_found_out(self):
        done = sheaf("verify", "--widths", "20-30-5", "--cuda-library", MOCK, MOCK_CUDA_WRONG="1")
        self.assertEqual((done.returncode, done.stderr),
                         (4, "sheaf: cuda launch does not agree with cpu-ref\n"))

    def test_back_end_that_cannot_be_had_is_listed_with_the_reason(self):
        for fail, reason in (("cuInit:0:100", "no GPU: CUDA_ERROR_NO_DEVICE"),
                             ("cuModuleLoadData:0:209",
                              "kernels for sm_80 and later: CUDA_ERROR_NO_BINARY_FOR_GPU"),
                             ("cuMemAlloc_v2:0:2", "no GPU 0: CUDA_ERROR_OUT_OF_MEMORY")):
            done = sheaf("verify", "--widths", "20-30-5", "--cuda-library", MOCK, "--modes", "launch",
                         MOCK_CUDA_FAIL=fail)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"cuda launch      not run: cuda: {reason}\n", done.stdout)

    def test_integers_are_refused_by_the_gpus_kernels(self):
        done = sheaf("verify", "--model", MODELS / "mlp-int8-n3ic20.onnx", "--records", 10, "--modes", "launch",
                     "--cuda-library", MOCK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cuda launch      not run: cuda: the kernels do no integer arithmetic (QuantizeLinear)\n",
                      done.stdout)

    def test_rows_that_are_none_are_refused(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "x.npy"
            rows = np.zeros((5, 4), np.float32)
            np.save(path, rows)
            whole = path.read_bytes()
            wrong = {
                "not a .npy file of rows of 32-bit floats": [
                    whole[:9], whole[:60], whole.replace(b"<f4", b"<f8"), whole.replace(b"False", b"True "),
                    whole.replace(b"(5, 4)", b"(5, -4"), whole.replace(b"(5, 4)", b"(20,) ")],
                "rows of another number of columns than the model has inputs": [
                    whole.replace(b"(5, 4)", b"(4, 5)")],
                "no rows, or more than can be read": [
                    whole.replace(b"(5, 4)", b"(0, 4)"),
                    whole.replace(b"(5, 4), }              ", b"(18446744073709551, 4)}")],
                "cut short": [whole[:-1], whole.replace(b"(5, 4)", b"(6, 4)")],
            }
            for reason, contents in wrong.items():
                for content in contents:
                    path.write_bytes(content)
                    done = sheaf("verify", "--widths", "4-3", path)
                    self.assertEqual((done.returncode, done.stderr), (2, f"sheaf: {path}: {reason}\n"))
            path.write_bytes(whole)
            done = sheaf("verify", "--widths", "4-3", path, "--records", 1)
            self.assertEqual(done.returncode, 0)
            self.assertIn("rows       6, against cpu-ref", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
