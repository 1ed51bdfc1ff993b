#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The shipped models on the rows they were shipped with: the scores that training wrote.

Usage: models_test.py INFER_RUN MODELS BACKEND...
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

MODELS = {
    "tree-spi30": "90 16 1 ",
    "forest-spi30": "90 16 1 ",
    "mlp-spi30": "90 16 7 23440 MLP 90-64-128-64-16",
    "mlp-int8-spi30": "90 16 7 23440 MLP 90-64-128-64-16",
    "cnn-spi30": "90 16 11 88944 ",
    "tree-stat67": "67 16 1 ",
    "mlp-int8-n3ic20": "20 16 11 1644 Quantize Dense(int8) Affine Relu Quantize ",
}
# Arithmetic of integers: the same bits everywhere.
EXACT = {"mlp-int8-n3ic20"}
COLUMNS = {"spi30": 90, "stat67": 67, "n3ic20": 20}


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    assert {p.stem for p in folder.glob("*.onnx")} == MODELS.keys()
    with tempfile.TemporaryDirectory() as name:
        at = pathlib.Path(name)
        for model, text in MODELS.items():
            features = model.rsplit("-", 1)[1]
            rows = np.load(folder / ("golden.rows.npy" if features == "spi30" else
                                     f"golden-{features}.rows.npy"))
            assert rows.shape == (64, COLUMNS[features]) and rows.dtype == np.float32
            (at / "rows").write_bytes(rows.tobytes())
            expected = np.load(folder / f"{model}.scores.npy")
            for backend in sys.argv[3:]:
                result = subprocess.run([tool, folder / f"{model}.onnx", backend, at / "rows", at / "out"],
                                        capture_output=True, text=True, check=False)
                assert result.returncode == 0 and result.stdout.startswith(text), result
                data = (at / "out").read_bytes()
                labels = np.frombuffer(data[:256], np.uint32)
                scores = np.frombuffer(data[256:], np.float32).reshape(64, 16)
                if model in EXACT:
                    assert (scores == expected).all(), (model, backend)
                bound = 1e-4 + 1e-3 * np.abs(expected)
                bad = np.abs(scores - expected) > bound
                assert not bad.any(), (model, backend, scores[bad][:4], expected[bad][:4])
                best = expected.argmax(axis=1)
                margin = expected[np.arange(64), best] - expected[np.arange(64), labels]
                assert (margin <= 2 * bound[np.arange(64), best]).all(), (model, backend)
    print(f"{len(MODELS)} models on {', '.join(sys.argv[3:])}")


if __name__ == "__main__":
    main()
