#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the sheaf command does from the outside: streams, exit codes, documents, signals.

Usage: cli_test.py SHEAF CASES_FOLDER MANUAL CONFIGURATION
"""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SHEAF, CASES, MANUAL, CONFIGURATION = (pathlib.Path(path).resolve() for path in sys.argv[1:5])
TIMEOUT_S = 120
COMMANDS = ("replay", "compare", "trace info", "trace gen", "trace convert", "trace anonymize",
            "trace scale", "trace slice", "trace merge", "trace filter", "trace shuffle", "trace regroup",
            "bench lb", "bench deletion", "bench sharing", "bench tables", "infer export", "infer verify",
            "infer bench", "infer probe", "report")
ROUND_ROBIN = "O02_32_flows_round_robin.pcap"


def run(*arguments, **options):
    settings = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    settings.update(options)
    return subprocess.run([SHEAF, *map(str, arguments)], **settings)


def deterministic(document):
    return {key: value for key, value in document.items() if key not in ("run", "cost")}


class Command(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        self.case = CASES / ROUND_ROBIN
        if not self.case.exists():
            self.case = self.generated(flows=32, packets=4096)

    def tearDown(self):
        self.holder.cleanup()

    def generated(self, *more, flows=64, packets=5000, name="made.pcap"):
        path = self.folder / name
        done = run("trace", "gen", "--flows", flows, "--packets", packets, *more, path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path

    def document(self, *arguments):
        done = run(*arguments, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_document_on_stdout_leaves_the_table_to_stderr(self):
        done = run("replay", self.case, "--chain", "stats", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["schema"], "sheaf-result-1")
        self.assertIn("books", done.stderr)
        quiet = run("replay", self.case, "--json", "-", "--quiet")
        self.assertEqual((quiet.returncode, quiet.stderr), (0, ""))

    def test_two_runs_agree_outside_run_and_cost(self):
        line = ("replay", self.case, "--reframer", "delay=64us", "--chain",
                "stats,router,firewall:rules=100,lb")
        first, second = self.document(*line), self.document(*line)
        self.assertEqual(json.dumps(deterministic(first)), json.dumps(deterministic(second)))

    def test_books_and_flows_do_not_depend_on_workers_or_burst(self):
        path = self.generated(flows=500, packets=20000)
        line = ("replay", path, "--chain", "stats,lb")
        one = self.document(*line)
        two = self.document(*line, "--workers", 2)
        odd = self.document(*line, "--burst", 7)
        for other in (two, odd):
            self.assertEqual(one["conntrack"]["flow_digest"], other["conntrack"]["flow_digest"])
            for key in ("read", "forwarded", "dropped", "held", "balanced"):
                self.assertEqual(one["books"][key], other["books"][key])
        self.assertEqual(len(two["books"]["workers"]), 2)
        self.assertEqual(sum(worker["read"] for worker in two["books"]["workers"]), 20000)

    def test_workers_that_share_cpus_are_told(self):
        one = {min(os.sched_getaffinity(0))}
        for words in (("replay",), ("compare", "--repeat", 1, "--ablations", "none")):
            for options, expected in (((), "sheaf: 2 workers share 1 CPU: costs and rates will be off\n"),
                                      (("--quiet",), ""), (("--workers", 1), "")):
                done = run(*words, self.case, "--workers", 2, *options,
                           preexec_fn=lambda: os.sched_setaffinity(0, one))
                self.assertEqual((done.returncode, done.stderr), (0, expected))

    def test_comparison_holds_baseline_reframer_and_ablations(self):
        document = self.document("compare", self.case, "--chain", "lb", "--ablations",
                                 "prefetch,burst", "--reframer", "delay=1ms")
        self.assertEqual(document["schema"], "sheaf-comparison-1")
        self.assertEqual([entry["name"] for entry in document["runs"]],
                         ["baseline", "reframer", "no-prefetch", "no-burst"])
        results = [entry["result"] for entry in document["runs"]]
        self.assertFalse(results[0]["reframer"]["enabled"])
        self.assertTrue(all(result["books"]["balanced"] for result in results))
        # Configurations take turns: no row has two repeats before every other row has one.
        turns = sorted((each["began_s"], row) for row, result in enumerate(results)
                       for each in result["cost"]["each"])
        self.assertEqual([row for _, row in turns], 3 * [0, 1, 2, 3])
        # What comes out is what a run alone gives.
        alone = self.document("replay", self.case, "--chain", "lb", "--reframer", "delay=1ms")
        self.assertEqual(deterministic(results[1]), deterministic(alone))
        # An ablation costs; it never changes what comes out.
        self.assertEqual({result["conntrack"]["flow_digest"] for result in results[1:]},
                         {results[1]["conntrack"]["flow_digest"]})
        self.assertEqual([result["run"]["ablations"] for result in results],
                         [[], [], ["prefetch"], ["burst"]])

    def test_buffers_for_long_frames_fit_plain_pages(self):
        # Without huge pages each takes pages of its own: more than its size.
        jumbo = self.generated("--frame", 8192, flows=3, packets=300)
        document = self.document("replay", jumbo, "--no-huge", "--rx-ring", "64Ki")
        self.assertEqual(document["books"]["forwarded"], 300)

    def test_configuration_file_does_what_the_options_do(self):
        config = self.folder / "run.yaml"
        config.write_text(f"files: ['{self.case}']\nreframer:\n  delay: 1ms\nchain:\n"
                          "  - name: stats\n  - name: lb\n    backends: 4\n")
        by_file = self.document("replay", "--config", config)
        by_line = self.document("replay", self.case, "--reframer", "delay=1ms", "--chain",
                                "stats,lb:backends=4")
        self.assertEqual(deterministic(by_file), deterministic(by_line))

    def test_document_file_is_whole_or_not_there(self):
        target = self.folder / "result.json"
        self.assertEqual(run("replay", self.case, "--json", target).returncode, 0)
        json.loads(target.read_text())
        done = run("replay", self.case, "--json", self.folder / "no" / "result.json", "--quiet")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"^sheaf: .*no/result.json: No such file or directory\n$")
        self.assertEqual({path.name for path in self.folder.iterdir()} - {"made.pcap"},
                         {"result.json"})

    def test_damage_is_located_and_has_its_own_exit_code(self):
        path = self.generated(packets=100)
        path.write_bytes(path.read_bytes()[:-10])
        info = run("trace", "info", path)
        self.assertEqual(info.returncode, 5)
        self.assertRegex(info.stderr, r"damaged at packet 100, byte \d+: ")
        replay = run("replay", path, "--json", "-", "--quiet")
        self.assertEqual(replay.returncode, 5)
        self.assertRegex(replay.stderr,
                         r"\Asheaf: .*made\.pcap: damaged at packet 100, byte \d+: [^\n]+\n\Z")
        document = json.loads(replay.stdout)
        self.assertEqual(document["trace"]["packets"], 99)
        self.assertEqual(document["trace"]["damages"][0]["packet"], 100)
        self.assertTrue(document["books"]["balanced"])

    def test_benchmarks_tell_damage_too(self):
        path = self.generated("--tcp", packets=1000)
        path.write_bytes(path.read_bytes()[:-10])
        small = {"deletion": ("--strategies", "wheel", "--due", 0, "--repeat", 1),
                 "lb": ("--policies", "maglev", "--repeat", 1),
                 "sharing": ("--sharing", "shard", "--rounds", 1, "--no-dump")}
        for bench, less in small.items():
            done = run("bench", bench, "--trace", path, *less, "--json", "-", "--quiet")
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertRegex(done.stderr, r"\Asheaf: .*made\.pcap: damaged at packet 1000, byte "
                             r"\d+: [^\n]+: what is behind is left out\n\Z")
            json.loads(done.stdout)

    def test_information_of_several_files_is_one_document(self):
        first, second = self.generated(name="a.pcap"), self.generated(name="b.pcap", packets=7)
        done = run("trace", "info", first, self.folder / "none.pcap", second, "--json", "-",
                   "--quiet")
        self.assertEqual(done.returncode, 2)
        files = json.loads(done.stdout)["files"]
        self.assertEqual([entry["packets"] for entry in files], [5000, 7])
        self.assertEqual(files[0]["flows"], 64)

    def test_generated_captures_flow_through_pipes(self):
        made = run("trace", "gen", "--flows", 8, "--packets", 100, "--run-length", 4, "--tcp",
                   "-", text=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        info = run("trace", "info", "-", "--json", "-", "--quiet", input=made.stdout, text=False)
        self.assertEqual(info.returncode, 0, info.stderr)
        entry = json.loads(info.stdout)["files"][0]
        self.assertEqual((entry["packets"], entry["flows"], entry["flow_runs"]), (100, 8, 25))
        self.assertEqual(entry["protocols"][0]["protocol"], 6)

    def test_rates_choose_the_spacing(self):
        path = self.generated("--rate", "10Gb", "--frame", 101, packets=10001)
        entry = self.document("trace", "info", path)["files"][0]
        self.assertTrue(entry["nanoseconds"])
        self.assertAlmostEqual(entry["duration_ns"], 10000 * 100, delta=10000)

    def test_conversion_keeps_packets_and_cuts_on_request(self):
        path = self.generated("--frame", 300, "--ns")
        out = self.folder / "cut.pcapng"
        done = run("trace", "convert", path, out, "--snaplen", 64, "--packets", 1000)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        entry = self.document("trace", "info", out)["files"][0]
        self.assertEqual((entry["packets"], entry["wire_bytes"], entry["captured_bytes"]),
                         (1000, 300000, 64000))
        self.assertTrue(entry["nanoseconds"])

    def test_a_sink_that_fails_leaves_no_file(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))

        path = self.generated(packets=20000)
        for workers in (1, 2):
            done = run("replay", path, "--quiet", "--no-huge", "--workers", workers, "--sink",
                       f"pcap:{self.folder}/out.pcap", preexec_fn=small_files)
            self.assertEqual(done.returncode, 3)
            # DPDK says first that its memory file is limited too.
            self.assertRegex(done.stderr, r"(?m)^sheaf: .*out\.pcap: File too large\n\Z")
            self.assertEqual([entry.name for entry in self.folder.iterdir()], ["made.pcap"])

    def test_balancers_are_judged_while_backends_come_and_go(self):
        line = ("bench", "lb", "--flows", 3000, "--packets", 20000, "--repeat", 1, "--flood", 2,
                "--conns", 8192)
        one, two = self.document(*line), self.document(*line)
        rows = {row["policy"]: row for row in one["policies"]}
        for policy, row in rows.items():
            for case in ("calm", "flood"):
                with self.subTest(policy=policy, case=case):
                    self.assertEqual(row[case]["connections"], 3000)
                    self.assertEqual(row[case]["dropped_packets"], 0)
                    self.assertGreater(row[case]["cycles_per_packet"], 0)
                    other = {each["policy"]: each for each in two["policies"]}[policy][case]
                    cost = ("cycles_per_packet", "cycles_min", "cycles_max", "hardware_counters")
                    self.assertEqual({k: v for k, v in row[case].items() if k not in cost},
                                     {k: v for k, v in other.items() if k not in cost})
        for policy in ("maglev", "round-robin", "least-connections"):
            self.assertEqual(rows[policy]["calm"]["moved_packets"], 0)
            # A flood of twice the packets moves nobody whose connection is known.
            self.assertEqual(rows[policy]["flood"]["broken_connections"], 0)
            self.assertGreater(rows[policy]["calm"]["orphaned_connections"], 0)
            self.assertEqual(rows[policy]["calm"]["inserted"], 3000)
        stateless, jet = rows["stateless"]["calm"], rows["jet"]["calm"]
        self.assertEqual((stateless["inserted"], stateless["state_bytes"]), (0, 0))
        self.assertGreater(stateless["moved_packets"], jet["moved_packets"])
        self.assertTrue(0 < jet["inserted"] < 1000)

    def test_a_schedule_moves_backends_in_a_replay(self):
        schedule = self.folder / "changes.yaml"
        schedule.write_text("- {at: 2ms, action: remove, backend: ip4_0001}\n")
        path = self.generated(flows=64, packets=5000)
        for workers in (1, 2):
            chain = self.document("replay", path, "--workers", workers, "--chain",
                                  f"lb:backends=2:schedule={schedule}")["chain"]
            counters = chain[0]["counters"]
            self.assertGreater(counters["orphaned_connections"], 10)
            self.assertEqual(counters["connections"], 64 + counters["orphaned_connections"])

    def test_many_workers_start_together(self):
        document = self.document("replay", self.case, "--chain", "stats", "--workers", 32,
                                 "--conns", 256)
        self.assertEqual(len(document["books"]["workers"]), 32)
        self.assertTrue(document["books"]["balanced"])

    def test_what_the_machine_cannot_hold_is_refused(self):
        done = run("replay", self.case, "--quiet", "--conns", 1 << 28, "--workers", 64)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\Asheaf: the run needs \d+ MB \(connections \d+\), .*: lower --conns or --workers\n\Z")

        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))

        done = run("replay", self.case, "--quiet", preexec_fn=few_files)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\Asheaf: DPDK could not start: .* files.*\n\Z")

    def test_an_input_is_never_an_output(self):
        path = self.generated(packets=100)
        link = self.folder / "link.pcap"
        link.hardlink_to(path)
        before = path.read_bytes()
        for output in (("--sink", f"pcap:{link}"), ("--json", path)):
            done = run("replay", path, "--quiet", *output)
            self.assertEqual(done.returncode, 1)
            self.assertIn("which is an input", done.stderr)
        self.assertEqual(path.read_bytes(), before)

    def test_interrupt_ends_a_run_with_balanced_books(self):
        path = self.generated(packets=50000, flows=100)
        with subprocess.Popen([SHEAF, "replay", path, "--clock", "wall", "--loop", "100000",
                               "--reframer", "delay=1ms", "--json", "-", "--quiet"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 6)
        document = json.loads(out)
        self.assertTrue(document["books"]["balanced"])
        self.assertTrue(document["run"]["interrupted"])
        self.assertEqual(document["books"]["held"], 0)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run("help", stdout=full, stderr=subprocess.PIPE, capture_output=False)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, "sheaf: standard output: No space left on device\n")
        read, write = os.pipe()
        os.close(read)
        done = run("help", "replay", stdout=write, stderr=subprocess.PIPE, capture_output=False)
        os.close(write)
        self.assertEqual(done.returncode, 3)

    def test_report_hands_its_files_to_the_script(self):
        script = self.folder / "report.py"
        script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
        done = run("report", "a.json", "-o", "x.html", "b.json",
                   env={**os.environ, "SHEAF_REPORT": str(script)})
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stdout, "['-o', 'x.html', 'a.json', 'b.json']\n")

    def test_version_and_help_succeed(self):
        for arguments in (("--version",), ("version",), ("--help",), ("help",)):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        for command in COMMANDS:
            one, two = run("help", *command.split()), run(*command.split(), "--help")
            self.assertEqual((one.returncode, one.stdout), (0, two.stdout))


class Documents(unittest.TestCase):
    """The manual and the option table name the same things."""

    def setUp(self):
        self.manual = MANUAL.read_text().replace("\\-", "-")
        self.configuration = CONFIGURATION.read_text()
        self.options, self.items = set(), set()
        for command in COMMANDS:
            for line in run("help", *command.split()).stdout.splitlines():
                option = re.match(r"  (?:-\w, )?--([\w-]+)", line)
                item = re.match(r"      ([\w-]+)=", line)
                if option:
                    self.options.add(option.group(1))
                if item:
                    self.items.add(item.group(1))

    def test_manual_has_every_option_and_no_other(self):
        self.assertGreater(len(self.options), 50)
        entries = set(re.findall(r"^\.TP\n\.B[IR]? \"?(?:-\w, )?--([\w-]+)", self.manual,
                                 re.M))
        self.assertEqual(entries ^ self.options, set())

    def test_items_are_explained(self):
        self.assertGreater(len(self.items), 30)
        for item in self.items:
            self.assertRegex(self.manual, rf"(?m)^\.B[IR]? \"?{item}=", item)
            self.assertIn(f"`{item}", self.configuration)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
