# SPDX-License-Identifier: BSD-2-Clause
"""Figures of the report: results in (see report.py), SVG text for the page out.

Ink is drawn in one marked colour that becomes `currentColor`, so that a figure follows the page's
light or dark theme. Text becomes paths: no fonts, and nothing of a document's strings stays in the
page's markup.
"""

import io
import re

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot, ticker  # noqa: E402  pylint: disable=wrong-import-position

INK = "#0b0c0d"  # stands for currentColor
GRID = "#8a8f98"
SERIES = ("#3b7dd8", "#e0812b", "#2a9d76", "#c2517f", "#8b6fd1", "#9a8b2d", "#4aa3b8", "#b5573c")
# What moves packets is grey, what sheaf is about has hues, the chain is one family.
STAGE_COLOURS = {
    "source": "#8d99a8", "parse": "#b3bcc7", "sink": "#6f7a88", "loop": "#d0d5db",
    "reframer": "#e0812b", "conntrack": "#2a9d76", "infer": "#c2517f",
}
CHAIN_COLOURS = ("#3b5ba9", "#5478c4", "#7395d6", "#94b1e4", "#b7cdf0")
STAGE_ORDER = {"source": 0, "parse": 1, "reframer": 2, "conntrack": 3, "infer": 4, "sink": 6,
               "loop": 7}
CHAIN_PLACE = 5
NAME_MAX = 34

STYLE = {
    "svg.fonttype": "path", "svg.hashsalt": "sheaf", "text.parse_math": False,
    "font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.labelcolor": INK,
    "axes.edgecolor": GRID, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": GRID, "grid.alpha": 0.28, "grid.linewidth": 0.8,
    "ytick.major.size": 0, "figure.facecolor": "none", "axes.facecolor": "none",
    "legend.frameon": False, "savefig.transparent": True,
}


def short(name):
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= NAME_MAX else name[:NAME_MAX - 1] + "…"


def to_svg(figure):
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace(INK, "currentColor")


def rows(results, heading, extra=0.9):
    """Axes with one row for each result, first on top."""
    figure, axes = pyplot.subplots(figsize=(8.6, extra + 0.46 * len(results)))
    axes.set_yticks(range(len(results)))
    axes.set_yticklabels([short(result["name"]) for result in results])
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(heading)
    return figure, axes


def throughput(results):
    shown = [result for result in results if result["cost"]["packets_per_s"]]
    if not shown:
        return None
    figure, axes = rows(shown, "million packets per second")
    for row, result in enumerate(shown):
        cost = result["cost"]
        rate = cost["packets_per_s"] / 1e6
        axes.barh(row, rate, height=0.58, color=SERIES[0])
        edge = rate
        if cost["total"] and cost["total_min"] and cost["total_max"] and cost["spread"] is not None:
            low = rate * cost["total"] / cost["total_max"]
            edge = rate * cost["total"] / cost["total_min"]
            axes.plot([low, edge], [row, row], color=INK, linewidth=1.4)
        axes.annotate(f"{rate:.2f}", (max(rate, edge), row), xytext=(5, 0),
                      textcoords="offset points", va="center", fontweight="bold")
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    return to_svg(figure)


def stage_colours(results):
    colours = dict(STAGE_COLOURS)
    for result in results:
        for name, _ in result["cost"]["stages"]:
            if name not in colours:
                known = len(colours) - len(STAGE_COLOURS)
                colours[name] = CHAIN_COLOURS[known % len(CHAIN_COLOURS)]
    return colours


def cycles(results):
    shown = [result for result in results if result["cost"]["stages"]]
    if not shown:
        return None
    colours = stage_colours(shown)
    figure, axes = rows(shown, "cycles per packet (time stamp counter)", extra=1.6)
    named = {}
    for row, result in enumerate(shown):
        left = 0
        for name, value in result["cost"]["stages"]:
            bar = axes.barh(row, value, left=left, height=0.62, color=colours[name],
                            edgecolor=INK, linewidth=0.35)
            named.setdefault(name, bar)
            left += value
        # Medians of stages need not add up to the median of the whole.
        total = left if result["cost"]["total"] is None else result["cost"]["total"]
        axes.annotate(f"{total:,.0f}", (left, row), xytext=(5, 0), textcoords="offset points",
                      va="center", fontweight="bold")
    axes.margins(x=0.08)
    order = sorted(named, key=lambda name: STAGE_ORDER.get(name, CHAIN_PLACE))
    axes.legend([named[name] for name in order], [short(name) for name in order],
                ncol=min(len(order), 11), loc="lower left", bbox_to_anchor=(-0.12, 1.0),
                handlelength=0.9, handletextpad=0.4, columnspacing=0.9, fontsize=8.5)
    return to_svg(figure)


def locality(results):
    shown = [result for result in results
             if result["reframer"]["slf_in"] and result["reframer"]["slf_out"]]
    if not shown:
        return None
    figure, axes = rows(shown, "packets per flow run (spatial locality factor)", extra=1.2)
    for row, result in enumerate(shown):
        before, after = result["reframer"]["slf_in"], result["reframer"]["slf_out"]
        axes.plot([before, after], [row, row], color=GRID, linewidth=2.2, zorder=1)
        axes.scatter(before, row, s=48, color=SERIES[0], zorder=2,
                     label="in" if row == 0 else None)
        axes.scatter(after, row, s=48, color=SERIES[1], zorder=3,
                     label="out" if row == 0 else None)
        axes.annotate(f"{before:.2f} → {after:.2f}", (max(before, after), row), xytext=(8, 0),
                      textcoords="offset points", va="center")
    axes.margins(x=0.16)
    axes.set_xlim(left=min(1, axes.get_xlim()[0]))
    axes.legend(ncol=2, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def human_time(value, _position):
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} ns"


def hold(results):
    shown = [result for result in results if result["reframer"]["curve"]]
    if not shown:
        return None
    figure, axes = pyplot.subplots(figsize=(8.6, 3.4))
    floor = min((x for result in shown for x, _ in result["reframer"]["curve"] if x > 0),
                default=1)
    names = {}  # equal curves would hide one another: they share a line
    for result in shown:
        names.setdefault(tuple(result["reframer"]["curve"]), []).append(short(result["name"]))
    for index, (curve, sharing) in enumerate(names.items()):
        label = ", ".join(sharing[:4]) + (", …" if len(sharing) > 4 else "")
        xs = [max(x, floor) for x, _ in curve]
        ys = [100 * y for _, y in curve]
        axes.step([floor, *xs], [0, *ys], where="post", linewidth=1.8,
                  color=SERIES[index % len(SERIES)], label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(human_time))
    axes.set_ylim(0, 102)
    axes.set_xlabel("hold time")
    axes.set_ylabel("packets held at most so long, %")
    few = len(names) < 7
    axes.legend(loc="lower right" if few else "center left",
                bbox_to_anchor=None if few else (1.0, 0.5), fontsize=9)
    return to_svg(figure)


def drops(results):
    shown = [result for result in results if result["books"]["dropped"]]
    if not shown:
        return None
    reasons = sorted({name for result in shown for name, _ in result["books"]["dropped"]})
    figure, axes = rows(shown, "packets dropped", extra=1.4)
    for index, reason in enumerate(reasons):
        for row, result in enumerate(shown):
            counts = dict(result["books"]["dropped"])
            left = sum(counts.get(other, 0) for other in reasons[:index])
            axes.barh(row, counts.get(reason, 0), left=left, height=0.58,
                      color=SERIES[index % len(SERIES)],
                      label=short(reason) if row == 0 else None)
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.legend(ncol=4, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def draw(results):
    with pyplot.rc_context(STYLE):
        return {
            "throughput": throughput(results),
            "cycles": cycles(results),
            "locality": locality(results),
            "hold": hold(results),
            "drops": drops(results),
        }
