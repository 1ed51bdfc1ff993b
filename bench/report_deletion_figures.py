# SPDX-License-Identifier: BSD-2-Clause
"""Figures for documents of `sheaf bench deletion`: what strategies cost, keep, and stop."""

from matplotlib import pyplot, ticker

from report_figures import GRID, INK, SERIES, STYLE, human_time, rows, short, to_svg

MARKERS = "osD^v<>Pxh*p"


def shown(result, key):
    return [strategy for strategy in result["strategies"] if strategy["cost"][key]]


def style(index):
    return {"color": SERIES[index % len(SERIES)],
            "linestyle": ("-", "--", ":")[index // len(SERIES) % 3]}


def cycles(result):
    strategies = shown(result, "cycles_per_packet")
    if not strategies:
        return None
    figure, axes = rows(strategies, "cycles per packet (time stamp counter)", extra=1.3)
    for row, strategy in enumerate(strategies):
        cost = strategy["cost"]
        packets, maintenance = cost["packets_cycles"] or 0, cost["maintenance_cycles"] or 0
        axes.barh(row, packets, height=0.6, color=SERIES[0], label="packets" if row == 0 else None)
        axes.barh(row, maintenance, left=packets, height=0.6, color=SERIES[1],
                  label="maintenance" if row == 0 else None)
        edge = cost["cycles_per_packet"]
        if cost["cycles_min"] and cost["cycles_max"]:
            axes.plot([cost["cycles_min"], cost["cycles_max"]], [row, row], color=INK,
                      linewidth=1.3)
            edge = max(edge, cost["cycles_max"])
        axes.annotate(f"{cost['cycles_per_packet']:,.1f}", (edge, row), xytext=(5, 0),
                      textcoords="offset points", va="center", fontsize=9)
    axes.margins(x=0.1)
    axes.legend(ncol=2, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def kept(result):
    strategies = shown(result, "resident_per_live")
    if not strategies:
        return None
    figure, axes = rows(strategies, "connections kept over connections live", extra=1.3)
    for row, strategy in enumerate(strategies):
        mean = strategy["cost"]["resident_per_live"]
        most = strategy["cost"]["resident_max_per_live"] or mean
        axes.plot([mean, most], [row, row], color=GRID, linewidth=2.2, zorder=1)
        axes.scatter(mean, row, s=42, color=SERIES[0], zorder=3, label="mean" if row == 0 else None)
        axes.scatter(most, row, s=42, color=SERIES[1], zorder=2, label="most" if row == 0 else None)
    axes.set_xlim(left=min(0.98, axes.get_xlim()[0]))
    axes.legend(ncol=2, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def late(result):
    strategies = [(index, strategy) for index, strategy in enumerate(result["strategies"])
                  if strategy["judge"] and strategy["judge"]["late"]]
    if not strategies:
        return None
    figure, axes = pyplot.subplots(figsize=(8.6, 4.2))
    floor = 1e3
    for index, strategy in strategies:
        curve = strategy["judge"]["late"]
        axes.step([floor, *(max(value, floor) for value, _ in curve)],
                  [0, *(100 * share for _, share in curve)], where="post", linewidth=1.6,
                  label=short(strategy["name"]), **style(index))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(human_time))
    axes.set_ylim(0, 102)
    axes.set_xlabel("removed so long behind the due time")
    axes.set_ylabel("connections, %")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
    return to_svg(figure)


def pauses(result):
    hz = result["tsc_hz"]
    strategies = [strategy for strategy in result["strategies"]
                  if strategy["cost"]["longest_call_cycles"] or
                  (strategy["burst"] and strategy["burst"]["longest_call_cycles"])]
    if not strategies or not hz:
        return None
    figure, axes = rows(strategies, "longest uninterrupted call of maintenance", extra=1.3)
    for row, strategy in enumerate(strategies):
        usual = strategy["cost"]["longest_call_cycles"]
        burst = strategy["burst"]["longest_call_cycles"] if strategy["burst"] else None
        for cycles_taken, colour, marker in ((usual, SERIES[0], "o"), (burst, SERIES[1], "D")):
            if cycles_taken:
                axes.scatter(cycles_taken / hz * 1e9, row, s=42, color=colour, marker=marker)
    axes.scatter([], [], color=SERIES[0], marker="o", label="with the traffic")
    axes.scatter([], [], color=SERIES[1], marker="D", label="many due at one instant")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(human_time))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.legend(ncol=2, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def zero_loss(result):
    strategies = shown(result, "zero_loss_packets_per_s")
    if not strategies:
        return None
    figure, axes = rows(strategies, "million packets per second at zero loss (computed)")
    for row, strategy in enumerate(strategies):
        rate = strategy["cost"]["zero_loss_packets_per_s"] / 1e6
        axes.barh(row, rate, height=0.6, color=SERIES[2])
        axes.annotate(f"{rate:.1f}", (rate, row), xytext=(5, 0), textcoords="offset points",
                      va="center", fontsize=9)
    axes.margins(x=0.1)
    return to_svg(figure)


def trade(result):
    """Cycles against what is kept; with a sweep, a line through the values of each knob."""
    points = [(index, strategy) for index, strategy in enumerate(result["strategies"])
              if strategy["cost"]["cycles_per_packet"] and strategy["cost"]["resident_per_live"]]
    if not points:
        return None
    figure, axes = pyplot.subplots(figsize=(8.6, 4.6))
    for index, strategy in points:
        cost = strategy["cost"]
        axes.scatter(cost["resident_per_live"], cost["cycles_per_packet"], s=46, zorder=3,
                     color=SERIES[index % len(SERIES)], marker=MARKERS[index % len(MARKERS)],
                     label=short(strategy["name"]))
        for _, curve in strategy["curves"]:
            swept = [(point["resident_per_live"], point["cycles_per_packet"]) for point in curve
                     if point["resident_per_live"] and point["cycles_per_packet"]]
            if swept:
                axes.plot([x for x, _ in swept], [y for _, y in swept], linewidth=1.1, alpha=0.75,
                          marker=".", markersize=4, **style(index))
    axes.set_xlabel("connections kept over connections live (mean)")
    axes.set_ylabel("cycles per packet")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
    return to_svg(figure)


def draw(results):
    with pyplot.rc_context(STYLE):
        return [{"cycles": cycles(result), "kept": kept(result), "late": late(result),
                 "pauses": pauses(result), "zero_loss": zero_loss(result), "trade": trade(result)}
                for result in results]
