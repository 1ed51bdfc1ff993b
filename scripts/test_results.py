#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sum up one run of `meson test`.

Usage: test_results.py TESTLOG.json BUILD_NAME
Prints each failed or skipped test (with the tail of its output where it failed), then one line
"PASSED FAILED SKIPPED" for the caller.
"""

import json
import sys

PASSED = ("OK", "EXPECTEDFAIL")
SKIPPED = ("SKIP",)
TAIL_LINES = 40


def tail(record):
    """The end of the output; a sanitizer's report from its first line on."""
    lines = (record.get("stdout", "") + record.get("stderr", "")).rstrip().splitlines()
    for index, line in enumerate(lines):
        if "Sanitizer: " in line or "runtime error: " in line:
            return lines[index:index + TAIL_LINES]
    return lines[-TAIL_LINES:]


def main():
    log, build = sys.argv[1:3]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with open(log, encoding="utf-8", errors="replace") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    for record in records:
        name = record["name"]
        if record["result"] in PASSED:
            counts["passed"] += 1
        elif record["result"] in SKIPPED:
            counts["skipped"] += 1
            reason = tail(record)[-1:] or ["no reason given"]
            print(f"    skipped  {name}: {reason[0].strip()}")
        else:
            counts["failed"] += 1
            seconds = record.get("duration", 0)
            print(f"    FAILED   {name} in {build}: {record['result'].lower()}, "
                  f"status {record.get('returncode')}, {seconds:.1f} s")
            for line in tail(record):
                print(f"             | {line}")
    print(counts["passed"], counts["failed"], counts["skipped"])


if __name__ == "__main__":
    main()
