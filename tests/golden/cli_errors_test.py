#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run sheaf with each row of cli_errors.tsv: exit code, one exact line, nothing on stdout.

Usage: cli_errors_test.py SHEAF CASES_FOLDER TABLE [--update]
--update writes what sheaf says now into the table; read the difference before committing it.
"""

import pathlib
import shlex
import subprocess
import sys
import tempfile


def fill(text, cases, folder):
    return text.replace("{cases}", cases).replace("{tmp}", folder)


def run(sheaf, arguments, folder):
    done = subprocess.run([sheaf, *arguments], capture_output=True, text=True, timeout=60,
                          cwd=folder, check=False)
    lines = done.stderr.splitlines()
    return done.returncode, lines, done.stdout


def main():
    sheaf, cases, table = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
    update = "--update" in sys.argv[4:]
    failures = rows = 0
    output = []
    with tempfile.TemporaryDirectory() as folder:
        for line in pathlib.Path(table).read_text().splitlines():
            if line.startswith("#"):
                output.append(line)
                continue
            typed, code, message = line.split("\t")
            rows += 1
            arguments = shlex.split(fill(typed, cases, folder))
            got_code, got_lines, stdout = run(sheaf, arguments, folder)
            said = "\n".join(got_lines)
            output.append("\t".join([typed, str(got_code), said.removeprefix("sheaf: ")
                                     .replace(folder, "{tmp}").replace(cases, "{cases}")]))
            expected = f"sheaf: {fill(message, cases, folder)}"
            if (got_code, said, stdout) != (int(code), expected, ""):
                failures += 1
                print(f"sheaf {typed}\n  expected {code}: {expected}\n  got      {got_code}: "
                      f"{said}\n  stdout   {stdout!r}")
    if update:
        pathlib.Path(table).write_text("\n".join(output) + "\n")
    print(f"{rows} rows, {failures} wrong")
    return failures != 0 or rows == 0


if __name__ == "__main__":
    sys.exit(main())
