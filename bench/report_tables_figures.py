# SPDX-License-Identifier: BSD-2-Clause
"""Figures for documents of `sheaf bench tables`: cycles against load, one line for each table."""

from matplotlib import pyplot, ticker

from report_figures import SERIES, STYLE, short, to_svg
from report_tables import CHANGES

MARKERS = "osD^v<>Pxh*p"


def line(axes, index, name, points):
    """points: (load, cost) with costs that were measured."""
    points = sorted(points, key=lambda point: point[0])
    loads = [100 * load for load, _ in points]
    colour = SERIES[index % len(SERIES)]
    axes.plot(loads, [cost["median"] for _, cost in points], color=colour, linewidth=1.6,
              marker=MARKERS[index % len(MARKERS)], markersize=4.5, label=short(name),
              linestyle="-" if index < len(SERIES) else "--")
    axes.fill_between(loads, [cost["min"] for _, cost in points],
                      [cost["max"] for _, cost in points], color=colour, alpha=0.13, linewidth=0)


def panel(axes, title, cells, names, take):
    for index, name in enumerate(names):
        points = [(cell["load"], take(cell)) for cell in cells if cell["table"] == name]
        points = [(load, cost) for load, cost in points if load is not None and cost is not None]
        if points:
            line(axes, index, name, points)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel("load, %")
    axes.set_title(title, fontsize=10, loc="left")


def panels(titles, cells, names, takes):
    figure, all_axes = pyplot.subplots(1, len(titles), figsize=(8.6, 3.9), squeeze=False)
    for axes, title, take in zip(all_axes[0], titles, takes):
        panel(axes, title, cells, names, take)
    all_axes[0][0].set_ylabel("cycles")
    handles, labels = [], []
    for axes in all_axes[0]:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.tight_layout(rect=(0, 0, 1, 0.86))
    figure.legend(handles, labels, ncol=min(6, max(1, len(labels))), loc="upper center",
                  fontsize=8.5, handlelength=1.6, columnspacing=1.2)
    return to_svg(figure)


def lookup_taker(ratio):
    def take(cell):
        return next((cost for hit_ratio, cost in cell["lookups"] if hit_ratio == ratio), None)
    return take


def size_figures(size):
    names = list(dict.fromkeys(cell["table"] or "?" for cell in size["cells"]))
    ratios = sorted({ratio for cell in size["cells"] for ratio, _ in cell["lookups"]
                     if ratio is not None}, reverse=True)[:3]
    lookups = None
    if ratios:
        lookups = panels([f"lookups, {100 * ratio:g} % there" for ratio in ratios], size["cells"],
                         names, [lookup_taker(ratio) for ratio in ratios])
    changes = panels([name for _, name in CHANGES], size["cells"], names,
                     [lambda cell, key=key: cell[key] for key, _ in CHANGES])
    return {"lookups": lookups, "changes": changes}


def draw(results):
    with pyplot.rc_context(STYLE):
        return [[size_figures(size) for size in result["sizes"]] for result in results]
