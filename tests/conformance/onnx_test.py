#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what imported ONNX graphs compute against ONNX Runtime: onnx_test.py UNIT_IMPORT_TEST [--seeds N]

Graphs of random sizes and weights, of the operators in which transformers, BERT, T5, ViT, ResNet and MobileNet are exported, are made with
the onnx package and run by ONNX Runtime; the test OnnxRuntime of UNIT_IMPORT_TEST then reads the same files and computes them with the same
inputs. Every element of a result has to be the same to 1e-4 of the largest. `onnx_test.py --write FOLDER` writes one graph of each kind
with its numbers there: those that the unit tests read, without these packages, are in tests/unit/import/onnx.

Needs the packages onnx and onnxruntime (pip install onnx onnxruntime); without them it is skipped.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"[SKIP] {missing}: pip install onnx onnxruntime")
    sys.exit(77)

from onnx_layers import LAYERS

OPSET, IR = 17, 8


class Graph:
    """A graph in the making: names of nodes, initializers by value."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.initializers, self.inputs, self.given = [], [], [], {}
        self.values = {}

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind.lower()}_{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def value(self, array, name=None):
        name = name or f"c{len(self.initializers)}"
        self.values[name] = array
        self.initializers.append(name)
        return name

    def weight(self, name, *shape, scale=None, around=0.0):
        scale = scale or 1.0 / np.sqrt(max(shape[0] if len(shape) == 2 else np.prod(shape[1:]), 1))
        return self.value((around + scale * self.random.standard_normal(shape)).astype(np.float32), name)

    def integers(self, *numbers):
        return self.value(np.array(numbers, np.int64))

    def number(self, number):
        return self.value(np.array(number, np.float32))

    def input(self, name, array):
        self.given[name] = array
        kind = {np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32, np.dtype(bool): TensorProto.BOOL}.get(array.dtype, TensorProto.FLOAT)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        return name

    def model(self, result):
        out = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        tensors = [numpy_helper.from_array(self.values[name], name) for name in self.initializers]
        graph = helper.make_graph(self.nodes, "g", self.inputs, [out], tensors)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)], ir_version=IR)
        return made

    def run(self, result):
        session = onnxruntime.InferenceSession(self.model(result).SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run([result], self.given)[0]


# --- parts ---


def linear(g, x, name, inputs, outputs, bias=True):
    y = g.op("MatMul", x, g.weight(name, inputs, outputs))
    return g.op("Add", y, g.weight(name + ".bias", outputs, scale=0.3)) if bias else y


def layer_norm(g, x, name, width, whole=True):
    gamma, beta = g.weight(name + ".gamma", width, scale=0.2, around=1.0), g.weight(name + ".beta", width, scale=0.2)
    if whole:
        return g.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-5)
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1], keepdims=1))
    variance = g.op("ReduceMean", g.op("Pow", centred, g.number(2.0)), axes=[-1], keepdims=1)
    scaled = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.number(1e-5))))
    return g.op("Add", g.op("Mul", scaled, gamma), beta)


def rms_norm(g, x, name, width):
    mean = g.op("ReduceMean", g.op("Mul", x, x), axes=[-1], keepdims=1)
    root = g.op("Reciprocal", g.op("Sqrt", g.op("Add", mean, g.number(1e-6))))
    return g.op("Mul", g.op("Mul", x, root), g.weight(name + ".gamma", width, scale=0.2, around=1.0))


def gelu(g, x):
    erf = g.op("Erf", g.op("Div", x, g.number(np.sqrt(2.0))))
    return g.op("Mul", g.op("Mul", x, g.op("Add", erf, g.number(1.0))), g.number(0.5))


def gelu_tanh(g, x):
    inner = g.op("Add", x, g.op("Mul", g.op("Pow", x, g.number(3.0)), g.number(0.044715)))
    return g.op("Mul", g.op("Mul", x, g.number(0.5)), g.op("Add", g.op("Tanh", g.op("Mul", inner, g.number(np.sqrt(2 / np.pi)))), g.number(1.0)))


def heads_of(g, x, seq, heads, width):
    return g.op("Transpose", g.op("Reshape", x, g.integers(-1, seq, heads, width)), perm=[0, 2, 1, 3])


def attend(g, q, k, v, seq, heads, width, scale=None, bias=None, causal=False):
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    if scale:
        scores = g.op("Div", scores, g.number(scale))
    if bias:
        scores = g.op("Add", scores, bias)
    if causal:
        keep = g.value(np.tril(np.ones((1, 1, seq, seq), bool)))
        scores = g.op("Where", keep, scores, g.number(-1e9))
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
    return g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.integers(-1, seq, heads * width))


def words_of(g, batch, seq, vocab):
    return g.input("ids", g.random.integers(0, vocab, (batch, seq)).astype(np.int64))


def normalised(g, x, name):
    """Batch normalisation by the statistics of this batch, as in training."""
    seen = g.run(x)
    width = seen.shape[1]
    mean, variance = seen.mean((0, 2, 3)), seen.var((0, 2, 3))
    return g.op("BatchNormalization", x, g.weight(name + ".gamma", width, scale=0.2, around=1.0), g.weight(name + ".beta", width, scale=0.2),
                g.value(mean.astype(np.float32), name + ".mean"), g.value(variance.astype(np.float32), name + ".variance"), epsilon=1e-5)


def convolution(g, x, name, inputs, outputs, kernel, stride=1, groups=1, bias=False):
    operands = [x, g.weight(name, outputs, inputs // groups, kernel, kernel)]
    if bias:
        operands.append(g.weight(name + ".bias", outputs, scale=0.3))
    return g.op("Conv", *operands, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)


# --- models ---


def bert(g):
    batch, seq, heads, width, vocab = 3, g.pick(5, 7), g.pick(2, 4), g.pick(4, 6), g.pick(13, 17)
    embed, whole = heads * width, bool(g.pick(0, 1))
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words_of(g, batch, seq, vocab))
    x = g.op("Add", x, g.op("Gather", g.weight("wpe", seq, embed, scale=1.0), g.value(np.arange(seq, dtype=np.int64))))
    x = layer_norm(g, x, "embed.norm", embed, whole)
    for layer in range(2):
        n = f"layer.{layer}."
        q, k, v = (heads_of(g, linear(g, x, n + part, embed, embed), seq, heads, width) for part in "qkv")
        a = linear(g, attend(g, q, k, v, seq, heads, width, np.sqrt(width)), n + "out", embed, embed)
        x = layer_norm(g, g.op("Add", x, a), n + "ln1", embed, whole)
        h = gelu(g, linear(g, x, n + "up", embed, 3 * embed))
        x = layer_norm(g, g.op("Add", x, linear(g, h, n + "down", 3 * embed, embed)), n + "ln2", embed, whole)
    return linear(g, x, "head", embed, vocab)


def gpt2(g):
    batch, seq, heads, width, vocab = 3, g.pick(5, 8), g.pick(2, 4), g.pick(4, 6), g.pick(11, 19)
    embed = heads * width
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words_of(g, batch, seq, vocab))
    for layer in range(2):
        n = f"h.{layer}."
        fused = linear(g, layer_norm(g, x, n + "ln1", embed), n + "qkv", embed, 3 * embed)
        parts = g.op("Split", fused, g.integers(embed, embed, embed), outputs=3, axis=2)
        q, k, v = (heads_of(g, part, seq, heads, width) for part in parts)
        x = g.op("Add", x, linear(g, attend(g, q, k, v, seq, heads, width, np.sqrt(width), causal=True), n + "out", embed, embed))
        h = gelu_tanh(g, linear(g, layer_norm(g, x, n + "ln2", embed), n + "up", embed, 2 * embed))
        x = g.op("Add", x, linear(g, h, n + "down", 2 * embed, embed))
    return g.op("MatMul", layer_norm(g, x, "ln_f", embed), g.weight("head", embed, vocab))


def t5(g):
    batch, seq, heads, width, vocab = 3, g.pick(5, 6), g.pick(2, 3), g.pick(4, 6), g.pick(11, 13)
    embed = g.pick(10, 14)
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words_of(g, batch, seq, vocab))
    n = "block.0."
    a = rms_norm(g, x, n + "ln1", embed)
    q, k, v = (heads_of(g, linear(g, a, n + part, embed, heads * width, bias=False), seq, heads, width) for part in "qkv")
    buckets = g.value(np.clip(np.arange(seq)[None] - np.arange(seq)[:, None] + 3, 0, 6).astype(np.int64))
    bias = g.op("Unsqueeze", g.op("Transpose", g.op("Gather", g.weight(n + "bias", 7, heads, scale=1.0), buckets), perm=[2, 0, 1]), g.integers(0))
    x = g.op("Add", x, linear(g, attend(g, q, k, v, seq, heads, width, bias=bias), n + "o", heads * width, embed, bias=False))
    a = rms_norm(g, x, n + "ln2", embed)
    gate, up = gelu_tanh(g, linear(g, a, n + "wi_0", embed, 2 * embed, bias=False)), linear(g, a, n + "wi_1", embed, 2 * embed, bias=False)
    x = g.op("Add", x, linear(g, g.op("Mul", gate, up), n + "wo", 2 * embed, embed, bias=False))
    return g.op("MatMul", rms_norm(g, x, "final", embed), g.weight("head", embed, vocab))


def vit(g):
    batch, patch, rows, heads, width, classes = 3, g.pick(2, 4), g.pick(2, 3), g.pick(2, 3), g.pick(4, 6), g.pick(5, 7)
    embed, seq = heads * width, rows * rows + 1
    images = g.input("images", g.random.standard_normal((batch, 3, rows * patch, rows * patch)).astype(np.float32))
    x = g.op("Conv", images, g.weight("patch", embed, 3, patch, patch), kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = g.op("Transpose", g.op("Reshape", x, g.integers(0, embed, rows * rows)), perm=[0, 2, 1])
    first = g.op("Expand", g.weight("cls", 1, 1, embed, scale=1.0), g.op("Concat", g.op("Slice", g.op("Shape", images), g.integers(0), g.integers(1)), g.integers(1, embed), axis=0))
    x = g.op("Add", g.op("Concat", first, x, axis=1), g.weight("positions", 1, seq, embed, scale=1.0))
    a = layer_norm(g, x, "layer.0.ln1", embed)
    q, k, v = (heads_of(g, linear(g, a, "layer.0." + part, embed, embed), seq, heads, width) for part in "qkv")
    x = g.op("Add", x, linear(g, attend(g, q, k, v, seq, heads, width, np.sqrt(width)), "layer.0.out", embed, embed))
    x = g.op("Add", x, linear(g, gelu(g, linear(g, layer_norm(g, x, "layer.0.ln2", embed), "layer.0.up", embed, 2 * embed)), "layer.0.down", 2 * embed, embed))
    return linear(g, g.op("Gather", layer_norm(g, x, "final", embed), g.value(np.array(0, np.int64)), axis=1), "head", embed, classes)


def resnet(g):
    batch, size, width, classes = 3, g.pick(8, 12), g.pick(4, 6), g.pick(5, 7)
    x = g.input("images", g.random.standard_normal((batch, 3, size, size)).astype(np.float32))
    x = g.op("Relu", normalised(g, convolution(g, x, "c1", 3, width, 3), "n1"))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = g.op("Relu", normalised(g, convolution(g, x, "c2", width, 2 * width, 3, stride=2), "n2"))
    y = normalised(g, convolution(g, y, "c3", 2 * width, 2 * width, 3), "n3")
    short = normalised(g, convolution(g, x, "c4", width, 2 * width, 1, stride=2), "n4")
    x = g.op("Flatten", g.op("GlobalAveragePool", g.op("Relu", g.op("Add", y, short))))
    return g.op("Gemm", x, g.weight("fc", classes, 2 * width), g.weight("fc.bias", classes, scale=0.3), transB=1)


def mobilenet(g):
    batch, size, width, classes = 3, g.pick(6, 8), g.pick(4, 6), g.pick(5, 7)
    x = g.input("images", g.random.standard_normal((batch, 3, size, size)).astype(np.float32))
    x = g.op("HardSwish", convolution(g, x, "c1", 3, width, 3, stride=2, bias=True))
    x = g.op("Clip", convolution(g, x, "expand", width, 2 * width, 1, bias=True), g.number(0.0), g.number(6.0))
    x = g.op("Clip", convolution(g, x, "depthwise", 2 * width, 2 * width, 3, groups=2 * width, bias=True), g.number(0.0), g.number(6.0))
    s = g.op("Relu", convolution(g, g.op("GlobalAveragePool", x), "squeeze", 2 * width, width, 1, bias=True))
    s = g.op("HardSigmoid", convolution(g, s, "excite", width, 2 * width, 1, bias=True), alpha=1 / 6, beta=0.5)
    x = convolution(g, g.op("Mul", x, s), "project", 2 * width, width, 1, bias=True)
    x = g.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    return g.op("Gemm", x, g.weight("fc", width, classes), g.weight("fc.bias", classes, scale=0.3))


def einsums(g):
    batch, seq, heads, width, embed = 3, g.pick(5, 7), g.pick(2, 4), g.pick(4, 6), g.pick(8, 10)
    x = g.input("x", g.random.standard_normal((batch, seq, embed)).astype(np.float32))
    q, k, v = (g.op("Einsum", x, g.weight(part, embed, heads * width), equation="...d,de->...e") for part in "qkv")
    q, k, v = (g.op("Reshape", part, g.integers(0, seq, heads, width)) for part in (q, k, v))
    scores = g.op("Mul", g.op("Einsum", q, k, equation="bqhd,bkhd->bhqk"), g.number(1 / np.sqrt(width)))
    x = g.op("Einsum", g.op("Softmax", scores, axis=-1), v, equation="bhqk,bkhd->bqhd")
    x = g.op("Reshape", x, g.integers(0, seq, heads * width))
    y = g.op("Einsum", x, g.weight("scale", heads * width, scale=1.0), equation="bsd,d->bsd")
    z = g.op("Einsum", y, g.weight("left", heads * width, 6), g.weight("right", 6, embed), equation="bsd,df,fe -> bse")
    return g.op("Einsum", z, equation="bse->be")


def functions(g):
    batch, width = 3, g.pick(6, 9)
    x = g.op("MatMul", g.input("x", g.random.standard_normal((batch, width)).astype(np.float32)), g.weight("w", width, 2 * width, scale=1.0))
    parts = [g.op("LeakyRelu", x, alpha=0.2), g.op("Elu", x, alpha=0.7), g.op("Softplus", x), g.op("Clip", x, g.number(-0.5)),
             g.op("Mul", x, g.op("ReduceL2", x, axes=[-1], keepdims=1)), g.op("Sub", x, g.op("ReduceMin", x, axes=[-1], keepdims=1)),
             g.op("Div", x, g.op("Add", g.op("ReduceL1", x, axes=[-1], keepdims=1), g.number(1.0))),
             g.op("Sqrt", g.op("Add", g.op("ReduceSumSquare", x, axes=[-1], keepdims=1), g.op("Abs", x))),
             g.op("Where", g.op("Greater", x, g.number(0.3)), x, g.op("Neg", x)), g.op("Sin", g.op("Exp", g.op("Min", x, g.number(0.0))))]
    steps = g.input("steps", g.random.integers(0, 9, (batch,)).astype(np.int64))
    parts.append(g.op("Gather", g.weight("table", 9, 2 * width, scale=1.0), steps))
    early = g.op("Less", g.op("Unsqueeze", steps, g.integers(1)), g.value(np.array(4, np.int64)))
    parts.append(g.op("Where", early, x, g.op("Mul", x, g.number(2.0))))
    return g.op("MatMul", g.op("Mean", *parts), g.weight("head", 2 * width, 5))


def mixture(g):
    """Two choices of each token (TopK), sent by masks; first choices of all tokens come before second ones."""
    batch, seq, embed, experts, capacity, mlp = 3, g.pick(6, 8), 6, g.pick(3, 4), g.pick(3, 5), 7
    x = g.input("x", g.random.standard_normal((batch, seq, embed)).astype(np.float32))
    p = g.op("Softmax", g.op("MatMul", x, g.weight("router", embed, experts, scale=2.0)), axis=-1)
    best, where = g.op("TopK", p, g.integers(2), outputs=2, axis=-1)
    best = g.op("Div", best, g.op("ReduceSum", best, g.integers(-1), keepdims=1))
    levels, one = g.value(np.array([0, 1], np.float32)), g.number(1.0)
    sent, weighed, before = None, None, None
    for choice in range(2):
        cut = [g.integers(choice), g.integers(choice + 1), g.integers(2)]
        hot = g.op("OneHot", g.op("Squeeze", g.op("Slice", where, *cut), g.integers(2)), g.integers(experts), levels, axis=-1)
        gate = g.op("Slice", best, *cut)
        count = g.op("CumSum", hot, g.value(np.array(1, np.int64)))
        if before:
            count = g.op("Add", count, before)
        before = g.op("ReduceSum", hot, g.integers(1), keepdims=1)
        fits = g.op("Cast", g.op("LessOrEqual", count, g.number(float(capacity))), to=TensorProto.FLOAT)
        place = g.op("ReduceSum", g.op("Mul", count, hot), g.integers(-1), keepdims=0)
        slot = g.op("OneHot", g.op("Cast", g.op("Sub", place, one), to=TensorProto.INT64), g.integers(capacity), levels, axis=-1)
        mask = g.op("Mul", g.op("Unsqueeze", g.op("Mul", hot, fits), g.integers(3)), g.op("Unsqueeze", slot, g.integers(2)))
        with_gate = g.op("Mul", mask, g.op("Unsqueeze", gate, g.integers(3)))
        sent = g.op("Add", sent, mask) if sent else mask
        weighed = g.op("Add", weighed, with_gate) if weighed else with_gate
    inner = g.op("Einsum", sent, x, equation="bsec,bsd->becd")
    inner = g.op("Relu", g.op("Einsum", inner, g.weight("up", experts, embed, mlp), equation="becd,edf->becf"))
    made = g.op("Einsum", inner, g.weight("down", experts, mlp, embed), equation="becf,efd->becd")
    out = g.op("Add", x, g.op("Einsum", weighed, made, equation="bsec,becd->bsd"))
    return g.op("MatMul", out, g.weight("head", embed, 5))


def padded_words(g, batch, seq, vocab, every=None):
    """Words, and which of them are there: sample 1 is full, the others have holes. The first is there, and each `every`-th, so that
    no row of a causal mask hides all: what becomes of such a row is the file's own."""
    there = (g.random.random((batch, seq)) < 0.6).astype(np.int64)
    there[:, ::every or seq], there[1] = 1, 1
    return words_of(g, batch, seq, vocab), g.input("attention_mask", there)


def masked_bert(g):
    """As transformers writes it: (1 - mask) times the lowest number, or a selection that is repeated for all queries."""
    batch, seq, heads, width, vocab = 3, g.pick(5, 7), g.pick(2, 4), g.pick(4, 6), g.pick(13, 17)
    embed, form = heads * width, g.pick(0, 1, 2)
    words, there = padded_words(g, batch, seq, vocab)
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words)
    mask = g.op("Cast", g.op("Unsqueeze", g.op("Unsqueeze", there, g.integers(1)), g.integers(2)), to=TensorProto.FLOAT)
    lowest = g.number(np.finfo(np.float32).min)
    if form > 0:
        mask = g.op("Expand", mask, g.op("Concat", g.op("Slice", g.op("Shape", there), g.integers(0), g.integers(1)), g.integers(1, seq, seq), axis=0))
    hidden = g.op("Sub", g.number(1.0), mask)
    if form == 2:
        hidden = g.op("Where", g.op("Cast", hidden, to=TensorProto.BOOL), lowest, hidden)
    else:
        hidden = g.op("Mul", hidden, g.number(-10000.0) if form == 0 else lowest)
    for layer in range(2):
        n = f"layer.{layer}."
        q, k, v = (heads_of(g, linear(g, x, n + part, embed, embed), seq, heads, width) for part in "qkv")
        a = linear(g, attend(g, q, k, v, seq, heads, width, np.sqrt(width), bias=hidden), n + "out", embed, embed)
        x = layer_norm(g, g.op("Add", x, a), n + "ln1", embed)
        x = layer_norm(g, g.op("Add", x, linear(g, gelu(g, linear(g, x, n + "up", embed, 3 * embed)), n + "down", 3 * embed, embed)), n + "ln2", embed)
    return linear(g, x, "head", embed, vocab)


def masked_gpt(g):
    """Later words and padding hidden by one mask, as transformers makes it; or sequences that are packed into one."""
    batch, seq, heads, width, vocab = 3, g.pick(5, 8), g.pick(2, 4), g.pick(4, 6), g.pick(11, 19)
    embed, form, window = heads * width, g.pick(0, 1, 2), g.pick(0, 3)
    words, there = padded_words(g, batch, seq, vocab, window)
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words)
    rows, columns = g.value(np.arange(seq, dtype=np.int64)[:, None]), g.value(np.arange(seq, dtype=np.int64)[None])
    seen = g.op("LessOrEqual", columns, rows)
    if window:
        seen = g.op("And", seen, g.op("Greater", columns, g.op("Sub", rows, g.value(np.array(window, np.int64)))))
    lowest, nothing = g.number(np.finfo(np.float32).min), g.number(0.0)
    if form == 0:
        kept = g.op("And", g.op("Cast", g.op("Unsqueeze", there, g.integers(1, 2)), to=TensorProto.BOOL), g.op("Unsqueeze", seen, g.integers(0, 1)))
        hidden = g.op("Where", kept, nothing, lowest)
    elif form == 1:
        later = g.op("Unsqueeze", g.op("Where", seen, nothing, lowest), g.integers(0, 1))
        padded = g.op("Equal", g.op("Add", later, g.op("Cast", g.op("Unsqueeze", there, g.integers(1, 2)), to=TensorProto.FLOAT)), nothing)
        hidden = g.op("Where", padded, lowest, later)
    else:
        same = g.op("Equal", g.op("Unsqueeze", there, g.integers(2)), g.op("Unsqueeze", there, g.integers(1)))
        hidden = g.op("Where", g.op("Unsqueeze", g.op("And", same, seen), g.integers(1)), nothing, lowest)
    for layer in range(2):
        n = f"h.{layer}."
        fused = linear(g, layer_norm(g, x, n + "ln1", embed), n + "qkv", embed, 3 * embed)
        q, k, v = (heads_of(g, part, seq, heads, width) for part in g.op("Split", fused, g.integers(embed, embed, embed), outputs=3, axis=2))
        x = g.op("Add", x, linear(g, attend(g, q, k, v, seq, heads, width, np.sqrt(width), bias=hidden), n + "out", embed, embed))
        x = g.op("Add", x, linear(g, gelu_tanh(g, linear(g, layer_norm(g, x, n + "ln2", embed), n + "up", embed, 2 * embed)), n + "down", 2 * embed, embed))
    return g.op("MatMul", layer_norm(g, x, "ln_f", embed), g.weight("head", embed, vocab))


def mask_inputs(g):
    """Masks that are inputs themselves, of (batch, keys), (batch, 1, 1, keys) or of queries too: added, or a choice of truth values."""
    batch, seq, heads, width, vocab = 3, g.pick(5, 7), 2, g.pick(4, 6), 13
    embed, form = heads * width, g.pick(0, 1, 2, 3, 4)
    words = words_of(g, batch, seq, vocab)
    kept = g.random.random([(batch, seq), (batch, 1, 1, seq), (batch, 1, seq, seq), (batch, seq), (batch, 1, 1, seq)][form]) < 0.6
    kept[..., 0] = True
    mask = g.input("mask", kept if form > 2 else np.where(kept, 0.0, -30.0).astype(np.float32))
    if form in (0, 3):
        mask = g.op("Unsqueeze", g.op("Unsqueeze", mask, g.integers(1)), g.integers(2))
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words)
    for layer in range(2):
        n = f"layer.{layer}."
        q, k, v = (heads_of(g, linear(g, x, n + part, embed, embed), seq, heads, width) for part in "qkv")
        scores = g.op("Div", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), g.number(np.sqrt(width)))
        scores = g.op("Where", mask, scores, g.number(-1e9)) if form > 2 else g.op("Add", scores, mask)
        mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = layer_norm(g, g.op("Add", x, linear(g, g.op("Reshape", mixed, g.integers(-1, seq, embed)), n + "out", embed, embed)), n + "ln", embed)
    return linear(g, x, "head", embed, vocab)


def constants(g):
    """Numbers that no weight and no pattern has: a window of attention both ways, factors of rows, places of all samples."""
    batch, seq, heads, width, vocab = 3, g.pick(6, 8), g.pick(2, 3), g.pick(4, 6), g.pick(11, 13)
    embed = heads * width
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), words_of(g, batch, seq, vocab))
    places = g.op("Expand", g.value(np.arange(seq, dtype=np.int64)[None] % 3), g.op("Slice", g.op("Shape", "ids"), g.integers(0), g.integers(2)))
    x = g.op("Add", x, g.op("Gather", g.weight("wpe", 3, embed, scale=1.0), places))
    near = np.where(np.abs(np.arange(seq)[:, None] - np.arange(seq)[None]) < 3, 0.0, -1e9).astype(np.float32)
    q, k, v = (heads_of(g, linear(g, x, "a." + part, embed, embed), seq, heads, width) for part in "qkv")
    x = g.op("Add", x, linear(g, attend(g, q, k, v, seq, heads, width, np.sqrt(width), bias=g.value(near)), "a.out", embed, embed))
    turning = np.concatenate([np.ones((1, 4)), np.cos(np.arange(1, seq)[:, None] * np.array([1.0, 0.5, 0.2, 0.1]))]).astype(np.float32)
    x = g.op("Mul", x, g.op("Concat", g.value(turning), g.op("ConstantOfShape", g.integers(seq, embed - 4), value=numpy_helper.from_array(np.ones(1, np.float32))), axis=1))
    return g.op("MatMul", layer_norm(g, x, "ln_f", embed), g.weight("head", embed, vocab))


KINDS = [bert, gpt2, t5, vit, resnet, mobilenet, einsums, functions, mixture, masked_bert, masked_gpt, mask_inputs, constants, *LAYERS]


def size_of(kind, seed):
    g = Graph(seed)
    return len(g.model(kind(g)).SerializeToString())


def write(folder, name, kind, seed):
    g = Graph(seed)
    result = kind(g)
    numbers = g.run(result)
    (folder / f"{name}.onnx").write_bytes(g.model(result).SerializeToString())
    inputs = {key: array.astype(np.int64).reshape(-1).tolist() if array.dtype != np.float32 else [round(float(x), 7) for x in array.reshape(-1)]
              for key, array in g.given.items()}
    text = json.dumps({"inputs": inputs, "result": [float(f"{x:.7g}") for x in numbers.reshape(-1)]})
    (folder / f"{name}.json").write_text(text + "\n")


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        for kind in KINDS:
            smallest = min(range(12), key=lambda seed: size_of(kind, seed))
            write(pathlib.Path(sys.argv[2]), kind.__name__, kind, smallest)
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seeds = int(sys.argv[sys.argv.index("--seeds") + 1]) if "--seeds" in sys.argv else 8
    with tempfile.TemporaryDirectory(prefix="meshwright-onnx-") as folder:
        for kind in KINDS:
            for seed in range(seeds):
                write(pathlib.Path(folder), f"{kind.__name__}-{seed}", kind, 100 + seed)
        tested = subprocess.run([sys.argv[1], "--gtest_filter=OnnxRuntime.*"], env=dict(os.environ, MESHWRIGHT_ONNX_FOLDER=folder),
                                capture_output=True, text=True, check=False)
        if tested.returncode != 0:
            sys.exit(tested.stdout + tested.stderr)
        print(f"{seeds * len(KINDS)} graphs compute what ONNX Runtime {onnxruntime.__version__} computes (onnx {onnx.__version__})")


if __name__ == "__main__":
    main()
