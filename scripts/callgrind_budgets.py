#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Hold instruction counts against budgets: exact and repeatable where wall time is neither.

Usage: callgrind_budgets.py [--update] [--toolchain NAME] BUDGETS BUILD_DIR

Each line of BUDGETS is

    program arguments | function | instructions per operation

program is relative to BUILD_DIR, is compiled for -march=x86-64-v2 (valgrind knows no newer
instructions), and prints "operations: N". Instructions inside the function (and what it calls) are
counted and divided by N. More than 3 % above the budget fails; more than 3 % below is reported, so
that the budget can follow. `toolchain NAME` says which compiler the numbers stand for; with any
other, and without valgrind, the check is skipped (exit status 77).
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 0.03
SKIPPED = 77


def count(program, arguments, function):
    """Instructions per operation that `function` took."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--toggle-collect={function}",
                   f"--callgrind-out-file={out}", str(program), *arguments]
        run = subprocess.run(command, capture_output=True, text=True)
        operations = re.search(r"^operations: (\d+)$", run.stdout, re.MULTILINE)
        if run.returncode != 0 or operations is None or not out.exists():
            raise RuntimeError(f"{' '.join(command)}\n{run.stdout}{run.stderr}")
        total = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    if total is None or int(total.group(1)) == 0:
        raise RuntimeError(f"{program.name}: {function} was never entered (inlined?)")
    return int(total.group(1)) / int(operations.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the counts into BUDGETS")
    parser.add_argument("--toolchain", help="compiler that built the programs")
    parser.add_argument("budgets", type=pathlib.Path)
    parser.add_argument("build_dir", type=pathlib.Path)
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: skipped")
        return SKIPPED
    lines, failed = [], False
    for line in arguments.budgets.read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            lines.append(line)
            continue
        if words[0] == "toolchain":
            name = " ".join(words[1:])
            if arguments.toolchain not in (None, name) and not arguments.update:
                print(f"budgets are for {name}, built with {arguments.toolchain}: skipped")
                return SKIPPED
            lines.append(f"toolchain {arguments.toolchain or name}")
            continue
        command, function, budget = (part.strip() for part in line.split("|"))
        program, *rest = command.split()
        got = count(arguments.build_dir / program, rest, function)
        lines.append(f"{command} | {function} | {got:.1f}")
        change = got / float(budget) - 1
        verdict = "ok"
        if arguments.update:
            verdict = "written"
        elif change > TOLERANCE:
            verdict, failed = "OVER BUDGET", True
        elif change < -TOLERANCE:
            verdict = "below budget: lower it"
        print(f"{command:45} {function:28} {got:9.1f}  budget {float(budget):9.1f} "
              f"{change:+7.1%}  {verdict}")
    if arguments.update:
        arguments.budgets.write_text("\n".join(lines) + "\n")
        return 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
