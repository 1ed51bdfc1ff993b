#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The commands that make captures out of captures, from the outside: files, pipes, errors, and
whether other tools read what they write.

Usage: transforms_test.py SHEAF CASES_FOLDER SAMPLE
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

SHEAF, CASES, SAMPLE = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
TIMEOUT_S = 240
SANITIZED = b"__asan_init" in SHEAF.read_bytes() or b"__tsan_init" in SHEAF.read_bytes()
# Options that make something of any capture, by command.
EACH = (("scale", "--overlay", 3, "--speed", 2), ("slice", "--packets", 1000),
        ("filter", "--match", "ip or ip6"), ("shuffle", "--window", 50),
        ("regroup", "--delay", "1ms"))


def run(*arguments, **options):
    settings = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    return subprocess.run([SHEAF, "trace", *map(str, arguments)], **settings)


def read_pcap(data):
    """[(time in ns, length on the wire, frame)] and the link type."""
    factor = {b"\xd4\xc3\xb2\xa1": 1000, b"\x4d\x3c\xb2\xa1": 1}[data[:4]]
    link = struct.unpack("<I", data[20:24])[0]
    packets, at = [], 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack("<4I", data[at:at + 16])
        at += 16
        packets.append((seconds * 10**9 + fraction * factor, wire, data[at:at + captured]))
        at += captured
    return packets, link


def write_pcap(packets, link=1, nanoseconds=True):
    data = struct.pack("<IHHiIII", 0xa1b23c4d if nanoseconds else 0xa1b2c3d4, 2, 4, 0, 0, 65535,
                       link)
    for time_ns, wire, frame in packets:
        fraction = time_ns % 10**9 // (1 if nanoseconds else 1000)
        data += struct.pack("<4I", time_ns // 10**9, fraction, len(frame), wire) + frame
    return data


def frames(packets):
    return [packet[1:] for packet in packets]


class Transforms(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        self.made = self.folder / "made.pcap"
        done = run("gen", "--flows", 64, "--packets", 5000, "--tcp", self.made)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def tearDown(self):
        self.holder.cleanup()

    def packets(self, path):
        return read_pcap(path.read_bytes())[0]

    def transform(self, *arguments):
        """Run quietly into a new capture and read it."""
        out = self.folder / "out.ns.pcap"
        done = run(arguments[0], "--quiet", *arguments[1:], out)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return self.packets(out)

    def same(self, got, expected):
        """Equal lists; says where they part (assertEqual would look for a shortest difference)."""
        if got == expected:
            return
        at = next((i for i, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]),
                  min(len(got), len(expected)))
        self.fail(f"{len(got)} and {len(expected)} items, from {at} on "
                  f"{str(got[at:at + 1])[:200]} and {str(expected[at:at + 1])[:200]}")

    def information(self, path):
        done = run("info", path, "--json", "-", "--quiet")
        self.assertIn(done.returncode, (0, 5), done.stderr)
        return json.loads(done.stdout)["files"][0]

    def files(self):
        return {path.name for path in self.folder.iterdir()} - {"made.pcap"}

    # ---- against the rest of sheaf

    def replayed(self, *arguments):
        out = self.folder / "replayed.pcap"
        done = subprocess.run([SHEAF, "replay", *map(str, arguments), "--sink", f"pcap:{out}",
                               "--quiet", "--no-huge"], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.packets(out)

    def test_an_overlay_is_the_one_that_replay_plays(self):
        mine = self.transform("scale", "--overlay", 5, "--overlay-shift", "700us", self.made)
        self.same(mine, self.replayed(self.made, "--overlay", 5, "--overlay-shift",
                                             "700us"))
        mine = self.transform("scale", "--overlay", 7, SAMPLE)
        self.same(frames(mine), frames(self.replayed(SAMPLE, "--overlay", 7)))

    def test_regrouping_sends_what_the_reframer_sends(self):
        scaled = self.folder / "scaled.ns.pcap"
        done = run("scale", "--overlay", 20, "--speed", 24, "--quiet", SAMPLE, scaled)
        self.assertEqual(done.returncode, 0, done.stderr)
        for delay, most, held in (("64us", 128, 4096), ("1ms", 16, 4096), ("500us", 256, 100)):
            mine = self.transform("regroup", "--delay", delay, "--run", most, "--held", held,
                                  scaled)
            theirs = self.replayed(scaled, "--reframer", f"delay={delay},run={most},held={held},"
                                   f"flows={held},bypass=none")
            self.same(mine, theirs)

    def test_what_is_told_is_what_is_written(self):
        for command, *options in (EACH[0], EACH[3], EACH[4]):
            out, document = self.folder / "out.ns.pcap", self.folder / "out.json"
            done = run(command, *options, self.made, out, "--json", document)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(document.read_text())
            self.assertEqual((told["schema"], told["transform"]),
                             ("sheaf-trace-transform-1", command))
            for side, path in (("before", self.made), ("after", out)):
                self.assertEqual(told[side] | {"nanoseconds": 0},
                                 self.information(path) | {"nanoseconds": 0})
            self.assertRegex(done.stdout, r"(?m)^ +before +after$")
            self.assertRegex(done.stdout, r"(?m)^packets +5,000 +")

    def test_an_overlay_says_that_it_is_none_of_the_real_thing(self):
        out = self.folder / "out.pcap"
        done = run("scale", "--overlay", 3, "--speed", 1.5, self.made, out, "--json", "-")
        note = json.loads(done.stdout)["note"]
        self.assertIn("An overlay is not a real trace: 3 copies", note)
        self.assertIn("1.5 times as fast", note)
        self.assertIn(note.replace(". ", ".\n"), done.stderr)
        self.assertEqual(json.loads(done.stdout)["after"]["flows"], 3 * 64)

    # ---- what each does

    def test_speed_divides_distances(self):
        before = self.packets(self.made)
        after = self.transform("scale", "--speed", 4, self.made)
        self.same(frames(after), frames(before))
        first = before[0][0]
        self.same([packet[0] for packet in after],
                         [first + (packet[0] - first) // 4 for packet in before])

    def test_parts_are_played_at_once(self):
        before = self.packets(self.made)
        after = self.transform("scale", "--overlay", 5, "--overlay-shift", 0, "--slice", "1ms",
                               self.made)
        # 5 ms of a packet every microsecond, cut in 5: each microsecond has one of each part.
        self.assertEqual(len(after), 5000)
        self.same([packet[0] for packet in after],
                         [before[0][0] + i // 5 * 1000 for i in range(5000)])
        self.same(frames(after[::5]), frames(before[:1000]))
        done = run("scale", "--overlay", 8, "--slice", "1ms", self.made, self.folder / "x.pcap")
        self.assertIn("3 copies are empty: the capture ends before their part", done.stderr)

    def test_slices_by_time_make_up_the_whole(self):
        before, first = self.packets(self.made), self.packets(self.made)[0][0]
        parts = []
        for start in range(0, 5):
            parts += self.transform("slice", "--from", f"{start}ms", "--to", f"{start + 1}ms",
                                    self.made)
        self.same(parts, before)
        at = first + 4_000_000
        absolute = self.transform("slice", "--from", f"@{at // 10**9}.{at % 10**9:09}", self.made)
        self.same(absolute, before[4000:])

    def test_slices_by_place_and_flow(self):
        before = self.packets(self.made)
        self.same(self.transform("slice", "--skip", 10, "--packets", 20, self.made),
                         before[10:30])
        self.same(self.transform("slice", "--skip", 4990, self.made), before[4990:])
        two = self.transform("slice", "--flows", 2, self.made)
        self.assertEqual(len({packet[2][26:34] for packet in two}), 2)
        frame = before[0][2]
        ends = [".".join(map(str, frame[i:i + 4])) + f":{struct.unpack('>H', frame[j:j + 2])[0]}"
                for i, j in ((26, 34), (30, 36))]
        one = [packet for packet in before if packet[2][26:38] == frame[26:38]]
        for flow in ("-".join(ends), "-".join(reversed(ends))):
            self.same(self.transform("slice", "--flow", f"{flow}/tcp", self.made), one)
        done = run("slice", "--flow", f"{ends[0]}-{ends[1]}/udp", self.made,
                   self.folder / "none.pcap")
        self.assertEqual((done.returncode, done.stdout), (0, "kept 0 of the 5,000 packets read\n"))

    def test_filters_are_tcpdumps(self):
        done = run("filter", "--match", "tcp port 80 or udp", SAMPLE, self.folder / "out.pcap")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^kept [\d,]+ of the 11,776 packets read\n$")
        if shutil.which("tcpdump") is None:
            self.skipTest("tcpdump is not there")
        theirs = self.folder / "theirs.pcap"
        subprocess.run(["tcpdump", "-r", SAMPLE, "-w", theirs, "tcp port 80 or udp"], check=False,
                       capture_output=True)
        if not theirs.exists() or theirs.stat().st_size <= 24:  # it reads no gzip everywhere
            plain = self.folder / "plain.pcap"
            run("convert", SAMPLE, plain)
            subprocess.run(["tcpdump", "-r", plain, "-w", theirs, "tcp port 80 or udp"],
                           check=True, capture_output=True)
        self.same(frames(self.packets(self.folder / "out.pcap")), frames(self.packets(theirs)))

    def test_merging_takes_any_precision_and_link_type(self):
        a = [(10**9 + 1000 * i, 60 + i, bytes([i]) * (60 + i)) for i in range(5)]
        b = [(10**9 + 1000 * i + 500 * (i % 2), 40, b"\x45" + bytes(39)) for i in range(5)]
        (self.folder / "a.pcap").write_bytes(write_pcap(a, nanoseconds=False))
        (self.folder / "b.pcap").write_bytes(write_pcap(b, link=101))
        inputs = (self.folder / "a.pcap", self.folder / "b.pcap")
        done = run("merge", "-o", self.folder / "out.pcap", *inputs)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Asheaf: .*out\.pcap: got packets of link types "
                         r"(EN10MB|ETHERNET) and RAW, expected one: write pcapng\n\Z")
        self.assertEqual(self.files(), {"a.pcap", "b.pcap"})
        out = self.folder / "out.pcapng"
        self.assertEqual(run("merge", "-o", out, *inputs).returncode, 0)
        info = self.information(out)
        self.assertEqual((info["packets"], info["nanoseconds"], info["duration_ns"]),
                         (10, True, 4000))
        # Standard output has no name that could say: what holds them all.
        piped = run("merge", "-o", "-", *inputs, text=False)
        self.assertEqual((piped.returncode, piped.stdout), (0, out.read_bytes()), piped.stderr)

    def test_merging_is_stable_and_keeps_each_order(self):
        a = [(time, 20, b"a" + bytes([i]) * 19) for i, time in enumerate((5, 5, 9, 2, 9))]
        b = [(time, 20, b"b" + bytes([i]) * 19) for i, time in enumerate((1, 5, 9, 9))]
        for name, packets in (("a", a), ("b", b)):
            (self.folder / name).write_bytes(write_pcap(packets, link=101))
        merged = self.transform("merge", self.folder / "a", self.folder / "b", "-o")
        self.assertEqual([bytes([p[2][0]]).decode() + str(p[2][1]) for p in merged],
                         ["b0", "a0", "a1", "b1", "a2", "a3", "a4", "b2", "b3"])

    def test_shuffling_permutes_windows_and_keeps_time(self):
        before = self.packets(self.made)
        first = self.transform("shuffle", "--window", 100, self.made)
        self.same([packet[0] for packet in first], [packet[0] for packet in before])
        self.assertNotEqual(frames(first), frames(before))
        for at in range(0, 5000, 100):
            self.assertEqual(sorted(frames(first)[at:at + 100]),
                             sorted(frames(before)[at:at + 100]))
        self.same(first, self.transform("shuffle", "--window", 100, self.made))
        self.assertNotEqual(first, self.transform("shuffle", "--window", 100, "--seed", 2,
                                                  self.made))
        self.same(sorted(self.transform("shuffle", "--time", "1ms", "--keep-times",
                                               self.made)), sorted(before))
        ordered = self.transform("shuffle", "--window", 640, "--flow-order", SAMPLE)
        self.assertNotEqual(frames(ordered), frames(self.transform("slice", "--skip", 0,
                                                                   "--from", 0, SAMPLE)))

    # ---- pipes and files

    def test_everything_goes_through_pipes(self):
        for command, *options in EACH:
            alone = self.folder / "alone.pcap"
            self.assertEqual(run(command, *options, self.made, alone).returncode, 0)
            if command == "scale":  # reads its input once for every copy
                options = options[2:]
                run(command, *options, self.made, alone)
            piped = run(command, *options, "-", "-", input=self.made.read_bytes(), text=False)
            self.assertEqual(piped.returncode, 0, piped.stderr)
            self.assertEqual(piped.stdout, alone.read_bytes(), command)
        done = run("merge", "-", self.made, "-o", "-", input=self.made.read_bytes(), text=False)
        self.assertEqual(len(read_pcap(done.stdout)[0]), 10000)

    def test_an_input_is_never_an_output(self):
        before = self.made.read_bytes()
        hard, soft = self.folder / "hard.pcap", self.folder / "soft.pcap"
        hard.hardlink_to(self.made)
        soft.symlink_to(self.made)
        commands = [(command, *options, self.made) for command, *options in EACH]
        commands.append(("merge", SAMPLE, self.made, "-o"))
        for line in commands:
            for output in (self.made, hard, soft):
                done = run(*line, output)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, r"\Asheaf: trace \w+: got .* which is an input, "
                                 r"expected another file\n\Z")
        for command, *options in (EACH[0], EACH[3], EACH[4]):
            done = run(command, *options, self.made, self.folder / "x.pcap", "--json", hard)
            self.assertEqual(done.returncode, 1)
            self.assertIn("which is an input", done.stderr)
        self.assertEqual(self.made.read_bytes(), before)
        self.assertEqual(self.files(), {"hard.pcap", "soft.pcap"})

    def test_outputs_that_fail_leave_no_file(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))

        commands = [(command, *options, self.made) for command, *options in EACH]
        commands.append(("merge", self.made, "-o"))
        for line in commands:
            done = run(*line, self.folder / "out.pcap", preexec_fn=small_files)
            self.assertEqual(done.returncode, 3, line)
            self.assertRegex(done.stderr, r"\Asheaf: .*out\.pcap: File too large\n\Z")
            done = run(*line, "/dev/full")
            self.assertEqual(done.returncode, 3)
            self.assertEqual(done.stderr, "sheaf: /dev/full: No space left on device\n")
            done = run(*line, self.folder / "no" / "out.pcap")
            self.assertEqual(done.returncode, 3)
            self.assertRegex(done.stderr, r"\Asheaf: .*: No such file or directory\n\Z")
            read, write = os.pipe()
            os.close(read)
            done = run(*line, "-", stdout=write, stderr=subprocess.PIPE, capture_output=False)
            os.close(write)
            self.assertEqual(done.returncode, 3)
            self.assertEqual(done.stderr, "sheaf: standard output: Broken pipe\n")
        self.assertEqual(self.files(), set())

    def test_an_old_output_stays_when_the_new_one_fails(self):
        out = self.folder / "out.pcap"
        out.write_bytes(b"old")
        bad = self.folder / "bad.pcapng"
        data = self.made.read_bytes()
        bad.write_bytes(data[:24] + b"\xff" * 2000)
        done = run("merge", self.folder / "none.pcap", bad, "-o", out)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(out.read_bytes(), b"old")
        self.assertEqual(self.files(), {"out.pcap", "bad.pcapng"})

    def test_damage_is_located_and_the_rest_is_used(self):
        cut = self.folder / "cut.pcap"
        cut.write_bytes(self.made.read_bytes()[:-10])
        lines = [(command, *options, cut) for command, *options in EACH]
        lines[1] = ("slice", "--skip", 1, cut)
        lines.append(("merge", SAMPLE, cut, "-o"))
        for line in lines:
            out = self.folder / "out.pcap"
            done = run(line[0], "--quiet", *line[1:], out)
            self.assertEqual(done.returncode, 5, line)
            self.assertRegex(done.stderr, r"cut\.pcap: damaged at packet 5000, byte \d+: ")
            self.assertTrue(out.exists())
            out.unlink()

    def test_times_before_1970_and_backwards_are_told(self):
        odd = self.folder / "odd.pcap"
        odd.write_bytes(write_pcap([(t, 40, b"\x45" + bytes(39)) for t in (5000, 3000, 9000)],
                                   link=101))
        for command, *options in EACH:
            done = run(command, *options, odd, self.folder / "out.pcap")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"odd\.pcap: 1 packets are earlier than the one before: "
                             r"\w+")
        section = struct.pack("<IIIHHqI", 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, -1, 28)
        options = struct.pack("<HHqHH", 14, 8, -10, 0, 0)  # 10 s before what the packets say
        interface = struct.pack("<IIHHI", 1, 20 + len(options), 101, 0, 0) + options
        interface += struct.pack("<I", 20 + len(options))
        packet = struct.pack("<7I", 6, 72, 0, 0, 5000000, 40, 40) + b"\x45" + bytes(39)
        old = self.folder / "old.pcapng"
        old.write_bytes(section + interface + packet + struct.pack("<I", 72))
        done = run("slice", "--packets", 5, "--quiet", old, self.folder / "out.pcap")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"old\.pcapng: 1 timestamps before 1970 or after 2262 set "
                         r"to the nearest\n\Z")

    def test_memory_limits_are_told(self):
        out = self.folder / "out.pcap"
        done = run("regroup", "--delay", "5ms", "--held", 10, self.made, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"out\.pcap: \d+ groups let go before their time: as many "
                         r"packets were held as may be\n\Z")
        self.assertEqual(len(self.packets(out)), 5000)

    @unittest.skipIf(SANITIZED, "a sanitizer keeps memory of its own")
    def test_memory_does_not_grow_with_the_capture(self):
        big = self.folder / "big.pcap"
        done = run("gen", "--flows", 64, "--packets", 600000, "--frame", 200, big)
        self.assertEqual(done.returncode, 0, done.stderr)

        def peak_kb(line, capture):
            with subprocess.Popen([SHEAF, "trace", *map(str, line), "--quiet",
                                   *([capture, "-o", "/dev/null"] if line[0] == "merge"
                                     else [capture, "/dev/null"])]) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return usage.ru_maxrss

        for line in (*EACH, ("slice", "--skip", 1), ("merge",)):
            grown = peak_kb(line, big) - peak_kb(line, self.made)
            self.assertLess(grown, 12000, line)

    def test_many_copies_need_many_files(self):
        def files(most):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, most))

        small, out = self.folder / "small.pcap", self.folder / "out.pcap"
        run("slice", "--packets", 10, "--quiet", self.made, small)
        line = ("scale", "--overlay", 200, "--quiet", small, out)
        self.assertEqual(run(*line, preexec_fn=files(1000)).returncode, 0)
        self.assertEqual(len(self.packets(out)), 2000)
        out.unlink()
        done = run(*line, preexec_fn=files(50))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Asheaf: .*small\.pcap: Too many open files\n\Z")
        self.assertFalse(out.exists())

    def test_an_interrupt_leaves_no_file(self):
        with subprocess.Popen([SHEAF, "trace", "scale", "--overlay", "1000", "--quiet", self.made,
                               self.folder / "out.pcap"], stderr=subprocess.PIPE) as process:
            while not self.files() and process.poll() is None:
                pass
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual((process.returncode, err), (6, b"sheaf: interrupted\n"))
        self.assertEqual(self.files(), set())

    # ---- other tools

    def counts(self, path):
        """Packets that each tool that is there reads."""
        found = {}
        if shutil.which("tcpdump"):
            done = subprocess.run(["tcpdump", "-n", "-r", path], capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            found["tcpdump"] = sum(not line.startswith((b"\t", b" "))
                                   for line in done.stdout.splitlines())
        if shutil.which("tshark"):
            done = subprocess.run(["tshark", "-n", "-r", path, "-T", "fields", "-e",
                                   "frame.number"], capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            found["tshark"] = len(done.stdout.splitlines())
        if shutil.which("capinfos"):
            done = subprocess.run(["capinfos", "-c", "-T", "-r", "-M", path],
                                  capture_output=True, check=False, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            found["capinfos"] = int(done.stdout.split("\t")[-1])
        if shutil.which("editcap"):
            copy = self.folder / "copy.pcapng"
            done = subprocess.run(["editcap", path, copy], capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            found["editcap"] = self.information(copy)["packets"]
            copy.unlink()
        return found

    def test_other_tools_read_what_is_written(self):
        tools = [tool for tool in ("tcpdump", "tshark", "capinfos", "editcap")
                 if shutil.which(tool)]
        if not tools:
            self.skipTest("tcpdump, tshark, capinfos and editcap are not there")
        small = self.folder / "small.pcap"
        run("slice", "--packets", 700, "--quiet", SAMPLE, small)
        for command, *options in (*EACH, ("merge", self.made)):
            for ending in ("pcap", "ns.pcap", "pcapng"):
                out = self.folder / f"out.{ending}"
                last = (small, "-o", out) if command == "merge" else (small, out)
                done = run(command, *options, "--quiet", *last)
                self.assertEqual(done.returncode, 0, done.stderr)
                expected = self.information(out)["packets"]
                self.assertGreater(expected, 600)
                self.assertEqual(self.counts(out), {tool: expected for tool in tools},
                                 f"{command} {ending}")
        # Of several link types: all but tcpdump, whose library takes one.
        raw = self.folder / "raw.pcap"
        raw.write_bytes(write_pcap([(t, 40, b"\x45" + bytes(39)) for t in range(10)], link=101))
        out = self.folder / "mixed.pcapng"
        self.assertEqual(run("merge", raw, small, "-o", out).returncode, 0)
        if shutil.which("capinfos"):
            done = subprocess.run(["capinfos", "-c", "-T", "-r", "-M", out], check=False,
                                  capture_output=True, text=True)
            self.assertEqual(int(done.stdout.split("\t")[-1]), 710, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
