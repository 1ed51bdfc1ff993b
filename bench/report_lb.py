# SPDX-License-Identifier: BSD-2-Clause
"""Documents of `sheaf bench lb` (schema sheaf-bench-lb-1, docs/results.md), for report.py."""

import report_counters

SCHEMA = "sheaf-bench-lb-1"
TEMPLATE = "report_lb.html.j2"
POLICIES_MAX = 64
CHANGES_MAX = 4096

COUNTS = ("packets", "connections", "moved_packets", "broken_connections", "orphaned_connections",
          "dropped_packets", "passed_packets", "untracked_packets", "inserted", "peak_live",
          "insert_failures", "not_admitted", "state_bytes", "imbalance", "cycles_per_packet",
          "cycles_min", "cycles_max")
# The two ways in which each policy is run: field, name.
WAYS = (("calm", "without the flood"), ("flood", "under the flood"))


def way_of(node):
    return {name: node.number(name) for name in COUNTS} if node.value else None


def policy_of(node):
    return {"name": node.text("policy") or "?",
            **{way: way_of(node.node(way)) for way, _ in WAYS}}


def facts_of(node):
    facts = [(name, node.text(name)) for name in ("command", "cpu", "trace", "date")]
    facts += [(name, node.number(name)) for name in (
        "packets", "flood_packets", "left_out_packets", "duration_ns", "backends", "conns", "burst",
        "repeats", "seed", "tsc_hz")]
    return [(label, f"{value:.12g}" if isinstance(value, float) else str(value))
            for label, value in facts if value not in (None, "")]


def read(name, node, refused):
    """What the page shows of one document. refused: the exception for what cannot be shown."""
    policies, changes = node.nodes("policies"), node.nodes("changes")
    if not policies or len(policies) > POLICIES_MAX:
        raise refused(f"policies: expected 1 to {POLICIES_MAX}")
    if len(changes) > CHANGES_MAX:
        raise refused(f"changes: expected at most {CHANGES_MAX}")
    counted = [(f"{policy.text('policy') or '?'}, {label}", policy.node(way))
               for way, label in WAYS for policy in policies]
    return {"name": name, "facts": facts_of(node), "ways": WAYS,
            "counters": report_counters.counted(node, counted, "packet"),
            "changes": [{"at_ns": change.number("at_ns"), "action": change.text("action"),
                         "backend": change.text("backend")} for change in changes],
            "policies": [policy_of(policy) for policy in policies]}
