#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What only a GPU can show, in less than eight minutes: what it is and whether it exports dma-bufs,
# whether every model agrees with the oracle there, how fast each way to submit is over batch sizes
# beside one CPU core, how copies overlap with work, the way there and back of one row, stop and
# watchdog, the CPU's time of each way to wait, and memory errors. Prints tables, writes gpu.csv,
# checks.csv and JSON documents. Exit 77 without a GPU. NOT RUN ON A GPU YET.
#
# Usage: gpu.sh SHEAF MODELS GPU_CHECK [OUTPUT]
# Environment: GPU_LIBRARY (a test double: every line and row says so), GPU_RECORDS (1000000),
# GPU_TIME (100ms, of each measurement), GPU_BATCH_MAX (65536), GPU_MODELS (names; all).
set -eu
sheaf=$1 models=$2 check=$3 out=${4:-gpu-results}
library=${GPU_LIBRARY:-libcuda.so.1}
records=${GPU_RECORDS:-1000000} time=${GPU_TIME:-100ms} batch_max=${GPU_BATCH_MAX:-65536}
total=450 begin=$(date +%s) failed=0
gpu="--backends cuda --cuda-library $library"
both="--backends cpu,cuda --cuda-library $library"

reason=$("$sheaf" infer probe --cuda-library "$library" 2>&1 >/dev/null) || {
	echo "skipped: ${reason#sheaf: infer probe: }"
	exit 77
}
case $("$sheaf" infer probe --cuda-library "$library") in
"TEST DOUBLE"*) is="TEST DOUBLE " ;;
*) is="" ;;
esac
# Nothing that a double gives can be taken for a GPU's: not a line, not a file.
if [ -n "$is" ] && [ -z "${GPU_MARKED:-}" ]; then
	status=$(mktemp)
	{
		GPU_MARKED=1 sh "$0" "$@" 2>&1 || echo $? >"$status"
	} | sed "s/^/TEST DOUBLE: /"
	code=$(cat "$status")
	rm -f "$status"
	exit "${code:-0}"
fi
[ -z "$is" ] || out=$out/TEST-DOUBLE
mkdir -p "$out"
rm -f "$out"/*.json "$out"/*.csv

# step SECONDS NAME COMMAND...: at most so long, and no longer than is left of the whole.
step() {
	budget=$1 name=$2
	shift 2
	left=$((total - $(date +%s) + begin))
	[ "$left" -ge "$budget" ] || budget=$left
	if [ "$budget" -le 0 ]; then
		echo "NOT RUN: $name: no time is left"
		failed=1
		return
	fi
	code=0
	timeout -k 5 "$budget" "$@" || code=$?
	[ "$code" -eq 0 ] || failed=1
	[ "$code" -ne 124 ] || echo "FAILED: $name: more than $budget s"
	[ "$code" -eq 0 ] || [ "$code" -eq 124 ] || echo "FAILED: $name: status $code"
}

echo "== the device"
step 10 probe "$sheaf" infer probe --cuda-library "$library" --json "$out/probe.json"
if [ -z "$is" ] && command -v nvidia-smi >/dev/null; then
	nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,pcie.link.gen.current,pcie.link.width.current \
		--format=csv || true
fi

echo "== agreement with cpu-ref"
for model in "$models"/*.onnx; do
	name=$(basename "$model" .onnx)
	# The kernels do no integer arithmetic and say so.
	[ "$name" != mlp-int8-n3ic20 ] || continue
	case " ${GPU_MODELS:-$name} " in *" $name "*) ;; *) continue ;; esac
	# The oracle takes a millisecond for a row of the convolutional network.
	rows=$records
	[ "$name" != cnn-spi30 ] || rows=$(((records + 49) / 50))
	step 60 "agreement of $name" "$sheaf" infer verify --model "$model" $gpu --records "$rows" \
		--json "$out/verify-$name.json"
done

echo "== batch sizes, every way to submit"
for widths in 64-128-64-16 32-16-16-16; do
	step 50 "batch sizes of $widths" "$sheaf" infer bench --widths $widths $both \
		--batch-max "$batch_max" --time "$time" --json "$out/bench-$widths.json"
done
most=$((batch_max < 16384 ? batch_max : 16384))
step 40 "batch sizes of cnn" "$sheaf" infer bench --model "$models/cnn-spi30.onnx" $gpu --modes launch,graph \
	--batch-min $((most / 16 + 1)) --batch-max "$most" --time "$time" --json "$out/bench-cnn.json"

echo "== each kind of kernel"
for kernels in plain tensor; do
	step 30 "agreement of $kernels kernels" "$sheaf" infer verify --model "$models/cnn-spi30.onnx" $gpu \
		--cuda-kernels $kernels --modes launch --records $(((records + 99) / 100)) \
		--json "$out/verify-cnn-$kernels.json"
	step 20 "batch sizes of $kernels kernels" "$sheaf" infer bench --model "$models/cnn-spi30.onnx" $gpu \
		--cuda-kernels $kernels --modes launch --batch-min "$most" --batch-max "$most" --time "$time" \
		--json "$out/bench-cnn-$kernels.json"
done

echo "== copies beside work: 1, 2 and 4 batches at a time"
step 30 overlap "$sheaf" infer bench --widths 64-128-64-16 $gpu --inflight 1,2,4 --no-rates \
	--batch-min $((batch_max / 16 + 1)) --batch-max "$batch_max" --time "$time" --json "$out/overlap.json"

echo "== one row there and back"
step 15 ping "$sheaf" infer bench --widths 64-128-64-16 $gpu --no-rates --batch-max 1 --time "$time" \
	--json "$out/ping.json"

echo "== ways for the host to wait"
most=$((batch_max < 4096 ? batch_max : 4096))
step 30 waits "$sheaf" infer bench --widths 64-128-64-16 $gpu --wait poll,yield,block --no-rates \
	--batch-min "$most" --batch-max "$most" --time "$time" --json "$out/waits.json"

echo "== watchdog and stop, us until the back end has ended"
# A double answers at once: it has to be told to hang.
export MOCK_CUDA_HANG=0
step 15 watchdog "$check" watchdog "$library" >"$out/watchdog.txt"
unset MOCK_CUDA_HANG
step 15 stop "$check" stop "$library" >"$out/stop.txt"
cat "$out/watchdog.txt" "$out/stop.txt"

echo "== tables"
step 20 tables /usr/bin/env python3 "$(dirname "$0")/gpu_tables.py" "$out"

echo "== memory errors"
if [ -n "$is" ]; then
	echo "not run: there is no device memory here"
elif command -v compute-sanitizer >/dev/null; then
	step 60 compute-sanitizer compute-sanitizer --error-exitcode 9 "$sheaf" infer verify \
		--widths 64-128-64-16 $gpu --modes launch,graph --records 5000
else
	echo "not run: compute-sanitizer is not there"
fi
echo "took $(($(date +%s) - begin)) s of $total"
exit $failed
