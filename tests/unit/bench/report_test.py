#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench/report.py: pages from good, partial and hostile documents.

Usage: report_test.py REPORT.py
"""

import copy
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from report_page import Page

REPORT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "bench/report.py").resolve()
SVG_NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")


def document(scale=1.0, reframer=True):
    """A document with what the page shows; numbers are made up."""
    curve = [[1000 * step, min(1.0, step / 60)] for step in range(1, 65)]
    return {
        "schema": "sheaf-result-1",
        "run": {"command": "sheaf replay a.pcap", "clock": "virtual", "speed": 24.0,
                "workers": 1, "burst": 64, "seed": 1, "loops": 1, "overlay": 64,
                "ablations": [], "source": {"files": ["a.pcap"]}, "version": "0.1.0",
                "date": "2026-01-01T00:00:00Z", "message": None,
                "machine": {"cpu": "a CPU", "cpus": 2, "kernel": "Linux", "huge_pages": False,
                            "memory": "no huge pages: slower", "compiler": "gcc 12",
                            "flags": "-O3"}},
        "trace": {"packets": 11716, "wire_bytes": 5196493, "captured_bytes": 1000000,
                  "flows": 900, "duration_ns": 5812109692, "slf": 1.31, "damages_count": 0},
        "reframer": {"enabled": reframer, "slf_in": 1.31, "slf_out": 4.2 if reframer else 1.31,
                     "hold_p50_ns": 31000 if reframer else None,
                     "hold_p99_ns": 64000 if reframer else None,
                     "hold_max_ns": 64000 if reframer else None,
                     "hold_cdf": curve if reframer else [], "peak_held_packets": 211,
                     "peak_held_flows": 100, "reorder_violations": 0,
                     "releases": {"delay": 1000, "run_full": 0},
                     "release_packets": {"delay": 4000, "run_full": 0}},
        "conntrack": {"inserted": 900, "live": 0, "expired": 300, "closed": 600, "evicted": 0,
                      "purged": 0, "peak_live": 500, "insert_failures": 0, "lookups": 5000,
                      "lookups_saved": 6716, "bytes_per_flow": 152.5},
        "chain": [{"name": "stats", "in": 11716, "out": 11716, "drops": {}},
                  {"name": "router", "in": 11716, "out": 11700, "drops": {"ttl_expired": 16}}],
        "gpu_offload": None,
        "cost": {"packets_per_s": 6.1e6 / scale, "bits_per_s": 2e10,
                 "cycles_per_packet": {"total": 360.0 * scale, "source": 40.0 * scale,
                                       "parse": 45.0 * scale,
                                       "reframer": 60.0 if reframer else None,
                                       "conntrack": 80.0 * scale,
                                       "chain": {"stats": 20.0 * scale, "router": 30.0 * scale,
                                                 "firewall": 35.0 * scale},
                                       "sink": 10.0 * scale},
                 "repeats": 5, "spread": 0.04, "total_min": 355.0 * scale,
                 "total_max": 370.0 * scale, "tsc_hz": 2.4e9, "elapsed_s": 0.1,
                 "not_measured": ["hardware_counters: none here"]},
        "books": {"read": 11716, "forwarded": 11700, "dropped": {"ttl_expired": 16}, "held": 0,
                  "balanced": True},
    }


def comparison():
    return {"schema": "sheaf-comparison-1", "runs": [
        {"name": "baseline", "result": document(1.4, False)},
        {"name": "reframer", "result": document()},
        {"name": "no-prefetch", "result": document(2.0)}]}


def tables_document():
    """What `sheaf bench tables` writes; numbers are made up."""
    def cost(median):
        return {"median": median, "min": 0.9 * median, "max": 1.2 * median, "each": [median]}

    cells = [{"table": name, "places": places, "load": load, "pairs": int(places * load),
              "refused": 0, "bytes": 1000, "bytes_per_pair": 12.5,
              "lookup": [{"hit_ratio": ratio, "cycles": cost(base + 10 * load + 5 * ratio)}
                         for ratio in (1, 0)],
              "insert_cycles": cost(base), "open_cycles": cost(2 * base),
              "remove_cycles": None, "fill_cycles": cost(base), "bursts_interrupted": 0}
             for places in (65536, 1048576) for load in (0.5, 0.8)
             for name, base in (("bucket", 25.0), ("rte_hash", 61.25))]
    full = [{"table": "bucket", "places": places, "first_refused_pairs": places,
             "pairs": places, "attempts": 10, "refused": 10, "no_place_cycles": None,
             "at_bound_cycles": cost(4.5)} for places in (65536, 1048576)]
    return {"schema": "sheaf-bench-tables-1", "version": "0.1.0", "command": "sheaf bench tables",
            "date": "2026-01-01T00:00:00Z", "cpu": "a CPU", "kernel": "Linux", "flags": "-O3",
            "memory": "plain pages", "burst": 64, "order": "uniform", "repeats": 3, "seed": 1,
            "tsc_hz": 2e9,
            "tables": [{"name": "bucket", "summary": "lines", "library": None, "differs": None,
                        "not_measured": None},
                       {"name": "ck_ht", "not_measured": "built without it"}],
            "cells": cells, "full": full}


class ReportTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out = self.folder / "out.html"

    def report(self, *documents):
        paths = []
        for index, value in enumerate(documents):
            path = self.folder / f"result{index}.json"
            if isinstance(value, bytes):
                path.write_bytes(value)
            else:
                path.write_text(json.dumps(value))
            paths.append(path)
        return subprocess.run([sys.executable, REPORT, "-o", self.out, *paths],
                              capture_output=True, text=True, timeout=120, check=False)

    def page(self, *documents):
        done = self.report(*documents)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.out.read_text(encoding="utf-8")

    def refused(self, value, expected):
        done = self.report(value)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("result0.json", done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertFalse(self.out.exists())

    def test_a_comparison_shows_every_run_and_plot(self):
        text = self.page(comparison())
        page = Page(text)
        for word in ("baseline", "reframer", "no-prefetch", "6.10 Mpps", "360.0", "balanced",
                     "hardware_counters"):
            self.assertIn(word, page.text)
        self.assertEqual(page.tags.count("svg"), 5)

    def test_nothing_is_fetched_from_outside(self):
        text = self.page(document())
        page = Page(text)
        for link in page.links:
            self.assertTrue(link.startswith("#"), link)
        found = set(re.findall(r"https?://[^\"'<> ]+", text))
        self.assertLessEqual(found, set(SVG_NAMESPACES))
        self.assertNotIn("script", page.tags)

    def test_strings_of_a_document_never_become_markup(self):
        value = comparison()
        evil = "<script>alert(1)</script>\"'--><img src=x onerror=1> $\\frac{1}$ \u202e\0"
        value["runs"][0]["name"] = evil
        run = value["runs"][0]["result"]
        run["run"]["command"] = run["chain"][0]["name"] = run["run"]["machine"]["cpu"] = evil
        run["books"]["dropped"] = {evil: 3}
        run["cost"]["cycles_per_packet"]["chain"] = {evil: 3.0}
        run["reframer"]["releases"] = {evil: 3}
        run["cost"]["not_measured"] = [evil]
        page = Page(self.page(value))
        self.assertNotIn("script", page.tags)
        self.assertNotIn("img", page.tags)
        self.assertEqual(page.handlers, [])
        self.assertIn("<script>alert(1)</script>", page.text)

    def test_missing_sections_are_shown_as_not_given(self):
        for value in ({}, {"cost": {}}, {"reframer": {"slf_in": 2}}, {"chain": [{}]}):
            text = self.page({"schema": "sheaf-result-1", **value})
            self.assertIn("–", text)

    def test_a_replay_shows_inference_and_locks(self):
        value = document()
        value["cost"]["cycles_per_packet"]["infer"] = 70.0  # with the other stages, the total
        value["cost"]["cycles_per_packet"]["total"] = 390.0
        without = document()
        without["cost"]["cycles_per_packet"]["total"] = 390.0
        value["run"].update(sharing="mutex", infer={"model": "m.onnx", "taken": "cpu (AVX2)"})
        value["cost"]["locks"] = {"taken": 4711, "contended": 12, "waited_share": 0.052}
        value["gpu_offload"] = {
            "flows": {"seen": 884, "asked": 884, "answered": 883, "rejected": 1, "steered": 77},
            "packets": {"marked": 1234, "dropped": 321}, "labels": [800, 0, 83],
            "label_names": ["web", "mail", "bulk"],
            "batches": {"rows_mean": 6.5, "answer_ns": {"p99": 1100000}}}
        page = self.page(value)
        for text in ("m.onnx", "cpu (AVX2)", "mutex", "4,711", "5.2 %", "883", "1,234", "web", "bulk"):
            self.assertIn(text, page)
        self.assertNotIn("mail", page)
        # A stage of the model's is a bar of its own, not time that no stage claims.
        self.assertIn("#c2517f", page)
        self.assertNotIn("#d0d5db", page)
        self.assertIn("#d0d5db", self.page(without))
        value["gpu_offload"]["labels"] = [1, "x", 2]
        self.out.unlink()
        self.refused(value, "gpu_offload.labels: expected a list of counts")

    def test_zeros_are_drawn(self):
        value = document()
        for section in ("trace", "reframer", "conntrack", "books", "cost"):
            for key, old in value[section].items():
                if isinstance(old, (int, float)) and not isinstance(old, bool):
                    value[section][key] = 0
        value["cost"]["cycles_per_packet"] = {"total": 0, "source": 0, "chain": {}}
        value["reframer"]["hold_cdf"] = [[0, 1.0]]
        self.page(value)

    def test_equal_names_are_told_apart(self):
        text = self.page(document(), document())
        self.assertIn("result0", text)
        value = comparison()
        value["runs"][1]["name"] = value["runs"][0]["name"] = "same"
        text = self.page(value)
        self.assertIn("same (1)", text)
        self.assertIn("same (2)", text)

    def test_unbalanced_books_are_marked(self):
        value = document()
        value["books"]["balanced"] = False
        self.assertIn("wrong", Page(self.page(value)).text)
        value = document()
        value["reframer"]["reorder_violations"] = 1
        self.assertIn("wrong", Page(self.page(value)).text)

    def test_what_is_not_a_document_is_refused_by_name(self):
        self.refused(b"", "not JSON")
        self.refused(b"\xff\xfe\x00", "not JSON")
        self.refused(b"{", "not JSON")
        self.refused(b'{"schema": "sheaf-result-1", "trace": {"flows": NaN}}', "not JSON")
        self.refused(b"[" * 100000, "not")
        self.refused([], "expected an object")
        self.refused({}, "schema")
        self.refused({"schema": "sheaf-result-2"}, "sheaf-result-2")
        self.refused({"schema": "sheaf-comparison-1", "runs": []}, "at least one")
        self.refused({"schema": "sheaf-comparison-1", "runs": [3]}, "runs[0]")

    def test_values_of_another_type_are_refused_by_name(self):
        for path, value in (
                ("trace.flows", "many"), ("trace.flows", True), ("trace.flows", -1),
                ("cost.total_min", [1]), ("cost.packets_per_s", 10 ** 400),
                ("books.balanced", 1), ("books.dropped", [1]), ("run.command", 3),
                ("chain", {}), ("reframer.hold_cdf", [[1, 2, 3]]),
                ("reframer.hold_cdf", [["a", 1]]), ("run.ablations", [1])):
            broken = copy.deepcopy(document())
            where = broken
            *parents, last = path.split(".")
            for key in parents:
                where = where[key]
            where[last] = value
            self.refused(broken, path)

    def test_tables_are_drawn_against_load(self):
        page = Page(self.page(tables_document()))
        for word in ("65,536 places", "1,048,576 places", "bucket", "rte_hash", "61.2", "12.5",
                     "built without it", "Load 80 %"):
            self.assertIn(word, page.text)
        self.assertEqual(page.tags.count("svg"), 4)
        self.assertEqual(Page(self.page(tables_document(), tables_document())).tags.count("svg"), 8)

    def test_tables_of_another_shape_are_refused_or_shown_as_not_given(self):
        value = tables_document()
        value["cells"][0]["lookup"] = value["full"] = []
        value["cells"][1]["insert_cycles"] = {"median": 3}
        self.page(value)
        for path, wrong in (("cells", []), ("cells", [3]), ("tables", [1]), ("cpu", 3)):
            self.out.unlink(missing_ok=True)
            self.refused({**tables_document(), path: wrong}, path)
        self.refused({**tables_document(), "cells": [{"places": "many"}]}, "places")

    def test_documents_of_two_kinds_do_not_share_a_page(self):
        for pair in ((tables_document(), document()), (document(), tables_document())):
            done = self.report(*pair)
            self.assertEqual(done.returncode, 2)
            self.assertIn("result1.json", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_strings_of_a_tables_document_never_become_markup(self):
        evil = "<script>alert(1)</script>\"'--><img src=x onerror=1> $\\frac{1}$ \u202e\0"
        value = tables_document()
        value["command"] = value["cpu"] = evil
        value["cells"][0]["table"] = value["full"][0]["table"] = evil
        value["tables"][0]["differs"] = value["tables"][1]["not_measured"] = evil
        page = Page(self.page(value))
        self.assertNotIn("script", page.tags)
        self.assertNotIn("img", page.tags)
        self.assertEqual(page.handlers, [])

    def test_a_file_that_is_not_there_is_refused_by_name(self):
        done = subprocess.run(
            [sys.executable, REPORT, "-o", self.out, self.folder / "absent.json"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("absent.json", done.stderr)

    def test_output_that_cannot_be_written_is_refused_by_name(self):
        self.out = self.folder / "no" / "such" / "out.html"
        done = self.report(document())
        self.assertEqual(done.returncode, 3)
        self.assertIn("out.html", done.stderr)


if __name__ == "__main__":
    for module in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(module) is None:
            print(f"{module} is missing")
            sys.exit(77)
    unittest.main(verbosity=1)
