#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Flow inference in a replay: labels are the model's, verdicts act on the packets they should and on
no other, and results do not depend on workers, bursts or the reframer.

Usage: infer_replay_test.py SHEAF INFER_RUN MODELS_FOLDER SAMPLE.pcap.gz
"""

import array
import collections
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import onnx

from infer_flows import Packet, frames, index

SHEAF, INFER_RUN, MODELS, SAMPLE = (pathlib.Path(path).resolve() for path in sys.argv[1:5])
TREE = MODELS / "tree-spi30.onnx"
SANITIZED = b"__asan_init" in SHEAF.read_bytes() or b"__tsan_init" in SHEAF.read_bytes()
Verdict = collections.namedtuple("Verdict", "outcome stale flow_id asked answered label worker")


def run(*arguments):
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=300,
                          check=False)


def verdicts(path):
    data, found = path.read_bytes(), []
    assert len(data) % 48 == 0
    for at in range(0, len(data), 48):
        magic, version, outcome, stale, _, _, flow_id, asked, answered, label, worker = \
            struct.unpack("<4sHBBIIQQQII", data[at:at + 48])
        assert (magic, version) == (b"SHVD", 1)
        found.append(Verdict(outcome, stale, f"{flow_id:016x}", asked, answered, label, worker))
    return found


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def marked(frame, dscp):
    """The frame with another DSCP, its checksum made anew."""
    ip = bytearray(frame[14:])
    if ip[0] >> 4 == 6:
        traffic_class = dscp << 2 | (ip[1] >> 4 & 3)
        ip[0], ip[1] = ip[0] & 0xf0 | traffic_class >> 4, ip[1] & 0x0f | (traffic_class & 15) << 4
    else:
        size = (ip[0] & 15) * 4
        ip[1] = dscp << 2 | ip[1] & 3
        ip[10:12] = b"\0\0"
        ip[10:12] = struct.pack(">H", checksum(bytes(ip[:size])))
    return frame[:14] + bytes(ip)


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.made = cls.folder / "made.pcap"
        done = run(SHEAF, "trace", "gen", "--preset", "campus", "--packets", 30000, cls.made)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def replay(self, capture, infer, *more):
        done = run(SHEAF, "replay", capture, "--infer", infer, "--json", "-", "-q", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        section, flows = document["gpu_offload"], document["gpu_offload"]["flows"]
        self.assertTrue(document["books"]["balanced"])
        self.assertEqual(flows["seen"], flows["too_short"] + flows["asked"])
        ended = sum(flows[key] for key in ("answered", "rejected", "expired", "failed"))
        self.assertEqual(flows["asked"], ended)
        self.assertEqual(ended, sum(flows[key] for key in ("applied", "given_up", "stale", "ended")))
        self.assertEqual(sum(section["labels"]), flows["answered"])
        return document

    def labels(self, capture, model, depth, which=("--whole",), features="spi30"):
        """Flow id -> label, by the oracle from exported rows; and the export's side file."""
        path = self.folder / "rows.npy"
        done = run(SHEAF, "infer", "export", capture, "--depth", depth, *which, "-o", path, "-q",
                   "--features", features)
        self.assertEqual(done.returncode, 0, done.stderr)
        flows, raw, out = index(path.with_suffix(".csv")), self.folder / "raw", self.folder / "out"
        raw.write_bytes(path.read_bytes()[128:])
        self.assertEqual(run(INFER_RUN, model, "cpu-ref", raw, out).returncode, 0)
        values = array.array("I", out.read_bytes()[:4 * len(flows)])
        return {flow["flow_id"]: label for flow, label in zip(flows, values)}, flows

    def test_every_model_labels_every_flow(self):
        models = sorted(MODELS.glob("*.onnx"))
        self.assertGreater(len(models), 6)
        path = self.folder / "verdicts"
        for capture in (SAMPLE, self.made):
            for model in models:
                if SANITIZED and model.name.startswith(("cnn", "forest")):
                    continue  # minutes, and nothing of theirs that the others do not reach here
                for workers in (2,) if SANITIZED else (1, 2):
                    with self.subTest(capture=capture.name, model=model.name, workers=workers):
                        features = model.stem.rsplit("-", 1)[1]
                        expected, _ = self.labels(capture, model, 10, features=features)
                        self.replay(capture, f"model={model},depth=10,backend=cpu-ref,verdicts={path},"
                                    f"features={features}", "--workers", workers)
                        got = verdicts(path)
                        self.assertEqual({v.flow_id: v.label for v in got}, expected)
                        self.assertEqual(len(got), len(expected))

    def test_flows_that_end_before_their_depth(self):
        path = self.folder / "verdicts"
        for capture in (SAMPLE, self.made):
            for least in (1, 3):
                expected, flows = self.labels(capture, TREE, 10, ("--min-packets", least))
                short = {flow["flow_id"] for flow in flows if not flow["whole"]}
                documents = []
                for workers in (1, 2):
                    # A queue that all the flows that are open at the end do not fit into.
                    infer = f"model={TREE},depth=10,batch=8,queue=8,short=classify,min={least}," \
                        f"idle=on,service=1ns,drop=9,verdicts={path}"
                    with self.subTest(capture=capture.name, least=least, workers=workers):
                        found = self.replay(capture, infer, "--workers", workers, "--burst", 1)
                        section = found["gpu_offload"]
                        got = verdicts(path)
                        self.assertEqual({v.flow_id: v.label for v in got}, expected)
                        self.assertEqual({v.flow_id for v in got if v.stale == 2}, short)
                        self.assertEqual(section["flows"]["ended"], len(short))
                        self.assertEqual(section["flows"]["seen"],
                                         len(expected) + section["flows"]["too_short"])
                        self.assertEqual(section["flows"]["too_short"] == 0, least == 1)
                        self.assertEqual(found["run"]["infer"]["short"], "classify")
                        documents.append((section["labels"], section["labels_digest"],
                                          section["flows"], section["packets"]))
                        again = self.replay(capture, infer, "--workers", workers, "--burst", 1)
                        self.assertEqual(again["gpu_offload"], section)
                        self.assertEqual([(v.answered, v.label) for v in verdicts(path)],
                                         [(v.answered, v.label) for v in got])
                self.assertEqual(*documents)
                # What they do to packets is what they do without the short ones.
                alone = self.replay(capture, f"model={TREE},depth=10,batch=8,queue=8,idle=on,"
                                    "service=1ns,drop=9", "--burst", 1)["gpu_offload"]
                self.assertEqual(alone["packets"], documents[0][3])
                self.assertEqual(alone["flows"]["applied"], documents[0][2]["applied"])
                self.assertEqual(alone["flows"]["too_short"], alone["flows"]["short"])

    def relabelled(self, name, **labels):
        """The shipped tree with other names of its classes."""
        model = onnx.load(TREE)
        attributes = model.graph.node[0].attribute
        kept = [a for a in attributes if not a.name.startswith("classlabels")]
        del attributes[:]
        attributes.extend(kept + [onnx.helper.make_attribute(key, value) for key, value in labels.items()])
        path = self.folder / name
        path.write_bytes(model.SerializeToString())
        return path

    def test_labels_are_what_the_model_calls_them(self):
        path, plain, own = (self.folder / name for name in ("verdicts", "plain", "own"))
        names = [100 + 7 * label for label in range(16)]
        model = self.relabelled("numbers.onnx", classlabels_int64s=names)
        infer = "depth=10,verdicts={},model={},drop={}"
        first = self.replay(SAMPLE, infer.format(plain, TREE, "9+0"))["gpu_offload"]
        second = self.replay(SAMPLE, infer.format(own, model, f"{names[9]}+{names[0]}"))["gpu_offload"]
        self.assertEqual([names[v.label] for v in verdicts(plain)], [v.label for v in verdicts(own)])
        self.assertEqual(first["packets"], second["packets"])
        self.assertGreater(first["packets"]["dropped"], 0)
        self.assertEqual(first["labels"], second["labels"])
        self.assertEqual(first["label_names"], [str(label) for label in range(16)])
        self.assertEqual(second["label_names"], [str(label) for label in names])
        done = run(SHEAF, "replay", SAMPLE, "--infer", infer.format(path, model, 9))
        self.assertEqual((done.returncode, done.stderr.endswith("drop: got label '9', expected one of the model\n")),
                         (1, True), done.stderr)
        words = self.relabelled("words.onnx", classlabels_strings=[f"service {c}" for c in "abcdefghijklmnop"])
        third = self.replay(SAMPLE, infer.format(own, words, "9+0"))["gpu_offload"]
        self.assertEqual(third["label_names"][9], "service j")
        self.assertEqual((third["labels"], third["packets"]), (first["labels"], first["packets"]))
        self.assertEqual(verdicts(own), verdicts(plain))
        for bad, why in (([0] * 16, "got 0 twice"), ([-1] + names[1:], "got -1, expected 0 .. 4095")):
            model = self.relabelled("bad.onnx", classlabels_int64s=bad)
            done = run(SHEAF, "replay", SAMPLE, "--infer", f"model={model}")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"classlabels_int64s: {why}\n", done.stderr)

    def test_more_memory_than_there_is(self):
        memory = re.search(r"MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
        if int(memory.group(1)) > 128 << 20:
            self.skipTest("it may fit this machine")
        infer = f"model={TREE},batch=65536,inflight=64,queue=1048576,hold=1ms,held=1048576"
        done = run(SHEAF, "replay", SAMPLE, "--infer", infer, "--workers", 64)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, r"(?m)^sheaf: the run needs \d{6} MB \(packet buffers \d+, flows "
                         r"that wait \d+, batches \d+\), the machine has \d+ MB free: lower "
                         r"--workers, --infer held=, --infer queue=, --infer batch= or --infer "
                         r"inflight=\n\Z")
        # Who does without huge pages cannot have theirs.
        done = run(SHEAF, "replay", SAMPLE, "--infer", infer, "--workers", 64, "--no-huge")
        plain = int(re.search(r"^MemAvailable: *(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)[1]) >> 10
        self.assertLess(int(re.search(r"has (\d+) MB free", done.stderr)[1]), plain + 1024)

    def test_the_same_everywhere(self):
        infer = f"model={TREE},depth=8,batch=32,delay=2ms,drop=9,mark=15:10"
        for capture in (SAMPLE, self.made):
            first = self.replay(capture, infer, "--chain", "stats,lb")
            again = self.replay(capture, infer, "--chain", "stats,lb")
            for document in (first, again):
                del document["run"], document["cost"]
            self.assertEqual(first, again)
            for more in (("--workers", 2), ("--workers", 3, "--burst", 7), ("--reframer", "delay=64us"),
                         ("--speed", 10), ("--ablate", "burst,runs,prefetch,dedup"), ("--repeat", 3)):
                other = self.replay(capture, infer, "--chain", "stats,lb", *more)["gpu_offload"]
                for key in ("labels_digest", "labels", "depth"):
                    self.assertEqual(first["gpu_offload"][key], other[key], more)
                self.assertEqual(first["gpu_offload"]["flows"]["asked"], other["flows"]["asked"])

    def flows_of(self, capture, expected, flows, path):
        """Input packets with the flow's verdict, or None: (time, frame, flow, verdict)."""
        by_id = {v.flow_id: v for v in verdicts(path)}
        tuples, fragments, rows = collections.defaultdict(list), {}, []
        for flow in flows:
            tuples[flow["protocol"], frozenset((flow["opener"], flow["responder"]))].append(flow)
        for time_ns, frame in frames(capture):
            packet, flow = Packet.parse(time_ns, frame, fragments), None
            if packet:
                key = (packet.protocol, frozenset((packet.source, packet.destination)))
                known = [f for f in tuples[key] if f["first_ns"] <= time_ns]
                flow = max(known, key=lambda f: f["first_ns"]) if known else None
            verdict = by_id.get(flow["flow_id"]) if flow else None
            rows.append((time_ns, frame, packet, flow, verdict))
        self.assertEqual(len(by_id), len(expected))
        return rows

    def act(self, capture, action, *more):
        """Replay packet by packet; what came in, with verdicts, and what came out."""
        path, out = self.folder / "verdicts", self.folder / "out.pcap"
        expected, _ = self.labels(capture, TREE, 6)
        done = run(SHEAF, "infer", "export", capture, "--depth", 6, "-o", self.folder / "all.npy", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)
        flows = index(self.folder / "all.csv")
        document = self.replay(capture, f"model={TREE},depth=6,delay=300us,service=50us,"
                               f"verdicts={path},{action}", "--burst", 1, "--sink", f"pcap:{out}", *more)
        rows = self.flows_of(capture, expected, flows, path)
        return rows, list(frames(out)), document["gpu_offload"]

    def applies(self, row, label):
        time_ns, _, _, _, verdict = row
        return verdict is not None and not verdict.stale and verdict.label == label and \
            time_ns >= verdict.answered

    def test_drop(self):
        for capture, label in ((SAMPLE, 9), (self.made, 0)):
            rows, out, section = self.act(capture, f"drop={label}")
            kept = [(row[0], row[1]) for row in rows if not self.applies(row, label)]
            self.assertEqual(section["packets"]["dropped"], len(rows) - len(kept))
            self.assertGreater(len(rows) - len(kept), 50)
            self.assertEqual([frame for _, frame in out], [frame for _, frame in kept])

    def test_mark(self):
        rows, out, section = self.act(SAMPLE, "mark=9:46+0:8")
        counts = collections.Counter()
        expected = []
        for row in rows:
            frame = row[1]
            for label, dscp in ((9, 46), (0, 8)):
                if self.applies(row, label):
                    frame = marked(frame, dscp)
                    counts[label] += 1
            expected.append(frame)
        self.assertGreater(min(counts[9], counts[0]), 50)
        self.assertEqual(section["packets"]["marked"], counts[9] + counts[0])
        self.assertEqual([frame for _, frame in out], expected)

    def test_steer(self):
        chain = ("--chain", "lb:backend=a@10.9.9.1:backend=b@10.9.9.2:backend=c@[2001:db8:9::1]")
        rows, out, section = self.act(SAMPLE, "steer=9:b", *chain)
        steered, others, fragments = 0, 0, {}
        self.assertEqual(len(out), len(rows))
        for row, (_, frame) in zip(rows, out):
            _, _, packet, flow, _ = row
            sent = Packet.parse(0, frame, fragments)
            if packet is None or packet.source != flow["opener"]:
                continue
            target = str(sent.destination[0])
            if self.applies(row, 9) and packet.source[0].version == 4:
                self.assertEqual(target, "10.9.9.2")
                steered += 1
            else:
                others += target == "10.9.9.1"
        self.assertGreater(min(steered, others), 50)
        flows = section["flows"]
        self.assertGreater(flows["steered"], 1)
        self.assertEqual(flows["steered"] + flows["unsteerable"], section["labels"][9] - flows["stale"])

    def test_delays_and_limits(self):
        infer = f"model={TREE},depth=5,batch=64,delay=500us,service=70us"
        batches = self.replay(self.made, infer)["gpu_offload"]["batches"]
        self.assertLessEqual(batches["waited_max_ns"], 500000)
        self.assertLessEqual(batches["answer_ns"]["max"], 570000)
        self.assertGreater(batches["delay"], 10)
        small = self.replay(self.made, f"model={TREE},depth=5,batch=4,delay=10s,queue=4,inflight=1,"
                            "service=100ms")["gpu_offload"]
        self.assertGreater(small["flows"]["rejected"], 10)
        on_cpu = self.replay(self.made, f"model={TREE},depth=5,batch=4,delay=10s,queue=4,inflight=1,"
                             "service=100ms,full=cpu")["gpu_offload"]
        self.assertEqual(on_cpu["flows"]["rejected"], 0)
        self.assertEqual(on_cpu["flows"]["on_cpu"], small["flows"]["rejected"])
        late = self.replay(self.made, f"model={TREE},depth=5,batch=64,delay=10s,inflight=1,"
                           "service=100ms,deadline=20ms")["gpu_offload"]
        self.assertGreater(late["flows"]["expired"], 10)
        adapted = self.replay(self.made, f"model={TREE},depth=5,batch=64,delay=1ms,service=70us,"
                              "objective=100us")["gpu_offload"]
        self.assertLess(adapted["batches"]["limit"], 64)

    def test_hold(self):
        infer = f"model={TREE},depth=6,drop=9,delay=300us"
        passing = self.replay(SAMPLE, infer)["gpu_offload"]
        waiting = passing["packets"]["before_answer"]
        self.assertGreater(waiting, 500)
        for more in ((), ("--workers", 2), ("--reframer", "delay=64us"), ("--burst", 1), ("--burst", 256),
                     ("--ablate", "runs"), ("--stream", "on"), ("--chain", "stats,nat,lb")):
            for hold in ("hold=50ms", "hold=100us", "hold=5ms,held=8", "hold=1s,held=1"):
                with self.subTest(more=more, hold=hold):
                    document = self.replay(SAMPLE, f"{infer},{hold}", *more)
                    section, packets = document["gpu_offload"], document["gpu_offload"]["packets"]
                    self.assertEqual(document["books"]["reorder_violations"], 0)
                    self.assertEqual(packets["before_answer"], 0)
                    self.assertEqual(packets["held"], sum(packets[f"held_{why}"] for why in (
                        "answered", "bound", "pressed", "orphaned")))
                    self.assertEqual(section["labels_digest"], passing["labels_digest"])
                    if hold == "hold=50ms":  # every packet behind the depth is acted on
                        self.assertEqual(packets["held"], packets["held_answered"])
                        self.assertGreater(packets["dropped"], passing["packets"]["dropped"])
        first, again = (self.replay(SAMPLE, f"{infer},hold=200us,held=50") for _ in range(2))
        self.assertEqual(first["gpu_offload"], again["gpu_offload"])
        self.assertEqual(first["books"], again["books"])

    def test_a_tuple_that_begins_anew_is_not_reordered(self):
        """Held packets of the old connection go before those of the new one."""
        def segment(at_us, forth, flags, seq, ack):
            ends = (b"\x0a\0\0\1", b"\x0a\0\0\2")
            source, target = ends if forth else ends[::-1]
            ports = (1000, 80) if forth else (80, 1000)
            tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, flags, 1000, 0, 0)
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, source, target)
            ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
            frame = bytes(12) + b"\x08\0" + ip + tcp
            return struct.pack("<IIII", 1700000000, at_us, len(frame), len(frame)) + frame
        capture, out = self.folder / "reuse.pcap", self.folder / "reuse-out.pcap"
        talk = ((True, 2, 100, 0), (False, 18, 500, 101), (True, 16, 101, 501), (True, 17, 101, 501),
                (False, 17, 501, 102), (True, 16, 102, 502), (True, 2, 90000, 0),
                (False, 18, 7000, 90001), (True, 16, 90001, 7001))
        capture.write_bytes(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1) + b"".join(
            segment(10 * at, *what) for at, what in enumerate(talk)))
        for burst in (1, 2, 3, 64):
            for bound in ("1us", "35us", "10ms"):
                with self.subTest(burst=burst, bound=bound):
                    self.replay(capture, f"model={TREE},depth=2,hold={bound}", "--burst", burst,
                                "--sink", f"pcap:{out}")
                    self.assertEqual([frame for _, frame in frames(out)],
                                     [frame for _, frame in frames(capture)])

    def test_the_order_holds_when_connections_are_evicted(self):
        for more in (("--conns", 64, "--full", "evict"),
                     ("--timeout", "tcp_established=1ms,udp_unreplied=1ms,udp_replied=1ms")):
            document = self.replay(self.made, f"model={TREE},depth=2,hold=10ms,delay=5ms", *more)
            self.assertEqual(document["reframer"]["reorder_violations"], 0)
            self.assertGreater(document["gpu_offload"]["packets"]["held_orphaned"], 0)

    def test_comparison_has_a_column_for_inference(self):
        for more, expected in (((), False), (("--infer", f"model={TREE},depth=10"), True)):
            done = run(SHEAF, "compare", self.made, "--ablations", "none", "--repeat", 1, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stdout.splitlines()
            at = next(i for i, line in enumerate(lines) if line.startswith("run "))
            self.assertEqual("infer" in lines[at].split(), expected)
            # Every column ends where its name does; books have no column behind them.
            for row in lines[at + 1:at + 3]:
                self.assertEqual(row.index("balanced"), lines[at].index("books"))
            self.assertEqual(lines[at - 1].index("vs") + 2,
                             lines[at].index("first") + len("first"))

    def test_no_output_replaces_the_model(self):
        model, csv = self.folder / "m.onnx", self.folder / "c.csv"
        model.write_bytes(TREE.read_bytes())
        csv.write_bytes(self.made.read_bytes())
        for arguments in (("replay", self.made, "--infer", f"model={model}", "--json", model),
                          ("replay", self.made, "--infer", f"model={model}", "--sink",
                           f"pcap:{model}"),
                          ("infer", "verify", "--model", model, "--json", model),
                          ("infer", "bench", "--model", model, "--json", model),
                          ("infer", "export", csv, "-o", self.folder / "c.npy")):
            done = run(SHEAF, *arguments)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("which is an input", done.stderr)
        self.assertEqual(model.read_bytes(), TREE.read_bytes())
        self.assertEqual(csv.read_bytes(), self.made.read_bytes())

    def test_wall_clock(self):
        document = self.replay(SAMPLE, f"model={TREE},depth=10,drop=9,hold=200us", "--clock", "wall", "--speed", 5)
        self.assertIsNone(document["run"]["infer"]["service_ns"])
        expected, _ = self.labels(SAMPLE, TREE, 10)
        self.assertEqual(document["gpu_offload"]["flows"]["answered"], len(expected))

    def test_the_back_end_is_named(self):
        done = run(SHEAF, "replay", SAMPLE, "--infer", f"model={TREE}")
        self.assertRegex(done.stdout, r"(?m)^infer +spi30 on .* (cpu|cuda) \(")
        self.assertRegex(done.stdout, r"flows = \d+ too short \+ \d+ answered")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
