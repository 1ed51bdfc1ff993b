#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sheaf trace convert` and `anonymize` beside editcap and tcprewrite, on the same file.

Usage: convert_bench.py SHEAF [--packets N] [--repeat N] [--frame BYTES] [--sheaf-only]

The capture and what is made of it lie on tmpfs when there is one. The tools take turns; printed are
for each the rate, that by processor time (steadier on a busy machine), the peak memory, and how many
times sheaf's time it took. Medians; the spread is (max - min) / median. Absent tools are named and
skipped. The memory of a small program shows as that of this script, which starts it.

Where a tool does something else than sheaf, the task's name says it: tcprewrite's random addresses
keep no prefixes (but those of subnets, by chance of its hash), and its output is microseconds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from info_bench import measure, print_row

KEY = "00112233445566778899aabbccddeeff" * 2


def tasks(sheaf):
    """Name, ending of the output, and the commands by tool; {i} and {o} are the files."""
    convert, anonymize = [sheaf, "trace", "convert"], [sheaf, "trace", "anonymize", "-q"]
    return [
        ("pcap to pcapng", "pcapng",
         [("sheaf", [*convert, "{i}", "{o}"]), ("editcap", ["editcap", "-F", "pcapng", "{i}", "{o}"])]),
        ("pcap to pcap, 96 bytes a packet", "pcap",
         [("sheaf", [*convert, "--snaplen", "96", "{i}", "{o}"]),
          ("editcap", ["editcap", "-F", "pcap", "-s", "96", "{i}", "{o}"])]),
        ("checksums computed anew", "pcap",
         [("sheaf", [*convert, "--checksums", "{i}", "{o}"]),
          ("tcprewrite", ["tcprewrite", "--fixcsum", "--infile={i}", "--outfile={o}"])]),
        ("Ethernet to RAW", "pcap", [("sheaf", [*convert, "--link", "raw", "{i}", "{o}"])]),
        ("addresses: Crypto-PAn, tcprewrite: random", "pcap",
         [("sheaf", [*anonymize, "--key", KEY, "--macs", "keep", "--keep-payload", "{i}", "{o}"]),
          ("tcprewrite", ["tcprewrite", "--seed=7", "--infile={i}", "--outfile={o}"])]),
        ("pcap to IPSummaryDump", "dump", [("sheaf", [*convert, "{i}", "{o}"])]),
        ("pcap to 5-tuples", "5t", [("sheaf", [*convert, "{i}", "{o}"])]),
        ("pcap to pcapng.zst", "pcapng.zst", [("sheaf", [*convert, "{i}", "{o}"])]),
        ("pcap to pcapng.gz", "pcapng.gz", [("sheaf", [*convert, "{i}", "{o}"])]),
    ]


def run_task(commands, repeat, source, target):
    """Measurements by tool; each run makes its file anew."""
    found = {name: [] for name, _ in commands}
    for _ in range(repeat):
        for name, command in commands:
            if os.path.exists(target):
                os.unlink(target)
            words = [word.replace("{i}", source).replace("{o}", target) for word in command]
            found[name].append(measure(words[:-1], words[-1]))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sheaf")
    parser.add_argument("--packets", type=int, default=5000000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--frame", type=int, default=128)
    parser.add_argument("--sheaf-only", action="store_true")
    arguments = parser.parse_args()
    absent = {name for name in ("editcap", "tcprewrite") if shutil.which(name) is None}
    for name in sorted(absent):
        print(f"{name}: not installed, skipped")
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as folder:
        source = os.path.join(folder, "capture.pcap")
        subprocess.run([arguments.sheaf, "trace", "gen", "--flows", "65536", "--order", "uniform",
                        "--packets", str(arguments.packets), "--frame", str(arguments.frame),
                        source], check=True)
        print(f"{arguments.packets} packets of {arguments.frame} bytes, 65,536 flows at random")
        for name, ending, commands in tasks(arguments.sheaf):
            commands = [(tool, command) for tool, command in commands
                        if tool not in absent and (tool == "sheaf" or not arguments.sheaf_only)]
            print(name)
            found = run_task(commands, arguments.repeat, source,
                             os.path.join(folder, "out." + ending))
            for tool, _ in commands:
                print_row(tool, found[tool], arguments.packets, os.path.getsize(source),
                          found["sheaf"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
