#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draw generated traffic against the published distributions that it follows.

Usage: plot_generated.py SHEAF FOLDER [--scale X]

Generates with `sheaf trace gen --preset campus`, reads the packets back with `sheaf trace convert`
and `sheaf trace info`, and writes FOLDER/generated-{lengths,sizes,grouping,arrivals}.svg. X shortens
the traces (default 1: about 6 M packets in all). The published figures are those of the AGH study
(arXiv:1809.03486), the Reframer artefact (NSDI 2022) and CAIDA's monitors; docs/traces.md cites them.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402
import numpy  # noqa: E402

# (weight, sigma, scale): log-normal; sigma 0: uniform on (0, scale], rounded up. AGH, TCP and UDP.
LENGTHS = {
    "TCP": [(.0580, 0, 1), (.3105, 0, 2), (.0551, 0, 3), (.0478, 0, 4), (.0059, 0, 5),
            (.1253, 0, 6), (.2065, .5122, 7.954), (.1219, .7508, 21.74), (.0525, 1.1085, 116.0),
            (.0165, 1.9932, 845.9)],
    "UDP": [(.5827, 0, 1), (.1872, 0, 2), (.0915, 0, 3), (.0562, 0, 4), (.0294, .4895, 9.674),
            (.0402, .2603, 4.884), (.0047, .4494, 29.41), (.0056, .9247, 67.48),
            (.0018, 1.0498, 594.5), (.00032, 1.8548, 7893), (.00016, 1.1264, 19824),
            (.000028, .4013, 90370)],
}
# Shares of a capture of an aggregated link (snabb's sanitized4k), by frame length.
SIZE_BINS = (("to 64", 0, 64, .10), ("65 to 128", 65, 128, .20), ("129 to 512", 129, 512, .11),
             ("513 to 1024", 513, 1024, .03), ("above 1024", 1025, 1 << 20, .56))
# Mean train when grouped in 16, 64, 128 us: KTH campus, overlays of 4, 8 and 14 segments.
GROUPING = {"4 segments, 2.1 Mpps": (1.85, 2.69, 3.27), "8 segments, 4.1 Mpps": (1.84, 2.63, 3.17),
            "14 segments, 6.7 Mpps": (1.92, 2.60, 3.06)}
ETHERNET_BYTES = 14
RECORD = [("src", ">u4"), ("sport", ">u2"), ("dst", ">u4"), ("dport", ">u2"), ("proto", "u1")]


def generate(sheaf, *options, then):
    """Standard output of `then`, fed with a generated trace."""
    with subprocess.Popen([sheaf, "trace", "gen", "--preset", "campus", *options, "-"],
                          stdout=subprocess.PIPE) as source:
        done = subprocess.run([sheaf, *then], stdin=source.stdout, capture_output=True, check=True)
        source.stdout.close()
    if source.returncode != 0:
        sys.exit("sheaf trace gen failed")
    return done.stdout


def survival(terms, lengths):
    """Share of flows longer than each length, by a mixture."""
    total = numpy.zeros(len(lengths))
    for weight, sigma, scale in terms:
        if sigma == 0:
            part = 1 - numpy.minimum(numpy.floor(lengths) / scale, 1)
        else:
            part = numpy.array([.5 * math.erfc(math.log(n / scale) / (sigma * math.sqrt(2)))
                                for n in lengths])
        total += weight * part
    return total / sum(weight for weight, _, _ in terms)


def flow_lengths(data):
    """Of 5-tuple records: packets of each connection, and the record of its first one."""
    rows = numpy.frombuffer(data, dtype=numpy.dtype(RECORD))
    one = rows["src"].astype(numpy.uint64) << 16 | rows["sport"]
    two = rows["dst"].astype(numpy.uint64) << 16 | rows["dport"]
    low, high = numpy.minimum(one, two), numpy.maximum(one, two)
    found = {}
    for name, number in (("TCP", 6), ("UDP", 17)):
        chosen = numpy.flatnonzero(rows["proto"] == number)
        pairs = numpy.stack((low[chosen], high[chosen]), axis=1)
        _, first, counts = numpy.unique(pairs, axis=0, return_index=True, return_counts=True)
        found[name] = (counts, chosen[first])
    return found


def draw_lengths(found, path):
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6))
    for name, color in (("TCP", "tab:blue"), ("UDP", "tab:orange")):
        counts = numpy.sort(found[name][0])
        lengths = numpy.unique(counts)
        shares = 1 - numpy.searchsorted(counts, lengths, side="right") / len(counts)
        axes.step(lengths, shares, where="post", color=color,
                  label=f"{name}, generated ({len(counts):,} flows)")
        grid = numpy.unique(numpy.round(numpy.logspace(0, 6, 120)))
        axes.plot(grid, survival(LENGTHS[name], grid), "--", color=color, label=f"{name}, AGH")
    axes.set(xscale="log", yscale="log", ylim=(1e-6, 1), xlim=(1, 1e6),
             xlabel="packets of a flow", ylabel="share of flows that are longer")
    finish(figure, axes, path)


def draw_sizes(sizes, path):
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2))
    frames = sizes + ETHERNET_BYTES
    at = numpy.arange(len(SIZE_BINS))
    made = [numpy.mean((frames >= low) & (frames <= high)) for _, low, high, _ in SIZE_BINS]
    axes.bar(at - .2, made, .4, label=f"generated, mean {frames.mean():.0f} bytes")
    axes.bar(at + .2, [share for *_, share in SIZE_BINS], .4, label="an aggregated link, measured")
    axes.set_xticks(at, [name for name, *_ in SIZE_BINS])
    axes.set(xlabel="bytes of a frame", ylabel="share of packets")
    finish(figure, axes, path)


def draw_grouping(info, path):
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2))
    windows = (16, 64, 128)
    for name, values in GROUPING.items():
        axes.plot(windows, values, "x--", label=f"KTH campus, {name}")
    best = info["best_slf"]
    axes.plot((0, *windows), (info["slf"], *(best[f"{w}_us"] for w in windows)), "o-", color="black",
              label="generated, 3 Mpps")
    axes.set(xlabel="window in microseconds", ylabel="packets per group", ylim=(1, 3.5))
    finish(figure, axes, path)


def draw_arrivals(begins, path):
    """Time between the first packets of flows, over its mean; TCP should be exponential."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2))
    grid = numpy.linspace(0, 6, 200)
    for name, color in (("TCP", "tab:blue"), ("UDP", "tab:orange")):
        gaps = numpy.diff(numpy.sort(begins[name]))
        gaps = numpy.sort(gaps / gaps.mean())
        axes.step(gaps, 1 - numpy.arange(1, len(gaps) + 1) / len(gaps), color=color,
                  label=f"{name}, generated (CV {gaps.std():.2f})")
    axes.plot(grid, numpy.exp(-grid), "k--", label="exponential")
    axes.set(yscale="log", xlim=(0, 6), ylim=(2e-3, 1), xlabel="time between flows, over its mean",
             ylabel="share that is longer")
    finish(figure, axes, path)


def finish(figure, axes, path):
    axes.grid(alpha=.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sheaf")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=float, default=1)
    options = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "sheaf"
    matplotlib.rcParams["path.simplify_threshold"] = 1
    options.folder.mkdir(parents=True, exist_ok=True)
    seconds = max(1, round(600 * options.scale))
    # Empty at first and long, so that most flows are seen whole.
    cold = ("--rate", "50Mb", "--duration", f"{seconds}s", "--cold", "--ip6-share", "0")
    found = flow_lengths(generate(options.sheaf, *cold,
                                  then=("trace", "convert", "--to", "tuples", "-", "-")))
    text = generate(options.sheaf, *cold,
                    then=("trace", "convert", "--to", "ipsum", "--fields", "timestamp ip_len",
                          "-", "-"))
    lines = [line for line in text.splitlines() if not line.startswith(b"!")]
    columns = numpy.array(b" ".join(lines).split(), dtype=float).reshape(-1, 2)
    begins = {name: columns[first, 0] for name, (_, first) in found.items()}
    info = json.loads(generate(options.sheaf, "--pps", "3M", "--packets",
                               str(round(2e6 * options.scale)),
                               then=("trace", "info", "--quiet", "--json", "-", "-")))["files"][0]
    draw_lengths(found, options.folder / "generated-lengths.svg")
    draw_sizes(columns[:, 1], options.folder / "generated-sizes.svg")
    draw_grouping(info, options.folder / "generated-grouping.svg")
    draw_arrivals(begins, options.folder / "generated-arrivals.svg")


if __name__ == "__main__":
    main()
