# SPDX-License-Identifier: BSD-2-Clause
"""Documents of `sheaf bench tables` (schema sheaf-bench-tables-1, docs/results.md), for report.py."""

import report_counters

SCHEMA = "sheaf-bench-tables-1"
TEMPLATE = "report_tables.html.j2"
CELLS_MAX = 4096

# What is drawn beside lookups: field, name.
CHANGES = (("insert_cycles", "insert"), ("open_cycles", "open"), ("remove_cycles", "remove"))


def cost_of(node, key):
    """{median, min, max}; None when it was not measured."""
    cost = node.node(key)
    found = {name: cost.number(name) for name in ("median", "min", "max")}
    return found if None not in found.values() else None


def cell_of(node):
    lookups = []
    for lookup in node.nodes("lookup"):
        lookups.append((lookup.number("hit_ratio"), cost_of(lookup, "cycles")))
    cell = {"table": node.text("table"), "places": node.number("places"),
            "load": node.number("load"), "lookups": lookups,
            "refused": node.number("refused"), "bytes_per_pair": node.number("bytes_per_pair"),
            "fill_cycles": cost_of(node, "fill_cycles")}
    for key, _ in CHANGES:
        cell[key] = cost_of(node, key)
    return cell


def full_of(node):
    names = ("places", "first_refused_pairs", "attempts", "refused")
    found = {name: node.number(name) for name in names}
    found["table"] = node.text("table")
    found["no_place"] = cost_of(node, "no_place_cycles")
    found["at_bound"] = cost_of(node, "at_bound_cycles")
    return found


def tables_of(node):
    names = ("name", "summary", "library", "differs", "not_measured")
    return [{name: table.text(name) for name in names} for table in node.nodes("tables")]


def facts_of(node):
    facts = [(name, node.text(name)) for name in
             ("command", "cpu", "kernel", "flags", "memory", "order", "version", "date")]
    facts += [(name, node.number(name)) for name in ("burst", "repeats", "seed")]
    return [(label, str(value)) for label, value in facts if value not in (None, "")]


def sizes_of(cells, full):
    """One group for each number of places, with what belongs to it."""
    sizes = []
    for places in sorted({cell["places"] or 0 for cell in cells}):
        here = [cell for cell in cells if cell["places"] == places]
        sizes.append({"places": places, "cells": here,
                      "loads": sorted({cell["load"] or 0 for cell in here}),
                      "full": [row for row in full if row["places"] == places]})
    return sizes


def counted_of(cells):
    """Label and node of everything in the cells that may have been counted."""
    for cell in cells:
        table = (f"{cell.text('table') or '?'}, {cell.number('places') or 0:,.0f} places, "
                 f"load {cell.number('load') or 0:g}")
        for lookup in cell.nodes("lookup"):
            yield (f"{table}: hits {100 * (lookup.number('hit_ratio') or 0):.0f} %",
                   lookup.node("cycles"))
        for key, change in CHANGES:
            yield f"{table}: {change}", cell.node(key)


def read(name, node, refused):
    """What the page shows of one document. refused: the exception for what cannot be shown."""
    nodes = node.nodes("cells")
    if not nodes or len(nodes) > CELLS_MAX:
        raise refused(f"cells: expected 1 to {CELLS_MAX}")
    cells = [cell_of(cell) for cell in nodes]
    full = [full_of(row) for row in node.nodes("full")]
    return {"name": name, "facts": facts_of(node), "tables": tables_of(node),
            "counters": report_counters.counted(node, counted_of(nodes), "operation"),
            "sizes": sizes_of(cells, full), "changes": CHANGES}
