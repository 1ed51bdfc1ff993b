# SPDX-License-Identifier: BSD-2-Clause
"""Figures for documents of `sheaf infer bench`: rate and time against the batch, each back end."""

from matplotlib import pyplot, ticker

from report_figures import GRID, SERIES, STYLE, short, to_svg

MARKERS = "osD^v<>Pxh*p"


def number(value, _position=None):
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def draw_lines(axes, result, key, spread=None):
    """A line for each back end that ran. spread: what its pale band reaches up to."""
    drawn = 0
    for index, series in enumerate(result["series"]):
        points = [p for p in series["points"] if p[key]] if series["ran"] else []
        if not points:
            continue
        colour = SERIES[index % len(SERIES)]
        batches = [p["batch"] for p in points]
        axes.plot(batches, [p[key] for p in points], color=colour, linewidth=1.6,
                  marker=MARKERS[index % len(MARKERS)], markersize=4.5, label=short(series["name"]))
        if spread:
            axes.fill_between(batches, [p[key] for p in points], [p[spread] or p[key] for p in points],
                              color=colour, alpha=0.13, linewidth=0)
        drawn += 1
    return drawn


def mark_break_even(axes, result):
    """Where a GPU overtakes one core, or that nobody measured it."""
    marks = [(index, series["break_even"]) for index, series in enumerate(result["series"])
             if series["ran"] and series["break_even"]]
    for index, batch in marks:
        axes.axvline(batch, color=SERIES[index % len(SERIES)], linewidth=1, linestyle=":")
        double = " (TEST DOUBLE)" if result["series"][index]["double"] else ""
        axes.annotate(f"break-even: {batch:,.0f}{double}", (batch, 0.03), xytext=(4, 0), rotation=90,
                      xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=8.5)
    if not marks:
        axes.annotate("break-even: not measured" if not any(
            ran for ran in (s["ran"] for s in result["series"] if s["backend"].startswith("cuda")))
            else "break-even: not within these batches", (0.99, 0.03), ha="right",
            xycoords="axes fraction", fontsize=8.5, color=GRID)


def figure_of(result, key, label, spread=None, even=False):
    figure, axes = pyplot.subplots(figsize=(8.6, 4.2))
    if draw_lines(axes, result, key, spread) == 0:
        pyplot.close(figure)
        return None
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(number))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(number))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel("flows in a batch")
    axes.set_ylabel(label)
    if even:
        mark_break_even(axes, result)
    axes.legend(ncol=3, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=8.5)
    return to_svg(figure)


def draw(results):
    with pyplot.rc_context(STYLE):
        return [{"rate": figure_of(result, "flows_per_s", "flows per second", even=True),
                 "cpu_rate": figure_of(result, "flows_per_cpu_s", "flows per second of CPU time"),
                 "latency": figure_of(result, "p50_us", "us from submission to return", "p99_us")}
                for result in results]
