#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draw what deletion strategies, balancing policies and sharing models cost, as docs/conntrack.md
shows it.

Usage: plot_laboratory.py SHEAF FOLDER [--only LIST] [--packets N] [--repeat N]

Runs `sheaf bench deletion --sweep`, `sheaf bench lb --flood 1` and `sheaf bench sharing`, and writes
the figures that `sheaf report` shows of them as FOLDER/{deletion,lb,sharing}-*.svg. The documents
stay beside them with --keep.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import report  # noqa: E402  pylint: disable=wrong-import-position
import report_deletion  # noqa: E402  pylint: disable=wrong-import-position
import report_deletion_figures  # noqa: E402  pylint: disable=wrong-import-position
import report_lb  # noqa: E402  pylint: disable=wrong-import-position
import report_lb_figures  # noqa: E402  pylint: disable=wrong-import-position
import report_sharing  # noqa: E402  pylint: disable=wrong-import-position
import report_sharing_figures  # noqa: E402  pylint: disable=wrong-import-position

INK, PAGE = "#1c1f24", "#ffffff"
PAGES = {"deletion": (report_deletion, report_deletion_figures),
         "lb": (report_lb, report_lb_figures),
         "sharing": (report_sharing, report_sharing_figures)}


def save(svg, path):
    """A figure that stands alone: ink and a page of its own."""
    head, rest = svg.split(">", 1)
    page = f'<rect width="100%" height="100%" fill="{PAGE}"/>'
    path.write_text(head + ">" + page + rest.replace("currentColor", INK), encoding="utf-8")
    print(path)


def named(figures):
    """(name, SVG) of all figures that there are."""
    for name, svg in figures.items():
        if isinstance(svg, list):
            yield from ((f"{name}-{index}", one) for index, (_, one) in enumerate(svg) if one)
        elif svg:
            yield name.replace("_", "-"), svg


def draw(options, bench, arguments):
    path = options.folder / f"{bench}.json"
    subprocess.run([options.sheaf, "bench", bench, *map(str, arguments), "--quiet", "--json", path],
                   check=True)
    page, figures = PAGES[bench]
    result = page.read(bench, report.Node(json.loads(path.read_text(encoding="utf-8"))),
                       report.Refused)
    for name, svg in named(figures.draw([result])[0]):
        save(svg, options.folder / f"{bench}-{name}.svg")
    if not options.keep:
        path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sheaf")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PAGES))
    parser.add_argument("--packets", type=int, default=1000000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    flows = max(100, options.packets // 16)
    benches = {
        "deletion": ("--sweep", "--packets", options.packets, "--repeat", options.repeat,
                     "--due", max(1000, options.packets // 8)),
        "lb": ("--flood", 1, "--packets", options.packets, "--flows", flows, "--repeat",
               options.repeat),
        "sharing": ("--packets", options.packets, "--flows", flows, "--rounds", options.repeat),
    }
    for bench in options.only.split(","):
        if bench not in benches:
            sys.exit(f"plot_laboratory: --only: got '{bench}', expected {', '.join(benches)}")
        draw(options, bench, benches[bench])


if __name__ == "__main__":
    main()
