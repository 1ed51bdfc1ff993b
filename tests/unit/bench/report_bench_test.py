#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pages of the benchmarks' documents: real ones, and ones that were tampered with.

Usage: report_bench_test.py REPORT.py SHEAF
"""

import copy
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from report_page import Page

REPORT, SHEAF = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
SEED = random.randrange(1 << 32)
TAMPERED = 12
EVIL = "<script>alert(1)</script>\"'--><img src=x onerror=1> $\\frac{1}$ \u202e\0"
BENCHES = {
    "deletion": (["--packets", "20k", "--due", "2000", "--repeat", "2", "--sweep"], 6,
                 "How late connections leave"),
    "sharing": (["--flows", "500", "--packets", "5000", "--rounds", "1", "--workers", "1,2"], 3,
                "Buckets handed over"),
    "lb": (["--flows", "500", "--packets", "5000", "--flood", "1", "--repeat", "2"], 4,
           "under the flood"),
}


def make(name):
    done = subprocess.run([SHEAF, "bench", name, *BENCHES[name][0], "--quiet", "--json", "-"],
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def places(value, path=()):
    """The path of every value inside a document."""
    inside = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*path, key)
        yield from places(one, (*path, key))


def put(document, path, value):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


class BenchReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.documents = {name: make(name) for name in BENCHES}

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out = self.folder / "out.html"

    def report(self, *documents):
        paths = []
        for index, value in enumerate(documents):
            paths.append(self.folder / f"result{index}.json")
            paths[-1].write_text(json.dumps(value))
        self.out.unlink(missing_ok=True)
        return subprocess.run([sys.executable, REPORT, "-o", self.out, *paths],
                              capture_output=True, text=True, timeout=120, check=False)

    def page(self, *documents):
        done = self.report(*documents)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return Page(self.out.read_text(encoding="utf-8"))

    def test_each_benchmark_has_a_page_with_its_figures(self):
        for name, (_, figures, heading) in BENCHES.items():
            with self.subTest(name=name):
                page = self.page(self.documents[name])
                self.assertEqual(page.tags.count("svg"), figures)
                self.assertIn(heading, page.text)

    def test_two_documents_of_a_kind_share_a_page_and_two_kinds_do_not(self):
        for name in BENCHES:
            page = self.page(self.documents[name], self.documents[name])
            self.assertEqual(page.tags.count("svg"), 2 * BENCHES[name][1])
        done = self.report(*self.documents.values())
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("result1.json", done.stderr)

    def test_strings_of_a_document_never_become_markup(self):
        for name, document in self.documents.items():
            value = copy.deepcopy(document)
            for path in list(places(value)):
                where = value
                for key in path:
                    where = where[key]
                if isinstance(where, str) and path != ("schema",):
                    put(value, path, EVIL)
            page = self.page(value)
            with self.subTest(name=name):
                self.assertNotIn("script", page.tags)
                self.assertNotIn("img", page.tags)
                self.assertEqual(page.handlers, [])

    def test_what_was_tampered_with_is_shown_or_refused_in_a_line(self):
        rng = random.Random(SEED)
        for name, document in self.documents.items():
            where = list(places(document))
            for _ in range(TAMPERED):
                value = copy.deepcopy(document)
                path = rng.choice(where)
                wrong = rng.choice([None, True, -1, 0, "x", [], {}, [1], 10 ** 400, [[]]])
                put(value, path, wrong)
                done = self.report(value)
                with self.subTest(name=name, path=path, wrong=wrong, seed=SEED):
                    self.assertIn(done.returncode, (0, 2), done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), done.returncode // 2,
                                     done.stderr)
                    self.assertNotIn("Traceback", done.stderr)
                    self.assertEqual(self.out.exists(), done.returncode == 0)


if __name__ == "__main__":
    for module in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(module) is None:
            print(f"{module} is missing")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=1)
