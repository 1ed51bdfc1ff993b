#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What commands do to the files they are told to write, and to those that lie beside: devices, pipes
and links stay what they are, no input is replaced, and a signal leaves nothing behind.

Usage: outputs_test.py SHEAF CAPTURE
"""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SHEAF, CAPTURE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
USAGE, INTERRUPTED, TIMEOUT_S = 1, 6, 120
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(*arguments, **options):
    settings = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    return subprocess.run([SHEAF, *map(str, arguments)], **settings)


class OutputsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.input = self.folder / "in.pcap"
        made = run("trace", "gen", "--packets", 2000, "--flows", 50, self.input)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.bytes = self.input.read_bytes()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def refused(self, done, *words):
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(self.input.read_bytes(), self.bytes)

    # ---- what stands under the name ----

    def test_a_document_goes_through_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        got = []
        reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
        reader.start()
        done = run("trace", "info", self.input, "-q", "--json", pipe)
        reader.join(TIMEOUT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(got[0])["files"][0]["packets"], 2000)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))

    def test_a_device_stays_a_device(self):
        null = self.folder / "null"
        try:
            os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            null.open("w").close()
        except PermissionError:
            self.skipTest("devices cannot be made here")
        for arguments in (("trace", "info", self.input, "-q", "--json", null),
                          ("trace", "convert", self.input, null)):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(stat.S_ISCHR(null.stat().st_mode))

    def test_links_keep_pointing_where_they_do(self):
        (self.folder / "deep").mkdir()
        for target in ("old", "deep/new"):
            for json_name in (True, False):
                link, file = self.folder / "link", self.folder / target
                link.unlink(missing_ok=True)
                file.unlink(missing_ok=True)
                if target == "old":
                    file.write_text("old")
                link.symlink_to(target)
                done = run("trace", "info", self.input, "-q", "--json", link) if json_name \
                    else run("trace", "convert", self.input, link)
                with self.subTest(target=target, json=json_name):
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(link.is_symlink())
                    self.assertEqual(os.readlink(link), target)
                    self.assertGreater(file.stat().st_size, 100)

    def test_a_link_to_itself_is_an_error(self):
        link = self.folder / "loop"
        link.symlink_to("loop")
        done = run("trace", "convert", self.input, link)
        self.assertEqual(done.returncode, 3)
        self.assertIn("symbolic links", done.stderr)
        self.assertEqual(self.names(), ["in.pcap", "loop"])

    def test_files_beside_are_not_touched(self):
        victim, planted = self.folder / "victim", self.folder / "r.json.part"
        victim.write_text("mine")
        planted.symlink_to("victim")
        done = run("trace", "info", self.input, "-q", "--json", self.folder / "r.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(victim.read_text(), "mine")
        self.assertTrue(planted.is_symlink())
        self.assertFalse((self.folder / "r.json").is_symlink())

    def test_what_is_replaced_keeps_its_permissions(self):
        for name, arguments in (("o.pcap", ("trace", "convert", self.input)),
                                ("o.json", ("trace", "info", self.input, "-q", "--json"))):
            out = self.folder / name
            out.write_text("old")
            out.chmod(0o600)
            self.assertEqual(run(*arguments, out).returncode, 0)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o600)
            self.assertNotEqual(out.read_bytes(), b"old")

    def test_the_longest_names_can_be_written(self):
        name = "n" * 250 + ".pcap"
        self.assertEqual(run("trace", "convert", self.input, self.folder / name).returncode, 0)
        self.assertEqual(self.names(), sorted(["in.pcap", name]))
        self.assertEqual(run("trace", "convert", self.input, name + ".x", cwd=self.folder).returncode,
                         3)

    def test_packets_on_standard_output_stand_alone(self):
        done = run("replay", self.input, "--no-huge", "--sink", "pcap:-", text=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"balanced", done.stderr)
        again = run("trace", "info", "-", "-q", "--json", "-", input=done.stdout, text=False)
        self.assertEqual((again.returncode, again.stderr), (0, b""))
        self.assertEqual(json.loads(again.stdout)["files"][0]["packets"], 2000)
        self.refused(run("replay", self.input, "--sink", "pcap:-", "--json", "-"), "--json")

    def test_a_document_without_a_folder_is_refused_before_the_run(self):
        done = run("bench", "deletion", "--json", self.folder / "no" / "r.json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, f"sheaf: {self.folder}/no/r.json: No such file or directory\n")

    # ---- inputs, and outputs of one name ----

    def test_no_document_replaces_an_input(self):
        other = self.folder / "hard.json"
        os.link(self.input, other)
        for name in (self.input, other):
            self.refused(run("trace", "info", self.input, "-q", "--json", name), "--json", name)
            self.refused(run("replay", self.input, "-q", "--json", name), "--json", name)
            self.refused(run("bench", "deletion", "--trace", self.input, "-q", "--json", name),
                         "--json", name)

    def test_two_outputs_of_one_name_are_refused_however_it_is_spelled(self):
        for one, other in (("o", "o"), ("o", "./o"), ("o", self.folder / "o")):
            self.refused(run("trace", "regroup", self.input, one, "-q", "--json", other,
                             cwd=self.folder), "--json", other)
            self.refused(run("trace", "anonymize", self.input, one, "--write-key", other,
                             cwd=self.folder), "--write-key", other)
            self.refused(run("replay", self.input, "-q", "--sink", f"pcap:{one}", "--json", other,
                             cwd=self.folder), "--json", other)
            self.assertEqual(self.names(), ["in.pcap"])

    def test_standard_input_is_an_input(self):
        with self.input.open("rb") as stream:
            self.refused(run("trace", "convert", "-", self.input, stdin=stream), self.input)
        with self.input.open("rb") as stream:
            self.refused(run("trace", "slice", "--skip", 1, "-", self.input, stdin=stream),
                         self.input)

    def test_a_report_does_not_replace_what_it_reports(self):
        out = self.folder / "r.json"
        self.assertEqual(run("replay", self.input, "-q", "--json", out).returncode, 0)
        before = out.read_bytes()
        done = run("report", "-o", f"{self.folder}/./r.json", out)
        self.assertEqual(done.returncode, USAGE)
        self.assertEqual(out.read_bytes(), before)

    # ---- signals while waiting ----

    def interrupted(self, number, *arguments, **options):
        process = subprocess.Popen([SHEAF, *map(str, arguments)], stderr=subprocess.PIPE, text=True,
                                   **options)
        time.sleep(0.5)
        self.assertIsNone(process.poll(), arguments)
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
        self.assertEqual((process.returncode, errors), (INTERRUPTED, "sheaf: interrupted\n"))

    def test_a_signal_ends_the_wait_for_input(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        out = self.folder / "out.pcap"
        commands = (("info", pipe), ("convert", pipe, out), ("shuffle", "--window", 9, pipe, out),
                    ("merge", "-o", out, pipe, self.input), ("scale", "--speed", 2, pipe, out))
        writer = os.open(pipe, os.O_RDWR)  # never writes, never ends
        os.write(writer, self.bytes[:1000])
        for index, arguments in enumerate(commands):
            with self.subTest(command=arguments[0]):
                self.interrupted(SIGNALS[index % 3], "trace", *arguments, stdout=subprocess.PIPE)
                self.assertEqual(self.names(), ["in.pcap", "pipe"])
        os.close(writer)

    def test_a_signal_ends_the_wait_for_somebody_at_the_other_end(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.interrupted(signal.SIGTERM, "trace", "info", pipe)
        self.interrupted(signal.SIGTERM, "trace", "scale", "--speed", 2, pipe, self.folder / "out")
        self.interrupted(signal.SIGTERM, "trace", "convert", self.input, pipe)
        self.assertEqual(self.names(), ["in.pcap", "pipe"])

    def test_a_signal_ends_long_preparations(self):
        out = self.folder / "out.pcap"
        long = ("--flows", "4M", "--packets", "16M", "-q")
        for index, arguments in enumerate((
                ("trace", "gen", "--attack", "one-bucket", "--hash", "siphash", "--flows", 65536, out),
                ("trace", "gen", "--flows", "250M", "--packets", "1G", "--order", "lru:zipf=1.1", out),
                ("bench", "lb", *long), ("bench", "sharing", *long),
                ("infer", "verify", "--widths", "1024-1024-1024", "--records", "1M", "-q"))):
            with self.subTest(command=arguments):
                self.interrupted(SIGNALS[index % 3], *arguments)
                self.assertEqual(self.names(), ["in.pcap"])

    def test_a_pipe_is_read_once(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        out = self.folder / "out.pcap"
        for arguments in (("trace", "merge", pipe, self.input, pipe, "-o", out),
                          ("trace", "info", pipe, pipe), ("replay", pipe, pipe),
                          ("compare", self.input, pipe, pipe), ("trace", "info", "-", "-")):
            with self.subTest(arguments=arguments):
                done = subprocess.run([SHEAF, *map(str, arguments)], capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=20, check=False)
                name = "-" if "-" in arguments else pipe
                words = " ".join(arguments[:2] if arguments[0] == "trace" else arguments[:1])
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", (
                    f"sheaf: {words}: got {name} twice, expected it once: it can be read only once\n")))
        self.assertEqual(self.names(), ["in.pcap", "pipe"])

    def test_a_signal_ends_the_wait_for_a_full_pipe(self):
        reader, writer = os.pipe()
        for number in SIGNALS:
            self.interrupted(number, "trace", "convert", self.input, "-", stdout=writer)
        os.close(reader)
        os.close(writer)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
