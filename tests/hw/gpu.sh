#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What only a GPU can show, in a few minutes: whether every model agrees with the oracle there, how
# fast each way to submit is over batch sizes beside one CPU core, CPU use, and memory errors. Prints
# tables and writes gpu.csv and JSON documents. Exit 77 without a GPU. NOT RUN ON A GPU YET.
# Usage: gpu.sh SHEAF MODELS [OUTPUT]
set -eu
sheaf=$1
models=$2
out=${3:-gpu-results}
records=${GPU_RECORDS:-1000000}
skip() {
	echo "skipped: $1"
	exit 77
}
"$sheaf" infer bench --widths 4-2 --backends cuda --modes launch --batch-max 1 --time 1ms \
	>/dev/null 2>&1 || skip "sheaf infer does not run"
reason=$("$sheaf" infer verify --widths 4-2 --backends cuda --modes launch --records 1 2>/dev/null |
	sed -n 's/^cuda launch *not run: //p')
[ -z "$reason" ] || skip "$reason"
mkdir -p "$out"
if command -v nvidia-smi >/dev/null; then
	nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv || true
fi
failed=0

echo "== agreement with cpu-ref"
for model in "$models"/*.onnx; do
	name=$(basename "$model" .onnx)
	# The kernels do no integer arithmetic and say so.
	[ "$name" = mlp-int8-n3ic20 ] && continue
	# The oracle takes a millisecond for a row of the convolutional network.
	rows=$records
	[ "$name" = cnn-spi30 ] && rows=$((records / 50))
	timeout 120 "$sheaf" infer verify --model "$model" --backends cuda --records "$rows" \
		--json "$out/verify-$name.json" || failed=1
done

echo "== batch sizes, every way to submit"
for widths in 64-128-64-16 32-16-16-16; do
	timeout 60 "$sheaf" infer bench --widths $widths --backends cpu,cuda --batch-max 65536 \
		--time 100ms --json "$out/bench-$widths.json" || failed=1
done
timeout 60 "$sheaf" infer bench --model "$models/cnn-spi30.onnx" --backends cpu,cuda \
	--modes launch,graph --batch-max 16384 --time 50ms --json "$out/bench-cnn.json" || failed=1

/usr/bin/env python3 - "$out" <<'PYTHON' || failed=1
import csv, json, pathlib, sys
out = pathlib.Path(sys.argv[1])
with open(out / "gpu.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["run", "backend", "why", "batch", "flows_per_s", "p50_us", "p99_us", "p999_us", "cpu"])
    for path in sorted(out.glob("bench-*.json")):
        for series in json.loads(path.read_text())["backends"]:
            for p in series["points"]:
                writer.writerow([path.stem, series["backend"], series["why"], p["batch"],
                                 p["flows_per_s"], p["p50_us"], p["p99_us"], p["p999_us"], p["cpu"]])
PYTHON

echo "== memory errors"
if command -v compute-sanitizer >/dev/null; then
	timeout 120 compute-sanitizer --error-exitcode 9 "$sheaf" infer verify --widths 64-128-64-16 \
		--backends cuda --modes launch,graph --records 5000 || failed=1
else
	echo "not run: compute-sanitizer is not there"
fi
exit $failed
