#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures streamed from their files give what captures played from memory give, byte for byte.

Usage: stream_test.py SHEAF CASES_FOLDER SAMPLE [SHARED_TRACES]
SHARED_TRACES: a folder of more captures; left out where there is none.
"""

import concurrent.futures
import gzip
import itertools
import json
import os
import pathlib
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SHEAF, CASES, SAMPLE = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
SHARED = pathlib.Path(sys.argv[4]).resolve() if len(sys.argv) > 4 else None
TIMEOUT_S = 300
JOBS = min(2, os.cpu_count() or 1)
SEED = int(os.environ.get("SHEAF_TEST_SEED", "1"))
EXIT_OK, EXIT_USAGE, EXIT_INPUT, EXIT_RUN, EXIT_DAMAGED, EXIT_INTERRUPTED = 0, 1, 2, 3, 5, 6
CHAIN = ("--chain", "stats,router,nat,lb", "--reframer", "delay=64us")


def is_sanitized():
    """Whether this sheaf was built with a sanitizer."""
    with open(SHEAF, "rb") as program:
        return b"-fsanitize" in program.read()


SANITIZED = is_sanitized()


# Runs on explicit huge pages fail when others take the last ones meanwhile; one test takes them.
REPLAY = (SHEAF, "replay", "--no-huge")


class Replay:
    """One run of `sheaf replay`."""

    def __init__(self, *arguments, **more):
        done = subprocess.run([*REPLAY, *map(str, arguments), "--json", "-", "-q"],
                              capture_output=True, timeout=TIMEOUT_S, check=False, **more)
        self.status = done.returncode
        self.errors = done.stderr.decode(errors="replace").strip()
        self.document = json.loads(done.stdout) if done.stdout else None

    def results(self):
        """Everything that two runs must agree on."""
        if self.document is None:
            return None
        out = {name: value for name, value in self.document.items()
               if name not in ("run", "cost")}
        out["trace"] = {name: value for name, value in out["trace"].items()
                        if name != "memory_bytes"}
        return out

    def mode(self):
        return self.document["run"]["reader"]["mode"]


def both(*arguments):
    """The same replay from memory and as a stream."""
    return [Replay(*arguments, "--stream", how) for how in ("off", "on")]


# ---- captures ----------------------------------------------------------------------------------


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def frame(source, target, payload=b"", flags=None):
    """An Ethernet frame; (address, port) pairs; UDP without flags, else TCP."""
    if flags is None:
        segment = struct.pack("!HHHH", source[1], target[1], (8 + len(payload)) & 0xffff, 0)
    else:
        segment = struct.pack("!HHIIBBHHH", source[1], target[1], 1, 1, 5 << 4, flags, 999, 0, 0)
    length = min(20 + len(segment) + len(payload), 0xffff)
    header = struct.pack("!BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17 if flags is None else 6, 0,
                         source[0], target[0])
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + header + segment + payload


def traffic(seed, count, flows=400, start_ns=10**18, sizes=(0, 40, 1400)):
    """(ns, frame) of many flows at random, equal times and steps back included."""
    rng = random.Random(seed)
    time_ns, server = start_ns, (0x0a020001, 80)
    for _ in range(count):
        flow = int(rng.paretovariate(1.1)) % flows
        client = (0x0a010000 + flow, 1024 + flow)
        pair = (client, server) if rng.random() < 0.6 else (server, client)
        flags = None if flow % 3 == 0 else rng.choice((0x10, 0x10, 0x10, 0x02, 0x11, 0x14, 0x12))
        time_ns += rng.choice((0, 100, 1000, 20000, 300000, -5000))
        yield time_ns, frame(*pair, b"y" * rng.choice(sizes), flags)


def record(time_ns, data, wire=None):
    return struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, len(data),
                       wire or len(data)) + data


def write_capture(path, packets, snaplen=1 << 18, link=1):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, snaplen, link))
        for time_ns, data in packets:
            out.write(record(time_ns, data[:snaplen], len(data)))
    return path


def ng_block(kind, body):
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def write_ng(path, packets, bad_link_at=None):
    """pcapng; packet bad_link_at is of an interface with a link type that nobody supports."""
    with open(path, "wb") as out:
        out.write(ng_block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)))
        for link in (1, 147):
            out.write(ng_block(1, struct.pack("<HHI", link, 0, 0)))
        for index, (time_ns, data) in enumerate(packets):
            ticks = time_ns // 1000
            out.write(ng_block(6, struct.pack("<IIIII", int(index == bad_link_at), ticks >> 32,
                                              ticks & 0xffffffff, len(data), len(data)) + data))
    return path


class Folder(unittest.TestCase):
    """Tests with a few captures of 20,000 packets: several chunks per worker."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.packets = list(traffic(SEED, 20000))
        cls.main = write_capture(cls.folder / "main.pcap", cls.packets)
        cls.other = write_ng(cls.folder / "other.pcapng",
                             traffic(SEED + 1, 9000, start_ns=10**18 + 10**8))
        cls.third = write_capture(cls.folder / "third.pcap",
                                  traffic(SEED + 2, 5000, start_ns=10**18 - 10**9), snaplen=96)

    def agree(self, *arguments, status=EXIT_OK):
        memory, stream = both(*arguments)
        with self.subTest(arguments=" ".join(map(str, arguments)), seed=SEED):
            self.assertEqual(memory.status, status, memory.errors)
            self.assertEqual((stream.status, stream.errors), (memory.status, memory.errors))
            self.assertEqual(stream.results(), memory.results())
            if stream.document is not None:
                self.assertEqual((memory.mode(), stream.mode()), ("memory", "stream"))
                self.assertTrue(stream.document["books"]["balanced"])
        return stream


# ---- the same results --------------------------------------------------------------------------


class Same(Folder):
    def test_for_every_number_of_workers(self):
        for workers in (1, 2, 3, 5):
            self.agree(self.main, *CHAIN, "--workers", workers)

    def test_for_several_files(self):
        three = (self.main, self.other, self.third)
        for workers, how in itertools.product((1, 2), ((), ("--concat",))):
            self.agree(*three, *how, *CHAIN, "--workers", workers)
        for limit in (1, 15000, 33999, 34001):
            self.agree(*three, "--packets", limit)
            self.agree(*three, "--concat", "--packets", limit)

    def test_for_passes_and_copies(self):
        for more in (("--loop", 3), ("--loop", 3, "--loop-shift"), ("--overlay", 5),
                     ("--overlay", 3, "--overlay-shift", "20s", "--loop", 2, "--loop-shift"),
                     ("--overlay", 4, "--overlay-shift", "0", "--packets", 3000),
                     ("--repeat", 3)):
            self.agree(self.main, *CHAIN, "--workers", 2, *more)
        self.agree(self.main, self.other, "--overlay", 2, "--loop", 2, *CHAIN)

    def test_for_all_that_changes_time_and_marks(self):
        for more in (("--max-gap", "50us"), ("--speed", 3), ("--burst", 1), ("--burst", 256),
                     ("--reframer", "off"), ("--reframer", "delay=2ms,held=100"),
                     ("--bypass", "udp and greater 200"), ("--ablate", "burst,runs"),
                     ("--hash", "siphash"), ("--rx", "cold"),
                     ("--timeout", "udp_unreplied=1ms,udp_replied=1ms,tcp_established=3ms")):
            self.agree(self.main, *CHAIN, *more)

    def test_for_huge_pages(self):
        """The same from huge pages, where there are some that nobody else takes."""
        plain = Replay(self.main, *CHAIN)
        for how in ("off", "on"):
            huge = Replay(self.main, *CHAIN, "--no-huge=off", "--stream", how)
            if huge.status == EXIT_RUN and "Cannot allocate memory" in huge.errors:
                self.skipTest(f"others took the huge pages: {huge.errors}")
            self.assertEqual((huge.status, huge.errors), (plain.status, plain.errors))
            self.assertEqual(huge.results(), plain.results())
            if not huge.document["run"]["machine"]["huge_pages"]:
                self.skipTest("no free huge pages")

    def test_for_frames_of_every_size(self):
        sizes = (0, 1, 1400, 1860, 1861, 1900, 9000, 30000, 65400, 65407, 70000, 200000)
        big = write_capture(self.folder / "big.pcap", traffic(SEED, 3000, sizes=sizes))
        cut = write_capture(self.folder / "cut.pcap", traffic(SEED, 3000, sizes=sizes), 64)
        for more in ((), ("--workers", 2), ("--overlay", 2), ("--pad",),
                     ("--pad", "--overlay", 2)):
            self.agree(big, *CHAIN, *more)
            self.agree(cut, *CHAIN, *more)
        stream = self.agree(big)
        self.assertGreater(stream.document["trace"]["frames_cut"], 100)

    def test_for_every_small_capture(self):
        names = sorted(path for path in CASES.iterdir() if ".pcap" in path.name)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for name, (memory, stream) in zip(names, pool.map(
                    lambda path: both(path, *CHAIN, "--workers", 2), names)):
                with self.subTest(name=name.name):
                    self.assertEqual((stream.status, stream.errors),
                                     (memory.status, memory.errors))
                    self.assertEqual(stream.results(), memory.results())

    def test_for_the_sample(self):
        for more in ((), ("--workers", 2, "--overlay", 8, "--speed", 24)):
            self.agree(SAMPLE, *CHAIN, *more)

    @unittest.skipIf(SHARED is None or not SHARED.is_dir(), "no folder of more captures")
    def test_for_more_captures(self):
        found = sorted(path for path in SHARED.rglob("*.pcap*")
                       if 0 < path.stat().st_size < 64 << 20)
        self.assertTrue(found)
        random.Random(SEED).shuffle(found) # another seed, other captures
        for path in found[:30]:
            memory, stream = both(path, *CHAIN, "--workers", 2, "--packets", 300000)
            with self.subTest(path=path.name):
                self.assertEqual((stream.status, stream.errors), (memory.status, memory.errors))
                self.assertEqual(stream.results(), memory.results())

    def test_for_what_is_written(self):
        for workers, more in itertools.product((1, 2), ((), ("--reframer", "off"))):
            out = {}
            for how in ("on", "off"):
                path = self.folder / f"out-{how}.pcapng"
                done = Replay(self.main, self.third, *CHAIN, *more, "--workers", workers,
                              "--stream", how, "--sink", f"pcapng:{path}")
                self.assertEqual(done.status, EXIT_OK, done.errors)
                out[how] = path.read_bytes()
            self.assertTrue(out["on"] == out["off"], "the files differ")
            self.assertGreater(len(out["on"]), 1 << 20)

    def test_in_a_comparison(self):
        done = subprocess.run(
            [SHEAF, "compare", self.main, "--chain", "lb", "--repeat", "2", "--stream", "on",
             "--json", "-", "-q"], capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, EXIT_OK, done.stderr)
        runs = json.loads(done.stdout)["runs"]
        digests = {run["result"]["conntrack"]["flow_digest"] for run in runs}
        self.assertEqual(len(digests), 1)
        self.assertEqual({run["result"]["run"]["reader"]["mode"] for run in runs}, {"stream"})
        self.assertEqual({run["result"]["trace"]["packets"] for run in runs}, {20000})


# ---- the same refusals -------------------------------------------------------------------------


class Damage(Folder):
    def test_is_found_at_the_same_place(self):
        data = self.main.read_bytes()
        rng = random.Random(SEED)
        path = self.folder / "damaged.pcap"
        for _ in range(6):
            path.write_bytes(data[:rng.randrange(24, len(data))])
            self.agree(path, *CHAIN, status=EXIT_DAMAGED)
        spoilt = bytearray(data)
        spoilt[len(data) // 2:len(data) // 2 + 64] = b"\xff" * 64
        path.write_bytes(spoilt)
        memory, stream = both(path, self.third, *CHAIN, "--workers", 2)
        self.assertEqual((stream.status, stream.errors), (memory.status, memory.errors))
        self.assertEqual(stream.results(), memory.results())
        self.agree(path, path, "--overlay", 2, "--loop", 2, status=memory.status)

    def test_in_compressed_data_is_found_at_the_same_place(self):
        packed = gzip.compress(self.main.read_bytes(), 1)
        path = self.folder / "damaged.pcap.gz"
        path.write_bytes(packed[:len(packed) // 2])
        stream = self.agree(path, *CHAIN, "--workers", 2, status=EXIT_DAMAGED)
        self.assertEqual(len(stream.errors.splitlines()), 1)

    def test_behind_the_limit_of_a_merge_is_found_too(self):
        """Each file is judged by its own first N packets, however few of them are played."""
        path = self.folder / "early.pcap"
        path.write_bytes(write_capture(self.folder / "e.pcap", traffic(
            SEED, 400, start_ns=2 * 10**18)).read_bytes()[:-7])
        self.agree(self.main, path, "--packets", 500, status=EXIT_DAMAGED)
        self.agree(self.main, path, "--packets", 390)
        self.agree(self.main, path, "--packets", 500, "--concat")

    def test_an_unsupported_link_type_in_the_middle_is_refused(self):
        path = write_ng(self.folder / "link.pcapng", self.packets, bad_link_at=15000)
        out = self.folder / "never.pcap"
        for more in ((), ("--workers", 2), ("--overlay", 2), ("--loop", 2)):
            memory, stream = both(path, *CHAIN, *more, "--sink", f"pcap:{out}")
            with self.subTest(more=more):
                self.assertEqual(memory.status, EXIT_INPUT)
                self.assertEqual((stream.status, stream.errors), (memory.status, memory.errors))
                self.assertIsNone(stream.document)
                self.assertEqual([name.name for name in self.folder.glob("never*")], [])

    def test_what_cannot_be_opened_is_refused_before_anything_is_played(self):
        nowhere = self.folder / "nowhere.pcap"
        text = self.folder / "text"
        text.write_text("not a capture " * 9)
        for files in ((nowhere,), (self.main, nowhere), (self.main, text),
                      (self.main, "--concat", nowhere), (self.main, text, "--concat"),
                      (self.folder,)):
            self.agree(*files, status=EXIT_INPUT)
        # Nobody gets there.
        self.agree(self.main, nowhere, "--concat", "--packets", 20000)

    def test_a_filter_is_refused(self):
        self.agree(self.main, "--reframer", "on", "--bypass", "no such thing", status=EXIT_USAGE)

    def test_a_worker_that_fails_ends_the_run(self):
        for how in ("off", "on"):
            done = Replay(self.main, "--stream", how, "--workers", 2, "--sink",
                          f"pcap:{self.folder}/no/such/folder/x.pcap", "--loop", 100)
            self.assertEqual(done.status, EXIT_RUN, done.errors)
            self.assertIn("No such file", done.errors)

    def test_a_full_disk_ends_the_run_the_same(self):
        memory, stream = both(self.main, "--sink", "pcap:/dev/full")
        self.assertEqual((stream.status, stream.errors), (memory.status, memory.errors))


# ---- pipes, slow readers, signals --------------------------------------------------------------


class Live(Folder):
    def feed(self, path, pieces, pause_s):
        """Write the main capture into a pipe in so many pieces, slowly."""
        data = self.main.read_bytes()
        step = len(data) // pieces + 1

        def write():
            with open(path, "wb", buffering=0) as pipe:
                for at in range(0, len(data), step):
                    pipe.write(data[at:at + step])
                    time.sleep(pause_s)
        thread = threading.Thread(target=write)
        thread.start()
        self.addCleanup(thread.join)

    def test_a_slow_reader_starves_the_worker_and_changes_no_result(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        memory = Replay(self.main, *CHAIN)
        for workers in (1, 2):
            memory = Replay(self.main, *CHAIN, "--workers", workers)
            self.feed(pipe, 40, 0.05)
            stream = Replay(pipe, *CHAIN, "--workers", workers, "--stream", "on")
            self.assertEqual(stream.status, EXIT_OK, stream.errors)
            self.assertEqual(stream.results(), memory.results())
            cost = stream.document["cost"]
            self.assertTrue(cost["reader"]["starved"])
            self.assertGreater(cost["reader"]["starved_times"], 3)
            self.assertGreater(cost["reader"]["starved_share"], 0.5)
            # Cycles are of work: waiting, which is nearly all there was, is not in them.
            cycles = cost["cycles_per_packet"]["total"] * memory.document["books"]["read"]
            self.assertLess(cycles / cost["tsc_hz"], 0.5 * workers * cost["elapsed_s"])
        self.assertIsNone(memory.document["cost"]["reader"])

    def test_the_table_says_who_waited(self):
        pipe = self.folder / "told"
        os.mkfifo(pipe)
        self.feed(pipe, 40, 0.03)
        done = subprocess.run([*REPLAY, pipe, "--stream", "on"], capture_output=True,
                              timeout=TIMEOUT_S, check=True, text=True)
        self.assertRegex(done.stdout, r"reader +starved a worker \d+ times, \d+\.\d % of the time")
        # What fits the chunks is there before the worker starts.
        done = subprocess.run([*REPLAY, self.third, "--stream", "on"],
                              capture_output=True, timeout=TIMEOUT_S, check=True, text=True)
        self.assertRegex(done.stdout, "reader +never starved a worker")

    def test_standard_input_is_streamed_once(self):
        with open(self.main, "rb") as source:
            stream = Replay("-", *CHAIN, "--stream", "on", stdin=source)
        self.assertEqual(stream.status, EXIT_OK, stream.errors)
        self.assertEqual(stream.results(), Replay(self.main, *CHAIN).results())
        for more in (("--loop", 2), ("--overlay", 2), ("--repeat", 2)):
            with open(self.main, "rb") as source:
                done = Replay("-", *CHAIN, "--stream", "on", *more, stdin=source)
            self.assertEqual(done.status, EXIT_USAGE)
            self.assertRegex(done.errors, r"^sheaf: stream: got standard input, which can be read "
                                          r"only once, expected .*$")
            with open(self.main, "rb") as source: # from memory it can be played as one likes
                done = Replay("-", *CHAIN, *more, stdin=source)
            self.assertEqual((done.status, done.mode()), (EXIT_OK, "memory"), done.errors)

    def interrupt(self, *arguments, after_s=0.7, stdin=None):
        command = [*REPLAY, *map(str, arguments), "--json", "-", "-q"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=stdin) as child:
            time.sleep(after_s)
            child.send_signal(signal.SIGINT)
            start = time.monotonic()
            out, errors = child.communicate(timeout=60)
            took_s = time.monotonic() - start
        self.assertEqual(child.returncode, EXIT_INTERRUPTED, errors)
        return json.loads(out) if out else None, took_s

    def test_an_interrupt_ends_all_threads_and_balances_the_books(self):
        for more in (("--workers", 2), ("--overlay", 3), ("--clock", "wall"),
                     ("--clock", "wall", "--workers", 3)):
            document, _ = self.interrupt(self.main, self.other, *CHAIN, "--stream", "on",
                                         "--loop", 10**6, *more)
            self.assertTrue(document["run"]["interrupted"])
            self.assertTrue(document["books"]["balanced"])
            self.assertEqual(document["books"]["held"], 0)

    def test_an_interrupt_ends_waiting_for_a_pipe(self):
        """Nothing is written: before the first packet, and in the middle."""
        for how in ("on", "off"):
            read_end, write_end = os.pipe()
            document, took_s = self.interrupt("-", "--stream", how, stdin=read_end)
            self.assertEqual(document["books"]["read"], 0)
            self.assertLess(took_s, 20)
            os.close(read_end)
            os.close(write_end)
        read_end, write_end = os.pipe()
        data = self.main.read_bytes()
        feeder = threading.Thread(target=lambda: os.write(write_end, data[:2 << 20]))
        feeder.start()
        document, took_s = self.interrupt("-", "--stream", "on", stdin=read_end, after_s=2)
        feeder.join()
        os.close(read_end)
        os.close(write_end)
        self.assertLess(took_s, 20)
        self.assertTrue(document["books"]["balanced"])
        self.assertEqual(document["trace"]["damages_count"], 0)

    def test_a_capture_that_changes_between_passes_is_refused(self):
        path = self.folder / "growing.pcap"
        path.write_bytes(self.main.read_bytes())
        command = [*REPLAY, path, "--stream", "on", "--loop", "1000000", "-q"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
            time.sleep(0.7)
            with open(path, "ab") as out:
                out.write(record(2 * 10**18, b"z" * 60))
            _, errors = child.communicate(timeout=TIMEOUT_S)
        self.assertEqual(child.returncode, EXIT_INPUT, errors)
        self.assertRegex(errors, r"growing.pcap: changed while it was replayed: 20001 packets in "
                                 r"pass \d+, 20000 in the first")

    def test_the_wall_clock_paces_a_stream(self):
        path = write_capture(self.folder / "paced.pcap", (
            (10**18 + index * 10**5, frame((0x0a000001, 5 + index % 50), (0x0a000002, 80)))
            for index in range(10000)))
        for workers in (1, 2):
            done = Replay(path, *CHAIN, "--clock", "wall", "--workers", workers, "--stream", "on")
            self.assertEqual(done.status, EXIT_OK, done.errors)
            self.assertEqual(done.document["books"]["forwarded"], 10000)
            self.assertGreater(done.document["cost"]["elapsed_s"], 0.99)
            self.assertLess(done.document["cost"]["elapsed_s"], 30)
            self.assertEqual(done.document["reframer"]["time_backwards"], 0)


# ---- which of the two --------------------------------------------------------------------------


class Choice(Folder):
    def test_small_captures_are_played_from_memory(self):
        done = Replay(self.main)
        self.assertEqual(done.mode(), "memory")
        self.assertRegex(done.document["run"]["reader"]["why"],
                         r"^estimated .* GB in memory, within 75 % of .* GB available$")
        self.assertEqual(Replay(self.main, "--stream", "on").document["run"]["reader"]["why"],
                         "asked for")

    def test_captures_larger_than_memory_are_streamed(self):
        """A file of 2 TB, nearly all of it a hole: records without a byte."""
        path = self.folder / "huge.pcap"
        path.write_bytes(self.main.read_bytes())
        try:
            os.truncate(path, 2 << 40)
        except OSError as error:
            self.skipTest(f"no large files here: {error}")
        command = [*REPLAY, path, "--json", "-", "-q"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            time.sleep(2)
            child.send_signal(signal.SIGINT)
            out, errors = child.communicate(timeout=60)
        self.assertEqual(child.returncode, EXIT_INTERRUPTED, errors)
        document = json.loads(out)
        self.assertEqual(document["run"]["reader"]["mode"], "stream")
        self.assertRegex(document["run"]["reader"]["why"], "above 75 % of")
        self.assertTrue(document["books"]["balanced"])
        # The first packets of it fit.
        self.assertEqual(Replay(path, "--packets", 1000).mode(), "memory")

    def test_open_files_are_asked_for_or_missed_in_one_line(self):
        path = write_capture(self.folder / "few.pcap", self.packets[:50])

        def limit(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        done = Replay(path, "--stream", "on", "--overlay", 300, preexec_fn=limit(128, 1024))
        self.assertEqual(done.status, EXIT_OK, done.errors)
        self.assertEqual(done.results(), Replay(path, "--overlay", 300).results())
        done = Replay(path, "--stream", "on", "--overlay", 300, preexec_fn=limit(128, 300))
        self.assertEqual(done.status, EXIT_RUN)
        self.assertEqual(done.errors, "sheaf: stream: 300 copies of 1 captures need 364 open "
                                      "files, the system allows 300 (ulimit -Hn)")

    @unittest.skipIf(SANITIZED, "a sanitizer takes memory of its own")
    def test_memory_does_not_grow_with_the_capture(self):
        """Peak resident memory of a stream and of a replay from memory, as one capture grows."""
        peaks = {}
        for how, copies in (("on", 1), ("on", 25), ("off", 25)):
            path = self.folder / "long.pcap"
            data = self.main.read_bytes()
            with open(path, "wb") as out:
                out.write(data)
                for _ in range(copies - 1):
                    out.write(data[24:])
            peaks[how, copies] = self.peak(path, how)
        size = path.stat().st_size
        self.assertGreater(size, 200 << 20)
        self.assertGreater(peaks["off", 25], peaks["on", 25] + size // 2)
        self.assertLess(peaks["on", 25], peaks["on", 1] + (16 << 20))

    def peak(self, path, how):
        code = ("import os, resource, subprocess, sys\n"
                "subprocess.run(sys.argv[1:], check=True)\n"
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n")
        done = subprocess.run(
            [sys.executable, "-c", code, *REPLAY, path, "--stream", how,
             "--conns", "1000", "-q"], capture_output=True, timeout=TIMEOUT_S, check=True)
        return int(re.search(rb"(\d+)\s*$", done.stdout).group(1)) * 1024


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
