#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each operator of ONNX that is read, against NumPy: models with random shapes and weights.

The expected numbers come from the definitions below, in double precision, and for trees from
scikit-learn. Usage: onnx_models_test.py INFER_RUN BACKEND... [--cuda LIBRARY]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = int(os.environ.get("SEED", "20260501"))
rng = np.random.default_rng(SEED)


def weights(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def const(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array), name)


class Graph:
    """A graph and what it computes, kept side by side."""

    def __init__(self, *shape, opset=13, rows=37):
        self.nodes, self.tensors, self.count = [], [], 0
        self.shape, self.opset = shape, opset
        self.input = rng.normal(0, 1, (rows, *shape)).astype(np.float32)
        self.name, self.value = "x", self.input.astype(np.float64)
        self.outputs = None
        self.exact = False

    def tensor(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors.append(const(name, array))
        return name

    def op(self, kind, value, *inputs, domain=None, outputs=None, **attributes):
        names = outputs or [f"v{self.count}"]
        self.count += 1
        node = helper.make_node(kind, [self.name, *inputs], names, name=f"n{self.count}",
                                domain=domain, **attributes)
        self.nodes.append(node)
        self.name, self.value = names[-1], value
        return self

    def model(self):
        outputs = self.outputs or [helper.make_tensor_value_info(self.name, TensorProto.FLOAT, None)]
        graph = helper.make_graph(
            self.nodes, "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.shape])],
            outputs, self.tensors)
        return helper.make_model(graph, opset_imports=[
            helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 1)])

    # -- operators, each with its definition

    def gemm(self, outputs, transposed=True, alpha=1.0, beta=1.0, bias=True):
        w = weights(self.value.shape[1], outputs)
        b = weights(outputs)
        value = alpha * (self.value @ w.astype(float)) + (beta * b.astype(float) if bias else 0)
        inputs = [self.tensor(w.T if transposed else w)] + ([self.tensor(b)] if bias else [])
        return self.op("Gemm", value, *inputs, alpha=alpha, beta=beta, transB=int(transposed))

    def matmul(self, outputs):
        w = weights(self.value.shape[-1], outputs)
        return self.op("MatMul", self.value @ w.astype(float), self.tensor(w))

    def combine(self, kind, *shape):
        c = weights(*shape)
        f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[kind]
        return self.op(kind, f(self.value, c.astype(float)), self.tensor(c))

    def relu(self):
        return self.op("Relu", np.maximum(self.value, 0))

    def sigmoid(self):
        return self.op("Sigmoid", 1 / (1 + np.exp(-self.value)))

    def tanh(self):
        return self.op("Tanh", np.tanh(self.value))

    def windows(self, kernel, strides, dilations, pads, fill):
        """All windows: rows, channels, places..., taps..."""
        axes = len(kernel)
        padded = np.pad(self.value, [(0, 0), (0, 0)] + [(pads[a], pads[axes + a])
                        for a in range(axes)], constant_values=fill)
        places = [(padded.shape[2 + a] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1
                  for a in range(axes)]
        out = np.empty((*padded.shape[:2], *places, *kernel))
        for place in np.ndindex(*places):
            for tap in np.ndindex(*kernel):
                at = tuple(place[a] * strides[a] + tap[a] * dilations[a] for a in range(axes))
                out[(slice(None), slice(None), *place, *tap)] = padded[(slice(None), slice(None), *at)]
        return out

    def conv(self, channels, kernel, strides=None, dilations=None, pads=None, group=1, bias=True,
             auto_pad=None):
        axes = len(kernel)
        strides, dilations = strides or [1] * axes, dilations or [1] * axes
        real = pads or [0] * (2 * axes)
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            real = [0] * (2 * axes)
            for a in range(axes):
                size = self.value.shape[2 + a]
                both = max(0, (-(-size // strides[a]) - 1) * strides[a]
                           + dilations[a] * (kernel[a] - 1) + 1 - size)
                small, large = both // 2, both - both // 2
                real[a], real[axes + a] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        inputs = self.value.shape[1]
        w, b = weights(channels, inputs // group, *kernel), weights(channels)
        taps = self.windows(kernel, strides, dilations, real, 0)
        parts = []
        for g in range(group):
            mine = taps[:, g * inputs // group:(g + 1) * inputs // group]
            ws = w[g * channels // group:(g + 1) * channels // group].astype(float)
            taps_last = np.moveaxis(mine.reshape(*mine.shape[:2 + axes], -1), 1, -2)
            parts.append(np.tensordot(taps_last, ws.reshape(*ws.shape[:2], -1),
                                      axes=([-2, -1], [1, 2])))
        value = np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
        value = value + (b.astype(float).reshape(1, -1, *[1] * axes) if bias else 0)
        attributes = dict(strides=strides, dilations=dilations, group=group)
        if auto_pad:
            attributes["auto_pad"] = auto_pad
        elif pads:
            attributes["pads"] = pads
        return self.op("Conv", value, self.tensor(w), *([self.tensor(b)] if bias else []), **attributes)

    def pool(self, kind, kernel, strides=None, pads=None, count_include_pad=0):
        axes = len(kernel)
        real = pads or [0] * (2 * axes)
        steps = strides or [1] * axes
        last = tuple(range(-axes, 0))
        attributes = dict(kernel_shape=kernel)
        if strides:
            attributes["strides"] = strides
        if pads:
            attributes["pads"] = pads
        if kind == "MaxPool":
            value = self.windows(kernel, steps, [1] * axes, real, -np.inf).max(axis=last)
        else:
            sums = self.windows(kernel, steps, [1] * axes, real, np.nan)
            value = np.nansum(sums, axis=last) / (np.prod(kernel) if count_include_pad else
                                                  np.sum(~np.isnan(sums), axis=last))
            attributes["count_include_pad"] = count_include_pad
        return self.op(kind, value, **attributes)

    def global_pool(self):
        axes = tuple(range(2, self.value.ndim))
        return self.op("GlobalAveragePool", self.value.mean(axis=axes, keepdims=True))

    def batch_norm(self, epsilon=1e-3):
        c = self.value.shape[1]
        scale, shift, mean, var = weights(c), weights(c), weights(c), np.abs(weights(c)) + 0.1
        wide = (1, c) + (1,) * (self.value.ndim - 2)
        value = (self.value - mean.reshape(wide)) / np.sqrt(
            var.reshape(wide).astype(float) + np.float32(epsilon)) * scale.reshape(wide) + shift.reshape(wide)
        return self.op("BatchNormalization", value, *map(self.tensor, (scale, shift, mean, var)),
                       epsilon=epsilon)

    def flatten(self):
        return self.op("Flatten", self.value.reshape(len(self.value), -1))

    def reshape(self, *target):
        shape = [len(self.value)] + [self.value.shape[i + 1] if d == 0 else d
                                     for i, d in enumerate(target[1:])]
        return self.op("Reshape", self.value.reshape(shape), self.tensor(np.array(target, np.int64)))

    def transpose(self, *perm):
        return self.op("Transpose", self.value.transpose(perm), perm=perm)

    def softmax(self, axis=None):
        at = axis if axis is not None else (-1 if self.opset >= 13 else 1)
        value = self.value
        if self.opset < 13:
            value = value.reshape(*value.shape[:at], -1)
            at = -1
        value = np.exp(value - value.max(axis=at, keepdims=True))
        value = (value / value.sum(axis=at, keepdims=True)).reshape(self.value.shape)
        return self.op("Softmax", value, **({} if axis is None else dict(axis=axis)))

    def cast(self):
        return self.op("Cast", self.value, to=TensorProto.FLOAT)


def cases():
    yield "gemm", Graph(5).gemm(7)
    yield "gemm plain", Graph(64).gemm(33, transposed=False, bias=False)
    yield "gemm scaled", Graph(9).gemm(4, alpha=0.5, beta=-2.0)
    yield "mlp", Graph(64).gemm(128).relu().gemm(64).relu().gemm(16)
    yield "mlp odd", Graph(67, rows=133).gemm(31).relu().gemm(1).relu().gemm(3).softmax()
    yield "mlp tiny", Graph(1, rows=1).gemm(1)
    yield "mlp small", Graph(32, rows=201).gemm(16).relu().gemm(16).relu().gemm(16)
    yield "mlp wide", Graph(90).gemm(300).relu().gemm(40).relu().gemm(2)
    yield "mlp without relu", Graph(16).gemm(24).gemm(8)
    yield "matmul add", Graph(12).matmul(6).combine("Add", 6).relu().matmul(5).combine("Add", 1, 5)
    yield "matmul of several", Graph(4, 6).matmul(5).flatten().gemm(3)
    yield "activations", Graph(8).gemm(8).sigmoid().gemm(8).tanh().gemm(5)
    yield "add, sub, mul", Graph(6).combine("Add", 6).combine("Sub", 1).combine("Mul", 6).gemm(4)
    yield "spread channels", Graph(3, 4, 5).combine("Mul", 3, 1, 1).combine("Add", 4, 5) \
        .combine("Sub", 5).flatten().gemm(4)
    yield "batch norm of gemm", Graph(7).gemm(9).batch_norm().relu().gemm(4)
    yield "batch norm twice", Graph(3, 10).conv(4, [3]).batch_norm().batch_norm().relu().flatten().gemm(3)
    yield "batch norm first", Graph(3, 10).batch_norm().flatten().gemm(3)
    yield "conv 1-D", Graph(3, 30).conv(8, [5], pads=[2, 2]).relu().flatten().gemm(6)
    yield "conv 1-D strided", Graph(4, 31).conv(6, [4], strides=[3], pads=[1, 2], group=2) \
        .relu().flatten().gemm(6)
    yield "conv 1-D dilated", Graph(2, 30).conv(5, [3], dilations=[4], bias=False).flatten().gemm(4)
    yield "conv same upper", Graph(2, 13).conv(5, [4], strides=[2], auto_pad="SAME_UPPER").flatten()
    yield "conv same lower", Graph(2, 13).conv(5, [4], strides=[2], auto_pad="SAME_LOWER").flatten()
    yield "conv 2-D", Graph(1, 40, 40, rows=5).conv(4, [5, 3], strides=[2, 1], pads=[2, 0, 1, 2]) \
        .relu().pool("MaxPool", [2, 2], [2, 2]).flatten().gemm(5)
    yield "conv depthwise", Graph(6, 9, 9).conv(12, [3, 3], group=6).batch_norm().relu().flatten().gemm(3)
    yield "max pool padded", Graph(3, 11).pool("MaxPool", [3], [2], [1, 1]).flatten().gemm(4)
    yield "average pool", Graph(2, 12).pool("AveragePool", [4], [2]).flatten().gemm(4)
    yield "average pool padded", Graph(2, 7, 6).pool("AveragePool", [3, 2], [2, 1], [1, 1, 1, 0]) \
        .flatten().gemm(4)
    yield "average pool with pads", Graph(2, 7, 6).pool(
        "AveragePool", [3, 2], [2, 1], [1, 1, 1, 0], count_include_pad=1).flatten().gemm(4)
    yield "global pool", Graph(3, 20).conv(5, [3]).global_pool().flatten()
    yield "global pool 2-D", Graph(3, 8, 7).global_pool().reshape(0, 3).gemm(2)
    yield "reshape and transpose", Graph(24).reshape(-1, 2, 3, 4).transpose(0, 3, 1, 2).relu() \
        .reshape(0, 0, -1).transpose(0, 2, 1).flatten().gemm(5)
    yield "old softmax", Graph(2, 3, opset=11).softmax(1)
    yield "softmax inside", Graph(4, 5).softmax(1).softmax().flatten().gemm(3)
    yield "cast", Graph(4).cast().gemm(3)
    yield "1-D cnn", Graph(90).reshape(-1, 3, 30).conv(16, [5], pads=[2, 2]).batch_norm().relu() \
        .pool("MaxPool", [2], [2]).conv(32, [3], pads=[1, 1]).relu().global_pool().flatten().gemm(7).softmax()
    yield from special()


def special():
    """What the chain of one value after the other does not say."""
    g = Graph(8).gemm(8).relu()
    name, value = g.name, g.value
    g.gemm(8)
    g.op("Add", g.value + value, name).relu().gemm(4)
    yield "residual", g

    g = Graph(6).gemm(5)
    scores, value = g.name, g.value
    g.op("ArgMax", value, axis=1, keepdims=0)
    g.op("Cast", value, to=TensorProto.INT32)
    g.outputs = [helper.make_tensor_value_info(g.name, TensorProto.INT32, None),
                 helper.make_tensor_value_info(scores, TensorProto.FLOAT, None)]
    yield "argmax and scores", g

    g = Graph(6).gemm(5)
    value = g.value
    g.op("ArgMax", value, axis=-1)
    g.outputs = [helper.make_tensor_value_info(g.name, TensorProto.INT64, None)]
    yield "argmax alone", g

    # Weights of 8 bits, through Cast and a scale for each output, and through DequantizeLinear.
    for kind in ("Cast", "DequantizeLinear", "packed"):
        g = Graph(10)
        w = rng.integers(-127, 128, (10, 6)).astype(np.int8)
        if kind == "packed":
            w = w.astype(np.int32)
            g.tensors.append(helper.make_tensor("w", TensorProto.INT32, w.shape, w.flatten().tolist()))
        else:
            g.tensors.append(const("w", w))
        scale = (np.abs(weights(6)) / 100 if kind == "DequantizeLinear" else
                 np.array([0.01], np.float32)).astype(np.float32)
        g.tensors.append(const("s", scale))
        if kind == "DequantizeLinear":
            g.tensors.append(const("z", np.arange(6, dtype=np.int8)))
            g.nodes.append(helper.make_node(kind, ["w", "s", "z"], ["wf"], axis=1))
            real = (w - np.arange(6)) * scale.astype(float)
        else:
            g.nodes.append(helper.make_node("Cast", ["w"], ["wc"], to=TensorProto.FLOAT))
            g.nodes.append(helper.make_node("Mul", ["wc", "s"], ["wf"]))
            real = w * scale.astype(float)
        g.op("MatMul", g.value @ real, "wf").combine("Add", 6)
        yield f"quantised, {kind}", g

    # Integers: what is rounded to 8 bits, multiplied and summed is exact.
    for inputs, outputs, kind, axis, zero, wzero in (
            (7, 5, np.uint8, None, 3, 0), (64, 33, np.int8, None, -5, 4), (20, 16, np.uint8, 1, 0, -7),
            (1, 1, np.int8, -1, 0, 0), (129, 40, np.uint8, None, 255, 0)):
        g = Graph(inputs, rows=77)
        g.exact = True
        g.input[:3, 0] = (np.nan, np.inf, -np.inf)
        info = np.iinfo(kind)
        step = rng.uniform(0.005, 0.03, () if axis is None else inputs).astype(np.float32)
        zeros = np.full(step.shape, zero, kind)
        g.input[3] = (np.arange(inputs) % 5 - 2 + 0.5) * step  # halves
        with np.errstate(invalid="ignore"):
            q = np.rint(g.input / step) + np.float32(zero)
        q = np.clip(np.where(np.isnan(q), info.min, q), info.min, info.max)
        g.op("QuantizeLinear", q, g.tensor(step), g.tensor(zeros), **({} if axis is None else dict(axis=axis)))
        w = rng.integers(-127, 128, (inputs, outputs)).astype(np.int8)
        sums = (q - zero) @ (w.astype(int) - wzero)
        g.op("MatMulInteger", sums, g.tensor(w), g.tensor(np.array(zero, kind)),
             g.tensor(np.array(wzero, np.int8)))
        bias = rng.integers(-1000, 1000, outputs).astype(np.int32)
        g.op("Add", sums + bias, g.tensor(bias))
        g.op("Cast", sums + bias, to=TensorProto.FLOAT)
        if outputs > 16:
            g.relu()
        else:
            scale = rng.uniform(0.001, 0.01, outputs).astype(np.float32)
            g.op("Mul", g.value.astype(np.float32) * scale, g.tensor(scale))
        yield f"integers {inputs} {outputs}", g

    # int8 by the attribute alone, and sums that are taken twice (as they are, and by Relu).
    g = Graph(9, opset=21)
    g.exact = True
    q = np.clip(np.rint(g.input / np.float32(0.02)), -128, 127)
    g.op("QuantizeLinear", q, g.tensor(np.float32(0.02)), output_dtype=TensorProto.INT8)
    w = rng.integers(0, 256, (9, 3)).astype(np.uint8)
    sums = q @ (w.astype(int) - 200)
    g.op("MatMulInteger", sums, g.tensor(w), "", g.tensor(np.array(200, np.uint8)))
    g.op("Cast", sums, to=TensorProto.FLOAT)
    name = g.name
    g.relu()
    g.op("Add", g.value + sums, name)
    yield "integers by attribute", g

    # float_data, double_data and half-precision weights.
    for kind, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.DOUBLE, np.float64),
                        (TensorProto.FLOAT16, np.float16)):
        g = Graph(3)
        w = weights(3, 4).astype(dtype)
        g.tensors.append(const("w", w) if dtype is np.float16 else
                         helper.make_tensor("w", kind, w.shape, w.flatten().tolist()))
        g.nodes.append(helper.make_node("Cast", ["w"], ["wf"], to=TensorProto.FLOAT))
        g.op("MatMul", g.value @ w.astype(float), "wf")
        yield f"weights as {dtype.__name__}", g

    g = Graph(5)
    w = weights(5, 2)
    g.nodes.append(helper.make_node("Constant", [], ["w"], value=const("c", w)))
    yield "constant", g.op("MatMul", g.value @ w.astype(float), "w")
    yield from tree_cases()


def tree_attributes(trees, share):
    """One ensemble out of scikit-learn's trees; leaves weigh their share of the classes."""
    a = {key: [] for key in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
        "nodes_truenodeids", "nodes_falsenodeids", "class_treeids", "class_nodeids", "class_ids",
        "class_weights")}
    for number, tree in enumerate(trees):
        for node in range(tree.node_count):
            leaf = tree.children_left[node] < 0
            a["nodes_treeids"].append(number)
            a["nodes_nodeids"].append(node)
            a["nodes_featureids"].append(0 if leaf else int(tree.feature[node]))
            # scikit-learn compares with doubles: the next float below decides the same.
            at = np.float32(0 if leaf else tree.threshold[node])
            if at > tree.threshold[node] and not leaf:
                at = np.nextafter(at, np.float32(-np.inf))
            a["nodes_values"].append(float(at))
            a["nodes_modes"].append("LEAF" if leaf else "BRANCH_LEQ")
            a["nodes_truenodeids"].append(0 if leaf else int(tree.children_left[node]))
            a["nodes_falsenodeids"].append(0 if leaf else int(tree.children_right[node]))
            if leaf:
                counts = tree.value[node][0] / tree.value[node][0].sum()
                for label, part in enumerate(counts):
                    a["class_treeids"].append(number)
                    a["class_nodeids"].append(node)
                    a["class_ids"].append(label)
                    a["class_weights"].append(float(part * share))
    return a


def tree_cases():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier
    x = rng.normal(0, 1, (600, 9)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] * x[:, 2] > 0.2) + (x[:, 3] > 1)
    tree = DecisionTreeClassifier(max_depth=6, random_state=1).fit(x, y)
    forest = RandomForestClassifier(20, max_depth=9, random_state=1).fit(x, y)
    for name, trained, trees in (("tree", tree, [tree.tree_]),
                                 ("forest", forest, [t.tree_ for t in forest.estimators_])):
        g = Graph(9, rows=300)
        labels = list(range(len(trained.classes_)))
        g.op("TreeEnsembleClassifier", trained.predict_proba(g.input), domain="ai.onnx.ml",
             outputs=["label", "scores"], classlabels_int64s=labels, post_transform="NONE",
             **tree_attributes(trees, 1 / len(trees)))
        g.outputs = [helper.make_tensor_value_info("label", TensorProto.INT64, None),
                     helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)]
        yield name, g
    # Every way to compare, at and beside the threshold, with a base and LOGISTIC behind.
    for mode, compare in (("LEQ", np.less_equal), ("LT", np.less), ("GTE", np.greater_equal),
                          ("GT", np.greater), ("EQ", np.equal), ("NEQ", np.not_equal)):
        g = Graph(2, rows=40)
        g.input[:, 1] = np.tile([0.25, 0.5, 0.75, np.nan], 10)
        g.value = g.input.astype(float)
        yes = np.where(np.isnan(g.value[:, 1]), True, compare(g.value[:, 1], 0.5))
        sums = np.where(yes[:, None], [1.5, 0, -1], [0, 2, 0]) + [0.5, -0.5, 0.25]
        g.op("TreeEnsembleClassifier", 1 / (1 + np.exp(-sums)), domain="ai.onnx.ml",
             outputs=["label", "scores"], classlabels_strings=["a", "b", "c"],
             post_transform="LOGISTIC", base_values=[0.5, -0.5, 0.25],
             nodes_treeids=[7, 7, 7], nodes_nodeids=[3, 1, 2], nodes_featureids=[1, 0, 0],
             nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_" + mode, "LEAF", "LEAF"],
             nodes_truenodeids=[2, 0, 0], nodes_falsenodeids=[1, 0, 0],
             nodes_missing_value_tracks_true=[1, 0, 0],
             class_treeids=[7, 7, 7], class_nodeids=[2, 1, 2], class_ids=[0, 1, 2],
             class_weights=[1.5, 2.0, -1.0])
        yield f"branch {mode}", g


def judge(name, backend, got_labels, got, expected):
    expected = expected.reshape(len(expected), -1)
    got = got.reshape(expected.shape)
    bound = (1e-6 + 1e-5 * np.abs(expected)) if backend == "cpu-ref" else \
        (1e-4 + 1e-3 * np.abs(expected))
    bad = ~((np.abs(got - expected) <= bound) | (np.isnan(got) & np.isnan(expected)))
    assert not bad.any(), f"{name} on {backend}: {got[bad][:4]}, expected {expected[bad][:4]} " \
        f"(SEED={SEED})"
    highest = np.array([np.flatnonzero(row == np.nanmax(row))[0] if not np.isnan(row).all() else 0
                        for row in got])
    assert (got_labels == highest).all(), f"{name} on {backend}: labels are not the highest scores'"


def run(tool, backend, library, path, g, directory):
    rows, out = directory / "rows", directory / "out"
    rows.write_bytes(g.input.tobytes())
    result = subprocess.run([tool, path, backend, rows, out, *library], capture_output=True,
                            text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    count = len(g.input)
    data = out.read_bytes()
    labels = np.frombuffer(data[:4 * count], np.uint32)
    return labels, np.frombuffer(data[4 * count:], np.float32)


def main():
    arguments = sys.argv[1:]
    library = []
    if "--cuda" in arguments:
        at = arguments.index("--cuda")
        library = arguments[at + 1:at + 2]
        del arguments[at:at + 2]
    tool, backends = arguments[0], arguments[1:]
    count = 0
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for title, g in cases():
            path = directory / "model.onnx"
            path.write_bytes(g.model().SerializeToString())
            for backend in backends:
                if backend == "cuda" and g.exact:
                    continue  # refused there, infer_test.py
                labels, scores = run(tool, backend, library, path, g, directory)
                judge(title, backend, labels, scores, g.value)
                assert not g.exact or (scores == g.value.astype(np.float32).ravel()).all(), title
                count += 1
    assert count >= 50 * len(backends), count
    print(f"{count} models and back ends agree with NumPy (SEED={SEED})")


if __name__ == "__main__":
    main()
