#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draw what connection tables cost against their load.

Usage: plot_tables.py SHEAF FOLDER [--entries N] [--load LIST] [--repeat N]

Runs `sheaf bench tables`, keeps its document as FOLDER/tables.json, and writes
FOLDER/tables-{lookups,changes}.svg: the lowest round of each table, in cycles. With --keep it draws
the document that is there already.
"""

import argparse
import json
import pathlib
import subprocess

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402

MARKERS = "osD^v<>Pxh*pd"
LOOKUPS = (("hits, entry read and written", 1), ("misses", 0))
CHANGES = (("insertion", "insert_cycles"), ("removal", "remove_cycles"))


def lowest(cost):
    return cost["min"] if cost else None


def looked_up(ratio):
    return lambda cell: lowest(next((lookup["cycles"] for lookup in cell["lookup"]
                                     if lookup["hit_ratio"] == ratio), None))


def changed(key):
    return lambda cell: lowest(cell[key])


def panel(axes, title, cells, take):
    for index, name in enumerate(dict.fromkeys(cell["table"] for cell in cells)):
        points = [(100 * cell["load"], take(cell)) for cell in cells if cell["table"] == name]
        points = [point for point in points if point[1] is not None]
        axes.plot([load for load, _ in points], [cycles for _, cycles in points],
                  marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=1.3,
                  color=pyplot.get_cmap("tab20")(index), label=name)
    axes.set(yscale="log", xlabel="load, %")
    axes.set_title(title, fontsize=10)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(alpha=.3)


def draw(cells, panels, path):
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(8.4, 4.4))
    for axes, (title, take) in zip(all_axes, panels):
        panel(axes, title, cells, take)
    all_axes[0].set_ylabel("cycles, lowest of the rounds")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, .14, 1, 1))
    figure.legend(handles, labels, ncol=7, loc="lower center", fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sheaf")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--entries", default="1M")
    parser.add_argument("--load", default="0.5..0.9..0.1,0.95,0.98")
    parser.add_argument("--repeat", default="3")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "sheaf"
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "tables.json"
    if not options.keep:
        subprocess.run([options.sheaf, "bench", "tables", "--entries", options.entries, "--load",
                        options.load, "--hit-ratio", "1,0", "--repeat", options.repeat, "--quiet",
                        "--json", path], check=True)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    places = max(cell["places"] for cell in cells)
    cells = [cell for cell in cells if cell["places"] == places]
    draw(cells, [(title, looked_up(ratio)) for title, ratio in LOOKUPS],
         options.folder / "tables-lookups.svg")
    draw(cells, [(title, changed(key)) for title, key in CHANGES],
         options.folder / "tables-changes.svg")


if __name__ == "__main__":
    main()
