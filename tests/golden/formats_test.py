#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures out of `sheaf trace convert`: other tools read them, nothing is lost unsaid, and what
fails leaves nothing behind.

Usage: formats_test.py SHEAF SAMPLE
Tools that are absent (tcpdump, tshark, capinfos, editcap) are skipped.
"""

import gzip
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SHEAF, SAMPLE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
TIMEOUT_S = 120
T0 = 1_700_000_000


def run(*arguments, **options):
    settings = {"capture_output": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    done = subprocess.run([SHEAF, *map(str, arguments)], **settings)
    done.said = done.stderr.decode().replace("sheaf: ", "")
    return done


def pcap(records, linktype=1, ns=False, snaplen=262144):
    """records: (seconds, fraction, frame, wire length)."""
    data = struct.pack("<IHHIIII", 0xa1b23c4d if ns else 0xa1b2c3d4, 2, 4, 0, 0, snaplen, linktype)
    for seconds, fraction, frame, wire in records:
        data += struct.pack("<IIII", seconds, fraction, len(frame), wire) + frame
    return data


def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def pcapng(interfaces, packets):
    """interfaces: (link type, options); packets: (interface, ticks, frame)."""
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    for linktype, options in interfaces:
        data += block(1, struct.pack("<HHI", linktype, 0, 0) + options)
    for interface, ticks, frame in packets:
        data += block(6, struct.pack("<IIIII", interface, ticks >> 32, ticks & 0xffffffff,
                                     len(frame), len(frame)) + frame)
    return data


def read_pcap(data):
    magic, _, _, _, _, snaplen, linktype = struct.unpack_from("<IHHIIII", data)
    assert magic in (0xa1b2c3d4, 0xa1b23c4d)
    at, records = 24, []
    while at < len(data):
        seconds, fraction, caplen, wire = struct.unpack_from("<IIII", data, at)
        records.append((seconds, fraction, data[at + 16:at + 16 + caplen], wire))
        at += 16 + caplen
    assert at == len(data)
    return {"ns": magic == 0xa1b23c4d, "snaplen": snaplen, "linktype": linktype,
            "records": records}


def ip4(protocol=17, source=b"\x0a\0\0\1", destination=b"\x0a\0\0\2", payload=bytes(12)):
    return (struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 7, 0, 64, protocol, 0) + source
            + destination + payload)


ETHERNET = bytes.fromhex("020000000002020000000001")
UDP = ETHERNET + b"\x08\0" + ip4(payload=struct.pack(">HHHH", 1, 2, 12, 0) + b"abcd")
ARP = ETHERNET + b"\x08\x06" + bytes(28)


class Folder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)

    def tearDown(self):
        self.holder.cleanup()

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def names(self):
        return {path.name for path in self.folder.iterdir()}

    def convert(self, *arguments, said=None, code=0):
        done = run("trace", "convert", *arguments)
        self.assertEqual(done.returncode, code, done.said)
        self.assertEqual(done.stdout, b"")
        if said is not None:
            self.assertEqual(done.said, "".join(f"{line}\n" for line in said))
        return done

    def converted(self, data, *arguments, name="in.pcap", said=()):
        """Records of the pcap that the data become."""
        path, out = self.write(name, data), self.folder / "out.pcap"
        self.convert(path, out, *arguments, said=[line.format(path=path, out=out) for line in said])
        return read_pcap(out.read_bytes())


class Readable(Folder):
    """Other tools count what we wrote."""

    def count(self, tool, path):
        if tool == "capinfos":
            lines = subprocess.run(["capinfos", "-Mc", path], capture_output=True, check=True,
                                   text=True, timeout=TIMEOUT_S).stdout
            return int(lines.split("Number of packets:")[1].split()[0].replace(",", ""))
        if tool == "tcpdump":
            done = subprocess.run(["tcpdump", "-nr", path, "-w", "-"], capture_output=True,
                                  check=True, timeout=TIMEOUT_S).stdout
            return len(read_pcap(done)["records"])
        if tool == "tshark":
            done = subprocess.run(["tshark", "-nr", path, "-T", "fields", "-e", "frame.number"],
                                  capture_output=True, check=True, text=True, timeout=TIMEOUT_S)
            return len(done.stdout.splitlines())
        copy = self.folder / "editcap.pcap"
        subprocess.run(["editcap", "-F", "pcap", path, copy], capture_output=True, check=True,
                       timeout=TIMEOUT_S)
        return len(read_pcap(copy.read_bytes())["records"])

    def check(self, path, expected):
        for tool in ("capinfos", "tcpdump", "tshark", "editcap"):
            if shutil.which(tool) is None or (tool == "tcpdump" and path.suffix in (".gz", ".zst")):
                continue
            if path.suffix == ".zst" and tool != "capinfos":
                continue
            with self.subTest(tool=tool, file=path.name):
                self.assertEqual(self.count(tool, path), expected)

    def test_every_output_is_read_by_the_tools(self):
        expected = 0
        for name, arguments in (
                ("a.pcap", ()), ("a.ns.pcap", ()), ("a.pcapng", ()), ("a.pcap.gz", ()),
                ("a.pcapng.gz", ()), ("a.pcapng.zst", ()), ("cut.pcap", ("--snaplen", 60)),
                ("cut.pcapng", ("--snaplen", 60)), ("us.pcap", ("--to", "pcap-us")),
                ("fixed.pcap", ("--pad", "--checksums"))):
            done = run("trace", "convert", SAMPLE, self.folder / name, *arguments)
            self.assertEqual(done.returncode, 0, done.said)
            if expected == 0:
                expected = len(read_pcap((self.folder / name).read_bytes())["records"])
                self.assertGreater(expected, 100)
            self.check(self.folder / name, expected)

    def test_made_headers_are_read_by_the_tools(self):
        whole = self.folder / "whole.pcap"
        run("trace", "gen", "--packets", 1000, "--flows", 50, "--tcp", whole)
        for name in ("a.dump", "a.5t", "b.dump.gz", "b.tuples.zst"):
            self.convert(whole, self.folder / name)
            for link in ("raw", "ethernet"):
                back = self.folder / f"{name}.{link}.pcap"
                self.convert(self.folder / name, back, "--link", link)
                self.check(back, 1000)
        self.convert(whole, self.folder / "a.raw.pcapng", "--link", "raw")
        self.check(self.folder / "a.raw.pcapng", 1000)

    @unittest.skipIf(shutil.which("tshark") is None, "no tshark")
    def test_padded_packets_have_valid_checksums_to_tshark(self):
        whole, dump = self.folder / "whole.pcap", self.folder / "a.dump"
        run("trace", "gen", "--packets", 300, "--flows", 50, whole)
        self.convert(whole, dump)
        for source, name, arguments in ((dump, "dump.pcap", ()),
                                        (whole, "cut.pcap", ("--checksums",))):
            out = self.folder / name
            if source == whole:
                self.convert(whole, self.folder / "short.pcap", "--snaplen", 60)
                source = self.folder / "short.pcap"
            self.convert(source, out, "--pad", *arguments)
            done = subprocess.run(
                ["tshark", "-nr", out, "-o", "ip.check_checksum:TRUE", "-o",
                 "udp.check_checksum:TRUE", "-T", "fields", "-e", "ip.checksum.status", "-e",
                 "udp.checksum.status"], capture_output=True, check=True, text=True,
                timeout=TIMEOUT_S).stdout
            self.assertEqual(set(done.splitlines()), {"1\t1"})


class Losses(Folder):
    """What the output cannot hold is said, with its number."""

    def test_digits_of_times(self):
        data = pcap([(T0, 5, UDP, 60), (T0, 1000, UDP, 60), (T0, 1999, UDP, 60)], ns=True)
        got = self.converted(data, "--to", "pcap-us", said=["{out}: 2 timestamps cut to microseconds"])
        self.assertEqual([(s, f) for s, f, _, _ in got["records"]], [(T0, 0), (T0, 1), (T0, 1)])
        self.assertFalse(got["ns"])
        got = self.converted(data)
        self.assertTrue(got["ns"])
        self.assertEqual([f for _, f, _, _ in got["records"]], [5, 1000, 1999])

    def test_packets_that_the_link_type_cannot_carry(self):
        vlan = UDP[:12] + b"\x81\0\0\5" + UDP[12:]
        data = pcap([(T0, 0, UDP, len(UDP)), (T0, 1, ARP, 60), (T0, 2, vlan + bytes(9), 70)])
        got = self.converted(data, "--link", "raw", said=[
            "{out}: 1 packets that the link type cannot carry left out",
            "{out}: 1 packets lost VLAN tags, labels or PPPoE headers",
            "{out}: 1 packets lost bytes behind their datagram"])
        self.assertEqual(got["linktype"], 101)
        self.assertEqual([frame for _, _, frame, _ in got["records"]], [UDP[14:], UDP[14:]])
        back = self.converted(pcap(got["records"], 101), "--link", "ethernet", "--source-mac",
                              "02:00:00:00:00:01", "--destination-mac", "02:00:00:00:00:02")
        self.assertEqual([frame for _, _, frame, _ in back["records"]], [UDP, UDP])

    def test_packets_without_ip4_in_summaries(self):
        path = self.write("in.pcap", pcap([(T0, 0, UDP, 60), (T0, 1, ARP, 60)]))
        for name in ("a.dump", "a.5t"):
            out = self.folder / name
            self.convert(path, out, said=[f"{out}: 1 packets without an IPv4 header left out"])
        self.assertEqual((self.folder / "a.dump").read_text(), (
            "!IPSummaryDump 1.3\n!data timestamp ip_src sport ip_dst dport ip_proto ip_len "
            "ip_fragoff tcp_flags tcp_seq tcp_ack\n"
            "1700000000.000000 10.0.0.1 1 10.0.0.2 2 U 32 0 - - -\n"))
        self.assertEqual((self.folder / "a.5t").read_bytes(),
                         b"\x0a\0\0\1\0\1\x0a\0\0\2\0\2\x11")

    def test_times_and_columns_of_summaries(self):
        dump = (b"!IPSummaryDump 1.3\n!data ip_src count payload bananas\n"
                b"1.2.3.4 1 \"x y\" 7\n1.2.3.5 3 \"\" 7\n")
        path, out = self.write("in.dump", dump), self.folder / "out.pcap"
        self.convert(path, out, "--start", "10s", "--pps", 2, said=[
            f"{path}: 2 packets without a time were given one",
            f"{path}: lines that count for several packets gave one each: 2 packets less",
            f"{path}: 2 columns left out, unknown bananas"])
        got = read_pcap(out.read_bytes())["records"]
        self.assertEqual([(s, f) for s, f, _, _ in got], [(10, 0), (10, 500000)])

    def test_tuples_get_times_and_lengths_by_the_stated_rule(self):
        path = self.write("in.dat", bytes(range(13)) * 4)
        out = self.folder / "out.pcap"
        self.convert(path, out, code=2)
        self.convert(path, out, "--from", "tuples", "--pps", 3, "--ip-bytes", 1000)
        got = read_pcap(out.read_bytes())
        self.assertTrue(got["ns"])
        self.assertEqual([(s, f) for s, f, _, _ in got["records"]],
                         [(0, 0), (0, 333333333), (0, 666666666), (1, 0)])
        self.assertEqual({wire for _, _, _, wire in got["records"]}, {1000})

    def test_damaged_lines_are_located_and_the_rest_is_kept(self):
        path = self.write("in.dump", b"!IPSummaryDump 1.3\n!data timestamp ip_src\n"
                                     b"1 1.2.3.4\n1 1.2.3.400\n2 1.2.3.5\n")
        out = self.folder / "out.pcap"
        self.convert(path, out, code=5, said=[
            f"{path}: damaged at packet 2, byte 52: no valid value of ip_src"])
        self.assertEqual(len(read_pcap(out.read_bytes())["records"]), 2)

    def test_stale_and_cut_packets(self):
        cut = pcap([(T0, 0, UDP[:42], len(UDP)), (T0, 0, UDP, len(UDP)), (T0, 0, ARP, 60)])
        got = self.converted(cut, "--pad", said=["{out}: 1 packets filled with zeros"])
        self.assertEqual(got["records"][0][2], UDP[:42] + bytes(4))
        got = self.converted(cut, "--checksums", said=[
            "{out}: checksums of 2 packets corrected"])
        self.assertEqual(got["records"][1][2][24:26], b"\x66\xc4")


class Times(Folder):
    def test_before_1970_is_set_to_it_and_said(self):
        offset = struct.pack("<HHqHH", 14, 8, -100, 0, 0)
        path = self.write("in.pcapng", pcapng([(1, offset)], [(0, 99_999_999, UDP),
                                                             (0, 100_000_005, UDP)]))
        out = self.folder / "out.pcap"
        self.convert(path, out, said=[
            f"{path}: 1 timestamps before 1970 or after 2262 set to the nearest"])
        self.assertEqual([(s, f) for s, f, _, _ in read_pcap(out.read_bytes())["records"]],
                         [(0, 0), (0, 5)])

    def test_after_2106_is_refused_by_pcap_only(self):
        options = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
        ticks = 5_000_000_000 * 10**9
        path = self.write("in.pcapng", pcapng([(1, options)], [(0, 5, UDP), (0, ticks, UDP)]))
        out = self.folder / "out.pcap"
        self.convert(path, out, code=2, said=[
            f"{out}: the time of packet 2 is after 2106, which pcap cannot hold: write pcapng"])
        self.assertEqual(self.names(), {"in.pcapng"})
        self.convert(path, self.folder / "out.pcapng", said=[])
        self.convert(path, self.folder / "out.dump", said=[])
        self.assertIn("\n5000000000.000000000 ", (self.folder / "out.dump").read_text())
        self.convert(path, self.folder / "binary.dump", "--to", "ipsum-binary", code=2)
        self.assertEqual(self.names(), {"in.pcapng", "out.pcapng", "out.dump"})

    def test_backwards_stays_backwards(self):
        times = [(T0 + 5, 7), (T0, 999999), (T0 + 5, 6), (0, 0), (0xffffffff, 999999)]
        data = pcap([(s, f, UDP, 60) for s, f in times])
        for middle in ("m.pcapng", "m.ns.pcap", "m.dump", "m.pcap.zst"):
            self.write("in.pcap", data)
            self.convert(self.folder / "in.pcap", self.folder / middle, said=[])
            self.convert(self.folder / middle, self.folder / "out.pcap", "--to", "pcap-us", said=[])
            got = read_pcap((self.folder / "out.pcap").read_bytes())["records"]
            self.assertEqual([(s, f) for s, f, _, _ in got], times)


class Shapes(Folder):
    def test_empty_records_and_empty_captures_pass(self):
        for records in ([], [(T0, 0, b"", 0), (T0, 1, b"", 60), (T0, 2, UDP, 60)]):
            for middle in ("m.pcapng", "m.pcap.gz", "m.ns.pcap"):
                self.write("in.pcap", pcap(records))
                self.convert(self.folder / "in.pcap", self.folder / middle, said=[])
                self.convert(self.folder / middle, self.folder / "out.pcap", "--to", "pcap-us",
                             said=[])
                self.assertEqual(read_pcap((self.folder / "out.pcap").read_bytes())["records"],
                                 records)

    def test_snaplen_cuts_and_keeps_the_wire_length(self):
        data = pcap([(T0, 0, UDP, 1500), (T0, 0, UDP[:10], 20)], snaplen=65535)
        got = self.converted(data, "--snaplen", 32)
        self.assertEqual(got["snaplen"], 32)
        self.assertEqual([(len(frame), wire) for _, _, frame, wire in got["records"]],
                         [(32, 1500), (10, 20)])
        self.assertEqual(self.converted(data)["snaplen"], 262144)
        got = self.converted(pcap([(T0, 0, UDP, 1500)]), "--snaplen", 262144)
        self.assertEqual(got["records"][0][2], UDP)

    def test_wire_lengths_below_the_captured_are_raised(self):
        got = self.converted(pcap([(T0, 0, UDP, 3)]))
        self.assertEqual(got["records"][0][3], len(UDP))

    def test_several_link_types_are_refused_before_anything_is_written(self):
        mixed = pcapng([(1, b""), (101, b"")], [(0, 5, UDP)] * 3000 + [(1, 6, UDP[14:])])
        path, out = self.write("in.pcapng", mixed), self.folder / "out.pcap"
        message = ("got packets of several link types, expected one for pcap: write pcapng, or "
                   "convert with --link")
        self.convert(path, out, code=2, said=[f"{path}: {message}"])
        self.convert(path, "-", code=2, said=[f"{path}: {message}"])
        done = run("trace", "convert", "-", out, input=mixed)
        self.assertEqual((done.returncode, done.said), (2, (
            f"{out}: packet 3001 is of link type RAW and those before of ETHERNET, which pcap "
            "cannot hold together: write pcapng, or convert with --link\n")))
        self.assertEqual(self.names(), {"in.pcapng"})
        for link in ("raw", "ethernet"):
            self.convert(path, out, "--link", link, said=[])
            self.assertEqual(len(read_pcap(out.read_bytes())["records"]), 3001)
        self.convert(path, self.folder / "out.pcapng", said=[])
        # Described, but without a packet: that is no second link type.
        path.write_bytes(pcapng([(1, b""), (101, b"")], [(0, 5, UDP)] * 3))
        self.convert(path, out, said=[])


class Failures(Folder):
    """A clear line, nothing under the final name, nothing beside it."""

    def setUp(self):
        super().setUp()
        self.big = self.folder / "big.pcap"
        done = run("trace", "gen", "--packets", 20000, "--flows", 100, self.big)
        self.assertEqual(done.returncode, 0, done.said)

    def fails(self, output, message, code=3, before=None, **options):
        before = self.names() if before is None else before
        done = run("trace", "convert", self.big, output, **options)
        self.assertEqual((done.returncode, done.said), (code, f"{message}\n"))
        self.assertEqual(self.names(), before)

    def test_file_size_limit(self):
        def limit(ignore):
            def small_files():
                resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
                if ignore:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            return small_files

        for name in ("out.pcap", "out.pcapng", "out.dump", "out.5t", "out.pcapng.gz",
                     "out.pcap.zst"):
            out = self.folder / name
            self.fails(out, f"{out}: File too large", preexec_fn=limit(name == "out.pcap"))

    def test_full_disk(self):
        mount = self.folder / "small"
        mount.mkdir()
        if os.geteuid() != 0 or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=256k", "none", mount], check=False,
                capture_output=True, timeout=TIMEOUT_S).returncode != 0:
            self.skipTest("cannot mount a small file system")
        try:
            out = mount / "out.pcap"
            out.write_bytes(b"what was there")
            self.fails(out, f"{out}: No space left on device")
            self.assertEqual([path.name for path in mount.iterdir()], ["out.pcap"])
            self.assertEqual(out.read_bytes(), b"what was there")
        finally:
            subprocess.run(["umount", mount], check=True, timeout=TIMEOUT_S)

    def test_full_device(self):
        self.fails("/dev/full", "/dev/full: No space left on device")
        with open("/dev/full", "wb") as full:
            self.fails("-", "standard output: No space left on device", stdout=full,
                       stderr=subprocess.PIPE, capture_output=False)

    def test_broken_pipe(self):
        read, write = os.pipe()
        os.close(read)
        self.fails("-", "standard output: Broken pipe", stdout=write, stderr=subprocess.PIPE,
                   capture_output=False)
        os.close(write)

    def test_unwritable_folder(self):
        out = self.folder / "no" / "out.pcap"
        self.fails(out, f"{out}: No such file or directory")
        out = self.big / "out.pcap"
        self.fails(out, f"{out}: Not a directory")
        self.fails(self.folder, f"{self.folder}: Is a directory")
        if os.geteuid() != 0:
            closed = self.folder / "closed"
            closed.mkdir(mode=0o555)
            self.fails(closed / "out.pcap", f"{closed}/out.pcap: Permission denied")

    def test_output_that_is_the_input(self):
        before = self.big.read_bytes()
        (self.folder / "hard.pcap").hardlink_to(self.big)
        (self.folder / "soft.pcap").symlink_to("big.pcap")
        for name in ("big.pcap", "hard.pcap", "soft.pcap", "./big.pcap"):
            path = f"{self.folder}/{name}"
            self.fails(path, f"trace convert: got {path}, which is an input, expected another file",
                       code=1)
        self.assertEqual(self.big.read_bytes(), before)

    def test_damaged_input_gives_its_whole_packets(self):
        data = self.big.read_bytes()
        self.big.write_bytes(data[:-7])
        out = self.folder / "out.pcap"
        self.convert(self.big, out, code=5)
        self.assertEqual(len(read_pcap(out.read_bytes())["records"]), 19999)
        packed = self.write("in.pcap.gz", gzip.compress(data)[:-1000])
        self.convert(packed, out, code=5)
        self.assertEqual(read_pcap(out.read_bytes())["records"],
                         read_pcap(data)["records"][:len(read_pcap(out.read_bytes())["records"])])

    def test_unreadable_input_leaves_no_output(self):
        out = self.folder / "out.pcap"
        done = run("trace", "convert", self.write("bad.pcap", b"no capture at all, only text"), out)
        self.assertEqual(done.returncode, 2)
        done = run("trace", "convert", self.folder / "none.pcap", out)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(self.names(), {"big.pcap", "bad.pcap"})

    def test_interruption_leaves_nothing(self):
        before = self.names()
        with subprocess.Popen([SHEAF, "trace", "convert", "-", self.folder / "out.pcap"],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            data = self.big.read_bytes()
            process.stdin.write(data)
            process.stdin.flush()
            while self.names() == before:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            try:
                process.stdin.write(data[24:])
                process.stdin.close()
            except BrokenPipeError:
                pass  # it did not wait for all of it
            self.assertEqual(process.stderr.read(), b"sheaf: interrupted\n")
        self.assertEqual(process.returncode, 6)
        self.assertEqual(self.names(), before)

    def test_an_old_file_stays_until_the_new_one_is_whole(self):
        out = self.write("out.pcap", b"old")
        self.big.write_bytes(self.big.read_bytes()[:20])
        self.assertEqual(run("trace", "convert", self.big, out).returncode, 2)
        self.assertEqual(out.read_bytes(), b"old")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
