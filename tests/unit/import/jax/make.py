# SPDX-License-Identifier: Apache-2.0
"""Writes the HLO texts beside it and prints the losses that JAX computes: those in hlo_numbers_test.cpp.

Needs JAX 0.10 or later: python3 make.py. Weights are sines of their index, with a phase that their path tells; scales of norms
have 1 added. Run with another folder as argument, it writes there.
"""
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

FOLDER = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
BATCH, SEQ, WIDTH, HEADS, KV_HEADS, MLP, VOCAB, LAYERS = 2, 8, 32, 4, 2, 64, 50, 3
HEAD = WIDTH // HEADS
SCALES = ("ln1", "ln2", "norm", "gain", "gain1", "gain2")


def filled(shapes):
    """Numbers for a tree of shapes."""
    def leaf(path, shape):
        words = re.findall("[A-Za-z0-9]+", jax.tree_util.keystr(path))
        wave = 0.3 * np.sin(0.37 * np.arange(np.prod(shape)) + 1.3 * (sum(map(ord, ".".join(words))) % 97))
        return jnp.array(wave.reshape(shape) + (words[-1] in SCALES), jnp.float32)
    return jax.tree_util.tree_map_with_path(leaf, shapes, is_leaf=lambda node: isinstance(node, tuple))


IDS = jnp.array((7 * np.arange(BATCH * SEQ) + 3) % VOCAB, jnp.int32).reshape(BATCH, SEQ)
LABELS = jnp.array((5 * np.arange(BATCH * SEQ) + 1) % VOCAB, jnp.int32).reshape(BATCH, SEQ)
CAUSAL = jnp.tril(jnp.ones((SEQ, SEQ), bool))


def picked(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))


# --- scanned and recomputed layers, grouped heads, rotary embedding; a whole step of SGD ---

def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotary(x):
    half = HEAD // 2
    angles = jnp.arange(SEQ)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cosines, sines = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cosines - second * sines, second * cosines + first * sines], -1)


def llama_layer(x, layer):
    h = rms_norm(x, layer["ln1"])
    q = rotary((h @ layer["wq"]).reshape(BATCH, SEQ, HEADS, HEAD)).reshape(BATCH, SEQ, KV_HEADS, HEADS // KV_HEADS, HEAD)
    k = rotary((h @ layer["wk"]).reshape(BATCH, SEQ, KV_HEADS, HEAD))
    v = (h @ layer["wv"]).reshape(BATCH, SEQ, KV_HEADS, HEAD)
    scores = jnp.where(CAUSAL, jnp.einsum("bskgd,btkd->bkgst", q, k) / jnp.sqrt(HEAD), -1e9)
    x = x + jnp.einsum("bkgst,btkd->bskgd", jax.nn.softmax(scores), v).reshape(BATCH, SEQ, WIDTH) @ layer["wo"]
    h = rms_norm(x, layer["ln2"])
    return x + (jax.nn.silu(h @ layer["w1"]) * (h @ layer["w3"])) @ layer["w2"], None


def llama_loss(p, ids, labels):
    x, _ = jax.lax.scan(jax.checkpoint(llama_layer), p["emb"][ids], p["layers"])
    return picked(rms_norm(x, p["norm"]) @ p["head"], labels)


def llama_step(p, ids, labels):
    loss, gradients = jax.value_and_grad(llama_loss)(p, ids, labels)
    return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, p, gradients), loss


LLAMA = {
    "emb": (VOCAB, WIDTH), "norm": (WIDTH,), "head": (WIDTH, VOCAB),
    "layers": {"ln1": (LAYERS, WIDTH), "ln2": (LAYERS, WIDTH), "wq": (LAYERS, WIDTH, WIDTH), "wk": (LAYERS, WIDTH, KV_HEADS * HEAD),
               "wv": (LAYERS, WIDTH, KV_HEADS * HEAD), "wo": (LAYERS, WIDTH, WIDTH), "w1": (LAYERS, WIDTH, MLP),
               "w3": (LAYERS, WIDTH, MLP), "w2": (LAYERS, MLP, WIDTH)}}


# --- layer norms in two forms, biases, tied embedding, a fused projection, the exact GELU, log-sum-exp ---

def layer_norm(x, scale, bias):
    mean, variance = x.mean(-1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def folded_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    factor = jax.lax.rsqrt((x * x).mean(-1, keepdims=True) - mean * mean + 1e-5) * scale
    return x * factor + (bias - mean * factor)


def gpt_loss(p, ids, labels):
    x = p["wte"][ids] + p["wpe"][None, :SEQ]
    for layer in p["h"]:
        h = layer_norm(x, layer["gain1"], layer["bias1"])
        q, k, v = [part.reshape(BATCH, SEQ, HEADS, HEAD).transpose(0, 2, 1, 3)
                   for part in jnp.split(h @ layer["wqkv"] + layer["bqkv"], 3, -1)]
        scores = jnp.where(CAUSAL[None, None], q @ k.transpose(0, 1, 3, 2) * (1 / np.sqrt(HEAD)), jnp.finfo(jnp.float32).min)
        x = x + (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(BATCH, SEQ, WIDTH) @ layer["wo"] + layer["bo"]
        h = folded_norm(x, layer["gain2"], layer["bias2"])
        x = x + jax.nn.gelu(h @ layer["wu"] + layer["bu"], approximate=False) @ layer["wd"] + layer["bd"]
    logits = layer_norm(x, p["gain"], p["bias"]) @ p["wte"].T
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0])


GPT = {
    "wte": (VOCAB, WIDTH), "wpe": (SEQ, WIDTH), "gain": (WIDTH,), "bias": (WIDTH,),
    "h": [{"gain1": (WIDTH,), "bias1": (WIDTH,), "wqkv": (WIDTH, 3 * WIDTH), "bqkv": (3 * WIDTH,), "wo": (WIDTH, WIDTH),
           "bo": (WIDTH,), "gain2": (WIDTH,), "bias2": (WIDTH,), "wu": (WIDTH, MLP), "bu": (MLP,), "wd": (MLP, WIDTH),
           "bd": (WIDTH,)} for _ in range(2)]}


# --- convolutions with the channels last, batch norm, pooling; labels as one-hot rows ---

def cnn_loss(p, images, labels):
    def convolved(x, weight, stride):
        return jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    h = convolved(images, p["c1"], 1)
    mean = h.mean((0, 1, 2))
    h = jax.nn.relu((h - mean) / jnp.sqrt(((h - mean) ** 2).mean((0, 1, 2)) + 1e-5) * p["gain"] + p["bias"])
    h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    h = jax.nn.relu(convolved(h, p["c2"], 2)).mean((1, 2))
    return -jnp.sum(jax.nn.one_hot(labels, 5) * jax.nn.log_softmax(h @ p["wd"] + p["bd"])) / BATCH


CNN = {"c1": (3, 3, 3, 8), "gain": (8,), "bias": (8,), "c2": (3, 3, 8, 16), "wd": (16, 5), "bd": (5,)}


# --- convolutions with gaps between the elements of a window, and between those of an image ---

def spread_loss(p, images, labels):
    names = ("NHWC", "HWIO", "NHWC")
    h = jax.nn.relu(jax.lax.conv_general_dilated(images, p["c1"], (2, 2), "SAME", dimension_numbers=names))
    h = jax.nn.relu(jax.lax.conv_general_dilated(h, p["c2"], (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=names))
    h = jax.nn.relu(jax.lax.conv_transpose(h, p["t1"], (2, 2), "SAME", dimension_numbers=names))
    h = jax.nn.relu(jax.lax.conv_transpose(h, p["t2"], (2, 2), "VALID", dimension_numbers=names)).mean((1, 2))
    return -jnp.sum(jax.nn.one_hot(labels, 5) * jax.nn.log_softmax(h @ p["wd"] + p["bd"])) / BATCH


SPREAD = {"c1": (3, 3, 3, 4), "c2": (3, 3, 4, 4), "t1": (3, 3, 4, 4), "t2": (2, 2, 4, 6), "wd": (6, 5), "bd": (5,)}


# --- experts that all see each token ---

def moe_loss(p, ids, labels):
    x = p["emb"][ids]
    gates = jax.nn.softmax(x @ p["gate"])
    experts = jnp.einsum("bsef,efd->bsed", jax.nn.silu(jnp.einsum("bsd,edf->bsef", x, p["w1"])), p["w2"])
    return picked((x + jnp.einsum("bsed,bse->bsd", experts, gates)) @ p["head"], labels)


MOE = {"emb": (VOCAB, WIDTH), "gate": (WIDTH, 4), "w1": (4, WIDTH, MLP), "w2": (4, MLP, WIDTH), "head": (WIDTH, VOCAB)}


# --- experts that two choices of each token go to, by masks; three slots each, which do not suffice ---

SLOTS = 3


def masks_of(scores):
    best, where = jax.lax.top_k(scores, 2)
    best = best / best.sum(-1, keepdims=True)
    sent = combined = 0.0
    before = jnp.zeros((BATCH, 1, 4))
    for k in range(2):
        hot = jax.nn.one_hot(where[..., k], 4)
        count = jnp.cumsum(hot, 1) + before
        before = before + hot.sum(1, keepdims=True)
        slot = jax.nn.one_hot(((count * hot).sum(-1) - 1).astype(jnp.int32), SLOTS)
        mask = (hot * (count <= SLOTS))[..., None] * slot[:, :, None, :]
        sent, combined = sent + mask, combined + mask * best[..., k][..., None, None]
    return sent, combined


def routed_loss(p, ids, labels):
    x = p["emb"][ids]
    sent, combined = masks_of(jax.nn.softmax(x @ p["gate"]))
    inner = jax.nn.relu(jnp.einsum("becd,edf->becf", jnp.einsum("bsec,bsd->becd", sent, x), p["w1"]))
    made = jnp.einsum("becf,efd->becd", inner, p["w2"])
    return picked((x + jnp.einsum("bsec,becd->bsd", combined, made)) @ p["head"], labels)


# --- jax.nn.dot_product_attention of padded sequences: a group of two queries for each key, causal; single heads ---

MASK = jnp.array(np.arange(SEQ)[None] < np.array([SEQ, 5])[:, None], jnp.int32)


def attended_loss(p, ids, mask, labels):
    x = p["emb"][ids]
    q = (x @ p["wq"]).reshape(BATCH, SEQ, HEADS, HEAD)
    k, v = ((x @ p[name]).reshape(BATCH, SEQ, KV_HEADS, HEAD) for name in ("wk", "wv"))
    mixed = jax.nn.dot_product_attention(q, k, v, mask=(mask != 0)[:, None, None, :], is_causal=True)
    x = x + mixed.reshape(BATCH, SEQ, WIDTH) @ p["wo"]
    q, k, v = ((x @ p[name]).reshape(BATCH, SEQ, HEADS, HEAD) for name in ("uq", "uk", "uv"))
    mixed = jax.nn.dot_product_attention(q, k, v, mask=(mask != 0)[:, None, None, :])
    return picked((x + mixed.reshape(BATCH, SEQ, WIDTH) @ p["uo"]) @ p["head"], labels)


ATTENDED = {"emb": (VOCAB, WIDTH), "wq": (WIDTH, WIDTH), "wk": (WIDTH, KV_HEADS * HEAD), "wv": (WIDTH, KV_HEADS * HEAD), "wo": (WIDTH, WIDTH),
            "uq": (WIDTH, WIDTH), "uk": (WIDTH, WIDTH), "uv": (WIDTH, WIDTH), "uo": (WIDTH, WIDTH), "head": (WIDTH, VOCAB)}


# --- rotary embedding by complex numbers, by neighbours and by stacked halves; one head of keys, which the product has first ---

ANGLES = jnp.arange(SEQ)[:, None] * 10000.0 ** (-jnp.arange(HEAD // 2) / (HEAD // 2))


def turned_as_complex(x):
    pairs = x.reshape(*x.shape[:-1], HEAD // 2, 2)
    turned = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * jnp.exp(1j * ANGLES)[None, :, None]
    return jnp.stack([jnp.real(turned), jnp.imag(turned)], -1).reshape(x.shape)


def turned_by_neighbours(x):
    cosines, sines = jnp.cos(ANGLES)[None, :, None], jnp.sin(ANGLES)[None, :, None]
    even, odd = x[..., ::2], x[..., 1::2]
    return jnp.stack([even * cosines - odd * sines, odd * cosines + even * sines], -1).reshape(x.shape)


def turned_by_stacked_halves(x):
    whole = jnp.concatenate([ANGLES, ANGLES], -1)
    first, second = jnp.split(x, 2, -1)
    across = jnp.stack([-second, first], -2).reshape(x.shape)
    return x * jnp.cos(whole)[None, :, None] + across * jnp.sin(whole)[None, :, None]


def turned_loss(p, ids, labels):
    x = p["emb"][ids]
    for turned, layer in zip((turned_as_complex, turned_by_neighbours, turned_by_stacked_halves), p["h"]):
        q = turned((x @ layer["wq"]).reshape(BATCH, SEQ, HEADS, HEAD)).reshape(BATCH, SEQ, 1, HEADS, HEAD)
        k = turned((x @ layer["wk"]).reshape(BATCH, SEQ, 1, HEAD))
        v = (x @ layer["wv"]).reshape(BATCH, SEQ, 1, HEAD)
        scores = jnp.where(CAUSAL, jnp.einsum("bskd,btkgd->bkgts", k, q) / jnp.sqrt(HEAD), -1e9)
        mixed = jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores), v)
        x = x + mixed.reshape(BATCH, SEQ, WIDTH) @ layer["wo"]
    return picked(x @ p["head"], labels)


TURNED = {"emb": (VOCAB, WIDTH), "head": (WIDTH, VOCAB),
          "h": [{"wq": (WIDTH, WIDTH), "wk": (WIDTH, HEAD), "wv": (WIDTH, HEAD), "wo": (WIDTH, WIDTH)} for _ in range(3)]}


# --- experts that all see each token, weighed for the two that it chose; samples one by one, under vmap ---

def gated_loss(p, ids, labels):
    x = jax.vmap(jax.vmap(lambda one: p["emb"][one]))(ids)
    best, where = jax.lax.top_k(jax.nn.softmax(x @ p["gate"]), 2)
    gates = jnp.einsum("bske,bsk->bse", jax.nn.one_hot(where, 4), best / best.sum(-1, keepdims=True))
    experts = jnp.einsum("bsef,efd->bsed", jax.nn.silu(jnp.einsum("bsd,edf->bsef", x, p["w1"])), p["w2"])
    return picked((x + jnp.einsum("bsed,bse->bsd", experts, gates)) @ p["head"], labels)


# --- a batch of one sample each, under vmap ---

def sampled_loss(p, ids, labels):
    def of_one(ids, labels):
        x = p["emb"][ids][None]
        q, k, v = ((x @ p[name]).reshape(1, SEQ, HEADS, HEAD) for name in ("uq", "uk", "uv"))
        scores = jnp.where(CAUSAL, jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(HEAD), -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        return picked((x + mixed.reshape(1, SEQ, WIDTH) @ p["uo"]) @ p["head"], labels[None])
    return jax.vmap(of_one)(ids, labels).mean()


SAMPLED = {name: ATTENDED[name] for name in ("emb", "uq", "uk", "uv", "uo", "head")}


# --- one sample alone: with a batch of one element that is dropped, and a sequence without any batch ---

def single_loss(p, ids, labels):
    x = (p["emb"][ids] + p["pos"]).reshape(SEQ, WIDTH)
    q, k, v = ((x @ p[name]).reshape(SEQ, HEADS, HEAD) for name in ("uq", "uk", "uv"))
    scores = jnp.where(CAUSAL, jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(HEAD), -1e9)
    mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v)
    return picked((x + mixed.reshape(SEQ, WIDTH) @ p["uo"]) @ p["head"], labels[0])


SINGLE = {**SAMPLED, "pos": (1, SEQ, WIDTH)}


def sequence_loss(p, ids, labels):
    def step(h, x):
        h = jnp.tanh(x @ p["wx"] + h @ p["wh"])
        return h, h
    _, states = jax.lax.scan(step, jnp.zeros(WIDTH), p["emb"][ids] + p["pos"])
    return picked(states @ p["head"], labels)


SEQUENCE = {"emb": (VOCAB, WIDTH), "pos": (SEQ, WIDTH), "wx": (WIDTH, WIDTH), "wh": (WIDTH, WIDTH), "head": (WIDTH, VOCAB)}


# --- a step that adds up micro-batches of every second sample: sums of losses and of weights, as MaxText ---

def accumulated_step(p, ids, labels):
    def summed(p, ids, labels):
        counted = (labels != 49).astype(jnp.float32)
        scores = jax.nn.log_softmax(jnp.tanh(p["emb"][ids] @ p["wx"]) @ p["head"])
        return -(jnp.take_along_axis(scores, labels[..., None], -1)[..., 0] * counted).sum(), counted.sum()

    def add(state, rows):
        (loss, count), gradients = jax.value_and_grad(summed, has_aux=True)(p, *rows)
        return (state[0] + loss, state[1] + count, jax.tree.map(jnp.add, state[2], gradients)), None
    parts = [rows.reshape(2, 2, SEQ).swapaxes(0, 1) for rows in (ids, labels)]
    (loss, count, gradients), _ = jax.lax.scan(add, (0.0, 0.0, jax.tree.map(jnp.zeros_like, p)), parts)
    return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient / count, p, gradients), loss / count


ACCUMULATED = {"emb": (VOCAB, WIDTH), "wx": (WIDTH, WIDTH), "head": (WIDTH, VOCAB)}


def write(name, function, arguments, donated=(), samples=None):
    """`samples`: the arguments of each of a batch, where the text has one sample alone."""
    text = jax.jit(function, donate_argnums=donated).lower(*arguments).as_text(dialect="hlo")
    (FOLDER / f"{name}.hlo").write_text(text)
    losses = [function(*each) for each in samples or [arguments]]
    print(name, repr(float(np.mean([loss[1] if isinstance(loss, tuple) else loss for loss in losses]))))


write("llama_step", llama_step, (filled(LLAMA), IDS, LABELS), (0,))
write("gpt_loss", gpt_loss, (filled(GPT), IDS, LABELS))
IMAGES = jnp.array(0.3 * np.sin(0.37 * np.arange(BATCH * 8 * 8 * 3)).reshape(BATCH, 8, 8, 3), jnp.float32)
write("cnn_loss", cnn_loss, (filled(CNN), IMAGES, jnp.array((5 * np.arange(BATCH) + 1) % 5, jnp.int32)))
write("spread_loss", spread_loss, (filled(SPREAD), IMAGES, jnp.array((5 * np.arange(BATCH) + 1) % 5, jnp.int32)))
write("moe_loss", moe_loss, (filled(MOE), IDS, LABELS))
write("routed_loss", routed_loss, (filled(MOE), IDS, LABELS))
write("attended_loss", attended_loss, (filled(ATTENDED), IDS, MASK, LABELS))
write("turned_loss", turned_loss, (filled(TURNED), IDS, LABELS))
write("sampled_loss", sampled_loss, (filled(SAMPLED), IDS, LABELS))
write("gated_loss", gated_loss, (filled(MOE), IDS, LABELS))
TWICE = tuple(jnp.array((step * np.arange(2 * BATCH * SEQ) + first) % VOCAB, jnp.int32).reshape(2 * BATCH, SEQ) for step, first in ((7, 3), (5, 1)))
write("accumulated_step", accumulated_step, (filled(ACCUMULATED), *TWICE))
P = filled(SINGLE)
write("single_loss", single_loss, (P, IDS[:1], LABELS[:1]), samples=[(P, IDS[i:i + 1], LABELS[i:i + 1]) for i in range(BATCH)])
P = filled(SEQUENCE)
write("sequence_loss", sequence_loss, (P, IDS[0], LABELS[0]), samples=[(P, IDS[i], LABELS[i]) for i in range(BATCH)])
# The same as StableHLO, whose arguments have numbers for names.
(FOLDER / "routed_loss.mlir").write_text(jax.jit(routed_loss).lower(filled(MOE), IDS, LABELS).as_text())
(FOLDER / "turned_loss.mlir").write_text(jax.jit(turned_loss).lower(filled(TURNED), IDS, LABELS).as_text())
