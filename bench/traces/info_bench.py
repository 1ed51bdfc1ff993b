#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sheaf trace info` beside other tools that read a whole capture, on the same file.

Usage: info_bench.py SHEAF [--packets N] [--repeat N] [--tools LIST]

Makes captures on tmpfs when there is one (they are then in the page cache), lets the tools take
turns, and prints for each the rate by the clock and by processor time (on a busy machine the steadier
figure; each has one thread), the peak memory, and how many times sheaf's time it took, by both.
Medians; the spread is (max - min) / median of the clock's. Absent tools are named and skipped; one
that takes over SLOW_S runs once.

They do not do the same: capinfos counts packets and bytes; tshark dissects packets and lists
conversations by address pair; sheaf counts flows by 5-tuple and measures their locality.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SLOW_S = 15

# name, flows, order, frame bytes, share of --packets
CAPTURES = [
    ("65,536 flows in turn, 128 B", 65536, "round-robin", 128, 1),
    ("65,536 flows at random, 128 B", 65536, "uniform", 128, 1),
    ("1 M flows in turn, 128 B", 1000000, "round-robin", 128, 1),
    ("1 M flows at random, 128 B", 1000000, "uniform", 128, 1),
    ("65,536 flows in turn, 1400 B", 65536, "round-robin", 1400, 0.25),
]


def tools(sheaf, wanted):
    """Name and command of each; the capture's path is put behind."""
    named = {"sheaf": [sheaf, "trace", "info"], "capinfos": ["capinfos"],
             "tshark": ["tshark", "-q", "-z", "conv,ip", "-r"]}
    found = []
    for name, command in named.items():
        if name not in wanted.split(","):
            continue
        if shutil.which(command[0]) is None:
            print(f"{name}: not installed, skipped")
            continue
        found.append((" ".join([name, *command[1:]]), command))
    return found


def measure(command, path):
    """Wall seconds, processor seconds, peak memory in MiB."""
    with open(os.devnull, "w", encoding="utf-8") as null:
        start = time.monotonic()
        process = subprocess.Popen([*command, path], stdout=null, stderr=null)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} {path}: exit status {process.returncode}")
    return wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def compare(named, path, repeat):
    """Measurements by tool; the tools take turns, so that a busy minute hits all alike."""
    found = {name: [] for name, _ in named}
    for _ in range(repeat):
        for name, command in named:
            if found[name] and found[name][0][0] > SLOW_S:
                continue
            found[name].append(measure(command, path))
    return found


def print_row(name, runs, packets, file_bytes, first):
    walls = [run[0] for run in runs]
    wall_s, cpu_s = statistics.median(walls), statistics.median(run[1] for run in runs)
    first_wall_s, first_cpu_s = (statistics.median(run[i] for run in first) for i in (0, 1))
    spread = (max(walls) - min(walls)) / wall_s
    print(f"  {name:24s} {packets / wall_s / 1e6:7.3f} Mpps {file_bytes / wall_s / 1e9:6.3f} GB/s"
          f"  CPU {packets / cpu_s / 1e6:7.3f} Mpps {file_bytes / cpu_s / 1e9:6.3f} GB/s"
          f" {max(run[2] for run in runs):6.0f} MiB  x{wall_s / first_wall_s:<6.1f}"
          f" CPU x{cpu_s / first_cpu_s:<6.1f} spread {100 * spread:.0f} %, {len(runs)} runs",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sheaf")
    parser.add_argument("--packets", type=int, default=4000000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tools", default="sheaf,capinfos,tshark", help="which; first of them "
                        "the one that the others are divided by")
    arguments = parser.parse_args()
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    named = tools(arguments.sheaf, arguments.tools)
    with tempfile.TemporaryDirectory(dir=base) as folder:
        path = os.path.join(folder, "capture.pcap")
        for name, flows, order, frame_bytes, share in CAPTURES:
            packets = max(1, int(arguments.packets * share))
            subprocess.run([arguments.sheaf, "trace", "gen", "--flows", str(flows), "--packets",
                            str(packets), "--run-length", "1", "--order", order, "--frame",
                            str(frame_bytes), path], check=True)
            print(f"{name}, {packets} packets")
            found = compare(named, path, arguments.repeat)
            for tool, _ in named:
                print_row(tool, found[tool], packets, os.path.getsize(path), found[named[0][0]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
