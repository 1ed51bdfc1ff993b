#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draw how fast back ends run a model against the batch, and how long flows wait for answers.

Usage: plot_inference.py SHEAF FOLDER [--widths LIST] [--time T] [--packets N]

Runs `sheaf infer bench` with each of the CPU's kernels and with CUDA, and `sheaf replay --infer` with
several bounds on the delay; writes FOLDER/inference-{batch,delay}.svg. The CPU stands in both: a GPU
breaks even where its line crosses the CPU's. What could not be run is named in the figure.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402

LINES = (("cpu-ref", "best", "o"), ("cpu", "plain", "s"), ("cpu", "avx2", "D"),
         ("cpu", "avx512", "^"), ("cuda", "best", "v"))
DELAYS_US = (50, 100, 200, 500, 1000, 2000, 5000, 10000)
MODEL = pathlib.Path(__file__).resolve().parents[2] / "gpu_offload" / "models" / "mlp-spi30.onnx"


class Refused(Exception):
    """What sheaf said."""


def document(sheaf, *arguments):
    done = subprocess.run([sheaf, *map(str, arguments), "--quiet", "--json", "-"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return json.loads(done.stdout)


def save(figure, path):
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    print(path)


def draw_batches(options, path):
    figure, axes = pyplot.subplots(figsize=(7.6, 4.0))
    absent, facts = [], None
    for backend, kernels, marker in LINES:
        try:
            found = document(options.sheaf, "infer", "bench", "--widths", options.widths,
                             "--backends", backend, "--kernels", kernels, "--time", options.time)
        except Refused as refused:  # such as instructions that this processor lacks
            absent.append(f"{backend}, {kernels} ({refused})"[:90])
            continue
        facts = found
        for line in found["backends"]:
            if line["backend"].split()[0] != backend:
                continue  # the one that others are compared with
            name = f"cpu, {kernels}" if backend == "cpu" else line["backend"]
            if not line["ran"]:
                absent.append(f"{name} ({line['why']})"[:90])
                continue
            axes.plot([point["batch"] for point in line["points"]],
                      [point["flows_per_cpu_s" if backend != "cuda" else "flows_per_s"] / 1e6
                       for point in line["points"]],
                      marker=marker, markersize=4, linewidth=1.3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="batch, flows",
             ylabel="million flows per second\n(CPU: of one core)")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    if facts is None:
        raise Refused(absent[0])
    axes.set_title(f"perceptron {options.widths} on {facts['cpu']}", fontsize=10)
    axes.grid(alpha=.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for index, text in enumerate(dict.fromkeys(absent)):
        axes.annotate("not run: " + text, (0, -.22 - .06 * index), xycoords="axes fraction",
                      fontsize=7.5)
    save(figure, path)


def delay_of(sheaf, capture, delay_us):
    """Mean rows in a batch, and quantiles of the time from a row's coming to its answer."""
    found = document(sheaf, "replay", capture, "--no-huge", "--infer",
                     f"model={MODEL},features=spi30,depth=10,backend=cpu,batch=4096,"
                     f"delay={delay_us}us")
    batches = found["gpu_offload"]["batches"]
    return batches["rows_mean"], batches["answer_ns"]


def draw_delays(options, path):
    with tempfile.TemporaryDirectory() as folder:
        capture = pathlib.Path(folder) / "campus.pcap"
        subprocess.run([options.sheaf, "trace", "gen", "--preset", "campus", "--pps", "3M",
                        "--packets", str(options.packets), capture], check=True)
        points = [(delay, *delay_of(options.sheaf, capture, delay)) for delay in DELAYS_US]
    figure, (waits, rows) = pyplot.subplots(1, 2, figsize=(8.4, 3.6))
    delays = [delay for delay, _, _ in points]
    for name, marker in (("p50", "o"), ("p99", "s"), ("max", "^")):
        waits.plot(delays, [answer.get(name, 0) / 1e3 for _, _, answer in points], marker=marker,
                   markersize=4, linewidth=1.3, label=name)
    waits.plot(delays, delays, color="grey", linewidth=1, linestyle=":", label="the bound (the model takes 100 us more)")
    waits.set(xscale="log", yscale="log", xlabel="bound on the delay, us",
              ylabel="from a row to its answer, us")
    waits.legend(fontsize=7)
    rows.plot(delays, [mean for _, mean, _ in points], marker="o", markersize=4, linewidth=1.3,
              label="cpu, one worker")
    rows.set(xscale="log", yscale="log", xlabel="bound on the delay, us",
             ylabel="flows in a batch, mean")
    rows.legend(fontsize=8)
    for axes in (waits, rows):
        axes.grid(alpha=.3)
        axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    waits.set_title("campus traffic at 3 Mpps, back end cpu, virtual clock", fontsize=9, loc="left")
    figure.tight_layout()
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sheaf")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--widths", default="64-128-64-16")
    parser.add_argument("--time", default="100ms")
    parser.add_argument("--packets", type=int, default=1000000)
    options = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "sheaf"
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        draw_batches(options, options.folder / "inference-batch.svg")
        draw_delays(options, options.folder / "inference-delay.svg")
    except Refused as refused:
        sys.exit(f"plot_inference: {refused}")


if __name__ == "__main__":
    main()
