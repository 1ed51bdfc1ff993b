#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fail on includes that go against the data path.

A folder may include only what stands above it, and of another folder only its public header; base
is shared whole. Links are kept in order by Meson; includes can go backward, so they are read here.
Usage: check_layers.py [ROOT]
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')

# folder -> folders above it whose public header it may include
ABOVE = {
    "base": set(),
    "traces": {"base"},
    "reframer": {"base"},
    "conntrack": {"base"},
    "chain": {"base", "conntrack"},
    "gpu_offload": {"base", "conntrack"},
    "pipeline": {"base", "traces", "reframer", "conntrack", "chain", "gpu_offload"},
}
# Public beside a folder's own header.
ALSO_PUBLIC = ("conntrack/lab.h", "conntrack/foreign.h", "conntrack/judge.h", "conntrack/oracle.h",
               "conntrack/shared.h", "conntrack/shared_judge.h")
UNBOUND = ("bench", "tests")  # may include anything

# Headers from outside libc: pattern -> where it may stand (a folder, an inner one with a slash at
# its end, or a file without suffix).
OUTSIDE = (
    (re.compile(r"rte_(lpm|lpm6|acl|errno|ip|memory|common|config|version)\.h$"), {"chain"}),
    (re.compile(r"rte_.*\.h$"), {"base/mbuf", "conntrack/foreign/", "pipeline"}),
    (re.compile(r"(ck_.*|urcu.*)\.h$"), {"conntrack/foreign/"}),
    (re.compile(r"pcap(/.*)?\.h$"), {"traces"}),
    (re.compile(r"(zlib|zstd)\.h$"), {"traces"}),
    (re.compile(r"openssl/.*\.h$"), {"traces"}),
    (re.compile(r"jansson\.h$"), {"pipeline"}),
    (re.compile(r"cyaml/.*\.h$"), {"pipeline"}),
    (re.compile(r"jemalloc/.*\.h$"), {"base"}),
    (re.compile(r"(infiniband|rdma)/.*\.h$"), {"gpu_offload"}),
    (re.compile(r"(cuda.*|nvml)\.h$"), {"gpu_offload"}),
    (re.compile(r"hs(/.*)?\.h$"), {"chain"}),
)


def stands_in(path, places):
    name = path.as_posix()
    inside = any(place.endswith("/") and name.startswith(place) for place in places)
    return inside or path.parts[0] in places or name.rsplit(".", 1)[0] in places


def judge_own(path, target):
    folder = path.parts[0]
    other = target.split("/", 1)[0]
    if "/" not in target:
        return "write the path from the repository's root"
    if other == folder:
        return None
    if other not in ABOVE[folder]:
        return f"{folder}/ stands above {other}/ or beside it"
    if other != "base" and target not in (f"{other}/{other}.h", *ALSO_PUBLIC):
        return f"only {other}/{other}.h is public"
    return None


def judge_system(path, target):
    places = [where for pattern, where in OUTSIDE if pattern.match(target)]
    if places and not any(stands_in(path, where) for where in places):
        allowed = ", ".join(sorted(set().union(*places)))
        return f"belongs to {allowed} only"
    return None


def check_file(root, path):
    failures = []
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, target = match.groups()
        if path.parts[0] in UNBOUND:
            if kind == '"' and not (root / target).is_file():
                failures.append(f"{path}:{number}: \"{target}\": not a path from the root")
            continue
        reason = judge_own(path, target) if kind == '"' else judge_system(path, target)
        if reason:
            failures.append(f"{path}:{number}: {target}: {reason}")
    return failures


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    failures = []
    count = 0
    for folder in (*ABOVE, *UNBOUND):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cu"):
                failures += check_file(root, path.relative_to(root))
                count += 1
    for failure in failures:
        print(failure)
    if not count:
        print("no source files found")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
