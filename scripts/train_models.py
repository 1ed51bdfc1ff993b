#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Train the models in gpu_offload/models/ on rows that `sheaf infer export` wrote.

A row's label is the service that the responder's port names (SERVICES). Rows are split by host: no
host that opened a flow of the training part opens one of the test part, so that what is measured is
not memory of a host. Same rows and same seed, same models.

    sheaf trace gen --preset campus --packets 150000 --cold --seed 7 campus.pcap
    sheaf infer export --features spi30 -o campus.npy campus.pcap
    scripts/train_models.py --output gpu_offload/models campus.npy
    sheaf infer export --features stat67 --depth 10 -o stat67.npy campus.pcap
    sheaf infer export --features n3ic20 --depth 10 -o n3ic20.npy campus.pcap
    scripts/train_models.py --output gpu_offload/models --features stat67 stat67.npy
    scripts/train_models.py --output gpu_offload/models --features n3ic20 n3ic20.npy

Models of spi30: a decision tree, a random forest, a multi-layer perceptron 90-64-128-64-16, the same with
weights of 8 bits, and a one-dimensional convolutional network of 88 thousand parameters. Of stat67 a
decision tree. Of n3ic20 a perceptron 20-32-16-16 whose arithmetic is that of integers: 8 bits times 8
bits, summed in 32. Ports are hidden from these two, since labels are made of them. Beside them
golden.rows.npy (golden-FEATURES.rows.npy), rows of the test part, and for each model NAME.scores.npy, what NumPy and
scikit-learn make of these rows in double precision.
"""

import argparse
import csv
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

SERVICES = [("tcp", 443), ("udp", 53), ("tcp", 80), ("udp", 161), ("udp", 123), ("tcp", 22),
            ("tcp", 8080), ("tcp", 25), ("tcp", 993), ("udp", 443), ("udp", 6881), ("udp", 3478),
            ("udp", 4500), ("tcp", None), ("udp", None), (None, None)]
PROTOCOLS = {"6": "tcp", "17": "udp"}
CLASSES = len(SERVICES)
# spi30: sizes, directions, gaps of 30 packets. No shifts, so that packets that are not there stay 0.
SCALE = np.repeat([1 / 1000, 1.0, 1 / 10], 30)
GOLDEN_ROWS = 64


def service(line):
    protocol = PROTOCOLS.get(line["protocol"])
    for wanted in ((protocol, int(line["responder_port"])), (protocol, None), (None, None)):
        if wanted in SERVICES:
            return SERVICES.index(wanted)
    return CLASSES - 1


def read(paths, columns):
    rows, labels, hosts = [], [], []
    for path in paths:
        table = np.load(path)
        with open(path.with_suffix(".csv"), newline="") as file:
            lines = list(csv.DictReader(file))
        if table.ndim != 2 or table.shape[1] != columns or len(lines) != len(table):
            sys.exit(f"{path}: got {table.shape} and {len(lines)} lines, expected rows of {columns}")
        rows.append(table)
        labels += [service(line) for line in lines]
        hosts += [line["host_id"] for line in lines]
    return np.concatenate(rows).astype(np.float32), np.array(labels), np.array(hosts)


def split(hosts, rng):
    """Whether each row is for training: four hosts of five."""
    names = np.unique(hosts)
    chosen = set(rng.permutation(names)[:len(names) * 4 // 5])
    return np.array([host in chosen for host in hosts])


# ---- ONNX


class Writer:
    def __init__(self, columns=90):
        self.nodes, self.tensors, self.columns = [], [], columns

    def tensor(self, name, array):
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, name=outputs[-1], **attributes))
        return outputs[-1]

    def save(self, path, name, output):
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["flows", self.columns])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["flows", CLASSES])],
            self.tensors)
        model = helper.make_model(graph, producer_name="sheaf train_models.py", opset_imports=[
            helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)])
        onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString())


def save_trees(path, name, trees, classes, columns=90):
    a = {key: [] for key in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
        "nodes_truenodeids", "nodes_falsenodeids", "class_treeids", "class_nodeids", "class_ids",
        "class_weights")}
    for number, tree in enumerate(trees):
        for node in range(tree.node_count):
            leaf = tree.children_left[node] < 0
            threshold = 0.0 if leaf else tree.threshold[node]
            # Thresholds are doubles there: the greatest float that is not above decides the same.
            single = np.float32(threshold)
            if single > threshold:
                single = np.nextafter(single, np.float32(-np.inf))
            a["nodes_treeids"].append(number)
            a["nodes_nodeids"].append(node)
            a["nodes_featureids"].append(0 if leaf else int(tree.feature[node]))
            a["nodes_values"].append(float(single))
            a["nodes_modes"].append("LEAF" if leaf else "BRANCH_LEQ")
            a["nodes_truenodeids"].append(0 if leaf else int(tree.children_left[node]))
            a["nodes_falsenodeids"].append(0 if leaf else int(tree.children_right[node]))
            if not leaf:
                continue
            counts = tree.value[node][0] / tree.value[node][0].sum() / len(trees)
            for label in np.flatnonzero(counts):
                a["class_treeids"].append(number)
                a["class_nodeids"].append(node)
                a["class_ids"].append(int(classes[label]))
                a["class_weights"].append(float(counts[label]))
    writer = Writer(columns)
    writer.node("TreeEnsembleClassifier", ["rows"], ["label", "scores"], domain="ai.onnx.ml",
                classlabels_int64s=list(range(CLASSES)), post_transform="NONE", **a)
    writer.save(path, name, "scores")


def save_mlp(path, layers, quantised):
    """Returns the weights as they are in the file."""
    writer, name, kept = Writer(), "rows", []
    for number, (w, b) in enumerate(layers):
        b = b.astype(np.float32)
        if quantised:
            # A step for each input: those of sizes, directions and gaps differ a thousandfold.
            step = (np.abs(w).max(axis=1, keepdims=True) / 127 + 1e-12).astype(np.float32)
            q = np.round(w / step).astype(np.int8)
            matrix = writer.node("DequantizeLinear", [
                writer.tensor(f"q{number}", q), writer.tensor(f"s{number}", step.reshape(-1))],
                [f"w{number}"], axis=0)
            w = (q * step.astype(np.float64)).astype(np.float32)
        else:
            w = w.astype(np.float32)
            matrix = writer.tensor(f"w{number}", w)
        last = number == len(layers) - 1
        name = writer.node("Gemm", [name, matrix, writer.tensor(f"b{number}", b)],
                           ["scores" if last else f"sums{number}"])
        if not last:
            name = writer.node("Relu", [name], [f"hidden{number}"])
        kept.append((w, b))
    writer.save(path, path.stem, "scores")
    return kept


def run_mlp(layers, rows):
    x = rows.astype(np.float64)
    for number, (w, b) in enumerate(layers):
        x = x @ w.astype(np.float64) + b
        x = np.maximum(x, 0) if number < len(layers) - 1 else x
    return x


def all_classes(w, b, classes):
    """Classes that the training part lacks get scores that never win."""
    wide, low = np.zeros((w.shape[0], CLASSES)), np.full(CLASSES, -1000.0)
    wide[:, classes], low[classes] = w, b
    return wide, low


# ---- the convolutional network, by hand: forward, backward, Adam


def windows(x, taps):
    """[rows, channels, places] to [rows, places, channels * taps], padded to the same places."""
    padded = np.pad(x, ((0, 0), (0, 0), (taps // 2, taps // 2)))
    view = np.lib.stride_tricks.sliding_window_view(padded, taps, axis=2)
    return np.ascontiguousarray(view.transpose(0, 2, 1, 3)).reshape(len(x), x.shape[2], -1)


def unwindows(d, channels, taps):
    rows, places, _ = d.shape
    d = d.reshape(rows, places, channels, taps).transpose(0, 2, 1, 3)
    out = np.zeros((rows, channels, places + taps - 1), d.dtype)
    for tap in range(taps):
        out[:, :, tap:tap + places] += d[..., tap]
    return out[:, :, taps // 2:taps // 2 + places]


class Cnn:
    SHAPES = [(3, 64, 5), (64, 128, 3), (128, 128, 3)]  # channels, channels, taps

    def __init__(self, rng):
        self.convs = [[rng.normal(0, np.sqrt(2 / (i * t)), (o, i, t)).astype(np.float32),
                       np.zeros(o, np.float32)] for i, o, t in self.SHAPES]
        self.dense = [[rng.normal(0, np.sqrt(2 / i), (i, o)).astype(np.float32),
                       np.zeros(o, np.float32)] for i, o in ((128, 96), (96, CLASSES))]

    def parameters(self):
        return [p for layer in self.convs + self.dense for p in layer]

    def forward(self, rows, keep=None):
        x = rows.reshape(-1, 3, 30)
        for number, (w, b) in enumerate(self.convs):
            cols = windows(x, w.shape[2])
            y = np.maximum(cols @ w.reshape(len(w), -1).T.astype(x.dtype) + b, 0).transpose(0, 2, 1)
            pooled = y
            if number == 0:  # pairs of places
                pooled = y.reshape(*y.shape[:2], 15, 2).max(axis=3)
            if keep is not None:
                keep.append((x, cols, y, pooled))
            x = pooled
        mean = x.mean(axis=2)
        (w1, b1), (w2, b2) = self.dense
        hidden = np.maximum(mean @ w1.astype(x.dtype) + b1, 0)
        scores = hidden @ w2.astype(x.dtype) + b2
        if keep is not None:
            keep.append((mean, hidden))
        return scores

    def gradients(self, rows, labels):
        keep = []
        scores = self.forward(rows, keep)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(rows)), labels] -= 1
        d = p / len(rows)
        mean, hidden = keep.pop()
        (w1, _), (w2, _) = self.dense
        dense = [hidden.T @ d, d.sum(axis=0)]
        d = (d @ w2.T) * (hidden > 0)
        dense = [mean.T @ d, d.sum(axis=0)] + dense
        d = (d @ w1.T)[:, :, None].repeat(15, axis=2) / 15
        out = []
        for number in (2, 1, 0):
            x, cols, y, pooled = keep[number]
            w = self.convs[number][0]
            if number == 0:
                pairs = y.reshape(*y.shape[:2], 15, 2)
                first = pairs[..., 0] >= pairs[..., 1]
                d = np.stack([d * first, d * ~first], axis=3).reshape(y.shape)
            d = (d * (y > 0)).transpose(0, 2, 1)
            flat = d.reshape(-1, d.shape[2])
            out = [(flat.T @ cols.reshape(len(flat), -1)).reshape(w.shape), flat.sum(axis=0)] + out
            d = unwindows(d @ w.reshape(len(w), -1), w.shape[1], w.shape[2])
        return out + dense

    def train(self, rows, labels, epochs, rng):
        parameters = self.parameters()
        m, v, step = [0.0] * len(parameters), [0.0] * len(parameters), 0
        for _ in range(epochs):
            order = rng.permutation(len(rows))
            for start in range(0, len(rows), 128):
                pick = order[start:start + 128]
                step += 1
                for i, g in enumerate(self.gradients(rows[pick], labels[pick])):
                    m[i] = 0.9 * m[i] + 0.1 * g
                    v[i] = 0.999 * v[i] + 0.001 * g * g
                    parameters[i] -= (2e-3 * (m[i] / (1 - 0.9 ** step))
                                      / (np.sqrt(v[i] / (1 - 0.999 ** step)) + 1e-8)).astype(np.float32)

    def save(self, path):
        """Scales of the inputs go into the first weights; padding is 0 with and without them."""
        self.convs[0][0] = (self.convs[0][0] * SCALE[::30, None]).astype(np.float32)
        writer = Writer()
        shape = writer.tensor("shape", np.array([-1, 3, 30], np.int64))
        name = writer.node("Reshape", ["rows", shape], ["packets"])
        for number, (w, b) in enumerate(self.convs):
            pad = w.shape[2] // 2
            name = writer.node("Conv", [name, writer.tensor(f"k{number}", w),
                                        writer.tensor(f"kb{number}", b)], [f"conv{number}"],
                               kernel_shape=[w.shape[2]], pads=[pad, pad])
            name = writer.node("Relu", [name], [f"map{number}"])
            if number == 0:
                name = writer.node("MaxPool", [name], ["pairs"], kernel_shape=[2], strides=[2])
        name = writer.node("GlobalAveragePool", [name], ["means"])
        name = writer.node("Flatten", [name], ["flat"])
        for number, (w, b) in enumerate(self.dense):
            last = number == 1
            name = writer.node("Gemm", [name, writer.tensor(f"w{number}", w),
                                        writer.tensor(f"b{number}", b)],
                               ["scores" if last else "sums"])
            name = name if last else writer.node("Relu", [name], ["hidden"])
        writer.save(path, path.stem, "scores")


def tree_scores(model, rows):
    scores = np.zeros((len(rows), CLASSES))
    scores[:, model.classes_.astype(int)] = model.predict_proba(rows)
    return scores


# ---- integers


class IntegerMlp:
    """A perceptron of which each layer rounds its inputs to 8 bits, and multiplies integers."""

    def __init__(self, layers, steps):
        """steps: of the inputs of each layer; the first has one for each column."""
        self.layers = []
        for (w, b), step in zip(layers, steps):
            w = w * np.reshape(step, (-1, 1)) if np.ndim(step) else w * step
            column = (np.abs(w).max(axis=0) / 127 + 1e-12).astype(np.float32)
            q = np.round(w / column).astype(np.int8)
            bias = np.clip(np.round(b / column), -2 ** 22, 2 ** 22).astype(np.int32)
            self.layers.append((np.asarray(step, np.float32), q, bias, column))

    def run(self, rows):
        """As ONNX says: rounded in 32 bits, halves to even; sums are exact; scaled in 32 bits."""
        x = rows.astype(np.float32)
        for number, (step, w, b, column) in enumerate(self.layers):
            q = np.clip(np.rint(x / step), 0, 255).astype(np.int32)
            x = (q @ w.astype(np.int32) + b).astype(np.float32) * column
            x = np.maximum(x, 0) if number < len(self.layers) - 1 else x
        return x

    def save(self, path, columns):
        writer, name = Writer(columns), "rows"
        zero = writer.tensor("zero", np.uint8(0))
        for number, (step, w, b, column) in enumerate(self.layers):
            last = number == len(self.layers) - 1
            zeros = zero if step.ndim == 0 else writer.tensor("zeros", np.zeros(len(step), np.uint8))
            name = writer.node("QuantizeLinear", [name, writer.tensor(f"step{number}", step), zeros],
                               [f"bytes{number}"], axis=1)
            name = writer.node("MatMulInteger", [name, writer.tensor(f"w{number}", w), zero],
                               [f"products{number}"])
            name = writer.node("Add", [name, writer.tensor(f"b{number}", b)], [f"sums{number}"])
            name = writer.node("Cast", [name], [f"floats{number}"], to=TensorProto.FLOAT)
            name = writer.node("Mul", [name, writer.tensor(f"scale{number}", column)],
                               ["scores" if last else f"scaled{number}"])
            if not last:
                name = writer.node("Relu", [name], [f"hidden{number}"])
        writer.save(path, path.stem, "scores")


def train_integer(x, y, seed):
    """Floats first, of columns that the steps of 8 bits are chosen for; then rounded."""
    step = (np.maximum(np.quantile(x, 0.95, axis=0), 255) / 255).astype(np.float32)
    seen = np.clip(np.rint(x / step), 0, 255) / 255
    mlp = MLPClassifier((32, 16), max_iter=200, random_state=seed).fit(seen, y)
    layers = [(w / (255 * 1.0) if i == 0 else w, b)
              for i, (w, b) in enumerate(zip(mlp.coefs_, mlp.intercepts_))]
    layers[0] = (layers[0][0] / step[:, None], layers[0][1])
    w, b = layers[-1]
    wide = np.zeros((w.shape[0], CLASSES))
    low = np.full(CLASSES, -50.0)
    wide[:, mlp.classes_.astype(int)], low[mlp.classes_.astype(int)] = w, b
    layers[-1] = (wide, low)
    steps, hidden = [step], seen
    for w, b in zip(mlp.coefs_[:-1], mlp.intercepts_[:-1]):
        hidden = np.maximum(hidden @ w + b, 0)
        steps.append(np.float32(np.quantile(hidden.max(axis=1), 0.999) / 255))
    return IntegerMlp(layers, steps)


PORTS = {"stat67": [2, 3], "n3ic20": [1]}
COLUMNS = {"spi30": 90, "stat67": 67, "n3ic20": 20}


def train_others(options):
    """stat67 and n3ic20."""
    features, rng = options.features, np.random.default_rng(options.seed)
    rows, labels, hosts = read(options.rows, COLUMNS[features])
    training = split(hosts, rng)
    seen = rows.copy()
    seen[:, PORTS[features]] = 0
    x, y, test, expected = seen[training], labels[training], rows[~training], labels[~training]
    golden = test[rng.permutation(len(test))[:GOLDEN_ROWS]]
    np.save(options.output / f"golden-{features}.rows.npy", golden)
    if features == "stat67":
        name = "tree-stat67"
        tree = DecisionTreeClassifier(max_depth=10, random_state=options.seed).fit(x, y)
        save_trees(options.output / f"{name}.onnx", "tree", [tree.tree_], tree.classes_, 67)
        finish(options, name, lambda r: tree_scores(tree, r), golden, test, expected)
    else:
        name = "mlp-int8-n3ic20"
        model = train_integer(x, y, options.seed)
        model.save(options.output / f"{name}.onnx", 20)
        finish(options, name, model.run, golden, test, expected)


def finish(options, name, score, golden, test, expected):
    np.save(options.output / f"{name}.scores.npy", score(golden).astype(np.float32))
    right = np.mean(score(test).argmax(axis=1) == expected)
    size = (options.output / f"{name}.onnx").stat().st_size
    print(f"{name}: {size} bytes, right on {right:.1%} of {len(test)} rows of other hosts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", type=pathlib.Path, nargs="+", help=".npy, .csv beside it")
    parser.add_argument("--features", choices=sorted(COLUMNS), default="spi30")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=12, help="of the convolutional network")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.features != "spi30":
        train_others(options)
        return
    rng = np.random.default_rng(options.seed)
    rows, labels, hosts = read(options.rows, 90)
    training = split(hosts, rng)
    x, y, test, expected = rows[training], labels[training], rows[~training], labels[~training]
    scaled = (x * SCALE).astype(np.float32)
    golden = test[rng.permutation(len(test))[:GOLDEN_ROWS]]
    np.save(options.output / "golden.rows.npy", golden)

    def told(name, score):
        finish(options, name, score, golden, test, expected)

    tree = DecisionTreeClassifier(max_depth=8, random_state=options.seed).fit(x, y)
    save_trees(options.output / "tree-spi30.onnx", "tree", [tree.tree_], tree.classes_)
    told("tree-spi30", lambda r: tree_scores(tree, r))
    forest = RandomForestClassifier(16, max_depth=9, random_state=options.seed).fit(x, y)
    save_trees(options.output / "forest-spi30.onnx", "forest",
               [t.tree_ for t in forest.estimators_], forest.classes_)
    told("forest-spi30", lambda r: tree_scores(forest, r))

    mlp = MLPClassifier((64, 128, 64), max_iter=60, random_state=options.seed).fit(scaled, y)
    layers = list(zip(mlp.coefs_, mlp.intercepts_))
    layers[0] = (layers[0][0] * SCALE[:, None], layers[0][1])
    layers[-1] = all_classes(*layers[-1], mlp.classes_.astype(int))
    for name, quantised in (("mlp-spi30", False), ("mlp-int8-spi30", True)):
        kept = save_mlp(options.output / f"{name}.onnx", layers, quantised)
        told(name, lambda r, kept=kept: run_mlp(kept, r))

    cnn = Cnn(rng)
    cnn.train(scaled, y, options.epochs, rng)
    cnn.save(options.output / "cnn-spi30.onnx")
    told("cnn-spi30", lambda r: cnn.forward(r.astype(np.float64)))
    print(f"cnn-spi30: {sum(p.size for p in cnn.parameters())} parameters")


if __name__ == "__main__":
    main()
