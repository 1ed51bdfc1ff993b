#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""gpu.csv and checks.csv from the documents of gpu.sh, and how measurements stand to what is aimed at.

Usage: gpu_tables.py FOLDER
"""

import csv
import json
import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[1])
PROBE = json.loads((FOLDER / "probe.json").read_text())
# In every row, so that no row can be taken for another device's.
DEVICE = ("TEST DOUBLE, not a GPU: " if PROBE["test_double"] else "") + PROBE["name"]
WIDTH = 64  # inputs of the perceptron that is aimed at


def load(name):
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"backends": [], "rates": None}


def points(name, **wanted):
    """Points of a document's series that have these values."""
    for series in load(name)["backends"]:
        if all(series[key] == value for key, value in wanted.items()):
            for point in series["points"]:
                yield series, point


def write_measurements():
    fields = ("batch", "batches", "flows_per_s", "flows_per_cpu_s", "p50_us", "p99_us", "p999_us", "cpu")
    with open(FOLDER / "gpu.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["device", "run", "backend", "wait", "inflight", "why", *fields])
        for path in sorted(FOLDER.glob("*.json")):
            document = json.loads(path.read_text())
            if document["schema"] != "sheaf-infer-bench-1":
                continue
            for series in document["backends"]:
                head = [DEVICE, path.stem, series["backend"], series["wait"], series["inflight"], series["why"]]
                for point in series["points"]:
                    writer.writerow(head + [point[field] for field in fields])
            rates = document["rates"] or {"ran": False}
            for point in rates["resident"] if rates["ran"] else ():
                writer.writerow([DEVICE, path.stem, "device memory", "", "", "", point["batch"], "",
                                 point["flows_per_s"], "", "", "", "", ""])


def checks():
    """What, value, unit, aim: least or most."""
    rates = load("bench-64-128-64-16")["rates"]
    if rates and rates["ran"]:
        for way in ("to_device", "to_host", "both"):
            yield f"copies of pinned memory, {way}", rates[f"{way}_bytes_per_s"] / 1e9, "GB/s", None
        resident = [p["flows_per_s"] for p in rates["resident"] if p["batch"] == 4096]
        for rate in resident:
            yield "64-128-64-16 from device memory, batches of 4096", rate / 1e6, "M flows/s", ("least", 150)
        best = max((p["flows_per_s"] for _, p in points("overlap")), default=None)
        if best is not None and rates["to_device_bytes_per_s"] > 0:
            yield ("64-128-64-16 from pinned memory, of the copy rate",
                   best * WIDTH * 4 / rates["to_device_bytes_per_s"] * 100, "%", ("least", 80))
    for series in ("launch", "graph"):
        one, more = ([p["flows_per_s"] for s, p in points("overlap", backend=f"cuda {series}")
                      if (s["inflight"] == 1) == alone] for alone in (True, False))
        if one and more:
            yield f"{series}: several batches at a time, of one", max(more) / max(one) * 100, "%", None
    for mode in ("launch", "graph", "persistent"):
        for _, point in points("ping", backend=f"cuda {mode}"):
            aim = ("most", 12) if mode == "persistent" else None
            yield f"one row there and back, {mode}, p50", point["p50_us"], "us", aim
            yield f"one row there and back, {mode}, p99", point["p99_us"], "us", None
        for series, point in points("waits", backend=f"cuda {mode}"):
            yield f"CPU of {mode}, wait {series['wait']}", point["cpu"] * 100, "% of a core", None


def outcome(value, aim):
    if aim is None:
        return ""
    if PROBE["test_double"]:
        return "not judged"
    return "reached" if (value >= aim[1] if aim[0] == "least" else value <= aim[1]) else "MISSED"


def main():
    write_measurements()
    with open(FOLDER / "checks.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["device", "what", "value", "unit", "aim", "outcome"])
        print(DEVICE)
        for what, value, unit, aim in checks():
            told = f"at {aim[0]} {aim[1]}" if aim else ""
            writer.writerow([DEVICE, what, f"{value:.4g}", unit, told, outcome(value, aim)])
            print(f"{what:55} {value:10.4g} {unit:11} {told:12} {outcome(value, aim)}".rstrip())


main()
