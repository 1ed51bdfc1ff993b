# SPDX-License-Identifier: BSD-2-Clause
"""Documents of `sheaf infer bench` (schema sheaf-infer-bench-1, docs/results.md), for report.py."""

SCHEMA = "sheaf-infer-bench-1"
TEMPLATE = "report_infer.html.j2"
SERIES_MAX = 256
POINTS_MAX = 64

NUMBERS = ("batch", "batches", "flows_per_s", "flows_per_cpu_s", "p50_us", "p99_us", "p999_us", "cpu")


def is_gpu(series):
    return series["backend"].startswith("cuda")


def series_of(node, refused):
    points = [{name: point.number(name) for name in NUMBERS} for point in node.nodes("points")]
    if len(points) > POINTS_MAX:
        raise refused(f"points: expected at most {POINTS_MAX}")
    backend, wait, inflight = node.text("backend") or "?", node.text("wait"), node.number("inflight")
    name = backend + (f", wait {wait}" if wait else "")
    if inflight is not None and inflight > 1:
        name += f", {inflight:g} in flight"
    why = node.text("why")
    double = "TEST DOUBLE" in (why or "")
    return {"backend": backend, "name": ("TEST DOUBLE: " if double else "") + name, "why": why,
            "ran": bool(node.flag("ran")), "break_even": node.number("break_even_batch"), "double": double,
            "points": sorted((p for p in points if p["batch"]), key=lambda p: p["batch"])}


def verdict_of(series):
    """What a GPU's line says against one core of the CPU, in words; None: not a GPU's."""
    if not is_gpu(series):
        return None
    if not series["ran"]:
        return f"not measured: {series['why'] or 'it did not run'}"
    told = f"from batches of {series['break_even']:,.0f} on" if series["break_even"] else \
        "not within these batches"
    return told + (" (a test double: no GPU's number)" if series["double"] else "")


def facts_of(node):
    model = node.node("model")
    facts = [(name, node.text(name)) for name in ("command", "cpu", "date")]
    facts += [("seed", node.number("seed")), ("model", model.text("text"))]
    facts += [(name, model.number(name)) for name in ("inputs", "classes", "parameters", "macs")]
    return [(label, f"{value:.12g}" if isinstance(value, float) else str(value))
            for label, value in facts if value not in (None, "")]


def read(name, node, refused):
    """What the page shows of one document. refused: the exception for what cannot be shown."""
    nodes = node.nodes("backends")
    if not nodes or len(nodes) > SERIES_MAX:
        raise refused(f"backends: expected 1 to {SERIES_MAX}")
    series = [series_of(each, refused) for each in nodes]
    told = [(each["name"], verdict_of(each)) for each in series if is_gpu(each)]
    return {"name": name, "facts": facts_of(node), "series": series, "break_even": told,
            "model": node.node("model").text("text") or "?"}
