# SPDX-License-Identifier: BSD-2-Clause
"""Hardware counters in any document (docs/results.md), for report.py's pages."""

EVENTS = (("instructions", "instructions"), ("cycles", "core cycles"),
          ("llc_misses", "LLC misses"), ("l1d_misses", "L1D misses"),
          ("dtlb_misses", "dTLB misses"), ("branch_misses", "branch misses"))


def rows_of(named):
    """(label, value of each event) for those nodes that were counted. named: (label, node) pairs."""
    rows = []
    for label, node in named:
        group = node.node("hardware_counters")
        if group.value:
            rows.append((label, [group.number(event) for event, _ in EVENTS]))
    return rows


def counted(node, named, operation):
    """What a page shows of a document: the table, and why something is not in it."""
    missing = [line.split(": ", 1)[1] for line in node.texts("not_measured")
               if line.startswith("hardware_counters: ")]
    return {"rows": rows_of(named), "columns": [name for _, name in EVENTS],
            "operation": operation, "missing": missing}
