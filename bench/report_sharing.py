# SPDX-License-Identifier: BSD-2-Clause
"""Documents of `sheaf bench sharing` (schema sheaf-bench-sharing-1, docs/results.md), for report.py."""

import report_counters

SCHEMA = "sheaf-bench-sharing-1"
TEMPLATE = "report_sharing.html.j2"
ROWS_MAX = 1024

COUNTS = ("workers", "packets_per_s", "scaling", "fairness", "cycles_per_packet", "cycles_max",
          "refused_pool", "refused_bucket", "contended", "retries", "lost_races", "bytes_per_entry")
DUMPS = ("places", "views", "seconds", "cycles_per_packet", "cycles_without")
HANDOVERS = ("buckets", "pauses", "pause_mean_ns", "pause_max_ns", "given_mean_ns", "given_max_ns",
             "kept_packets", "reordered_packets")


def numbers(node, names):
    return {name: node.number(name) for name in names} if node.value else None


def dump_of(node):
    # what a dump costs is a difference of two measurements, and small ones come out negative
    return {**numbers(node, DUMPS), "cycles_per_place": node.difference("cycles_per_place")} \
        if node.value else None


def judge_of(node):
    if not node.value:
        return None
    return {"failures": node.number("failures"), "refused": node.number("refused"),
            "first_failure": node.text("first_failure")}


def row_of(node):
    return {"name": node.text("sharing") or "?", "works": node.flag("works"),
            **{name: node.number(name) for name in COUNTS},
            "dump": dump_of(node.node("dump")),
            "handover": numbers(node.node("handover"), HANDOVERS),
            "judge": judge_of(node.node("judge"))}


def models_of(nodes):
    """Name, summary and guarantee of each model, once."""
    found = {}
    for node in nodes:
        found.setdefault(node.text("sharing") or "?", (node.text("summary"), node.text("guarantee")))
    return [(name, *texts) for name, texts in found.items()]


def facts_of(node):
    facts = [(name, node.text(name)) for name in ("command", "cpu", "trace", "tracked", "date")]
    facts += [(name, node.number(name)) for name in (
        "cpus", "packets", "flows", "duration_ns", "timeout_ns", "conns", "moves",
        "packets_per_burst", "rounds", "seed", "tsc_hz")]
    return [(label, f"{value:.12g}" if isinstance(value, float) else str(value))
            for label, value in facts if value not in (None, "")]


def read(name, node, refused):
    """What the page shows of one document. refused: the exception for what cannot be shown."""
    nodes = node.nodes("models")
    if not nodes or len(nodes) > ROWS_MAX:
        raise refused(f"models: expected 1 to {ROWS_MAX}")
    return {"name": name, "facts": facts_of(node), "cpus": node.number("cpus"),
            "counters": report_counters.counted(node, [
                (f"{row.text('sharing') or '?'}, workers {row.number('workers') or 0:.0f}", row)
                for row in nodes], "packet"),
            "models": models_of(nodes), "rows": [row_of(row) for row in nodes]}
