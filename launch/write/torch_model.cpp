// SPDX-License-Identifier: Apache-2.0
#include "launch/write/torch_model.h"

#include "launch/write/script.h"

namespace meshwright {

namespace {

const char* python_bool(bool value) { return value ? "True" : "False"; }

std::string scaled_rotation(const Decoder& d, std::int64_t dims) {
  if (!d.rotary_scaling) return "ROTARY_DIVISORS, ROTARY_AMPLITUDE, SCORE_SCALE = [], 1.0, 1.0\n";
  const RotaryScaling& scaling = *d.rotary_scaling;
  std::string text = fmt::format("# Of a scaled rotation: {}.\n", text_of(scaling));
  text +=
      fmt::format("ROTARY_AMPLITUDE, SCORE_SCALE = {}, {}\n", decimal(scaling.amplitude), decimal(scaling.score_scale));
  std::string list;
  for (const double divisor : rotary_divisors(scaling, d.rotary_base, dims, d.seq))
    list += fmt::format("    {},\n", divisor);
  return text + "ROTARY_DIVISORS = [\n" + list + "]\n";
}

std::string constants(const Decoder& d) {
  std::string text = fmt::format("LAYERS, HIDDEN, SEQ, VOCAB = {}, {}, {}, {}\n", d.layers, d.hidden, d.seq, d.vocab);
  text += fmt::format("HEADS, KV_HEADS, HEAD_DIM, FFN = {}, {}, {}, {}\n", d.heads, d.kv_heads, d.head_dim, d.ffn);
  text += fmt::format("RMS_NORM, GATED, TIED, QK_NORM = {}, {}, {}, {}\n", python_bool(d.rms_norm),
                      python_bool(d.gated), python_bool(d.tied), python_bool(d.qk_norm));
  text += fmt::format("BIAS, QKV_BIAS, EPSILON = {}, {}, {}\n", python_bool(d.bias), python_bool(d.qkv_bias),
                      decimal(d.epsilon));
  const bool rotary = d.positions == Decoder::Positions::Rotary;
  text += fmt::format("ROTARY_BASE = {}  # 0: heads are not rotated\n", rotary ? decimal(d.rotary_base) : "0");
  const Decoder::Latent latent = d.latent.value_or(Decoder::Latent{});
  const auto turned = static_cast<std::int64_t>(d.rotary_share * static_cast<double>(d.head_dim));
  const std::int64_t rotary_dims = d.latent ? latent.rope : turned;
  text += fmt::format("ROTARY_DIMS = {}\n", rotary_dims);
  text += scaled_rotation(d, rotary_dims);
  text += fmt::format("Q_RANK, KV_RANK, NOPE, ROPE, VALUE = {}, {}, {}, {}, {}  # of latent attention\n", latent.q_rank,
                      latent.kv_rank, latent.nope, latent.rope, latent.value);
  text += fmt::format("POSITIONS = {}  # rows of the table of learned positions; 0: none\n",
                      d.positions == Decoder::Positions::Learned ? d.position_rows : 0);
  const char* activation = d.activation == Decoder::Activation::Silu      ? "F.silu"
                           : d.activation == Decoder::Activation::Relu    ? "F.relu"
                           : d.activation == Decoder::Activation::GeluErf ? "F.gelu"
                                                                          : "lambda x: F.gelu(x, approximate=\"tanh\")";
  text += fmt::format("ACTIVATION = {}\n", activation);
  const Decoder::Experts e = d.experts.value_or(Decoder::Experts{});
  text +=
      fmt::format("EXPERTS, TOP_K, EXPERT_FFN, SHARED_FFN = {}, {}, {}, {}\n", e.count, e.top_k, e.ffn, e.shared_ffn);
  std::string layers;
  for (std::int64_t layer = 0; layer < d.layers; ++layer)
    if (d.has_experts(layer)) layers += fmt::format("{}{}", layers.empty() ? "" : ", ", layer);
  return text + fmt::format("EXPERT_LAYERS = {{{}}}\n", layers.empty() ? "*()" : layers);
}

// Everything below the constants is the same for every model.
constexpr const char* kModel = R"PY(

# --- tensor parallelism over a process group; without one everything is whole ---


class _Copy(torch.autograd.Function):
    """The same value on every rank; its gradients are summed."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Sum(torch.autograd.Function):
    """The sum of the ranks' values."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def ranks(tp):
    return 1 if tp is None else dist.get_world_size(tp)


def copy(x, tp):
    return x if tp is None else _Copy.apply(x, tp)


def summed(x, tp):
    return x if tp is None else _Sum.apply(x, tp)


class RowLinear(nn.Linear):
    """Rows of the weight are split; the results are summed, and the bias is added once."""

    def __init__(self, inputs, outputs, bias, tp):
        super().__init__(inputs // ranks(tp), outputs, bias=bias)
        self.tp = tp

    def forward(self, x):
        if self.tp is None:
            return super().forward(x)
        x = summed(F.linear(x, self.weight), self.tp)
        return x if self.bias is None else x + self.bias


# --- the model ---


def norm():
    return nn.RMSNorm(HIDDEN, eps=EPSILON) if RMS_NORM else nn.LayerNorm(HIDDEN, eps=EPSILON)


def rope_table(length, device):
    """cos and sin of every position, (length, ROTARY_DIMS)."""
    powers = torch.arange(0, ROTARY_DIMS, 2, device=device, dtype=torch.float32) / ROTARY_DIMS
    turns = ROTARY_BASE**-powers
    if ROTARY_DIVISORS:
        turns = turns / torch.tensor(ROTARY_DIVISORS, device=device)
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), turns)
    angles = torch.cat((angles, angles), dim=-1)
    return ROTARY_AMPLITUDE * angles.cos(), ROTARY_AMPLITUDE * angles.sin()


def rotate(x, cos, sin):
    """x: (batch, heads, length, head_dim)."""
    turned, rest = x[..., :ROTARY_DIMS], x[..., ROTARY_DIMS:]
    half = torch.cat((-turned[..., ROTARY_DIMS // 2 :], turned[..., : ROTARY_DIMS // 2]), dim=-1)
    return torch.cat((turned * cos.to(x.dtype) + half * sin.to(x.dtype), rest), dim=-1)


class Attention(nn.Module):
    def __init__(self, tp=None):
        super().__init__()
        heads, kv_heads = HEADS // ranks(tp), max(1, KV_HEADS // ranks(tp))
        self.tp, self.grouped = tp, HEADS != KV_HEADS
        self.q = nn.Linear(HIDDEN, heads * HEAD_DIM, bias=QKV_BIAS)
        self.k = nn.Linear(HIDDEN, kv_heads * HEAD_DIM, bias=QKV_BIAS)
        self.v = nn.Linear(HIDDEN, kv_heads * HEAD_DIM, bias=QKV_BIAS)
        self.o = RowLinear(HEADS * HEAD_DIM, HIDDEN, BIAS, tp)
        if QK_NORM:
            self.q_norm, self.k_norm = nn.RMSNorm(HEAD_DIM, eps=EPSILON), nn.RMSNorm(HEAD_DIM, eps=EPSILON)

    def forward(self, x, rope):
        batch, length, _ = x.shape
        x = copy(x, self.tp)
        q, k, v = (one(x).view(batch, length, -1, HEAD_DIM) for one in (self.q, self.k, self.v))
        if QK_NORM:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        if ROTARY_BASE:
            q, k = rotate(q, *rope), rotate(k, *rope)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        return self.o(x.transpose(1, 2).reshape(batch, length, -1))


class LatentAttention(nn.Module):
    """Keys and values of all heads are made from one small vector per token. Of every head ROPE dimensions are rotated;
    those of the key are the same for all heads."""

    def __init__(self, tp=None):
        super().__init__()
        self.tp, heads = tp, HEADS // ranks(tp)
        if Q_RANK:
            self.q_down, self.q_norm = nn.Linear(HIDDEN, Q_RANK, bias=False), nn.RMSNorm(Q_RANK, eps=EPSILON)
        self.q = nn.Linear(Q_RANK or HIDDEN, heads * (NOPE + ROPE), bias=False)
        self.kv_down, self.kv_norm = nn.Linear(HIDDEN, KV_RANK + ROPE, bias=False), nn.RMSNorm(KV_RANK, eps=EPSILON)
        self.k = nn.Linear(KV_RANK, heads * NOPE, bias=False)
        self.v = nn.Linear(KV_RANK, heads * VALUE, bias=False)
        self.o = RowLinear(HEADS * VALUE, HIDDEN, False, tp)

    def forward(self, x, rope):
        batch, length, _ = x.shape
        q = self.q_norm(self.q_down(x)) if Q_RANK else x
        kv, shared = self.kv_down(x).split((KV_RANK, ROPE), dim=-1)
        q, kv, shared = copy(q, self.tp), copy(self.kv_norm(kv), self.tp), copy(shared, self.tp)
        q = self.q(q).view(batch, length, -1, NOPE + ROPE).transpose(1, 2)
        k = self.k(kv).view(batch, length, -1, NOPE).transpose(1, 2)
        v = self.v(kv).view(batch, length, -1, VALUE).transpose(1, 2)
        q = torch.cat((q[..., :NOPE], rotate(q[..., NOPE:], *rope)), dim=-1)
        k = torch.cat((k, rotate(shared[:, None], *rope).expand(-1, k.shape[1], -1, -1)), dim=-1)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCORE_SCALE * q.shape[-1] ** -0.5)
        return self.o(x.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, width=FFN, tp=None):
        super().__init__()
        self.tp = tp
        if GATED:
            self.gate = nn.Linear(HIDDEN, width // ranks(tp), bias=BIAS)
        self.up = nn.Linear(HIDDEN, width // ranks(tp), bias=BIAS)
        self.down = RowLinear(width, HIDDEN, BIAS, tp)

    def forward(self, x):
        x = copy(x, self.tp)
        return self.down(ACTIVATION(self.gate(x)) * self.up(x) if GATED else ACTIVATION(self.up(x)))


class Experts(nn.Module):
    """Every token goes to TOP_K experts, in turn: an even load, as it is predicted. The router weighs the results."""

    def __init__(self, tp=None):
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts = nn.ModuleList(FeedForward(EXPERT_FFN, tp) for _ in range(EXPERTS))

    def forward(self, x):
        flat = x.reshape(-1, HIDDEN)
        scores = self.router(flat).softmax(dim=-1)
        tokens = torch.arange(flat.shape[0], device=x.device)
        result = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            own = tokens[((e - tokens * TOP_K) % EXPERTS) < TOP_K]
            result = result.index_add(0, own, expert(flat[own]) * scores[own, e, None].to(flat.dtype))
        return result.view_as(x)


class Block(nn.Module):
    """`experts` makes the layer of experts, where the framework has one of its own."""

    def __init__(self, layer, tp=None, experts=Experts):
        super().__init__()
        self.attention_norm, self.ffn_norm = norm(), norm()
        self.attention = LatentAttention(tp) if KV_RANK else Attention(tp)
        self.shared = FeedForward(SHARED_FFN, tp) if layer in EXPERT_LAYERS and SHARED_FFN else None
        self.ffn = experts(tp) if layer in EXPERT_LAYERS else FeedForward(FFN, tp)

    def forward(self, x, rope=None):
        if rope is None and ROTARY_BASE:
            rope = rope_table(x.shape[1], x.device)
        x = x + self.attention(self.attention_norm(x), rope)
        y = self.ffn_norm(x)
        z = self.ffn(y)
        z = z[0] if isinstance(z, tuple) else z
        return x + z if self.shared is None else x + z + self.shared(y)


class Embedding(nn.Module):
    """The words are split where they divide."""

    def __init__(self, tp=None):
        super().__init__()
        self.tp = tp if VOCAB % ranks(tp) == 0 else None
        self.weight = nn.Parameter(torch.empty(VOCAB // ranks(self.tp), HIDDEN))
        nn.init.normal_(self.weight, std=0.02)
        if POSITIONS:
            self.positions = nn.Parameter(torch.empty(POSITIONS, HIDDEN))
            nn.init.normal_(self.positions, std=0.02)

    def forward(self, tokens):
        if self.tp is None:
            x = F.embedding(tokens, self.weight)
        else:
            own = tokens - dist.get_rank(self.tp) * self.weight.shape[0]
            here = (own >= 0) & (own < self.weight.shape[0])
            x = summed(F.embedding(own.clamp(0, self.weight.shape[0] - 1), self.weight) * here[..., None], self.tp)
        return x + self.positions[: x.shape[1]] if POSITIONS else x


class Head(nn.Module):
    """The last norm and the product with the words, of which every rank has its own."""

    def __init__(self, tp=None, tied=None):
        super().__init__()
        self.tp = tp if VOCAB % ranks(tp) == 0 else None
        self.norm = norm()
        self.weight = tied if tied is not None else nn.Parameter(torch.empty(VOCAB // ranks(self.tp), HIDDEN))
        if tied is None:
            nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        return F.linear(copy(self.norm(x), self.tp), self.weight)


def loss_of(logits, labels, tp=None):
    """Mean cross entropy; `logits` are of the rank's own words."""
    logits, labels = logits.float().flatten(0, 1), labels.flatten()
    if tp is None or VOCAB % ranks(tp) != 0:
        return F.cross_entropy(logits, labels)
    largest = logits.detach().max(dim=-1).values
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=tp)
    logits = logits - largest[:, None]
    own = labels - dist.get_rank(tp) * logits.shape[-1]
    here = (own >= 0) & (own < logits.shape[-1])
    picked = logits.gather(-1, own.clamp(0, logits.shape[-1] - 1)[:, None])[:, 0] * here
    return (summed(logits.exp().sum(dim=-1), tp).log() - summed(picked, tp)).mean()


class Model(nn.Module):
    def __init__(self, tp=None, experts=Experts):
        super().__init__()
        self.embedding = Embedding(tp)
        self.blocks = nn.ModuleList(Block(layer, tp, experts) for layer in range(LAYERS))
        self.head = Head(tp, self.embedding.weight if TIED else None)
        # Held here, so that context parallelism can split them as it splits the tokens.
        for name, table in zip(("cos", "sin"), rope_table(SEQ, None) if ROTARY_BASE else (None, None)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, (self.cos, self.sin))
        return self.head(x)


def random_batch(samples, device):
    tokens = torch.randint(VOCAB, (samples, SEQ + 1), device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class StepClock:
    """Prints what every step took, and at the end the median without the first five."""

    def __init__(self, tokens, rank):
        self.tokens, self.rank, self.times = tokens, rank, []
        self.start()

    def start(self):
        torch.cuda.synchronize()
        self.began = time.perf_counter()

    def stop(self):
        torch.cuda.synchronize()
        took = time.perf_counter() - self.began
        self.times.append(took)
        if self.rank == 0:
            peak = torch.cuda.max_memory_reserved() / 2**30
            print(f"step {len(self.times)}: {took * 1e3:.3f} ms, {self.tokens / took:.6g} tokens/s, {peak:.2f} GiB", flush=True)
        self.start()

    def report(self):
        if self.rank == 0 and len(self.times) > 5:
            print(f"median step after 5: {statistics.median(self.times[5:]) * 1e3:.3f} ms", flush=True)
)PY";

}  // namespace

LaunchFile torch_model(const LaunchJob& job) {
  std::string text = commented(heading(job));
  text += "\"\"\"The plan's model in plain PyTorch: random weights, random tokens.\"\"\"\n";
  text += "import statistics\nimport time\n\nimport torch\nimport torch.distributed as dist\n";
  text += "import torch.nn.functional as F\nfrom torch import nn\n\n";
  text += constants(decoder_of(job.setup.model)) + kModel;
  return {"model.py", text, false, "the model in plain PyTorch"};
}

std::string training_constants(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  const char* type = setup.dtype == DType::BF16 ? "bfloat16" : setup.dtype == DType::F16 ? "float16" : "float32";
  const int shard = d.zero == 0 ? 1 : setup.shard.value_or(d.dp);
  std::string text = fmt::format("DP_REPLICATE, DP_SHARD, CP, TP, PP, EP = {}, {}, {}, {}, {}, {}\n", d.dp / shard,
                                 shard, d.cp, d.tp, d.pp, d.ep);
  text += fmt::format("ZERO = {}\nMICRO_BATCH, MICRO_BATCHES, STEPS = {}, {}, {}\n", d.zero, d.micro_batch,
                      d.micro_batches, setup.steps);
  text += fmt::format("DTYPE = torch.{}\nRECOMPUTE = {}\n", type, python_bool(d.recompute == Recompute::Full));
  const Optimizer& o = setup.optimizer;
  text += fmt::format("LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = {}, {}, {}\n", decimal(o.learning_rate),
                      decimal(o.weight_decay), decimal(o.max_norm));
  if (o.kind == Optimizer::Kind::Adam)
    // Parameters on different meshes cannot be updated in one call.
    text += fmt::format(
        "OPTIMIZER = functools.partial(torch.optim.AdamW, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, {})\n",
        d.tp > 1 ? "foreach=False" : "fused=True");
  else
    text += fmt::format(
        "OPTIMIZER = functools.partial(torch.optim.SGD, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, "
        "momentum={})\n",
        decimal(o.kind == Optimizer::Kind::Momentum ? o.momentum : 0.0));
  return text;
}

}  // namespace meshwright
