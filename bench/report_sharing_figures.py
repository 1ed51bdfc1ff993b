# SPDX-License-Identifier: BSD-2-Clause
"""Figures for documents of `sheaf bench sharing`: rates and costs against workers."""

from matplotlib import pyplot, ticker

from report_figures import GRID, SERIES, STYLE, short, to_svg

MARKERS = "osD^v<>Pxh*p"


def shares_cpus(result, workers):
    return bool(result["cpus"]) and workers > result["cpus"]


def against_workers(result, label, take, low=None):
    """A line for each model; None when there is no value."""
    lines = {}
    for row in result["rows"]:
        value = take(row)
        if row["workers"] and value is not None:
            lines.setdefault(row["name"], []).append((row["workers"], value))
    if not lines:
        return None
    figure, axes = pyplot.subplots(figsize=(8.6, 4.0))
    workers = sorted({x for points in lines.values() for x, _ in points})
    if shares_cpus(result, workers[-1]):
        axes.axvline(result["cpus"] + 0.5, color=GRID, linewidth=1.2, linestyle=":")
    for index, (name, points) in enumerate(lines.items()):
        points.sort()
        axes.plot([x for x, _ in points], [y for _, y in points], linewidth=1.6, markersize=5,
                  color=SERIES[index % len(SERIES)], marker=MARKERS[index % len(MARKERS)],
                  linestyle="-" if index < len(SERIES) else "--", label=short(name))
    axes.set_xticks(workers)
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel("workers")
    axes.set_ylabel(label)
    if low is not None:
        axes.set_ylim(bottom=low)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return to_svg(figure)


def millions(row):
    return None if row["packets_per_s"] is None else row["packets_per_s"] / 1e6


def draw(results):
    with pyplot.rc_context(STYLE):
        return [{
            "shared": any(shares_cpus(result, row["workers"] or 0) for row in result["rows"]),
            "rate": against_workers(result, "million packets per second", millions, 0),
            "scaling": against_workers(result, "times the row with the fewest workers",
                                       lambda row: row["scaling"], 0),
            "cycles": against_workers(result, "CPU cycles per packet",
                                      lambda row: row["cycles_per_packet"], 0),
        } for result in results]
