#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Models that must be refused, each with the one line that says why.

Usage: onnx_refused_test.py INFER_RUN
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F = np.float32


def model(nodes, shape=(4,), tensors=(), outputs=("y",), opset=13, kind=TensorProto.FLOAT, rank0=False):
    inputs = [helper.make_tensor_value_info("x", kind, [] if rank0 else ["N", *shape])]
    graph = helper.make_graph(nodes, "g", inputs,
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
                              [t if hasattr(t, "data_type") else numpy_helper.from_array(t[1], t[0])
                               for t in tensors])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset),
                                                   helper.make_opsetid("ai.onnx.ml", 1)])


def node(op, *inputs, outputs=("y",), name="n", **attributes):
    return helper.make_node(op, list(inputs), list(outputs), name=name, **attributes)


def w(*shape):
    return ("w", np.ones(shape, F))


def trees(**changes):
    a = dict(nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
             nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
             nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
             class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1],
             class_weights=[1.0, 1.0], classlabels_int64s=[0, 1])
    a.update(changes)
    return model([node("TreeEnsembleClassifier", "x", outputs=("l", "y"), domain="ai.onnx.ml", **a)])


def integer(w=np.ones((4, 2), np.int8), step=F(0.1), zero=np.uint8(0), inputs=4):
    return model([node("QuantizeLinear", "x", "s", "z", outputs=("q",), name="q"),
                  node("MatMulInteger", "q", "w", outputs=("m",), name="m"),
                  node("Cast", "m", to=TensorProto.FLOAT)], (inputs,),
                 [("s", np.asarray(step)), ("z", np.asarray(zero)), ("w", w)])


def biased(*more, b=np.ones(2, np.int32), outputs=("y",)):
    return model([node("QuantizeLinear", "x", "s", outputs=("q",), name="q"),
                  node("MatMulInteger", "q", "w", outputs=("m",), name="m"),
                  node("Add", "m", "b", outputs=("a",), name="a"), *more,
                  node("Cast", "a", to=TensorProto.FLOAT)],
                 tensors=[("s", F(0.1)), ("w", np.ones((4, 2), np.int8)), ("b", b)], outputs=outputs)


def conv(shape=(2, 9), kernel=(3, 2, 3), **attributes):
    return model([node("Conv", "x", "w", **attributes)], shape, [w(*kernel)])


def pool(**attributes):
    return model([node("MaxPool", "x", **attributes)], (2, 9))


def nested(depth):
    """Graphs in attributes of nodes in graphs: recursion is what it wants."""
    def field(number, payload):
        size, out = len(payload), b""
        while size > 127:
            out, size = out + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + out + bytes([size]) + payload
    graph = b""
    for _ in range(depth):
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph) + bytes([8 << 3 | 2, 2, 2 << 3, 13])


NAN = np.array([[1, 2], [3, np.nan], [1, 1], [1, 1]], F)
GOOD = model([node("Gemm", "x", "w")], tensors=[w(4, 2)])


def external():
    m = model([node("Gemm", "x", "w")], tensors=[w(4, 2)])
    m.graph.initializer[0].data_location = TensorProto.EXTERNAL
    return m


def raw_cut():
    m = model([node("Gemm", "x", "w")], tensors=[w(4, 2)])
    m.graph.initializer[0].raw_data = m.graph.initializer[0].raw_data[:-1]
    return m


def huge(dims):
    m = model([node("Gemm", "x", "w")], tensors=[w(4, 2)])
    del m.graph.initializer[0].dims[:]
    m.graph.initializer[0].dims.extend(dims)
    return m


CASES = [
    (b"", "not an ONNX model: it has no graph"),
    (b"\xff" * 20, "damaged or cut short"),
    (b"hello, world\n", "damaged or cut short"),
    (nested(50000), "the graph has no input"),
    (model([node("Gemm", "x", "w")], tensors=[w(4, 2)], opset=6), "opset: got 6, expected 7 .. 21"),
    (model([node("Gemm", "x", "w")], tensors=[w(4, 2)], opset=99), "opset: got 99, expected 7 .. 21"),
    (integer(w=np.full((600, 2), 127, np.int8), inputs=600),
     "node 'm' (MatMulInteger): sums of output 0 may exceed 2^24 (about 500 inputs), "
     "or are no integers"),
    (integer(w=np.ones((5, 2), np.int8)), "node 'm' (MatMulInteger): B: got a shape that does not fit "
     "the 4 inputs"),
    (integer(w=np.ones((4, 2), np.int32)), "node 'm' (MatMulInteger): B: expected int8 or uint8"),
    (integer(step=F(0)), "node 'q' (QuantizeLinear): y_scale: got 0, expected more than 0"),
    (integer(step=np.ones(3, F), zero=np.zeros(3, np.uint8)),
     "node 'q' (QuantizeLinear): got 3 scales, which fit no axis"),
    (integer(zero=np.int32(0)), "node 'q' (QuantizeLinear): y_zero_point: expected uint8 or int8"),
    (integer(zero=np.zeros(2, np.uint8)),
     "node 'q' (QuantizeLinear): as many zero points as scales are needed"),
    (model([node("MatMulInteger", "x", "w")], tensors=[("w", np.ones((4, 2), np.int8))]),
     "node 'n' (MatMulInteger): A: expected what QuantizeLinear makes of rows"),
    (model([node("QuantizeLinear", "x", "s", "z", outputs=("q",)), node("Gemm", "q", "w")],
           tensors=[w(4, 2), ("s", F(1)), ("z", np.uint8(0))]),
     "node 'n' (Gemm): input 0: got integers, expected floats"),
    (model([node("QuantizeLinear", "x", "s", "z", outputs=("q",)), node("Add", "q", "b")],
           tensors=[("b", np.ones(4, np.int32)), ("s", F(1)), ("z", np.uint8(0))]),
     "node 'n' (Add): of integers: expected int32 numbers, one for each output, right behind "
     "MatMulInteger"),
    # A bias is part of the sums: nobody may want them without it.
    (biased(node("Cast", "m", outputs=("z",), name="c", to=TensorProto.FLOAT)),
     "node 'c' (Cast): input 'm': integers without the bias that is added"),
    (biased(node("Add", "m", "b", outputs=("z",), name="c")),
     "node 'c' (Add): input 'm': integers without the bias that is added"),
    (biased(outputs=("y", "m")), "output 'm': integers without the bias that is added"),
    (biased(b=np.ones((2, 1), np.int32)),
     "node 'a' (Add): of integers: expected int32 numbers, one for each output, right behind "
     "MatMulInteger"),
    (biased(b=np.full(2, 2 ** 24 + 1, np.int32)),
     "node 'a' (Add): output 0: sums may exceed 2^24"),
    (model([node("Mul", "i", "i", outputs=("w",), name="i"),
            node("QuantizeLinear", "x", "s", outputs=("q",)), node("MatMulInteger", "q", "w")],
           tensors=[("i", np.full((4, 2), 127, np.int8)), ("s", F(1))]),
     "node 'i' (Mul): of constants: makes 16129 at 0, which its type does not hold"),
    (model([node("Cast", "w", to=TensorProto.INT32)], tensors=[("w", np.full(2, 1e10, F))]),
     "node 'n' (Cast): of constants: makes 1e+10 at 0, which its type does not hold"),
    (model([node("Add", "w", "i")], tensors=[w(2), ("i", np.ones(2, np.int8))]),
     "node 'n' (Add): two constants of different types"),
    # Attributes that would change what an operator means.
    (model([node("QuantizeLinear", "x", "s", block_size=2)], tensors=[("s", F(1))]),
     "node 'n' (QuantizeLinear): block_size: got 2, expected 0"),
    (model([node("QuantizeLinear", "x", "s", output_dtype=TensorProto.INT16)],
           tensors=[("s", F(1))]),
     "node 'n' (QuantizeLinear): output_dtype: got element type 5, expected the zero point's, "
     "uint8 or int8"),
    (model([node("DequantizeLinear", "w", "s", outputs=("v",), block_size=2), node("Gemm", "x", "v")],
           tensors=[("w", np.ones((4, 2), np.int8)), ("s", F(1))]),
     "node 'n' (DequantizeLinear): block_size: got 2, expected 0"),
    (model([node("Reshape", "x", "w", allowzero=1)], tensors=[("w", np.array([0, 4], np.int64))]),
     "node 'n' (Reshape): allowzero: makes no numbers"),
    (model([node("BatchNormalization", "x", "w", "w", "w", "w", spatial=0)], tensors=[w(4)]),
     "node 'n' (BatchNormalization): spatial"),
    (model([node("Relu", "x", slope=0.5)]), "node 'n' (Relu): attribute 'slope' is not supported"),
    (trees(base_values_as_tensor=numpy_helper.from_array(np.ones(2), "b")),
     "node 'n' (TreeEnsembleClassifier): attribute 'base_values_as_tensor' is not supported"),
    (model([node("Gemm", "x", "w", alpha=1e30)], tensors=[("w", np.full((4, 2), 1e30, F))]),
     "node 'n' (Gemm): B times alpha: got a number that no 32-bit float holds"),
    (model([node("Erf", "x")]), "node 'n' (Erf): the operator is not supported"),
    (model([node("Gru" * 30, "x", name="\x1b[31m")]),
     "node '?[31m' (GruGruGruGruGruGruGruGruGruGruGruGruGruG...): the operator is not supported"),
    (model([node("Gemm", "x", "w", domain="com.microsoft")], tensors=[w(4, 2)]),
     "node 'n' (Gemm): the operator is not supported (domain com.microsoft)"),
    (model([node("Relu", "y", outputs=("z",)), node("Relu", "z")]),
     "node 'n' (Relu): input 'y' is neither a tensor nor made by an earlier node"),
    (model([node("Relu", "x", outputs=("x",))], outputs=("x",)),
     "node 'n' (Relu): the name 'x' is given twice"),
    (model([node("Relu")]), "node 'n' (Relu): has no input 0"),
    (model([node("Relu", "x", outputs=())]), "node 'n' (Relu): has no output"),
    (model([node("Relu", "x")], outputs=("z",)), "output 'z' is made by no node"),
    (model([node("Relu", "x")], outputs=()), "the graph has no output"),
    (model([], outputs=("x",)), "output 'x' is the input"),
    (model([node("Relu", "x")], outputs=("y",), kind=TensorProto.DOUBLE),
     "the input: got element type 11, expected 32-bit floats"),
    (model([node("Relu", "x")], rank0=True), "the input: got no shape, expected rows of numbers"),
    (model([node("Relu", "x")], shape=(1 << 17,)),
     "the input's shape: got 131072, expected 1 .. 65536 behind the batch"),
    (model([node("Relu", "x")], shape=(1 << 10, 1 << 10)),
     "the input: more than 65536 numbers a row"),
    (model([node("Relu", "x")], shape=(5000,)), "classes: got 5000, expected 1 .. 4096"),
    (model([node("Relu", "x"), node("Tanh", "x", outputs=("z",))], outputs=("y", "z")),
     "output 'z': got outputs of different scores, expected one of scores and one of their labels"),
    # Tensors.
    (model([node("Gemm", "x", "w")], tensors=[("w", NAN)]),
     "tensor 'w': got nan at 3, expected a finite number"),
    (external(), "tensor 'w': its data lies in another file"),
    (raw_cut(), "a tensor with other than the 8 numbers of its shape"),
    (huge([1 << 40, 2]), "dimension: got 1099511627776, expected 1 .. 16777216"),
    (huge([-1, 2]), "dimension: got -1, expected 1 .. 16777216"),
    (huge([0, 2]), "dimension: got 0, expected 1 .. 16777216"),
    (huge([1 << 20, 1 << 20]), "tensor 'w': more than 16777216 numbers in all tensors"),
    (huge([1 << 20, 2]), "a tensor with other than the 2097152 numbers of its shape"),
    (huge([1] * 7), "a tensor of more than 6 dimensions"),
    (model([node("Gemm", "x", "w")], tensors=[("w", np.array(["a"], object))]),
     "tensor 'w': element type 8 is not supported"),
    # Shapes.
    (model([node("Gemm", "x", "w")], tensors=[w(5, 2)]),
     "node 'n' (Gemm): B: got a shape that does not fit the 4 inputs"),
    (model([node("Gemm", "x", "w", transA=1)], tensors=[w(4, 2)]),
     "node 'n' (Gemm): transA: rows may not be mixed"),
    (model([node("Gemm", "x", "w", "c")], tensors=[w(4, 2), ("c", np.ones(3, F))]),
     "node 'n' (Gemm): C: got 3 numbers, expected 2"),
    (model([node("Gemm", "w", "x")], tensors=[w(4, 2)]),
     "node 'n' (Gemm): input 0: got a constant, expected a value of each row"),
    (model([node("MatMul", "x", "x")]),
     "node 'n' (MatMul): input 1: got a value of each row, expected a constant"),
    (model([node("Add", "x", "w")], tensors=[w(3)]),
     "node 'n' (Add): a constant with a shape that does not fit the value's"),
    (model([node("Add", "x", "w")], (2, 3, 4), tensors=[w(2, 1, 4)]),
     "node 'n' (Add): a constant that is spread over inner axes"),
    (model([node("Mul", "x", "x")]), "node 'n' (Mul): of two values of a row"),
    (model([node("Sub", "w", "x")], tensors=[w(4)]),
     "node 'n' (Sub): a value taken off a constant"),
    (conv(kernel=(3, 3, 3)), "node 'n' (Conv): W: got a shape that does not fit 2 channels in 1 groups"),
    (conv(group=0), "node 'n' (Conv): W: got a shape that does not fit 2 channels in 0 groups"),
    (conv(kernel=(3, 2, 10)), "node 'n' (Conv): the kernel is wider than the input"),
    (conv(strides=[0]), "node 'n' (Conv): kernel, stride or dilation: expected 1 .. 1048576"),
    (conv(strides=[1, 1]), "node 'n' (Conv): strides: got 2 numbers, expected 1"),
    (conv(pads=[-1, 0]), "node 'n' (Conv): pads: got -1 and 0, expected 0 .. 2"),
    (conv(pads=[3, 0]), "node 'n' (Conv): pads: got 3 and 0, expected 0 .. 2"),
    (conv(kernel_shape=[4]), "node 'n' (Conv): kernel_shape differs from the shape of W"),
    (conv(auto_pad="TWICE"), "node 'n' (Conv): auto_pad: got an unknown value"),
    (conv((4,)), "node 'n' (Conv): only in one and two dimensions"),
    (pool(), "node 'n' (MaxPool): kernel_shape: got 0 numbers, expected 1"),
    (pool(kernel_shape=[2], ceil_mode=1),
     "node 'n' (MaxPool): ceil_mode and dilations are not supported"),
    (model([node("Reshape", "x", "w")], tensors=[("w", np.array([-1, 3], np.int64))]),
     "node 'n' (Reshape): shape: got 3 numbers a row, expected 4"),
    (model([node("Reshape", "x", "w")], tensors=[("w", np.array([8, 2], np.int64))]),
     "node 'n' (Reshape): shape: got 8 for the batch, expected 0, 1 or -1"),
    (model([node("Transpose", "x", perm=[1, 0])]),
     "node 'n' (Transpose): perm: expected all 2 axes, the batch's first"),
    (model([node("Transpose", "x", perm=[0, 1, 1])], (2, 2)),
     "node 'n' (Transpose): perm: got 1 at 2"),
    (model([node("Softmax", "x", axis=0)]), "node 'n' (Softmax): axis: got 0, expected one of a row"),
    (model([node("Flatten", "x", axis=0)]),
     "node 'n' (Flatten): axis: got 0, expected 1: rows may not be mixed"),
    (model([node("ArgMax", "x", axis=1, select_last_index=1)]),
     "node 'n' (ArgMax): only the first highest of all classes"),
    (model([node("Cast", "x", to=TensorProto.INT8)]),
     "node 'n' (Cast): to: got element type 3, expected floats"),
    (model([node("BatchNormalization", "x", "w", "w", "w", "v")],
           tensors=[w(4), ("v", np.array([1, 1, -1, 1], F))]),
     "node 'n' (BatchNormalization): channel 2: got a variance of -0.99999, or numbers too large"),
    (model([node("Gemm", "x", "w", outputs=("z",)), node("Mul", "z", "s")],
           tensors=[("w", np.full((4, 2), 1e30, F)), ("s", np.full(1, 1e30, F))]),
     "weights grow too large for 32-bit floats when scales are folded into them"),
    # Trees.
    (trees(nodes_featureids=[4, 0, 0]),
     "node 'n' (TreeEnsembleClassifier): nodes_featureids: got 4, expected 0 .. 3"),
    (trees(nodes_truenodeids=[7, 0, 0]),
     "node 'n' (TreeEnsembleClassifier): tree 0 has no node 7"),
    (trees(nodes_truenodeids=[2, 0, 0]),
     "node 'n' (TreeEnsembleClassifier): node 2 of tree 0 hangs under two nodes"),
    (trees(nodes_truenodeids=[0, 0, 0]), "node 'n' (TreeEnsembleClassifier): a tree with a cycle"),
    (trees(nodes_nodeids=[0, 1, 1]),
     "node 'n' (TreeEnsembleClassifier): node 1 of tree 0 is given twice"),
    (trees(nodes_modes=["LEAF", "LEAF", "LEAF"]),
     "node 'n' (TreeEnsembleClassifier): tree 0 has two roots"),
    (trees(nodes_modes=["BRANCH_IN", "LEAF", "LEAF"]),
     "node 'n' (TreeEnsembleClassifier): nodes_modes: got 'BRANCH_IN'"),
    (trees(nodes_values=[np.nan, 0.0, 0.0]),
     "node 'n' (TreeEnsembleClassifier): nodes_values: got nan, expected a finite number"),
    (trees(nodes_values=[0.0, 0.0]),
     "node 'n' (TreeEnsembleClassifier): nodes_values: got 2 numbers, expected 3"),
    (trees(nodes_values=[0.0] * 4),
     "node 'n' (TreeEnsembleClassifier): nodes_values: got more than 3 numbers"),
    (trees(class_ids=[0, 2]),
     "node 'n' (TreeEnsembleClassifier): class_ids: got 2, expected 0 .. 1"),
    (trees(class_nodeids=[1, 0]),
     "node 'n' (TreeEnsembleClassifier): class weights: tree 0 has no leaf 0"),
    (trees(class_ids=[1, 1]),
     "node 'n' (TreeEnsembleClassifier): two classes with weights for one: give both their weights"),
    (trees(post_transform="PROBIT"),
     "node 'n' (TreeEnsembleClassifier): post_transform: got 'PROBIT'"),
    (trees(base_values=[1.0]),
     "node 'n' (TreeEnsembleClassifier): base_values: got 1 numbers, expected 2"),
]


def load(tool, path):
    return subprocess.run([tool, path, "cpu-ref", "-", "-"], capture_output=True, text=True,
                          check=False, timeout=60)


def main():
    tool = sys.argv[1]
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "m"
        for content, expected in CASES:
            path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
            result = load(tool, path)
            if result.returncode != 1 or result.stdout != f"{path}: {expected}\n":
                print(f"got {result.returncode} {result.stdout!r}\nexpected {expected!r}")
                failures += 1
        # Cut anywhere, a file is refused or, cut between fields, still whole.
        whole = GOOD.SerializeToString()
        for length in range(0, len(whole), 5):
            path.write_bytes(whole[:length])
            result = load(tool, path)
            lines = result.stdout.splitlines()
            if result.returncode not in (0, 1) or len(lines) != 1 or result.stderr:
                print(f"cut at {length}: {result}")
                failures += 1
        for bad, reason in ((path.parent, "Is a directory"), (path.parent / "none", "No such file or directory")):
            result = load(tool, bad)
            if result.stdout != f"{bad}: {reason}\n":
                print(result)
                failures += 1
    print(f"{len(CASES)} models, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
