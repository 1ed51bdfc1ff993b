#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fail on what the project's style rules out and a compiler does not see.

Sizes: functions of at most 70 lines, files of at most 600, lines of 100 columns.
Stage folders: no `volatile`, no clocks or randomness of their own, no macros that define functions
or types, no mutable file-scope state; allocation, locks, I/O only in functions that are named as
control functions.
Everywhere: an SPDX line, no absolute paths of somebody's machine, no marks of unfinished work.
Usage: check_tokens.py [ROOT]
"""

import pathlib
import re
import subprocess
import sys

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
COLUMNS_MAX = 100
TAB = 8

# Exceptions: a file, or "file:function" -> reason. One that is no longer needed fails too.
LONG_FILES = {}
LONG_FUNCTIONS = {}

STAGES = ("base", "reframer", "conntrack", "chain", "gpu_offload", "pipeline")
FOLDERS = ("base", "traces", "reframer", "conntrack", "chain", "gpu_offload", "pipeline")

# Whole files that run before or after the packets, or beside them in tests: options, configuration,
# reports, the oracle.
CONTROL_FILES = re.compile(
    r"pipeline/(options\w*|config\w*|results\w*|main|command\w*|compare\w*|report\w*|eal|run|units|"
    r"collect|key_set|planner|reader|input|stream_choice|schedule|worker_threads|filter|progress|sheaf|port|synth\w*|trace_\w*|table\w*|bench_\w*|infer|infer_(export|rows|bench)|lb_schedule)\.[ch]$"
    r"|gpu_offload/(onnx\w*|model)\.[ch]$"
    r"|chain/(text|rules\w*|routes\w*)\.[ch]$|base/arena\w*\.[ch]$|conntrack/(oracle|judge|shared_judge)\.[ch]$"
    # Waits for a device, whoever has nothing else to do: sleeping is what it is for.
    r"|gpu_offload/cuda/wait\.[ch]$"
    # The models that share by locks, which exist to be compared with.
    r"|conntrack/shared/locked\.c$|pipeline/sharing_lock\.c$")
# Functions that run at start, at the end, or for a person.
CONTROL_FUNCTION = re.compile(
    r"_(create|destroy|setup|allocate|populate|fill|finish|start|stop|init|open|close|build|load|print|describe|join|"
    r"join_\w+|json|add|compile|grow|free|alloc|reset|make|defaults|check|name|format|message)"
    r"(_\w+)?$|^(create|setup|allocate|populate|fill|destroy|load|open|close|print|main)(_\w+)?$")

ANYWHERE = (
    (re.compile(r"\bvolatile\b"), "volatile (use C11 atomics)"),
    (re.compile(r"\b(s?rand|random|drand48)\s*\("), "randomness (pass a base_rng)"),
    (re.compile(r"\b(clock_gettime|gettimeofday|time)\s*\("), "a clock (time is an argument)"),
    (re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)\s*\("), "unbounded call"),
    (re.compile(r"\b__(sync|atomic)_\w+"), "compiler atomics (use <stdatomic.h>)"),
    (re.compile(r"\brte_(panic|exit)\b"), "ends the process"),
)
# file -> tokens that may stand there, with the reason.
MAY = {
    "pipeline/run.c": ("a clock",),  # progress for people, and the wall clock's start
    "pipeline/bench_clock.c": ("a clock",),  # the rate of the time stamp counter
    # The date in the results; a signal handler can be given nothing.
    "pipeline/main.c": ("a clock", "mutable file-scope state"),
}
PACKET_PATH = (
    (re.compile(r"\b(malloc|calloc|realloc|free|strdup|aligned_alloc|posix_memalign)\s*\("),
     "allocation"),
    (re.compile(r"\b(rte_malloc|rte_zmalloc|rte_free|base_arena_alloc)\s*\("), "allocation"),
    (re.compile(r"\b(v?f?printf|puts|fputs|perror|syslog|rte_log|RTE_LOG)\s*\("), "a log line"),
    (re.compile(r"\b(pthread_mutex_\w+|rte_spinlock_\w+|sem_\w+|usleep|nanosleep|sleep)\s*\("),
     "a lock or a sleep"),
)
FUNCTION_MACRO = re.compile(
    r"^#\s*define\s+\w+\([^)]*\)[^\n]*(?:\\\n[^\n]*)*(?:##|\bstatic\s+inline\b|\btypedef\b)", re.M)
MUTABLE_STATIC = re.compile(
    r"^(?:static|extern)\s+(?!.*\bconst\b)(?!inline\b)[\w\s*]+[\w\]\[]+\s*(?:=|;)", re.M)
# Spelt in pieces, so that this file passes its own check.
MACHINE = re.compile(r"(?<![\w.])/(?:" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me")) + r")/\w")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
LINK = re.compile(r"\]\(([^)#\s]+)")
BINARY = (".pcap", ".pcapng", ".gz", ".zst", ".png", ".bin", ".onnx", ".npy")


def without_comments(text):
    """Blanks comments and strings, keeping line numbers."""
    def blank(match):
        piece = match.group(0)
        if piece[0] == "/":
            return re.sub(r"[^\n]", " ", piece)
        return piece[0] + " " * (len(piece) - 2) + piece[-1]
    pattern = r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(pattern, blank, text, flags=re.S)


def functions(lines):
    """(name, first line, body) from '{' to '}' in the first column, headers of functions only."""
    start = None
    for index, line in enumerate(lines):
        if line.startswith("{"):
            start = index
        elif line.startswith("}") and start is not None:
            head = start - 1
            while head > 0 and lines[head][:1] in ("\t", " "):
                head -= 1
            found = re.findall(r"(\w+)\s*\(", " ".join(lines[head:start]))
            name = found[0] if found else "?"
            yield name, start + 1, lines[start:index + 1]
            start = None


class Check:
    def __init__(self, root):
        self.root = root
        self.failures = []
        self.used = set()

    def fail(self, path, line, text):
        self.failures.append(f"{path}:{line}: {text}")

    def excepted(self, name, table):
        self.used.add(name)
        return name in table

    def stale_exceptions(self):
        for name in sorted((LONG_FILES.keys() | LONG_FUNCTIONS.keys()) - self.used):
            self.fail(name, 1, "is excepted from a limit that it keeps")

    def source(self, path, text):
        lines = text.splitlines()
        plain = without_comments(text)
        for number, line in enumerate(lines, 1):
            if len(line.expandtabs(TAB)) > COLUMNS_MAX:
                self.fail(path, number, f"longer than {COLUMNS_MAX} columns")
        if len(lines) > FILE_LINES_MAX and not self.excepted(path, LONG_FILES):
            self.fail(path, FILE_LINES_MAX, f"{len(lines)} lines, at most {FILE_LINES_MAX}")
        folder = path.split("/", 1)[0]
        for name, number, body in functions(plain.splitlines()):
            length = len(body)
            named = f"{path}:{name}"
            if length > FUNCTION_LINES_MAX and not self.excepted(named, LONG_FUNCTIONS):
                self.fail(path, number, f"{name}: {length} lines, at most {FUNCTION_LINES_MAX}")
            if folder in STAGES and not CONTROL_FILES.match(path):
                self.packet_path(path, name, number, body)
        if folder in FOLDERS:
            self.stage(path, plain)

    def packet_path(self, path, name, number, body):
        if CONTROL_FUNCTION.search(name):
            return
        for offset, line in enumerate(body):
            for pattern, what in PACKET_PATH:
                if pattern.search(line):
                    self.fail(path, number + offset, f"{what} in {name}, not a control function")

    def stage(self, path, plain):
        for number, line in enumerate(plain.splitlines(), 1):
            for pattern, what in ANYWHERE:
                allowed = any(what.startswith(word) for word in MAY.get(path, ()))
                if pattern.search(line) and not allowed:
                    self.fail(path, number, f"{line.strip()[:40]!r}: {what}")
        for match in FUNCTION_MACRO.finditer(plain):
            line = plain.count("\n", 0, match.start()) + 1
            self.fail(path, line, "a macro that defines functions or types")
        for match in MUTABLE_STATIC.finditer(plain):
            if "(" in match.group(0) or "mutable file-scope state" in MAY.get(path, ()):
                continue
            line = plain.count("\n", 0, match.start()) + 1
            self.fail(path, line, f"mutable file-scope state: {match.group(0).strip()[:60]!r}")

    def text(self, path, text):
        head = "\n".join(text.splitlines()[:3])
        needs = path.endswith((".c", ".h", ".cu", ".py", ".sh", "meson.build", ".supp")) or \
            path in ("check", "quickstart", ".ci/run")
        if needs and "SPDX-License-Identifier: BSD-2-Clause" not in head:
            self.fail(path, 1, "no SPDX line")
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE.search(line):
                self.fail(path, number, "a path of somebody's machine")
            if UNFINISHED.search(line):
                self.fail(path, number, "a mark of unfinished work")
            if path.endswith(".md"):
                self.links(path, number, line)

    def links(self, path, number, line):
        for target in LINK.findall(line):
            outside = re.match(r"[a-z]+:", target)
            if not outside and not (self.root / path).parent.joinpath(target).exists():
                self.fail(path, number, f"{target}: a link to nothing")

    def file(self, path):
        if path.endswith(BINARY) or "/corpus" in path:
            return
        try:
            text = (self.root / path).read_text()
        except UnicodeDecodeError:
            self.fail(path, 1, "not UTF-8 text")
            return
        self.text(path, text)
        if path.endswith((".c", ".h", ".cu")):
            self.source(path, text)


def tracked(root):
    """Files in the repository and new ones that are not ignored; all files without git."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode == 0:
        names = result.stdout.decode().split("\0")
        return sorted(name for name in names if name and (root / name).is_file())
    return sorted(
        path.relative_to(root).as_posix() for path in root.rglob("*")
        if path.is_file() and not re.match(r"build|\.git/|results/", path.relative_to(root).as_posix()))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    check = Check(root)
    names = tracked(root)
    for name in names:
        check.file(name)
    check.stale_exceptions()
    for failure in check.failures:
        print(failure)
    if not names:
        print("no files found")
    return 1 if check.failures or not names else 0


if __name__ == "__main__":
    sys.exit(main())
