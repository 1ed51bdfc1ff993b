# SPDX-License-Identifier: BSD-2-Clause
"""Documents of `sheaf bench deletion` (schema sheaf-bench-deletion-1, docs/results.md), for report.py."""

import report_counters

SCHEMA = "sheaf-bench-deletion-1"
TEMPLATE = "report_deletion.html.j2"
STRATEGIES_MAX = 64
POINTS_MAX = 4096

COSTS = ("cycles_per_packet", "cycles_min", "cycles_max", "packets_cycles", "maintenance_cycles",
         "longest_call_cycles", "longest_call_entries", "inserted", "removed", "refused",
         "evicted_live", "late_p50_ns", "late_p99_ns", "late_max_ns", "resident_per_live",
         "resident_max_per_live", "bytes_per_entry", "zero_loss_packets_per_s")
BURSTS = ("insert_cycles", "removal_cycles", "packet_cycles", "reinsert_cycles",
          "longest_call_cycles", "longest_call_entries", "calls", "left")
KNOBS = ("interval", "budget", "slots")


def numbers(node, names):
    return {name: node.number(name) for name in names}


def curve_of(node, name, refused):
    """The points of a distribution: [[ns, share], ...]."""
    pairs = node.items(name)
    if len(pairs) > POINTS_MAX:
        raise refused(f"{node.path}{name}: expected at most {POINTS_MAX} points")
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or any(
                isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e250
                for value in pair):
            raise refused(f"{node.path}{name}: expected pairs of numbers")
    return [(float(value), float(share)) for value, share in pairs]


def judge_of(node, refused):
    if not node.value:
        return None
    return {"failures": sum(count or 0 for _, count in node.numbers("failures")),
            "first_failure": node.text("first_failure"),
            "stale_hits": node.number("stale_hits"), "packets": node.number("packets"),
            "late": curve_of(node, "late_cdf", refused)}


def strategy_of(node, refused):
    curves = node.node("curves")
    burst = node.node("burst")
    return {"name": node.text("deletion") or "?", "summary": node.text("summary"),
            "table": node.text("table"), "works": node.flag("works"),
            "knobs": node.numbers("knobs"), "cost": numbers(node.node("cost"), COSTS),
            "burst": numbers(burst, BURSTS) if burst.value else None,
            "judge": judge_of(node.node("judge"), refused),
            "curves": [(knob, [{"value": point.number("value"), **numbers(point, COSTS)}
                               for point in curves.nodes(knob)]) for knob in KNOBS]}


def facts_of(node):
    facts = [(name, node.text(name)) for name in ("command", "cpu", "trace", "preset", "date")]
    facts += [(name, node.number(name)) for name in (
        "packets", "duration_ns", "warm", "timeout_ns", "conns", "live_max", "live_mean", "due",
        "packets_per_burst", "ring", "repeats", "seed", "tsc_hz")]
    hints = node.flag("close_hints")
    facts.append(("close_hints", None if hints is None else "on" if hints else "off"))
    return [(label, f"{value:.12g}" if isinstance(value, float) else str(value))
            for label, value in facts if value not in (None, "")]


def read(name, node, refused):
    """What the page shows of one document. refused: the exception for what cannot be shown."""
    nodes = node.nodes("strategies")
    if not nodes or len(nodes) > STRATEGIES_MAX:
        raise refused(f"strategies: expected 1 to {STRATEGIES_MAX}")
    return {"name": name, "facts": facts_of(node), "tsc_hz": node.number("tsc_hz"),
            "counters": report_counters.counted(
                node, [(row.text("deletion") or "?", row) for row in nodes], "packet"),
            "due": node.number("due"), "packets": node.number("packets"),
            "strategies": [strategy_of(strategy, refused) for strategy in nodes]}
