#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Replays through the whole path: books, order, and results that only the traffic decides.

Usage: replay_test.py SHEAF CASES_FOLDER CASES.tsv SAMPLE
       replay_test.py --print ...          prints the table anew, to be read before it is kept
"""

import concurrent.futures
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PRINT = "--print" in sys.argv
SHEAF, CASES, TABLE, SAMPLE = (
    pathlib.Path(path).resolve() for path in [a for a in sys.argv[1:] if a != "--print"][:4])
TIMEOUT_S = 240
CHAIN = "stats,router,firewall:rules=200,nat,lb"
BASE = ("--reframer", "delay=64us", "--chain", CHAIN)
JOBS = min(2, os.cpu_count() or 1)
EXIT_OK, EXIT_INPUT, EXIT_BOOKS, EXIT_DAMAGED = 0, 2, 4, 5


class Replay:
    """One run of `sheaf replay`."""

    def __init__(self, *arguments):
        done = subprocess.run(
            [SHEAF, "replay", *map(str, arguments), "--json", "-", "-q"],
            capture_output=True, timeout=TIMEOUT_S, check=False)
        self.status = done.returncode
        self.errors = done.stderr.decode(errors="replace").strip()
        self.text = done.stdout
        self.document = json.loads(done.stdout) if done.stdout else None

    def counted(self):
        """Nothing lost, nothing reordered, every connection accounted for; else what is wrong."""
        books, conntrack = self.document["books"], self.document["conntrack"]
        wrong = []
        if not books["balanced"]:
            wrong.append("books do not balance")
        if books["read"] != books["forwarded"] + sum(books["dropped"].values()) + books["held"]:
            wrong.append("read is not forwarded + dropped + held")
        if books["held"] != 0:
            wrong.append("packets held at the end")
        if books["reorder_violations"] != 0:
            wrong.append("reordered inside a flow")
        ends = ("live", "closed", "expired", "evicted", "purged")
        if conntrack["inserted"] != sum(conntrack[end] for end in ends):
            wrong.append("inserted is not " + " + ".join(ends))
        for function in self.document["chain"]:
            if function["in"] != function["out"] + sum(function["drops"].values()):
                wrong.append(f"{function['name']}: in is not out + dropped")
        for before, function in zip(self.document["chain"], self.document["chain"][1:]):
            if function["in"] != before["out"]:
                wrong.append(f"{function['name']}: in is not out of {before['name']}")
        return ", ".join(wrong)

    def flow_results(self):
        """What speed, burst size, ablations and the number of workers must not change."""
        conntrack, books = self.document["conntrack"], self.document["books"]
        names = ("inserted", "live", "expired", "closed", "evicted", "purged", "invalid_packets",
                 "related_packets", "state_live", "flow_digest")
        return {
            "conntrack": {name: conntrack[name] for name in names},
            "books": {name: books[name] for name in ("read", "forwarded", "dropped")},
            "chain": [{name: function[name] for name in ("name", "in", "out", "drops")}
                      for function in self.document["chain"]],
            # Locality is counted by each worker, over what it sees.
            "trace": {name: value for name, value in self.document["trace"].items()
                      if name not in ("slf", "flow_runs")},
        }

    def results(self):
        return {name: value for name, value in self.document.items()
                if name not in ("run", "cost")}


def replay_all(runs):
    """Replays of [(arguments)], two at a time."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda arguments: Replay(*arguments), runs))


# ---- captures too large to keep ----------------------------------------------------------------


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def frame(source, target, flags=None, payload=b"", sequence=0):
    """An Ethernet frame; (address, port) pairs; UDP without flags, else TCP."""
    (source_address, source_port), (target_address, target_port) = source, target
    if flags is None:
        segment = struct.pack("!HHHH", source_port, target_port, 8 + len(payload), 0) + payload
    else:
        segment = struct.pack("!HHIIBBHHH", source_port, target_port, sequence, 1, 5 << 4, flags,
                              65535, 0, 0) + payload
    protocol = 17 if flags is None else 6
    header = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(segment), 0, 0, 64, protocol, 0,
                         source_address, target_address)
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + header + segment


def write_capture(path, packets):
    """packets: (nanoseconds, frame), in order."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1))
        for time_ns, data in packets:
            out.write(struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, len(data),
                                  len(data)))
            out.write(data)


CLIENTS, SERVER = 0x0a010000, (0x0a020001, 80)
SYN, ACK, SYN_ACK = 0x02, 0x10, 0x12


def syn_flood(path, attackers=10000):
    """SYNs that nobody answers, then one whole handshake."""
    packets = [(index * 10000, frame((CLIENTS + index, 40000), SERVER, SYN))
               for index in range(attackers)]
    client, time_ns = (CLIENTS + attackers, 40000), attackers * 10000
    packets += [(time_ns, frame(client, SERVER, SYN)),
                (time_ns + 1000, frame(SERVER, client, SYN_ACK)),
                (time_ns + 2000, frame(client, SERVER, ACK, sequence=1))]
    write_capture(path, packets)
    return len(packets)


def one_packet_flows(path, flows):
    write_capture(path, [(index * 1000, frame((CLIENTS + index, 5000), SERVER, None, b"x" * 18))
                         for index in range(flows)])


def long_flow_in_flood(path, short=4000):
    """One connection with a packet each second among many short flows."""
    client = (CLIENTS - 1, 50000)
    packets = [(0, frame(client, SERVER, SYN)), (1000, frame(SERVER, client, SYN_ACK)),
               (2000, frame(client, SERVER, ACK, sequence=1))]
    for index in range(short):
        time_ns = 10**6 + index * 10**6
        packets.append((time_ns, frame((CLIENTS + index, 5000), SERVER, None, b"x" * 18)))
        if index % 1000 == 500:
            packets.append((time_ns + 1, frame(client, SERVER, ACK, b"data", 1)))
    write_capture(path, packets)
    return len(packets)


def shuffled_flows(path, seed, flows=300, packets=12000):
    """TCP and UDP flows of many lengths, interleaved at random, some with equal times."""
    rng = random.Random(seed)
    time_ns, out = 0, []
    for _ in range(packets):
        flow = int(rng.paretovariate(1.1)) % flows
        client = (CLIENTS + flow, 1024 + flow)
        flags = None if flow % 3 == 0 else rng.choice((ACK, ACK, ACK, SYN, 0x11, 0x14, SYN_ACK))
        pair = (client, SERVER) if rng.random() < 0.6 else (SERVER, client)
        time_ns += rng.choice((0, 100, 1000, 20000, 300000))
        out.append((time_ns, frame(*pair, flags, b"y" * rng.randrange(0, 40))))
    write_capture(path, out)


# ---- tests -------------------------------------------------------------------------------------


def rows():
    """(file, options, expected columns) of the table."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, options, *expected = line.split("\t")
            yield name, options.split(), expected


def listed(counts):
    return ",".join(f"{name}={count}" for name, count in sorted(counts.items()) if count) or "-"


def columns(done):
    if done.document is None:
        return [str(done.status)] + ["-"] * 6
    books, conntrack = done.document["books"], done.document["conntrack"]
    return [str(done.status), str(books["read"]), listed(books["dropped"]),
            str(conntrack["inserted"]), str(conntrack["closed"]), str(conntrack["peak_live"]),
            listed(conntrack["state_live"])]


class Cases(unittest.TestCase):
    def test_every_case_is_replayed_as_the_table_says(self):
        wanted = list(rows())
        runs = replay_all([(CASES / name, *BASE, *options) for name, options, _ in wanted])
        for (name, options, expected), done in zip(wanted, runs):
            with self.subTest(case=name, options=options):
                self.assertEqual(columns(done), expected, done.errors)
                if done.document is not None:
                    self.assertEqual(done.counted(), "")
                else:
                    self.assertEqual(len(done.errors.splitlines()), 1, done.errors)
                    self.assertIn(name, done.errors)

    def test_the_table_names_every_case(self):
        names = {name for name, _, _ in rows()}
        found = {path.name for path in CASES.iterdir() if ".pcap" in path.name}
        self.assertEqual(found - names, set())

    def test_two_workers_give_the_flow_results_of_one(self):
        names = sorted({name for name, _, expected in rows() if expected[0] == str(EXIT_OK)})
        together = [CASES / name for name in names]
        one, two, three = replay_all(
            [(*together, *BASE, "--workers", count) for count in (1, 2, 3)])
        self.assertEqual(one.counted(), "")
        self.assertEqual(two.counted(), "")
        self.assertEqual(one.flow_results(), two.flow_results())
        self.assertEqual(one.flow_results(), three.flow_results())


class Results(unittest.TestCase):
    """On captures with everything in them."""

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = pathlib.Path(cls.holder.name)
        cls.seed = int(os.environ.get("SHEAF_TEST_SEED", "1"))
        shuffled_flows(cls.folder / "shuffled.pcap", cls.seed)
        cls.captures = ((SAMPLE, "--overlay", 4), (cls.folder / "shuffled.pcap",))

    def compare(self, variants, view):
        for capture in self.captures:
            runs = replay_all([(*capture, *BASE, *more) for more in [(), *variants]])
            for variant, done in zip([(), *variants], runs):
                with self.subTest(capture=capture[0].name, variant=variant, seed=self.seed):
                    self.assertEqual(done.status, EXIT_OK, done.errors)
                    self.assertEqual(done.counted(), "")
                    self.assertEqual(view(done), view(runs[0]))

    def test_two_runs_are_equal_but_for_run_and_cost(self):
        self.compare([(), ("--repeat", 2)], Replay.results)

    def test_workers_do_not_change_flow_results(self):
        self.compare([("--workers", 2), ("--workers", 3)], Replay.flow_results)

    def test_speed_and_delay_do_not_change_flow_results(self):
        self.compare([("--speed", 20), ("--speed", 0.5), ("--reframer", "delay=1ms,held=64"),
                      ("--reframer", "off")], Replay.flow_results)

    def test_bulk_packets_wait_by_their_own_delay(self):
        self.compare([("--bulk", "udp", "--reframer", "delay=1us,bulk=3ms"),
                      ("--bulk", "tcp", "--reframer", "bulk=0")], Replay.flow_results)
        none, long = replay_all([
            (SAMPLE, *BASE, "--bulk", "udp", "--reframer", f"delay=1us,bulk={delay}")
            for delay in ("1us", "3ms")])
        self.assertEqual(none.document["reframer"]["hold_max_ns"], 1000)
        self.assertGreater(long.document["reframer"]["hold_max_ns"], 1000000)
        self.assertLessEqual(long.document["reframer"]["hold_max_ns"], 3000000)

    def test_burst_size_does_not_change_flow_results(self):
        self.compare([("--burst", 1), ("--burst", 7), ("--burst", 256)], Replay.flow_results)

    def test_ablations_do_not_change_flow_results(self):
        self.compare([("--ablate", name) for name in (
            "prefetch", "runs", "dedup", "burst", "prefetch,runs,dedup,burst")],
            Replay.flow_results)

    def test_reception_and_memory_do_not_change_flow_results(self):
        self.compare([("--rx", "cold"), ("--no-huge",), ("--hash", "siphash")],
                     lambda done: {**done.flow_results(), "trace": None})


TABLES = ("bucket", "cuckoo", "robin_hood", "hopscotch", "chaining", "dlht", "growing",
          "rte_hash", "rte_hash_rw", "rte_hash_lf", "ck_ht", "cds_lfht")


class Tables(unittest.TestCase):
    """Which table connections are kept in changes no result of a flow."""

    # What depends on the table's layout, and on the laboratory's wheel.
    OWN = ("memory_bytes", "bytes_per_flow", "timers_fired", "timers_rearmed",
           "timers_moved_earlier", "expiry_late_max_ns")

    def results(self, *options):
        done = Replay(SAMPLE, "--overlay", 3, "--timeout", "udp_unreplied=10ms", *BASE, *options)
        if "built without" in done.errors:
            return None
        self.assertEqual(done.status, EXIT_OK, done.errors)
        self.assertEqual(done.counted(), "", options)
        for name in self.OWN:
            del done.document["conntrack"][name]
        return done.document

    def test_every_table_gives_the_same_results(self):
        expected = self.results()
        self.assertIsNone(expected["run"]["conntrack"]["table"])
        self.assertGreater(expected["conntrack"]["expired"], 0)
        seen = 0
        for name in TABLES:
            document = self.results("--table", name)
            if document is None:
                continue
            seen += 1
            self.assertEqual(document["run"]["conntrack"]["table"], name)
            for part in ("trace", "reframer", "conntrack", "chain", "books"):
                self.assertEqual(document[part], expected[part], (name, part))
        self.assertGreaterEqual(seen, 10)


class Pressure(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = pathlib.Path(holder.name) / "made.pcap"

    def replay(self, *options):
        done = Replay(self.path, *BASE, *options)
        self.assertEqual(done.status, EXIT_OK, done.errors)
        self.assertEqual(done.counted(), "")
        return done.document

    def test_a_handshake_behind_a_syn_flood_is_established(self):
        packets = syn_flood(self.path)
        for options in ((), ("--conns", 1024), ("--conns", 1024, "--full", "evict"),
                        ("--half-open", 100)):
            document = self.replay(*options)
            self.assertEqual(document["books"]["forwarded"], packets, options)
        self.assertEqual(document["conntrack"]["state_live"]["tcp_established"], 1)
        self.assertLessEqual(document["conntrack"]["peak_half_open"], 100)

    def test_a_full_table_follows_its_policy(self):
        one_packet_flows(self.path, 5000)
        for policy in ("pass", "drop", "evict"):
            document = self.replay("--conns", 4096, "--full", policy)
            conntrack, books = document["conntrack"], document["books"]
            self.assertLessEqual(conntrack["peak_live"], 4096)
            if policy == "evict":
                self.assertEqual(conntrack["inserted"], 5000 - conntrack["insert_failures"])
                self.assertGreater(conntrack["evicted"], 0)
            else:
                self.assertGreaterEqual(conntrack["insert_failures"], 5000 - 4096)
            lost = books["dropped"].get("conn_table_full", 0)
            self.assertEqual(lost, conntrack["insert_failures"] if policy == "drop" else 0)

    def test_a_long_flow_survives_a_flood_of_short_ones(self):
        packets = long_flow_in_flood(self.path)
        document = self.replay("--conns", 1024, "--full", "evict")
        self.assertEqual(document["books"]["read"], packets)
        self.assertEqual(document["conntrack"]["state_live"]["tcp_established"], 1)

    def test_interleaved_flows_become_runs_inside_the_bound(self):
        client = [(CLIENTS + flow, 6000 + flow) for flow in range(32)]
        write_capture(self.path, [
            (index * 1000, frame(client[index % 32], SERVER, ACK, b"z" * 10))
            for index in range(3200)])
        document = self.replay("--reframer", "delay=640us")
        reframer = document["reframer"]
        self.assertAlmostEqual(reframer["slf_in"], 1.0, places=3)
        # 640 us hold 640 packets: 20 of each of the 32 flows.
        self.assertGreater(reframer["slf_out"], 15)
        self.assertLessEqual(reframer["hold_max_ns"], 640000)

    def test_a_ring_smaller_than_the_capture_loses_nothing(self):
        one_packet_flows(self.path, 5000)
        document = self.replay("--rx-ring", 64, "--burst", 16, "--reframer", "delay=1ms,held=32")
        self.assertEqual(document["books"]["forwarded"], 5000)


def print_table():
    for name, options, _ in rows():
        done = Replay(CASES / name, *BASE, *options)
        print("\t".join([name, " ".join(options), *columns(done)]))


if __name__ == "__main__":
    if PRINT:
        print_table()
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
