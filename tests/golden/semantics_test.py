#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The checklist in docs/conntrack-semantics.md names tests that exist.

Usage: semantics_test.py DOCUMENT TESTS_DIR

Every line of its table names at least one test: a script (in quotes), a test function (in code) or a
kind of scripts (in brackets); and every kind of scripts stands in it.
"""
import pathlib
import re
import sys


def checklist(text):
    """(line, tests) of the table, without heads."""
    section = text[text.index("## Checklist"):].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 3 and not cells[0].startswith(("**", "---", "what")):
            yield cells[0], cells[1]


def main():
    text = pathlib.Path(sys.argv[1]).read_text()
    tests = pathlib.Path(sys.argv[2])
    scripts = "".join(path.read_text() for path in sorted(tests.glob("support/conn_scripts_*.c")))
    names = set(re.findall(r'\.name = "([^"]+)"', scripts))
    items = set(re.findall(r'\.item = "([^"]+)"', scripts))
    functions = set()
    for path in tests.rglob("*_test.c"):
        functions.update(re.findall(r"cmocka_unit_test\w*\(\s*(\w+)", path.read_text()))
        functions.update(re.findall(r"^static void (\w+)\(", path.read_text(), re.MULTILINE))
    faults, lines, seen = [], 0, set()
    for line, cell in checklist(text):
        lines += 1
        quoted = re.findall(r'"([^"]+)"', cell)
        code = re.findall(r"`(\w+)`", cell)
        kinds = re.findall(r"\[([\w-]+)\]", cell)
        seen.update(kinds)
        if not quoted and not code:
            faults.append(f"'{line}': names no test")
        faults += [f"'{line}': got script '{name}', expected one that exists"
                   for name in quoted if name not in names]
        faults += [f"'{line}': got test '{name}', expected one that exists"
                   for name in code if name not in functions]
        faults += [f"'{line}': got kind '{kind}', expected one that exists"
                   for kind in kinds if kind not in items]
    faults += [f"scripts of kind '{kind}' stand in no line" for kind in sorted(items - seen)]
    if lines < 40:
        faults.append(f"{lines} lines: the table was not found")
    print("\n".join(faults) if faults else f"{lines} lines, all with tests that exist")
    return 1 if faults else 0


sys.exit(main())
