#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""`sheaf trace anonymize` against an implementation of Crypto-PAn of its own, on a real capture.

Usage: anonymize_test.py SHEAF SAMPLE
"""

import ipaddress
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SHEAF, SAMPLE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
TIMEOUT_S = 120
# The key and the first pairs that Crypto-PAn was published with.
KEY = bytes((21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16,
             216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2))
PAIRS = {"128.11.68.132": "135.242.180.132", "129.118.74.4": "134.136.186.123",
         "130.132.252.244": "133.68.164.234", "141.223.7.43": "141.167.8.160"}
ETHERNET = bytes.fromhex("020000000002020000000001")


def aes(key, blocks):
    """AES-128 of independent blocks: Python's own module, or the openssl command."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)
    except ImportError:
        return subprocess.run(["openssl", "enc", "-aes-128-ecb", "-nopad", "-K", key.hex()],
                              input=blocks, capture_output=True, check=True,
                              timeout=TIMEOUT_S).stdout


class CryptoPan:
    def __init__(self, key):
        self.key = key[:16]
        self.pad = int.from_bytes(aes(self.key, key[16:]), "big")
        self.known = {}

    def __call__(self, address):
        if address not in self.known:
            bits = 8 * len(address)
            value = int.from_bytes(address, "big") << (128 - bits)
            blocks = b""
            for kept in range(bits):
                mask = ((1 << kept) - 1) << (128 - kept)
                blocks += ((value & mask) | (self.pad & ~mask)).to_bytes(16, "big")
            out = aes(self.key, blocks)
            mask = int("".join(str(out[16 * i] >> 7) for i in range(bits)), 2)
            mapped = int.from_bytes(address, "big") ^ mask
            self.known[address] = mapped.to_bytes(bits // 8, "big")
        return self.known[address]


def run(*arguments, **options):
    settings = {"capture_output": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    done = subprocess.run([SHEAF, *map(str, arguments)], **settings)
    done.said = done.stderr.decode().replace("sheaf: ", "")
    return done


def pcap(frames):
    data = struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1)
    for frame in frames:
        data += struct.pack("<IIII", 1_700_000_000, 0, len(frame), len(frame)) + frame
    return data


def frames_of(data):
    at, frames = 24, []
    while at < len(data):
        caplen, wire = struct.unpack_from("<II", data, at + 8)
        frames.append((data[at + 16:at + 16 + caplen], wire))
        at += 16 + caplen
    return frames


def addresses_of(frame):
    """Of an Ethernet frame's IP header."""
    kind = frame[12:14]
    if kind == b"\x08\0" and len(frame) >= 34:
        return [frame[26:30], frame[30:34]]
    if kind == b"\x86\xdd" and len(frame) >= 54:
        return [frame[22:38], frame[38:54]]
    return []


def udp(source, destination, payload=b"payload of somebody"):
    body = struct.pack(">HHHH", 53, 54, 8 + len(payload), 0) + payload
    return (ETHERNET + b"\x08\0" + struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 17, 0)
            + ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed + body)


class Anonymize(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        self.small = self.folder / "small.pcap"
        self.small.write_bytes(pcap([udp(one, two) for one, two in zip(PAIRS, reversed(PAIRS))]))
        self.out = self.folder / "out.pcap"

    def tearDown(self):
        self.holder.cleanup()

    def names(self):
        return {path.name for path in self.folder.iterdir()}

    def anonymize(self, *arguments, code=0):
        done = run("trace", "anonymize", *arguments)
        self.assertEqual(done.returncode, code, done.said)
        return done

    def sample(self):
        path = self.folder / "sample.pcap"
        run("trace", "convert", SAMPLE, path)
        return path

    def test_published_pairs(self):
        pan = CryptoPan(KEY)
        for address, expected in PAIRS.items():
            self.assertEqual(pan(ipaddress.ip_address(address).packed),
                             ipaddress.ip_address(expected).packed)
        self.anonymize(self.small, self.out, "--key", KEY.hex())
        for (frame, _), one, two in zip(frames_of(self.out.read_bytes()), PAIRS, reversed(PAIRS)):
            self.assertEqual([str(ipaddress.ip_address(part)) for part in addresses_of(frame)],
                             [PAIRS[one], PAIRS[two]])

    def test_every_address_of_a_capture_is_the_reference_s(self):
        pan = CryptoPan(KEY)
        path = self.sample()
        self.anonymize(path, self.out, "--key", KEY.hex())
        before, after = frames_of(path.read_bytes()), frames_of(self.out.read_bytes())
        self.assertEqual(len(before), len(after))
        checked, seen = 0, set()
        for (frame, wire), (anonymous, wire_after) in zip(before, after):
            self.assertEqual(wire, wire_after)
            self.assertEqual(anonymous[:12], bytes(12))
            self.assertEqual([pan(part) for part in addresses_of(frame)], addresses_of(anonymous))
            checked += len(addresses_of(frame))
            seen.update(addresses_of(frame))
        self.assertGreater(checked, 1000)
        # None of them is left anywhere, payloads, quotes and ARP included.
        everything = b"".join(frame for frame, _ in after)
        self.assertEqual([part.hex() for part in seen if part in everything], [])

    @unittest.skipIf(shutil.which("tshark") is None, "no tshark")
    def test_checksums_are_as_right_as_before(self):
        path = self.sample()
        self.anonymize(path, self.out, "--keep-payload")

        def status(capture):
            fields = [f"{name}.checksum.status" for name in ("ip", "tcp", "udp", "icmp", "icmpv6")]
            return subprocess.run(
                ["tshark", "-nr", capture, "-T", "fields", "-E", "occurrence=a",
                 *(word for field in fields for word in ("-e", field)),
                 *(word for name in ("ip", "tcp", "udp")
                   for word in ("-o", f"{name}.check_checksum:TRUE"))],
                capture_output=True, check=True, timeout=TIMEOUT_S).stdout.splitlines()

        before, after = status(path), status(self.out)
        self.assertEqual(len(before), len(after))
        self.assertGreater(sum(b"1" in line for line in before), 100)
        # Neighbour discovery loses its options: nobody can check what is cut.
        changed = [(one, two) for one, two in zip(before, after) if one != two]
        self.assertLess(len(changed), 10)
        self.assertEqual([two for _, two in changed if b"0" in two], [])

    def test_flows_stay_flows(self):
        path = self.sample()
        self.anonymize(path, self.out)
        one, two = (run("trace", "info", each).stdout.decode() for each in (path, self.out))
        for word in ("packets ", "flows", "SLF", "bytes on the wire", "  TCP", "insertions"):
            lines = [[line for line in text.splitlines() if word in line] for text in (one, two)]
            self.assertTrue(lines[0])
            self.assertEqual(lines[0], lines[1])

    def test_payloads_go_unless_kept(self):
        self.anonymize(self.small, self.out)
        self.assertNotIn(b"somebody", self.out.read_bytes())
        self.assertEqual({len(frame) for frame, _ in frames_of(self.out.read_bytes())}, {42})
        self.anonymize(self.small, self.out, "--keep-payload")
        self.assertEqual(self.out.read_bytes().count(b"payload of somebody"), len(PAIRS))

    def test_hardware_addresses(self):
        for how, expected in (("zero", bytes(12)), ("keep", ETHERNET)):
            self.anonymize(self.small, self.out, "--macs", how)
            self.assertEqual({frame[:12] for frame, _ in frames_of(self.out.read_bytes())},
                             {expected})
        self.anonymize(self.small, self.out, "--macs", "hash", "--key", KEY.hex())
        hashed = {frame[:12] for frame, _ in frames_of(self.out.read_bytes())}
        self.assertEqual(len(hashed), 1)
        self.assertNotIn(hashed, ({bytes(12)}, {ETHERNET}))

    def test_keys(self):
        results = []
        (self.folder / "raw").write_bytes(KEY)
        (self.folder / "hex").write_text(KEY.hex().upper() + "\n")
        for key in (KEY.hex(), self.folder / "raw", self.folder / "hex"):
            self.anonymize(self.small, self.out, "--key", key)
            results.append(self.out.read_bytes())
        for _ in range(2):
            done = self.anonymize(self.small, self.out)
            self.assertIn(b"random, not kept", done.stdout)
            results.append(self.out.read_bytes())
        self.assertEqual([results[0] == other for other in results], [True] * 3 + [False] * 2)
        self.assertNotEqual(results[3], results[4])

    def test_random_keys_can_be_kept(self):
        kept = self.folder / "key"
        self.anonymize(self.small, self.out, "--write-key", kept)
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)
        first = self.out.read_bytes()
        self.anonymize(self.small, self.out, "--key", kept)
        self.assertEqual(self.out.read_bytes(), first)
        # A key is not written over, and then nothing else is.
        self.out.unlink()
        done = self.anonymize(self.small, self.out, "--write-key", kept, code=3)
        self.assertEqual(done.said, f"{kept}: File exists\n")
        self.assertEqual(self.names(), {"small.pcap", "key"})
        for quiet in ((), ("--quiet",)):
            done = self.anonymize(self.small, self.out, "--write-key", "-", *quiet)
            printed = done.stdout.decode().split("key ")[1].split()[0]
            first = self.out.read_bytes()
            self.anonymize(self.small, self.out, "--key", printed)
            self.assertEqual(self.out.read_bytes(), first)

    def test_what_cannot_be(self):
        raw = self.folder / "raw"
        raw.write_bytes(KEY)
        for arguments, message in (
                (("--key", "00"), "--key: got '00', expected 64 hexadecimal digits, or a file of "
                                  "these or of 32 bytes"),
                (("--key", self.small), f"--key: got '{self.small}', expected 64 hexadecimal digits"
                                        ", or a file of these or of 32 bytes"),
                (("--key", self.folder), f"{self.folder}: Is a directory"),
                (("--key", raw, "--write-key", "x"),
                 "--write-key: got a key with --key, expected one of them")):
            done = self.anonymize(self.small, self.out, *arguments, code=1)
            self.assertEqual(done.said, message + "\n")
        done = self.anonymize(self.small, raw, "--key", raw, code=1)
        self.assertIn("which is an input", done.said)
        self.assertEqual(raw.read_bytes(), KEY)
        done = self.anonymize(self.small, "-", "--write-key", "-", code=1)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(self.names(), {"small.pcap", "raw"})

    def test_failure_leaves_neither_packets_nor_key(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        done = run("trace", "anonymize", SAMPLE, self.out, "--write-key", self.folder / "key",
                   preexec_fn=small_files)
        self.assertEqual((done.returncode, done.said, done.stdout),
                         (3, f"{self.out}: File too large\n", b""))
        done = run("trace", "anonymize", self.small, self.folder / "no" / "out.pcap",
                   "--write-key", self.folder / "key")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.names(), {"small.pcap"})

    def test_what_was_done_is_told_and_written(self):
        out = self.folder / "out.pcapng"
        done = self.anonymize(self.small, out, "--key", KEY.hex())
        self.assertEqual(done.stdout.decode(), (
            "packets        4\n"
            "IP addresses   8 of IPv4 and 0 of IPv6 replaced by Crypto-PAn: common prefixes stay\n"
            "key            as given\n"
            "MAC addresses  set to zero: 8\n"
            "payload        cut behind the transport header: 76 bytes of 4 packets cut\n"
            "checksums      updated by what changed: right ones stay right\n"))
        comment = (b"sheaf trace anonymize: IP addresses by Crypto-PAn, MAC addresses set to zero, "
                   b"payload cut")
        self.assertIn(comment, out.read_bytes())
        self.assertNotIn(KEY, out.read_bytes())
        self.assertNotIn(KEY.hex().encode(), out.read_bytes())
        dump = self.folder / "out.dump"
        self.anonymize(self.small, dump, "--quiet")
        self.assertIn(b'!creator "' + comment + b'"\n', dump.read_bytes())
        # Packets to standard output: the table goes to the error stream.
        done = self.anonymize(self.small, "-", "--key", KEY.hex())
        self.assertEqual(len(frames_of(done.stdout)), 4)
        self.assertIn("Crypto-PAn", done.said)


if __name__ == "__main__":
    os.umask(0o022)
    unittest.main(argv=sys.argv[:1])
