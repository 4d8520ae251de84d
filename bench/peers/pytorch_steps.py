#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training steps that `meshwright run` takes on one GPU or on a processor, in PyTorch: one JSON line per case and mode.

    bench/peers/pytorch_steps.py gpt:layers=12,hidden=768,heads=12,seq=1024,vocab=51200@32 [--modes eager,compile] [--steps 10]

A case is MODEL@BATCH, the model in Meshwright's own spelling (families gpt, bert, moe, llama, wresnet, vit). The recipe is what a user of
the framework would write: float32 weights, torch.autocast(bfloat16) on a GPU and float32 on a processor, as `meshwright run` computes there,
scaled_dot_product_attention, fused AdamW, channels_last for images; `compile` adds torch.compile. Steps follow each other without a wait
between them; the time is that of all of them over their number. --threads: of a processor, for the ops of a step.
With --flops FLOPS,... (of a step, one per case, as `meshwright plan --json` counts them) and --peak TFLOPS also the share of that peak.
Exit code 4 where there is no PyTorch or no such device.
"""
import argparse
import contextlib
import fcntl
import gc
import json
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    print(f"pytorch_steps.py: {sys.executable} has no PyTorch; install it there, or run this with a Python that has it.", file=sys.stderr)
    sys.exit(4)

TINY = ["gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128@2", "bert:layers=2,hidden=64,heads=4,seq=32,vocab=128@2", "moe:layers=2,hidden=64,heads=4,experts=4,seq=32,vocab=128@2",
        "llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128@2",
        "wresnet:layers=50,channels=8,width=2,image=32,classes=10@2",
        "vit:layers=2,hidden=64,heads=4,image=32,patch=16,classes=10@2"]


def lower(tensor):
    """The type that products compute in on the tensor's device."""
    return torch.bfloat16 if tensor.device.type == "cuda" else torch.float32


class GptAttention(nn.Module):
    """Queries alone have a bias: the others' change nothing."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.query_bias = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q + self.query_bias.to(q.dtype), k, v))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class GptFeedForward(nn.Module):
    def __init__(self, hidden, factor):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, factor * hidden)
        self.down = nn.Linear(factor * hidden, hidden)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class BertBlock(nn.Module):
    """Norms come after the sums."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=1e-12), nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        x = self.norm1(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Learned positions, one token type in use, and the masked-word head on every position, tied to the embedding."""

    def __init__(self, sizes):
        super().__init__()
        hidden = sizes["hidden"]
        self.words = nn.Embedding(sizes["vocab"], hidden)
        nn.init.normal_(self.words.weight, std=0.02)
        self.positions, self.types = nn.Embedding(sizes["seq"], hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.blocks = nn.Sequential(*(BertBlock(hidden, sizes["heads"]) for _ in range(sizes["layers"])))
        self.transform, self.head_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, eps=1e-12)
        self.head_bias = nn.Parameter(torch.zeros(sizes["vocab"]))

    def forward(self, tokens):
        x = self.norm(self.words(tokens) + self.positions.weight + self.types(torch.zeros_like(tokens)))
        x = self.head_norm(F.gelu(self.transform(self.blocks(x))))
        return F.linear(x, self.words.weight, self.head_bias)


class GshardMixture(nn.Module):
    """Two experts per token; groups of tokens are given to experts and back by products with a mask."""

    def __init__(self, hidden, experts, group):
        super().__init__()
        self.experts, self.group = experts, group
        self.norm = nn.LayerNorm(hidden)
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, hidden, 8 * hidden) * 0.02)
        self.up_bias = nn.Parameter(torch.zeros(experts, 1, 1, 8 * hidden))
        self.down = nn.Parameter(torch.randn(experts, 8 * hidden, hidden) * 0.02)

    def forward(self, x):
        batch, seq, hidden = x.shape
        samples = max(1, min(batch, self.group // seq))
        while batch % samples:
            samples -= 1
        tokens = min(self.group, samples * seq)
        a = self.norm(x).reshape(-1, tokens, hidden)
        capacity = max(1, 2 * tokens // self.experts)
        scores = self.router(a).float().softmax(-1)
        mask = torch.zeros_like(scores).scatter(-1, scores.detach().topk(2, dim=-1).indices, 1.0)
        slot = mask.cumsum(1) - mask
        mask = mask * (slot < capacity)
        weights = scores * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
        slots = torch.arange(capacity, device=x.device)
        dispatch = ((slot.unsqueeze(-1) == slots) & (mask.unsqueeze(-1) > 0)).to(lower(x))  # (group, token, expert, capacity)
        sent = torch.einsum("gtec,gth->egch", dispatch, a.to(lower(x)))
        inner = F.relu(torch.einsum("egch,ehm->egcm", sent, self.up) + self.up_bias.to(lower(x)))
        made = torch.einsum("egcm,emh->egch", inner, self.down)
        combine = weights.to(lower(x)).unsqueeze(-1) * dispatch
        return x + torch.einsum("gtec,egch->gth", combine, made).reshape(batch, seq, hidden)


class Gpt(nn.Module):
    """Without positions and without a last norm, the head tied to the embedding: what the published sizes are sums of."""

    def __init__(self, sizes, moe=False):
        super().__init__()
        hidden, heads = sizes["hidden"], sizes["heads"]
        self.embed = nn.Embedding(sizes["vocab"], hidden)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.head_bias = nn.Parameter(torch.zeros(sizes["vocab"]))
        blocks = []
        for layer in range(sizes["layers"]):
            mixture = moe and layer % 2 == 0
            inner = GshardMixture(hidden, sizes["experts"], sizes.get("group", 2048)) if mixture else GptFeedForward(hidden, 8 if moe else 4)
            blocks += [GptAttention(hidden, heads), inner]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, tokens):
        return F.linear(self.blocks(self.embed(tokens)), self.embed.weight, self.head_bias)


class LlamaBlock(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden, self.heads, self.kv_heads = sizes["hidden"], sizes["heads"], sizes["kv_heads"]
        self.head_dim = hidden // self.heads
        self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * sizes["intermediate"], bias=False)
        self.down = nn.Linear(sizes["intermediate"], hidden, bias=False)

    def forward(self, x, cos, sin):
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)

        def rotate(t):
            first, second = t.chunk(2, dim=-1)
            return t * cos + torch.cat((-second, first), dim=-1) * sin

        a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden = sizes["hidden"]
        self.embed = nn.Embedding(sizes["vocab"], hidden)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(LlamaBlock(sizes) for _ in range(sizes["layers"]))
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.head = nn.Linear(hidden, sizes["vocab"], bias=False)
        head_dim = hidden // sizes["heads"]
        angles = torch.outer(torch.arange(sizes["seq"]), 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)).repeat(1, 2)
        self.register_buffer("cos", angles.cos().to(lower(angles)))
        self.register_buffer("sin", angles.sin().to(lower(angles)))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def convolution(inputs, outputs, size, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, base, width, stride, first):
        super().__init__()
        self.inner = nn.Sequential(convolution(inputs, base, 1), nn.ReLU(), convolution(base, base * width, 3, stride), nn.ReLU(),
                                   convolution(base * width, base * 4, 1))
        self.shortcut = convolution(inputs, base * 4, 1, stride) if first else nn.Identity()

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.inner(x))


def wide_resnet(sizes):
    channels = inputs = sizes["channels"]
    layers = [convolution(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, blocks in enumerate({50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}[sizes["layers"]]):
        base = channels << stage
        for i in range(blocks):
            layers.append(Bottleneck(inputs, base, sizes["width"], 2 if i == 0 and stage > 0 else 1, i == 0))
            inputs = 4 * base
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, sizes["classes"]))


class VitBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=1e-6), nn.LayerNorm(hidden, eps=1e-6)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Vit(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden, patch = sizes["hidden"], sizes["patch"]
        self.patches = nn.Conv2d(3, hidden, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.positions = nn.Parameter(torch.randn(1, (sizes["image"] // patch) ** 2 + 1, hidden) * 0.02)
        self.blocks = nn.Sequential(*(VitBlock(hidden, sizes["heads"]) for _ in range(sizes["layers"])))
        self.norm = nn.LayerNorm(hidden, eps=1e-6)
        self.head = nn.Linear(hidden, sizes["classes"])

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1).to(x.dtype), x), dim=1) + self.positions.to(x.dtype)
        return self.head(self.norm(self.blocks(x))[:, 0])


IMAGES = ("wresnet", "vit")  # families of them
FAMILIES = {"gpt": Gpt, "bert": Bert, "moe": lambda sizes: Gpt(sizes, moe=True), "llama": Llama, "wresnet": wide_resnet, "vit": Vit}


def parse(case):
    """'gpt:layers=2,...@8' -> family, sizes, batch."""
    try:
        model, batch = case.rsplit("@", 1)
        family, keys = model.split(":", 1)
        sizes = {key: int(value) for key, value in (pair.split("=") for pair in keys.split(","))}
        if family not in FAMILIES:
            raise ValueError
        return model, family, sizes, int(batch)
    except ValueError:
        print(f"pytorch_steps.py: case '{case}': expected FAMILY:KEY=NUMBER,...@BATCH with one of the families {', '.join(FAMILIES)}.",
              file=sys.stderr)
        sys.exit(2)


def samples(family, sizes, batch, device):
    if family in IMAGES:
        images = torch.randn(batch, 3, sizes["image"], sizes["image"], device=device).to(memory_format=torch.channels_last)
        return images, torch.randint(sizes["classes"], (batch,), device=device)
    tokens = torch.randint(sizes["vocab"], (batch, sizes["seq"] + 1), device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


@contextlib.contextmanager
def alone(lock):
    """While it holds the file `lock`: processes compile side by side, and use the device for what is timed one at a time."""
    if not lock:
        yield
        return
    with open(lock, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(case, mode, arguments):
    """The rows of one case: one, or with --on-request one when it is ready and one for each line that is asked."""
    model_name, family, sizes, batch = parse(case)
    device = arguments.device
    if mode == "compile":
        torch.compiler.reset()
    torch.manual_seed(1)
    with torch.device(device):
        model = FAMILIES[family](sizes)
    if family in IMAGES:
        model = model.to(memory_format=torch.channels_last)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    run = torch.compile(model) if mode == "compile" else model
    inputs, labels = samples(family, sizes, batch, device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def row_of(seconds, last):
        row = {"model": model_name, "batch": batch, "mode": mode, "parameters": parameters, "step_time_s": seconds,
               "samples_per_s": batch / seconds, "losses": [first, last]}
        if "seq" in sizes:
            row["tokens_per_s"] = batch * sizes["seq"] / seconds
        if device == "cuda":
            row["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
        return row

    def step():
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            out = run(inputs)
            loss = F.cross_entropy(out.flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    first = step().item()
    if arguments.on_request:
        for _ in range(arguments.warmup - 1):
            step()
        yield {"model": model_name, "batch": batch, "mode": mode, "parameters": parameters, "threads": torch.get_num_threads()}
    for _ in sys.stdin if arguments.on_request else [None]:
        with alone(arguments.lock):
            for _ in range(1 if arguments.on_request else arguments.warmup - 1):
                step()
            finish(device)
            begin = time.perf_counter()
            for _ in range(arguments.steps):
                last = step()
            finish(device)
            seconds = (time.perf_counter() - begin) / arguments.steps
        yield row_of(seconds, last.item())


def attempt(case, mode, flops, arguments):
    """One case's lines; what it fails with is a line as well."""
    try:
        for row in measure(case, mode, arguments):
            if flops and arguments.peak and "step_time_s" in row:
                row["mfu"] = flops / row["step_time_s"] / (arguments.peak * 1e12)
            yield row
    except Exception as failure:  # frameworks raise what they like: out of memory, a compiler that is missing
        model, _, _, batch = parse(case)
        said = " ".join(line.strip() for line in str(failure).strip().splitlines()[:3])[:300]
        yield {"model": model, "batch": batch, "mode": mode, "error": f"{type(failure).__name__}: {said}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="MODEL@BATCH")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--flops", default="", help="of one step of each case, with commas between")
    parser.add_argument("--peak", type=float, default=0.0, help="TFLOPS of the device")
    parser.add_argument("--threads", type=int, default=0, help="of the processor (default: PyTorch's)")
    parser.add_argument("--lock", default="", help="a file to lock while steps are timed, where several of these run side by side")
    parser.add_argument("--on-request", action="store_true", help="of one case: prepare, then time --steps for each line on standard input")
    parser.add_argument("--tiny", action="store_true", help="small models instead: do the cases work at all?")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("pytorch_steps.py: PyTorch sees no GPU; run this where there is one, or add --device cpu --tiny.", file=sys.stderr)
        return 4
    cases = TINY if arguments.tiny else arguments.cases
    flops = [float(f) for f in arguments.flops.split(",")] if arguments.flops else [0.0] * len(cases)
    modes = arguments.modes.split(",")
    if not cases or len(flops) != len(cases) or not set(modes) <= {"eager", "compile"} or min(arguments.steps, arguments.warmup) < 1:
        parser.error("give at least one MODEL@BATCH, --modes of eager and compile, as many --flops as cases, and --steps and --warmup of 1 or more")
    if arguments.on_request and len(cases) * len(modes) != 1:
        parser.error("--on-request takes one case and one mode")
    for case in cases:
        parse(case)
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    for mode in modes:  # the slow ones last
        for case, count in zip(cases, flops):
            for row in attempt(case, mode, count, arguments):
                row["torch"] = torch.__version__
                if arguments.device == "cuda":
                    row["device"] = torch.cuda.get_device_name()
                print(json.dumps(row), flush=True)
            if arguments.device == "cuda":
                gc.collect()
                torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
