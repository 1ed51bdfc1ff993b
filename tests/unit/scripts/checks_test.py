#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The style checks pass what is right and find what is wrong.

Usage: checks_test.py SCRIPTS_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "scripts").resolve()
SPDX = "/* SPDX-License-Identifier: BSD-2-Clause */\n"


class ChecksTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def check(self, script, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        done = subprocess.run([sys.executable, SCRIPTS / script, self.root],
                              capture_output=True, text=True, timeout=60, check=False)
        target.unlink()
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return done.stdout

    def layers(self, path, include):
        return self.check("check_layers.py", path, f"{SPDX}#include {include}\n")

    def tokens(self, path, text):
        return self.check("check_tokens.py", path, SPDX + text)

    def test_includes_along_the_data_path_pass(self):
        for path, include in (
                ("chain/a.c", '"conntrack/conntrack.h"'), ("pipeline/a.c", '"chain/chain.h"'),
                ("reframer/a.c", '"base/packet.h"'), ("chain/a.c", '"chain/private.h"'),
                ("chain/a.c", "<rte_lpm.h>"), ("base/mbuf.h", "<rte_mbuf.h>"),
                ("traces/a.c", "<pcap/pcap.h>"), ("base/a.c", "<stdint.h>"),
                ("conntrack/foreign/a.c", "<rte_hash.h>"), ("conntrack/foreign/a.c", "<ck_ht.h>"),
                ("pipeline/a.c", '"conntrack/foreign.h"')):
            self.assertEqual(self.layers(path, include), "", include)

    def test_includes_against_the_data_path_fail(self):
        for path, include in (
                ("base/a.c", '"traces/traces.h"'), ("reframer/a.c", '"conntrack/conntrack.h"'),
                ("conntrack/a.c", '"chain/chain.h"'), ("chain/a.c", '"pipeline/pipeline.h"'),
                ("chain/a.c", '"conntrack/state.h"'), ("traces/a.h", '"reader.h"'),
                ("base/a.c", "<rte_mbuf.h>"), ("conntrack/a.h", "<rte_hash.h>"),
                ("base/a.c", "<jansson.h>"), ("conntrack/foreign.h", "<urcu/rculfhash.h>"),
                ("base/a.c", '"tests/support/packets.h"')):
            self.assertIn(f"{path}:2", self.layers(path, include), include)

    def test_long_functions_and_files_fail(self):
        body = "\tx++;\n" * 68
        self.assertEqual(self.tokens("base/a.c", f"void f(void)\n{{\n{body}}}\n"), "")
        longer = body + "\tx++;\n"
        self.assertIn("f: 71 lines", self.tokens("base/a.c", f"void f(void)\n{{\n{longer}}}\n"))
        self.assertIn("at most 600", self.tokens("tests/a.c", "int x;\n" * 600))
        self.assertIn("columns", self.tokens("base/a.c", "/*" + "x" * 98 + "*/\n"))

    def test_allocation_stands_in_control_functions_only(self):
        text = "{\n\tp = malloc(4);\n}\n"
        self.assertEqual(self.tokens("conntrack/a.c", f"int table_create(void)\n{text}"), "")
        found = self.tokens("conntrack/a.c", f"int table_lookup(void)\n{text}")
        self.assertIn("allocation in table_lookup", found)
        self.assertIn("a log line", self.tokens(
            "conntrack/a.c", "int table_lookup(void)\n{\n\tprintf(\"x\");\n}\n"))

    def test_banned_words_fail_in_code_and_pass_in_comments(self):
        for text in ("vola" "tile int *p;", "int f(void);\nint x = rand();",
                     "static int counter;", "static struct x table[3];",
                     "#define MAKE(name) static inline int name(void) { return 0; }",
                     "#define JOIN(a) int a##_get(void);"):
            self.assertNotEqual(self.tokens("reframer/a.c", text + "\n"), "", text)
        for text in ("/* vola" "tile would not help */", "static const int table[] = { 1 };",
                     "static int f(void);", "#define TWICE(x) ((x) * 2)",
                     "static inline int f(int x)\n{\n\tstatic_assert(1);\n\treturn x;\n}"):
            self.assertEqual(self.tokens("reframer/a.c", text + "\n"), "", text)

    def test_text_of_a_workplace_fails(self):
        self.assertIn("SPDX", self.check("check_tokens.py", "base/a.c", "int x;\n"))
        self.assertIn("machine", self.tokens("docs/a.md", "see /ho" "me/somebody/x\n"))
        self.assertIn("unfinished", self.tokens("docs/a.md", "TO" "DO: more\n"))

    def test_links_to_nothing_fail(self):
        self.assertIn("absent.md", self.tokens("docs/a.md", "see [this](absent.md#part)\n"))
        self.assertEqual(self.tokens("docs/a.md", "[a](a.md), [b](../docs), [c](#here)\n"), "")


if __name__ == "__main__":
    unittest.main(verbosity=1)
