#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every public capture at hand through the whole path.

Usage: corpus_test.py SHEAF SOURCE_ROOT

Captures lie in $SHEAF_TRACES, else in ../shared/traces beside the source tree; the test is skipped
(77) where neither is there. INVENTORY.tsv lists them with the packets that another program counted.
Each capture must be refused by name or replayed whole, with its books balanced and no flow
reordered. Flows are compared with the inventory by tests/model/traces/inventory_test.c; here
`trace info` and the replay must agree about them.
"""

import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import unittest

SHEAF, ROOT = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
FOLDER = pathlib.Path(os.environ.get("SHEAF_TRACES") or ROOT.parent / "shared" / "traces")
INVENTORY = FOLDER / "INVENTORY.tsv"
TIMEOUT_S = 240
JOBS = min(2, os.cpu_count() or 1)
EXIT_OK, EXIT_INPUT, EXIT_DAMAGED = 0, 2, 5
CHAIN = ("--reframer", "delay=64us", "--chain", "stats,router,firewall:rules=200,nat,lb")
COMPOSITE = FOLDER / "derived" / "composite_raw64_ns.pcap.gz"
# Refused although the inventory counts packets: docs/traces-inventory.md says why.
REFUSED = ("libpcap/shb-option-too-long.pcapng",)
LINKS = {"EN10MB", "LINUX_SLL", "LINUX_SLL2", "RAW", "RAW(DLT12)", "RAW(DLT14)", "IPV4", "IPV6",
         "NULL", "LOOP", "PPP", "PPP_HDLC", "C_HDLC", "-"}


def run(*arguments):
    return subprocess.run([SHEAF, *map(str, arguments)], capture_output=True, timeout=TIMEOUT_S,
                          check=False)


def supported(row):
    """A '?' marks an interface that never carried a packet."""
    return row["file"] not in REFUSED and all(
        name in LINKS or name.endswith("?") for name in row["linktype"].split("+"))


def unbalanced(document):
    books, conntrack = document["books"], document["conntrack"]
    wrong = []
    if not books["balanced"] or books["held"] != 0:
        wrong.append("books do not balance")
    if books["read"] != books["forwarded"] + sum(books["dropped"].values()):
        wrong.append("read is not forwarded + dropped")
    if books["reorder_violations"] != 0:
        wrong.append("a flow was reordered")
    ends = ("live", "closed", "expired", "evicted", "purged")
    if conntrack["inserted"] != sum(conntrack[end] for end in ends):
        wrong.append("connections are missing")
    return wrong


def judge(row):
    """What is wrong with one capture, as text; empty when all is right."""
    path = FOLDER / row["file"]
    info, replay = run("trace", "info", path, "--json", "-"), run(
        "replay", path, *CHAIN, "--json", "-", "-q")
    if not supported(row):
        text = replay.stderr.decode(errors="replace").strip()
        if (info.returncode, replay.returncode) != (EXIT_INPUT, EXIT_INPUT):
            return f"exits {info.returncode} and {replay.returncode}, not refused: {text}"
        if row["file"] not in text or len(text.splitlines()) != 1:
            return f"not refused by name in one line: {text}"
        return ""
    if replay.returncode not in (EXIT_OK, EXIT_DAMAGED) or info.returncode != replay.returncode:
        text = (info.stderr + replay.stderr).decode(errors="replace")[-2000:]
        return f"exits {info.returncode} (info) and {replay.returncode} (replay): {text}"
    about, document = json.loads(info.stdout), json.loads(replay.stdout)
    about = about["files"][0]
    wrong = unbalanced(document)
    packets = int(row["packets"])
    for name, found in (("trace info", about["packets"]), ("replay", document["books"]["read"])):
        if found != packets:
            wrong.append(f"{name}: {found} packets instead of {packets}")
    if about["flows"] != document["trace"]["flows"]:
        wrong.append(f"{about['flows']} flows by trace info, {document['trace']['flows']} replayed")
    return "; ".join(wrong)


def composite(*options):
    done = run("replay", COMPOSITE, *CHAIN, *options, "--json", "-", "-q")
    document = json.loads(done.stdout)
    return done.returncode, {name: value for name, value in document.items()
                             if name not in ("run", "cost")}


class Corpus(unittest.TestCase):
    def test_every_capture_is_replayed_whole_or_refused_by_name(self):
        with open(INVENTORY, encoding="utf-8", newline="") as text:
            rows = list(csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE))
        self.assertGreater(len(rows), 0)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for row, wrong in zip(rows, pool.map(judge, rows)):
                with self.subTest(capture=row["file"]):
                    self.assertEqual(wrong, "")

    def test_the_composite_gives_the_same_document_twice(self):
        self.assertEqual(composite(), composite())

    def test_the_composite_gives_the_same_flows_with_two_workers(self):
        (one_status, one), (two_status, two) = composite(), composite("--workers", 2)
        self.assertEqual((one_status, two_status), (EXIT_OK, EXIT_OK))
        self.assertEqual(unbalanced(one) + unbalanced(two), [])
        for name in ("inserted", "live", "expired", "closed", "evicted", "state_live",
                     "flow_digest"):
            self.assertEqual(one["conntrack"][name], two["conntrack"][name], name)
        for name in ("read", "forwarded", "dropped"):
            self.assertEqual(one["books"][name], two["books"][name], name)


if __name__ == "__main__":
    if not INVENTORY.is_file():
        print(f"no captures here: {INVENTORY.name} is not there (set SHEAF_TRACES)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
