# SPDX-License-Identifier: BSD-2-Clause
"""Figures for documents of `sheaf bench lb`: what policies cost, keep, and whom they hurt."""

from matplotlib import pyplot, ticker

from report_figures import INK, SERIES, STYLE, rows, to_svg
from report_lb import WAYS

HARM = (("broken_connections", "broken: moved while their backend was there"),
        ("orphaned_connections", "their backend was removed"))
HEIGHT = 0.36


def bars(result, heading, key, form, scale=1, low=None, high=None):
    """A bar for each policy and way; None when there is no value."""
    policies = result["policies"]
    if not any(policy[way] and policy[way][key] for policy in policies for way, _ in WAYS):
        return None
    figure, axes = rows(policies, heading, extra=1.4)
    for index, (way, name) in enumerate(WAYS):
        labelled = False
        for row, policy in enumerate(policies):
            value = policy[way][key] if policy[way] else None
            if value is None:
                continue
            at = row + (index - 0.5) * HEIGHT
            axes.barh(at, value / scale, height=HEIGHT, color=SERIES[index],
                      label=None if labelled else name)
            labelled = True
            edge = value / scale
            if low and policy[way][low] and policy[way][high]:
                axes.plot([policy[way][low] / scale, policy[way][high] / scale], [at, at],
                          color=INK, linewidth=1.2)
                edge = max(edge, policy[way][high] / scale)
            axes.annotate(form(value / scale), (edge, at), xytext=(5, 0),
                          textcoords="offset points", va="center", fontsize=8.5)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.legend(ncol=2, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def harm(result, way):
    policies = [policy for policy in result["policies"] if policy[way]]
    if not policies:
        return None
    figure, axes = rows(policies, "connections", extra=1.4)
    for row, policy in enumerate(policies):
        left = 0
        for index, (key, name) in enumerate(HARM):
            value = policy[way][key] or 0
            axes.barh(row, value, left=left, height=0.58, color=SERIES[(3, 5)[index]],
                      label=name if row == 0 else None)
            left += value
        axes.annotate(f"{left:,.0f}", (left, row), xytext=(5, 0), textcoords="offset points",
                      va="center", fontsize=9)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.legend(ncol=2, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=9)
    return to_svg(figure)


def draw(results):
    with pyplot.rc_context(STYLE):
        return [{
            "cycles": bars(result, "cycles per packet (time stamp counter)", "cycles_per_packet",
                           "{:,.1f}".format, low="cycles_min", high="cycles_max"),
            "state": bars(result, "state at the peak, MB", "state_bytes", "{:,.2f}".format, 1e6),
            "harm": [(name, harm(result, way)) for way, name in WAYS],
        } for result in results]
