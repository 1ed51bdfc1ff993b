#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""End-to-end benchmark: the load-balancer chain over synthetic traces of known locality.

Usage: end_to_end.py SHEAF [--repeat N] [--packets N] [--quick]

Makes its traces in a temporary directory on tmpfs when there is one, runs `sheaf replay` on each and
prints one line per workload: throughput and TSC cycles per packet by stage, medians over repeats,
with the spread. It never judges: absolute times on a shared machine mean little, so it also prints
each workload's ratio to its own run with every optimisation switched off.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# name, flows, run length, order, options
WORKLOADS = [
    ("lb, 64k flows, SLF 1", 65536, 1, "round-robin", ["--chain", "lb", "--conns", "128k"]),
    ("lb, 64k flows, SLF 16", 65536, 16, "round-robin", ["--chain", "lb", "--conns", "128k"]),
    ("lb, 1k flows, SLF 1", 1024, 1, "round-robin", ["--chain", "lb", "--conns", "128k"]),
    ("lb, 1M flows, SLF 1", 1 << 20, 1, "round-robin", ["--chain", "lb", "--conns", "2M"]),
    ("lb, 1M flows, Zipf", 1 << 20, 1, "zipf:1.0", ["--chain", "lb", "--conns", "2M"]),
    ("reframer 64us + lb, 64k, SLF 1", 65536, 1, "round-robin",
     ["--reframer", "delay=64us", "--chain", "lb", "--conns", "128k"]),
    ("reframer 64us + lb, 1k, SLF 1", 1024, 1, "round-robin",
     ["--reframer", "delay=64us", "--chain", "lb", "--conns", "128k"]),
    ("reframer 64us + lb, 1M, SLF 1", 1 << 20, 1, "round-robin",
     ["--reframer", "delay=64us", "--chain", "lb", "--conns", "2M"]),
    ("full chain, 64k flows, SLF 1", 65536, 1, "round-robin",
     ["--chain", "stats,router,firewall,nat,lb", "--conns", "128k"]),
    ("full chain, 64k flows, SLF 16", 65536, 16, "round-robin",
     ["--chain", "stats,router,firewall,nat,lb", "--conns", "128k"]),
    ("two workers: lb, 64k, SLF 1", 65536, 1, "round-robin",
     ["--chain", "lb", "--conns", "128k", "--workers", "2"]),
]
STAGES = ["source", "parse", "reframer", "conntrack", "sink"]


def run(sheaf, path, options, directory):
    result = os.path.join(directory, "result.json")
    command = [sheaf, "replay", path, *options, "--quiet", "--json", result]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(result, encoding="utf-8") as stream:
        return json.load(stream)


def line(name, document, ratio):
    cost = document["cost"]
    cycles = cost["cycles_per_packet"]
    stages = " ".join(f"{cycles[stage] or 0:6.1f}" for stage in STAGES)
    chain = sum(value or 0 for value in cycles["chain"].values())
    return (f"{name:32s} {cost['packets_per_s'] / 1e6:6.2f} {cycles['total']:7.1f} {stages} "
            f"{chain:6.1f} {100 * (cost['spread'] or 0):5.1f}% {ratio:6.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sheaf")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--packets", type=int, default=1 << 20)
    parser.add_argument("--quick", action="store_true", help="two repeats, 128k packets")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeat, arguments.packets = 2, 1 << 17
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    print(f"{'workload':32s} {'Mpps':>6s} {'cycles':>7s} "
          + " ".join(f"{stage[:6]:>6s}" for stage in STAGES)
          + f" {'chain':>6s} {'spread':>6s} {'ratio':>6s}")
    with tempfile.TemporaryDirectory(dir=base) as directory:
        traces = {}
        for name, flows, run_length, order, options in WORKLOADS:
            packets = max(arguments.packets, 2 * flows * (1 if run_length == 1 else 0))
            key = (flows, run_length, order, packets)
            if key not in traces:
                traces[key] = os.path.join(directory, f"{len(traces)}.pcap")
                subprocess.run([arguments.sheaf, "trace", "gen", "--flows", str(flows),
                                "--packets", str(packets), "--run-length", str(run_length),
                                "--order", order, "--frame", "128", "--pps", "10M",
                                traces[key]], check=True, stdout=subprocess.DEVNULL)
            options = [*options, "--loop", "2"]
            fast = run(arguments.sheaf, traces[key],
                       [*options, "--repeat", str(arguments.repeat)], directory)
            slow = run(arguments.sheaf, traces[key],
                       [*options, "--repeat", "2", "--ablate", "prefetch,runs,dedup,burst"],
                       directory)
            ratio = (slow["cost"]["cycles_per_packet"]["total"]
                     / fast["cost"]["cycles_per_packet"]["total"])
            print(line(name, fast, ratio), flush=True)
        print("ratio: cycles with prefetch, runs, dedup and burst ablated, over cycles without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
