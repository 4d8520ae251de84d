# SPDX-License-Identifier: Apache-2.0
"""More kinds of graphs for onnx_test.py: layers of images, recurrent layers, and the operators of ONNX Runtime's own domain that its
optimizer fuses transformers to."""
import numpy as np

MICROSOFT = "com.microsoft"


def fused(g, kind, *inputs, **attributes):
    return g.op(kind, *inputs, domain=MICROSOFT, **attributes)


def row(g, name, width, around=0.0):
    return g.weight(name, width, scale=0.3, around=around)


def images_of(g, batch, channels, height, width):
    return g.input("images", g.random.standard_normal((batch, channels, height, width)).astype(np.float32))


def dilations(g):
    """Windows with gaps that divide the image, that do not, of channels apart, with a stride, and of rows."""
    batch, width, size = 3, g.pick(2, 4), g.pick(6, 8)
    x = images_of(g, batch, width, size, size + 2)
    window = dict(kernel_shape=[3, 3], pads=[2, 2, 2, 2])
    y = g.op("Relu", g.op("Conv", x, g.weight("a", 2 * width, width, 3, 3), row(g, "a.bias", 2 * width), dilations=[2, 2], **window))
    z = g.op("Conv", y, g.weight("b", 2 * width, 1, 3, 3), dilations=[3, 1], group=2 * width, kernel_shape=[3, 3], pads=[3, 1, 3, 1])
    z = g.op("Add", z, g.op("Conv", y, g.weight("c", 2 * width, width, 2, 3), dilations=[1, 2], group=2, kernel_shape=[2, 3], pads=[0, 2, 1, 2]))
    z = g.op("Conv", z, g.weight("d", width, 2 * width, 3, 3), dilations=[2, 2], strides=[2, 1], **window)
    r = g.op("Reshape", z, g.integers(0, width, -1))
    r = g.op("Conv", r, g.weight("e", 5, width, 3), dilations=[4], kernel_shape=[3], pads=[4, 4])
    return g.op("ReduceMean", g.op("MaxPool", r, kernel_shape=[2], strides=[2]), axes=[2], keepdims=0)


def transposed(g):
    """Transposed convolutions: side by side, overlapping, with padding on both sides, of groups, with gaps, and of rows."""
    batch, width = 3, g.pick(4, 6)
    rows = g.pick(3, 4)
    x = images_of(g, batch, width, rows, 5)
    a = g.op("ConvTranspose", x, g.weight("a", width, 4, 4, 4), row(g, "a.bias", 4), kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1])
    b = g.op("ConvTranspose", x, g.weight("b", width, 4, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    c = g.op("ConvTranspose", x, g.weight("c", width, 2, 3, 3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], group=2)
    d = g.op("ConvTranspose", x, g.weight("d", width, 4, 1, 3), kernel_shape=[1, 3], strides=[2, 3], pads=[0, 2, 0, 1], output_padding=[1, 0])
    s = g.op("Add", g.op("Add", a, b), g.op("Relu", c))
    r = g.op("ReduceMean", d, axes=[3], keepdims=0)
    r = g.op("ConvTranspose", r, g.weight("e", 4, 3, 6), kernel_shape=[6], strides=[3], pads=[2, 1])
    parts = [g.op("Flatten", part) for part in (s, d, r)]
    return g.op("MatMul", g.op("Concat", *parts, axis=1), g.weight("head", 4 * 2 * rows * (10 + 12) + 3 * 6 * rows, 5))


def sizes(g):
    """Images of another size by all weights, with edges that are repeated or turned round, and means of channels beside each other."""
    batch, width, size = 3, g.pick(2, 3), g.pick(4, 5)
    x = images_of(g, batch, width, size, size)
    x = g.op("LRN", x, size=3, alpha=0.3, beta=0.6, bias=1.2)
    empty = g.value(np.zeros(0, np.float32))

    def resized(y, factor, **attributes):
        return g.op("Resize", y, empty, g.value(np.array([1, 1, factor, factor], np.float32)), **attributes)

    doubled = [resized(x, 2, mode="linear"), resized(x, 2, mode="linear", coordinate_transformation_mode="align_corners"),
               resized(x, 2, mode="cubic"), resized(x, 2, mode="nearest"), resized(x, 2, mode="linear", coordinate_transformation_mode="asymmetric"),
               resized(x, 2, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")]
    y = g.op("Sum", *doubled)
    other = g.op("Resize", y, empty, empty, g.integers(batch, width, 3, 7), mode="linear")
    y = g.op("Add", y, g.op("Resize", other, empty, empty, g.integers(batch, width, 2 * size, 2 * size), mode="nearest"))
    for mode in ("reflect", "edge"):
        y = g.op("Pad", y, g.integers(0, 0, 2, 1, 0, 0, 0, 1), mode=mode)
        y = g.op("Conv", y, g.weight(mode, width, width, 3, 3), kernel_shape=[3, 3])
    z = g.op("DepthToSpace", g.op("Conv", y, g.weight("up", 4, width, 1, 1), kernel_shape=[1, 1]), blocksize=2, mode="CRD")
    z = g.op("Add", g.op("GlobalMaxPool", z), g.op("ReduceMean", z, axes=[2, 3], keepdims=1))
    return g.op("PRelu", g.op("Add", g.op("Reshape", z, g.integers(0, 1)), g.op("ReduceMean", y, axes=[2, 3], keepdims=0)), g.weight("slopes", width, scale=0.5))


def recurrent(g):
    """Recurrent layers of all cells: both ways, backwards, with and without biases."""
    batch, seq, width, hidden = 3, g.pick(4, 5), g.pick(3, 4), g.pick(5, 6)
    x = g.op("Transpose", g.input("x", g.random.standard_normal((batch, seq, width)).astype(np.float32)), perm=[1, 0, 2])

    def layer(kind, y, name, gates, inputs, directions, bias=True, **attributes):
        operands = [y, g.weight(name + ".w", directions, gates * hidden, inputs), g.weight(name + ".r", directions, gates * hidden, hidden)]
        if bias:
            operands.append(g.weight(name + ".b", directions, 2 * gates * hidden, scale=0.3))
        made = g.op(kind, *operands, outputs=3 if kind == "LSTM" else 2, hidden_size=hidden, **attributes)
        flat = g.op("Reshape", g.op("Transpose", made[0], perm=[0, 2, 1, 3]), g.integers(seq, -1, directions * hidden))
        return flat, made[1:]

    y, state = layer("LSTM", x, "lstm", 4, width, 2, direction="bidirectional")
    y, _ = layer("GRU", y, "gru", 3, 2 * hidden, 1, linear_before_reset=1)
    y, _ = layer("RNN", y, "rnn", 1, hidden, 1, bias=False, direction="reverse")
    y, _ = layer("RNN", y, "relu", 1, hidden, 1, activations=["Relu"])
    last = g.op("Add", g.op("ReduceSum", g.op("Mul", *state), g.integers(0), keepdims=0), g.op("ReduceMean", y, axes=[0], keepdims=0))
    return g.op("MatMul", last, g.weight("head", hidden, 4))


def fused_bert(g):
    """As the optimizer writes BERT: one operator each for the embedding, for attention with its mask, and for each sum with its norm."""
    batch, seq, heads, width, vocab = 3, g.pick(5, 6), g.pick(2, 3), 4, 11
    embed = heads * width
    ids = g.input("ids", g.random.integers(0, vocab, (batch, seq)).astype(np.int32))
    segments = g.input("segments", g.random.integers(0, 2, (batch, seq)).astype(np.int32))
    there = (g.random.random((batch, seq)) < 0.6).astype(np.int32)
    there[:, 0] = 1
    there.sort(axis=1)
    there = there[:, ::-1].copy()
    mask = g.input("mask", there)
    gamma = [row(g, f"gamma{k}", embed, 1.0) for k in range(5)]
    beta = [row(g, f"beta{k}", embed) for k in range(5)]
    x = fused(g, "EmbedLayerNormalization", ids, segments, g.weight("wte", vocab, embed, scale=1.0), g.weight("wpe", seq + 2, embed, scale=1.0),
              g.weight("wse", 2, embed, scale=1.0), gamma[4], beta[4], outputs=2, epsilon=1e-5)[0]
    for k in range(2):
        n = f"layer.{k}."
        a = fused(g, "Attention", x, g.weight(n + "qkv", embed, 3 * embed), row(g, n + "qkv.bias", 3 * embed), mask, num_heads=heads)
        a = g.op("MatMul", a, g.weight(n + "out", embed, embed))
        x = fused(g, "SkipLayerNormalization", a, x, gamma[2 * k], beta[2 * k], row(g, n + "out.bias", embed), epsilon=1e-5)
        h = fused(g, "BiasGelu" if k else "FastGelu", g.op("MatMul", x, g.weight(n + "up", embed, 2 * embed)), row(g, n + "up.bias", 2 * embed))
        x = fused(g, "SkipLayerNormalization", g.op("MatMul", h, g.weight(n + "down", 2 * embed, embed)), x, gamma[2 * k + 1], beta[2 * k + 1],
                  row(g, n + "down.bias", embed), epsilon=1e-5)
    return g.op("MatMul", x, g.weight("head", embed, vocab))


def fused_gpt2(g):
    """Attention that looks back, and sums that are read behind their norm too."""
    batch, seq, heads, width, vocab = 3, g.pick(5, 6), g.pick(2, 3), 4, 11
    embed = heads * width
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), g.input("ids", g.random.integers(0, vocab, (batch, seq)).astype(np.int64)))
    a = g.op("LayerNormalization", x, row(g, "ln.g", embed, 1.0), row(g, "ln.b", embed), axis=-1)
    for k in range(2):
        n = f"h.{k}."
        a = fused(g, "Attention", a, g.weight(n + "qkv", embed, 3 * embed), row(g, n + "qkv.bias", 3 * embed), num_heads=heads, unidirectional=1)
        a = g.op("MatMul", a, g.weight(n + "out", embed, embed))
        y = fused(g, "SkipLayerNormalization", x, a, row(g, n + "ln1.g", embed, 1.0), row(g, n + "ln1.b", embed), row(g, n + "out.bias", embed), outputs=4)
        h = fused(g, "QuickGelu", g.op("MatMul", y[0], g.weight(n + "up", embed, 2 * embed)), alpha=1.5)
        y2 = fused(g, "SkipLayerNormalization", y[3], g.op("MatMul", h, g.weight(n + "down", 2 * embed, embed)), row(g, n + "ln2.g", embed, 1.0),
                   row(g, n + "ln2.b", embed), outputs=4)
        a, x = y2[0], y2[3]
    return g.op("MatMul", a, g.weight("head", embed, vocab))


def fused_llama(g):
    """Grouped queries that the operator turns itself, or that are turned before attention of heads; RMS norms of sums."""
    batch, seq, groups, width, vocab = 3, g.pick(5, 6), 2, g.pick(16, 32), 11
    heads, kv, embed = 2 * groups, groups, 12
    angles = np.arange(seq + 3)[:, None] * 10000.0 ** (-np.arange(width // 2)[None] * 2 / width)
    tables = [g.value(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    lengths, length = g.value(np.full(batch, seq - 1, np.int32)), g.value(np.array(seq, np.int32))
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), g.input("ids", g.random.integers(0, vocab, (batch, seq)).astype(np.int64)))
    a = g.op("SimplifiedLayerNormalization", x, row(g, "ln", embed, 1.0), axis=-1, epsilon=1e-6)
    q, k, v = (g.op("MatMul", a, g.weight(part, embed, of * width)) for part, of in (("q", heads), ("k", kv), ("v", kv)))
    a = fused(g, "GroupQueryAttention", q, k, v, "", "", lengths, length, *tables, outputs=3, num_heads=heads, kv_num_heads=kv, do_rotary=1)[0]
    y = fused(g, "SkipSimplifiedLayerNormalization", x, g.op("MatMul", a, g.weight("o", heads * width, embed)), row(g, "ln2", embed, 1.0), outputs=4, epsilon=1e-6)
    places = g.value(np.tile(np.arange(seq, dtype=np.int64), (batch, 1)))
    q, k, v = (g.op("MatMul", y[0], g.weight(part + "2", embed, kv * width)) for part in "qkv")
    q, k = (fused(g, "RotaryEmbedding", part, places, *tables) for part in (q, k))
    a = fused(g, "MultiHeadAttention", q, k, v, row(g, "bias", 3 * kv * width), num_heads=kv, unidirectional=1)
    z = g.op("Add", y[3], g.op("MatMul", a, g.weight("o2", kv * width, embed)))
    return g.op("MatMul", z, g.weight("head", embed, vocab))


def fused_t5(g):
    """Attention of heads with a bias of distances, and with the keys of another sequence."""
    batch, seq, other, heads, width, vocab = 3, g.pick(5, 6), 4, 2, 4, 11
    embed = heads * width
    x = g.op("Gather", g.weight("wte", vocab, embed, scale=1.0), g.input("ids", g.random.integers(0, vocab, (batch, seq)).astype(np.int64)))
    e = g.op("Gather", "wte", g.input("others", g.random.integers(0, vocab, (batch, other)).astype(np.int64)))
    buckets = g.value(np.clip(np.arange(seq)[None] - np.arange(seq)[:, None] + 3, 0, 6).astype(np.int64))
    bias = g.op("Unsqueeze", g.op("Transpose", g.op("Gather", g.weight("bias", 7, heads, scale=1.0), buckets), perm=[2, 0, 1]), g.integers(0))
    q, k, v = (g.op("MatMul", x, g.weight(part, embed, embed)) for part in "qkv")
    a = fused(g, "MultiHeadAttention", q, k, v, "", "", bias, num_heads=heads, scale=1.0)
    x = g.op("Add", x, fused(g, "FusedMatMul", a, g.weight("o", embed, embed), transB=1, alpha=0.7))
    k, v = (g.op("MatMul", e, g.weight(part + "2", embed, embed)) for part in "kv")
    a = fused(g, "MultiHeadAttention", g.op("MatMul", x, g.weight("q2", embed, embed)), k, v, row(g, "bias2", 3 * embed), num_heads=heads)
    return g.op("MatMul", g.op("Add", x, a), g.weight("head", embed, vocab))


def volumes(g):
    """Convolutions of volumes, whole and in groups, with strides and gaps, and their pools."""
    batch, width = 3, g.pick(2, 4)
    x = g.input("volumes", g.random.standard_normal((batch, width, 5, 6, 4)).astype(np.float32))
    x = g.op("Relu", g.op("Conv", x, g.weight("a", 4, width, 3, 3, 2), row(g, "a.bias", 4), kernel_shape=[3, 3, 2], strides=[1, 2, 1], pads=[1, 1, 0, 1, 1, 1]))
    y = g.op("Conv", x, g.weight("b", 6, 2, 2, 1, 3), kernel_shape=[2, 1, 3], dilations=[2, 1, 1], group=2, pads=[1, 0, 1, 1, 0, 1])
    y = g.op("MaxPool", y, kernel_shape=[2, 2, 2], strides=[2, 1, 2])
    y = g.op("AveragePool", y, kernel_shape=[2, 1, 2], strides=[1, 1, 1])
    y = g.op("Flatten", y)
    return g.op("MatMul", y, g.weight("head", int(g.run(y).shape[1]), 5))


LAYERS = [dilations, transposed, sizes, recurrent, volumes, fused_bert, fused_gpt2, fused_llama, fused_t5]
