#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Render results documents as one self-contained HTML page.

Usage: report.py -o OUT.html FILE.json...

Takes documents of the schemas sheaf-result-1 and sheaf-comparison-1 (docs/results.md), or of one of
the benchmarks that have a page of their own. Values that a document lacks are shown as not given; a
file that is not such a document, or holds a value of another type than documented, is refused with
one line that names it.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import report_counters
import report_deletion
import report_infer
import report_lb
import report_sharing
import report_tables

FILE_BYTES_MAX = 64 << 20
EXIT_INPUT, EXIT_RUN = 2, 3  # as sheaf's own
RESULTS_MAX = 64
TEXT_MAX = 300
CDF_POINTS_MAX = 4096
NUMBER_MAX = 1e250  # leaves axes with logarithms room for their margins
RESULT_SCHEMA = "sheaf-result-1"
COMPARISON_SCHEMA = "sheaf-comparison-1"
# Benchmarks with a page of their own: a module that reads, and the name of one that draws.
PAGES = {page.SCHEMA: (page, page.__name__ + "_figures")
         for page in (report_deletion, report_infer, report_lb, report_sharing, report_tables)}


class Refused(Exception):
    """A one-line reason, without the file's name."""


class Node:
    """A read-only view of a JSON object that checks types as values are taken."""

    def __init__(self, value, path=""):
        self.value = value
        self.path = path

    def _get(self, key, kinds, expected):
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Refused(f"{self.path}{key}: expected {expected}")
        return value

    def number(self, key):
        value = self._get(key, (int, float), "a number")
        if value is not None and not 0 <= value < NUMBER_MAX:
            raise Refused(f"{self.path}{key}: expected a number that is not negative")
        return value

    def difference(self, key):
        """A number that may be negative."""
        value = self._get(key, (int, float), "a number")
        if value is not None and not -NUMBER_MAX < value < NUMBER_MAX:
            raise Refused(f"{self.path}{key}: expected a number")
        return value

    def text(self, key):
        value = self._get(key, (str,), "text")
        return value if value is None else value[:TEXT_MAX]

    def flag(self, key):
        return self._get(key, (bool,), "true or false")

    def items(self, key):
        return self._get(key, (list,), "a list") or []

    def node(self, key):
        return Node(self._get(key, (dict,), "an object") or {}, f"{self.path}{key}.")

    def nodes(self, key):
        found = []
        for index, value in enumerate(self.items(key)):
            if not isinstance(value, dict):
                raise Refused(f"{self.path}{key}[{index}]: expected an object")
            found.append(Node(value, f"{self.path}{key}[{index}]."))
        return found

    def texts(self, key):
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise Refused(f"{self.path}{key}: expected a list of texts")
        return [value[:TEXT_MAX] for value in values]

    def numbers(self, key):
        """A flat object of counts, as pairs."""
        node = self.node(key)
        return [(name[:TEXT_MAX], node.number(name)) for name in node.value]


# ---- reading ---------------------------------------------------------------------------------


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def load(path):
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise Refused("larger than any results document")
        document = json.loads(path.read_bytes(), parse_constant=refuse_constant)
    except OSError as error:
        raise Refused(error.strerror or "cannot be read") from error
    except RecursionError as error:
        raise Refused("not a results document: nested too deeply") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise Refused(f"not JSON: {str(error).splitlines()[0][:TEXT_MAX]}") from error
    if not isinstance(document, dict):
        raise Refused("not a results document: expected an object")
    return Node(document)


def runs_of(node, stem):
    """(name, document) of every run in a file."""
    schema = node.text("schema")
    if schema == RESULT_SCHEMA:
        return [(stem, node)]
    if schema in PAGES:
        raise Refused(f"schema {schema!r}: expected documents of one kind on a page")
    if schema != COMPARISON_SCHEMA:
        expected = ", ".join((RESULT_SCHEMA, COMPARISON_SCHEMA, *PAGES))
        raise Refused(f"schema {schema!r}: expected one of {expected}")
    runs = []
    for index, run in enumerate(node.nodes("runs")):
        name = run.text("name") or f"{stem} {index + 1}"
        runs.append((name, run.node("result") if "result" in run.value else run))
    if not runs:
        raise Refused("runs: expected at least one")
    return runs


STAGES = ("source", "parse", "reframer", "conntrack", "infer")


def cost_of(document):
    cost = document.node("cost")
    cycles = cost.node("cycles_per_packet")
    stages = [(name, cycles.number(name)) for name in STAGES]
    stages += cycles.numbers("chain")
    stages.append(("sink", cycles.number("sink")))
    total = cycles.number("total")
    known = [(name, value) for name, value in stages if value is not None]
    if total is not None and known:
        rest = total - sum(value for _, value in known)
        if rest > 0:
            known.append(("loop", rest))
    return {
        "packets_per_s": cost.number("packets_per_s"),
        "bits_per_s": cost.number("bits_per_s"),
        "total": total,
        "total_min": cost.number("total_min"),
        "total_max": cost.number("total_max"),
        "stages": known,
        "repeats": cost.number("repeats"),
        "spread": cost.number("spread"),
        "not_measured": cost.texts("not_measured"),
    }


def hold_curve(reframer):
    points = []
    for point in reframer.items("hold_cdf")[:CDF_POINTS_MAX]:
        right = isinstance(point, list) and len(point) == 2 and all(
            isinstance(value, (int, float)) and not isinstance(value, bool)
            and 0 <= value < 1e18 for value in point)
        if not right:
            raise Refused("reframer.hold_cdf: expected pairs of numbers")
        points.append((float(point[0]), float(point[1])))
    return points


def reframer_of(document):
    node = document.node("reframer")
    names = ("slf_in", "slf_out", "hold_p50_ns", "hold_p99_ns", "hold_max_ns",
             "peak_held_packets", "peak_held_flows", "reorder_violations")
    found = {name: node.number(name) for name in names}
    found["enabled"] = node.flag("enabled")
    found["curve"] = hold_curve(node)
    releases = dict(node.numbers("releases"))
    packets = dict(node.numbers("release_packets"))
    found["releases"] = [
        (name, count, packets.get(name)) for name, count in releases.items() if count]
    return found


def conntrack_of(document):
    node = document.node("conntrack")
    names = ("inserted", "live", "expired", "closed", "evicted", "purged", "peak_live",
             "insert_failures", "lookups", "lookups_saved", "bytes_per_flow")
    return {name: node.number(name) for name in names}


def books_of(document):
    node = document.node("books")
    return {
        "read": node.number("read"),
        "forwarded": node.number("forwarded"),
        "held": node.number("held"),
        "dropped": [(name, count) for name, count in node.numbers("dropped") if count],
        "balanced": node.flag("balanced"),
    }


def facts_of(document):
    """What a reader needs to run it again, as (label, text)."""
    run = document.node("run")
    machine = run.node("machine")
    source = run.node("source")
    speed, overlay = run.number("speed"), run.number("overlay")
    pages = machine.flag("huge_pages")
    tracked, infer = run.node("conntrack"), run.node("infer")
    facts = [
        ("command", run.text("command")),
        ("captures", ", ".join(source.texts("files")) or source.text("port")),
        ("clock", run.text("clock")),
        ("speed", None if speed is None else f"{speed:g} times as captured"),
        ("copies played together", overlay),
        ("passes", run.number("loops")),
        ("workers", run.number("workers")),
        ("packets per burst", run.number("burst")),
        ("seed", run.number("seed")),
        ("connections between workers", run.text("sharing")),
        ("table", tracked.text("table")),
        ("deletion", tracked.text("deletion")),
        ("model", infer.text("model")),
        ("model runs on", infer.text("taken")),
        ("ablations", ", ".join(run.texts("ablations")) or "none"),
        ("CPU", machine.text("cpu")),
        ("CPUs usable", machine.number("cpus")),
        ("kernel", machine.text("kernel")),
        ("huge pages", None if pages is None else ("yes" if pages else "no")),
        ("memory", machine.text("memory")),
        ("compiler", machine.text("compiler")),
        ("flags", machine.text("flags")),
        ("version", run.text("version")),
        ("date", run.text("date")),
        ("message", run.text("message")),
    ]
    return [(label, str(value)) for label, value in facts if value not in (None, "")]


def inference_of(document):
    """What became of the flows that a model was asked about; None without inference."""
    node = document.node("gpu_offload")
    if not node.value:
        return None
    flows, packets = node.node("flows"), node.node("packets")
    labels = list(zip(node.texts("label_names"), node.items("labels")))
    if not all(type(count) in (int, float) and 0 <= count < NUMBER_MAX for _, count in labels):
        raise Refused("gpu_offload.labels: expected a list of counts")
    names = ("seen", "asked", "answered", "rejected", "expired", "failed", "stale", "steered")
    return {
        "flows": [(name, flows.number(name)) for name in names],
        "packets": [(name, packets.number(name))
                    for name in ("before_answer", "held", "marked", "dropped")],
        "labels": [(name, count) for name, count in labels if count],
        "answer_ns": node.node("batches").node("answer_ns").number("p99"),
        "rows_mean": node.node("batches").number("rows_mean"),
    }


def locks_of(document):
    """How workers waited for each other; None when each had connections of its own."""
    node = document.node("cost").node("locks")
    if not node.value:
        return None
    return {name: node.number(name) for name in ("taken", "contended", "waited_share")}


def trace_of(document):
    node = document.node("trace")
    names = ("packets", "wire_bytes", "captured_bytes", "flows", "duration_ns", "slf",
             "damages_count")
    return {name: node.number(name) for name in names}


def chain_of(document):
    functions = []
    for node in document.nodes("chain"):
        drops = [(name, count) for name, count in node.numbers("drops") if count]
        functions.append({"name": node.text("name"), "in": node.number("in"),
                          "out": node.number("out"), "drops": drops})
    return functions


def result_of(name, document):
    return {
        "name": name,
        "trace": trace_of(document),
        "reframer": reframer_of(document),
        "conntrack": conntrack_of(document),
        "inference": inference_of(document),
        "locks": locks_of(document),
        "chain": chain_of(document),
        "cost": cost_of(document),
        "counted": report_counters.rows_of([(name, document.node("cost"))]),
        "books": books_of(document),
        "facts": facts_of(document),
    }


def read_pages(nodes, page):
    """The same for a benchmark with a page of its own."""
    results = []
    for path, node in nodes:
        schema = node.text("schema")
        try:
            if schema != page.SCHEMA:
                raise Refused(f"schema {schema!r}: expected {page.SCHEMA}, as the first file's")
            results.append(page.read(path.stem, node, Refused))
        except Refused as error:
            raise Refused(f"{path}: {error}") from error
    return results


def load_all(paths):
    nodes = []
    for path in paths:
        try:
            node = load(path)
            node.text("schema")
        except Refused as error:
            raise Refused(f"{path}: {error}") from error
        nodes.append((path, node))
    return nodes


def read_results(nodes):
    results = []
    for path, node in nodes:
        try:
            for name, document in runs_of(node, path.stem):
                results.append(result_of(name, document))
        except Refused as error:
            raise Refused(f"{path}: {error}") from error
        if len(results) > RESULTS_MAX:
            raise Refused(f"{path}: more than {RESULTS_MAX} results for one page")
    names = [result["name"] for result in results]
    for index, result in enumerate(results):
        if names.count(result["name"]) > 1:
            result["name"] = f"{result['name']} ({index + 1})"
    return results


# ---- writing numbers for people --------------------------------------------------------------

NONE = "–"


def grouped(value):
    if value is None:
        return NONE
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def decimal(value, digits=2):
    return NONE if value is None else f"{value:,.{digits}f}"


def scaled(value, units):
    """Three digits with the largest unit that keeps the number at 1 or above."""
    if value is None:
        return NONE
    for factor, unit in units:
        if value >= factor:
            break
    else:
        factor, unit = units[-1]
    return f"{value / factor:#.3g}".rstrip(".") + f" {unit}"


def duration(value):
    return "0" if value == 0 else scaled(value, ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")))


def rate(value):
    return scaled(value, ((1e9, "Gpps"), (1e6, "Mpps"), (1e3, "kpps"), (1, "pps")))


def size(value):
    return scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def percent(value):
    return NONE if value is None else f"{100 * value:.1f} %"


def saved(conntrack):
    probes, shared = conntrack["lookups"], conntrack["lookups_saved"]
    if probes is None or shared is None or probes + shared == 0:
        return None
    return shared / (probes + shared)


def environment_of():
    import jinja2  # pylint: disable=import-outside-toplevel
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).resolve().parent),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        grouped=grouped, decimal=decimal, duration=duration, rate=rate, size=size,
        percent=percent)
    environment.globals["saved"] = saved
    return environment


def render(results):
    import report_figures  # pylint: disable=import-outside-toplevel
    missing = []
    for result in results:
        missing += [line for line in result["cost"]["not_measured"] if line not in missing]
    # Why there are no counters stands with what else was not measured.
    counted = {"rows": [row for result in results for row in result["counted"]], "missing": [],
               "columns": [name for _, name in report_counters.EVENTS], "operation": "packet"}
    return environment_of().get_template("report.html.j2").render(
        results=results, figures=report_figures.draw(results), missing=missing, counted=counted)


def render_page(results, page, drawing):
    import importlib  # pylint: disable=import-outside-toplevel
    figures = importlib.import_module(drawing).draw(results)
    return environment_of().get_template(page.TEMPLATE).render(results=results, figures=figures)


def main():
    parser = argparse.ArgumentParser(
        prog="report.py", description="Render sheaf's results as one HTML page.")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.html", type=pathlib.Path)
    parser.add_argument("files", nargs="+", metavar="FILE.json", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        nodes = load_all(arguments.files)
        page, drawing = PAGES.get(nodes[0][1].text("schema"), (None, None))
        results = read_pages(nodes, page) if page else read_results(nodes)
    except Refused as error:
        print(f"sheaf: report: {error}", file=sys.stderr)
        return EXIT_INPUT
    # Matplotlib keeps a font list in the home directory; leave that alone.
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["MPLCONFIGDIR"] = scratch
        try:
            text = render_page(results, page, drawing) if page else render(results)
        except ImportError as error:
            print(f"sheaf: report: {error.name} is missing: install python3-matplotlib and "
                  "python3-jinja2", file=sys.stderr)
            return EXIT_RUN
    try:
        # JSON may hold halves of surrogate pairs, which no page can.
        arguments.output.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        print(f"sheaf: report: {arguments.output}: {error.strerror}", file=sys.stderr)
        return EXIT_RUN
    return 0


if __name__ == "__main__":
    sys.exit(main())
