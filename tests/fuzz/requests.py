#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws requests and holds each against what has to be true of any: requests.py MESHWRIGHT [--count N] [--seed S] [--jobs J]

A request is a plan of a random model on a random cluster with random options, right and wrong ones; what it gives is then simulated,
changed, run and explained. Of each:
- it ends with 0, 2 (one sentence that names the mistake) or 5 (a sentence that says what does not fit), never by a signal or a fault;
- a plan is in no less time than its lower bound, fits into the memory, and is simulated in the time that was promised;
- the number of threads changes no byte of the plan.
With --tiny, models of one to three layers on a few devices, of which ten take a second.
With --open, published models of up to a few billion parameters with everything left to the search, of which each takes a minute.
With --seed program, the seed is drawn from the program's bytes: another for each change of it. The seed is printed.
With --wider, N requests with one option left open instead (auto): the open one is never worse than any value of it.
With --worse, N requests on a cluster and on worse ones (slower links or devices, less memory, fewer hosts): a plan takes no longer on the better cluster.
With --strict, the search is held to it, too: no plan of a worse cluster beats the better's own by more than 0.1 %, on either.
A request that fails is printed as a command, without the options that have no part in it. Exit code 1 then.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile

LIMIT_S = 300  # of processor time
OK, WRONG, INFEASIBLE = 0, 2, 5
MISSED = 0.001  # of a step: what a search may overlook


# What else is made of a plan, each of some requests.
MADE_OF_PLANS = [["simulate", "--html", "page.html"], ["simulate", "--svg", "step.svg"], ["simulate", "--svg", "bytes.svg", "--chart", "memory"],
                 ["simulate", "--trace", "trace.json"], ["simulate", "--timeline"], ["simulate", "--report", "--json"], ["explain", "--json"],
                 ["simulate", "--write-schedule", "schedule.csv"], ["simulate", "--report", "--overlap", "--network", "fluid"]]
MADE_OF_PLANS += [["export", "--to", name, "-o", f"for-{name}"] for name in ("megatron", "megatron-bridge", "torchtitan", "deepspeed", "fsdp2", "accelerate",
                                                                             "maxtext", "jax", "alpa", "nnscaler", "flagscale")]
MADE_OF_EACH = 4


def sizes(draw, **choices):
    return ",".join(f"{key}={draw.choice(values)}" for key, values in choices.items())


def family(draw):
    """A small model: sizes that divide, and some that do not."""
    layers, hidden, seq, vocab = [1, 2, 3, 4, 5, 8], [32, 64, 96, 64, 40], [8, 16, 24, 32, 33], [32, 64, 100, 129, 1000]
    common = {"layers": layers, "hidden": hidden, "heads": [4, 4, 2, 8], "seq": seq, "vocab": vocab}
    kind = draw.choice(["gpt", "mlp", "moe", "gpt2", "bloom", "gpt_neox", "bert", "llama", "mixtral", "t5", "vit", "wresnet", "deepseek_v3"])
    if kind == "mlp":
        return "mlp:" + sizes(draw, layers=layers, hidden=hidden)
    if kind == "wresnet":
        return "wresnet:" + sizes(draw, layers=[50, 101], channels=[8, 16], width=[1, 2], image=[32, 64], classes=[10, 16])
    if kind == "vit":
        return "vit:" + sizes(draw, layers=layers, hidden=hidden, heads=[1, 2, 4], image=[32, 64], patch=[8, 16], classes=[10, 16])
    if kind in ("llama", "mixtral"):
        text = f"{kind}:" + sizes(draw, **common, kv_heads=[1, 2, 2, 4], intermediate=[64, 128, 96])
        return text + ("," + sizes(draw, experts=[2, 4, 6, 8], top_k=[1, 2]) if kind == "mixtral" else "")
    if kind == "moe":
        return "moe:" + sizes(draw, **common, experts=[2, 4, 8])
    if kind == "t5":
        return "t5:" + sizes(draw, **common, intermediate=[64, 128])
    if kind == "deepseek_v3":
        return "deepseek_v3:" + sizes(draw, **common, intermediate=[64], experts=[4, 8], top_k=[2], dense_layers=[0, 1], q_rank=[32], kv_rank=[16], nope_dim=[16],
                                      rope_dim=[8], value_dim=[16])
    return f"{kind}:" + sizes(draw, **common)


def tiny_family(draw):
    """A model that is planned in a few milliseconds."""
    kind = draw.choice(["gpt", "mlp", "mlp", "moe", "gpt2", "bloom", "gpt_neox", "bert", "llama", "mixtral", "t5"])
    common = {"layers": [1, 1, 2], "hidden": [32, 32, 40], "heads": [4, 2], "seq": [8, 16, 9], "vocab": [32, 50]}
    if kind == "mlp":
        return "mlp:" + sizes(draw, layers=[1, 2, 3], hidden=[16, 32, 24])
    if kind == "moe":
        common["experts"] = [2, 4]
    if kind in ("llama", "mixtral"):
        common.update(kv_heads=[2, 1], intermediate=[64, 48])
    if kind == "mixtral":
        common.update(experts=[2, 4], top_k=[1, 2])
    if kind == "t5":
        common["intermediate"] = [64]
    return f"{kind}:" + sizes(draw, **common)


PRESETS = ["gpt-125m", "gpt-1.3b", "gpt-6.7b", "gpt-15b", "llama-7b", "llama-3.1-8b", "bert-large", "moe-1.3b", "mixtral-8x7b", "wresnet-1b", "vit-h14", "clip-b32",
           "gpt-oss-120b", "qwen3-30b-a3b"]
CLUSTERS = ["p3.16xlarge:1", "p3.16xlarge:2", "p4d.24xlarge:1", "dgx-a100:2", "dgx-h100:1", "dgx-h100:4", "dgx-b200:1", "dgx-a100:1+p3.16xlarge:2", "gb200-nvl72:1"]
THREADS = ["cpu:1", "cpu:2", "cpu:3", "cpu:4", "cpu:6", "cpu:8", "cpu:16"]
FRAMEWORKS = ["megatron", "torchtitan", "deepspeed", "fsdp", "maxtext", "alpa"]
SCHEDULES = ["1f1b", "gpipe", "eager-1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "interleaved", "interleaved:2", "interleaved:3", "dualpipe-v", "dualpipe", "inference", "auto"]


def method(draw):
    kind = draw.choice(["pipeshard", "pipeshard", "shard", "largest", "data", "zero1", "zero2", "zero3", "zero", "megatron", "megatron", "expert", "context", "rules", "auto"])
    if kind == "zero":
        return f"zero{draw.choice([1, 2, 3])}:shard={draw.choice([1, 2, 3, 4, 8])}"
    if kind == "megatron":
        keys = {"tp": [1, 2, 4, 8, 3], "pp": [1, 2, 4, 3], "vpp": [1, 2, 3], "ep": [1, 2, 4], "cp": [1, 2, 4], "sp": [0, 1], "zero": [0, 1, 2, 3], "exact": [0, 1], "etp": [1, 2]}
        chosen = [key for key in keys if draw.random() < (0.7 if key in ("tp", "pp") else 0.2)] or ["tp"]
        return "megatron:" + sizes(draw, **{key: keys[key] for key in chosen})
    if kind == "expert":
        return f"expert:ep={draw.choice([1, 2, 4, 8])}"
    if kind == "context":
        return f"context:cp={draw.choice([1, 2, 4, 8])}"
    if kind == "rules":
        names = draw.sample(["batch", "heads", "mlp", "vocab", "seq", "embed", "expert", "kv_heads"], draw.randint(1, 3))
        return "rules:" + ",".join(f"{name}={draw.choice([0, 1])}" for name in names)
    return "megatron:auto" if kind == "auto" else kind


# Options of `plan`, and the share of requests that have each.
OPTIONS = {
    "--method": (0.4, method),
    "--for": (0.1, lambda d: d.choice(FRAMEWORKS)),
    "--micro-batches": (0.5, lambda d: d.choice(["auto", "auto", "1", "1", "2", "2", "4", "4", "8", "8", "3", "0"])),
    "--layers": (0.4, lambda d: d.choice(["auto", "default", "1", "2", "3", "4", "2", "3", "7", "99"])),
    "--schedule": (0.4, lambda d: d.choice(SCHEDULES)),
    "--recompute": (0.3, lambda d: d.choice(["none", "full", "selective", "auto"])),
    "--recompute-layers": (0.05, lambda d: d.choice(["0:full", "0-1:full,2:selective", "3:none", "9:full"])),
    "--optimizer": (0.2, lambda d: d.choice(["adam", "momentum", "sgd", "adafactor", "adafactor", "lion"])),
    "--max-norm": (0.1, lambda d: d.choice(["0", "0.5", "-1"])),
    "--loss": (0.1, lambda d: d.choice(["mean", "sum", "token_weighted"])),
    "--dtype": (0.2, lambda d: d.choice(["f32", "f32", "f16", "f16", "bf16", "f64"])),
    "--seq": (0.1, lambda d: d.choice(["16", "64", "7", "2048", "0"])),
    "--submesh-space": (0.2, lambda d: d.choice(["power_of_two", "small_power_of_two", "all", "manual:1x1,1x2", "manual:2x8", "manual:1x9"])),
    "--logical-mesh-space": (0.2, lambda d: d.choice(["same_as_physical", "data_parallel_only", "model_parallel_only", "single_node_model_parallel", "all", "three_dimensional"])),
    "--logical-mesh": (0.05, lambda d: d.choice(["2x2", "4", "8x1", "2x4", "3x2", "2x2x2"])),
    "--batch-axis": (0.05, lambda d: d.choice(["0", "1", "2"])),
    "--layer-cut": (0.15, lambda d: d.choice(["flops", "bytes", "count", "uniform", "blocks"])),
    "--stage-costs": (0.1, lambda d: d.choice(["composition", "individual"])),
    "--software": (0.2, lambda d: d.choice(["megatron", "nemo", "fsdp2", "torchtitan", "deepspeed", "alpa", "megatron-te", "nemo-2026", "none-such"])),
    "--objective": (0.02, lambda d: d.choice(["step-time", "latency", "throughput"])),
    "--price-per-device-hour": (0.05, lambda d: d.choice(["2.5", "2.5", "2,1"])),
    "--nodes": (0.05, lambda d: d.choice(["1", "2", "9"])),
    "--devices-per-node": (0.05, lambda d: d.choice(["1", "2", "4", "5"])),
    "--overlap": (0.1, lambda d: None),
    "--network": (0.1, lambda d: d.choice(["static", "fluid", "fifo"])),
    "--pareto": (0.03, lambda d: None),
    "--slowdown": (0.03, lambda d: d.choice(["1.2", "1.2,1.1", "0.5"])),
    "--controller": (0.05, lambda d: d.choice(["none", "single", "multi"])),
    "--broadcast": (0.03, lambda d: None),
    "--cross-mesh": (0.1, lambda d: d.choice(["auto", "send", "gather", "broadcast", "ring"])),
    "--offload": (0.1, lambda d: "optimizer"),
    "--matmul-dtype": (0.05, lambda d: "fp8"),
    "--states": (0.05, lambda d: d.choice(["16-bit", "16-bit-moments", "16-bit,8-bit-moments"])),
    "--attention": (0.05, lambda d: d.choice(["fused", "unfused"])),
    "--loss-chunks": (0.05, lambda d: d.choice(["auto", "1", "8"])),
    "--token-dispatch": (0.05, lambda d: d.choice(["experts", "hosts", "all"])),
    "--recompute-modules": (0.08, lambda d: ",".join(d.sample(["core_attn", "layernorm", "moe_act", "mla_up_proj", "mlp", "moe", "shared_experts"], d.randint(1, 3)))),
    "--tokens": (0.03, lambda d: d.choice(["1B", "1.5e12", "0"])),
    "--dump": (0.15, lambda d: "dump"),
    "--no-free-plan": (0.1, lambda d: None),
}
CHANGES = {
    "--batch": (0.2, lambda d: d.choice(["8", "24", "64", "7"])),
    "--micro-batches": (0.3, lambda d: d.choice(["1", "2", "4", "8", "5"])),
    "--schedule": (0.3, lambda d: d.choice(SCHEDULES)),
    "--software": (0.1, lambda d: d.choice(["megatron", "fsdp2", "none"])),
    "--network": (0.4, lambda d: d.choice(["static", "fluid", "fifo"])),
    "--broadcast": (0.1, lambda d: None),
    "--overlap": (0.4, lambda d: None),
    "--bucket-mib": (0.1, lambda d: d.choice(["1", "25", "0"])),
    "--prefetch": (0.1, lambda d: d.choice(["0", "1", "3"])),
    "--slowdown": (0.1, lambda d: d.choice(["1.2", "1.2,1.1", "0.5"])),
    "--controller": (0.2, lambda d: d.choice(["none", "single", "multi"])),
    "--slow-device": (0.1, lambda d: d.choice(["0=0.5", "1=0.9", "99=0.5"])),
    "--slow-links": (0.1, lambda d: d.choice(["within-host=0.5", "between-hosts=0.25"])),
    "--jitter": (0.1, lambda d: d.choice(["0.05", "0"])),
    "--replicas": (0.1, lambda d: d.choice(["2", "3"])),
    "--failures": (0.1, lambda d: "5000"),
    "--report": (0.2, lambda d: None),
    "--timeline": (0.1, lambda d: None),
}


def draw_options(draw, options, least=0.0):
    """[(option, value or None)], each with its own probability."""
    return [(name, value(draw)) for name, (share, value) in options.items() if draw.random() < max(share, least)]


def words(options):
    return [word for name, value in options for word in ([name] if value is None else [name, value])]


PUBLISHED = ["gpt-125m", "gpt-350m", "gpt-760m", "gpt-1.3b", "gpt2", "gpt2-medium", "pythia-160m", "opt-125m", "bloom-560m", "tinyllama-1.1b", "qwen2.5-0.5b", "qwen3-0.6b",
             "gemma-3-1b", "smollm2-135m", "smollm2-360m", "bert-base", "bert-large", "t5-small", "t5-base", "moe-380m", "moe-690m", "olmoe-1b-7b", "granite-3.1-2b"]


def open_options(draw):
    """Everything that a search can choose, and up to two other options that suit any model and cluster."""
    chosen = [(name, "auto") for name in ("--layers", "--micro-batches", "--schedule", "--recompute")]
    others = [("--overlap", None), ("--network", "fluid"), ("--cross-mesh", "auto"), ("--optimizer", "adafactor"), ("--controller", "single"), ("--slowdown", "1.2"),
              ("--software", draw.choice(["megatron", "fsdp2"])), ("--for", draw.choice(FRAMEWORKS)), ("--layer-cut", draw.choice(["count", "blocks"])), ("--seq", "512")]
    return chosen + draw.sample(others, draw.choice([0, 0, 1, 1, 2]))


class Request:
    """A plan, and what is then done with it."""

    def __init__(self, seed, tiny=False, everything_open=False):
        draw = random.Random(seed)
        if everything_open:
            self.seed, self.large = seed, False
            self.base = ["--model", draw.choice(PUBLISHED), "--cluster", draw.choice(["p3.16xlarge:1", "p3.16xlarge:1", "dgx-a100:1", "dgx-h100:1", "p3.16xlarge:2"]),
                         "--batch", str(draw.choice([4, 8, 12, 16, 24, 32]))]
            self.options, self.changes = open_options(draw), draw_options(draw, CHANGES)
            self.compared = self.runs = False
            self.threads_matter = draw.random() < 0.5
            return
        large = draw.random() < 0.15 and not tiny
        self.seed = seed
        self.large = large
        self.base = ["--model", draw.choice(PRESETS) if large else family(draw), "--cluster", draw.choice(CLUSTERS if large or draw.random() < 0.3 else THREADS),
                     "--batch", str(draw.choice([1, 4, 7, 8, 16, 24, 32, 64, 256] if not large else [16, 64, 256, 1024]))]
        if tiny:
            self.base = ["--model", tiny_family(draw), "--cluster", draw.choice(["cpu:1", "cpu:2", "cpu:2", "cpu:3", "cpu:4"]),
                         "--batch", str(draw.choice([1, 4, 7, 8, 8, 12]))]
        self.options = draw_options(draw, OPTIONS)
        # One wrong value hides what the others do: most requests have few options.
        self.options = draw.sample(self.options, min(len(self.options), draw.choice([1, 2, 3, 4, 20])))
        # Most small models are of threads, which compute in f32 and f64.
        if self.base[3].startswith("cpu") and draw.random() < 0.95:
            # What has no data sheet is known to no software.
            self.options = [o for o in self.options if o[0] not in ("--dtype", "--software", "--for")] + [("--dtype", draw.choice(["f32", "f32", "f64"]))]
        self.changes = draw_options(draw, CHANGES)
        self.compared = draw.random() < 0.1
        self.threads_matter = draw.random() < 0.2
        self.runs = draw.random() < 0.15 and not large and self.base[3] in THREADS


class Failure(Exception):
    pass


class Driver:
    def __init__(self, meshwright, folder):
        self.meshwright, self.folder = meshwright, folder

    def call(self, *arguments):
        """Its exit code, standard output and error; Failure where no request may end so."""
        command = [self.meshwright, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S)))
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            raise Failure(f"took more than {LIMIT_S} s: {' '.join(arguments)}")
        last = done.stderr.strip().splitlines()[-1:] or [""]
        if done.returncode not in (OK, WRONG, INFEASIBLE):
            raise Failure(f"exit code {done.returncode} of {' '.join(arguments)}: {last[0]}")
        if done.returncode == WRONG and "meshwright: error: " not in done.stderr:
            raise Failure(f"no error is named by {' '.join(arguments)}: {last[0]}")
        return done.returncode, done.stdout, done.stderr

    def planned(self, request, options, *more):
        return self.call("plan", *request.base, *words(options), *more)

    def step_of(self, plan):
        code, text, error = self.call("simulate", plan, "--json")
        if code != OK:
            raise Failure(f"a plan is not simulated: {error}")
        return json.loads(text)["step_time_s"]

    def check(self, request, options, changes):
        """The exit code of the plan."""
        plan = f"{request.seed}.json"
        code, text, _ = self.planned(request, options, "--json", "--threads", "1", "-o", plan)
        if code != OK:
            return code
        found = json.loads(text)
        step = found["step_time_s"]
        if step < found["lower_bound_s"] * (1 - 1e-9):
            raise Failure(f"the step {step} s is below its bound {found['lower_bound_s']} s")
        # Where a software's own count decides, that is likely to fit.
        if found.get("software_memory_bytes") is None and found["peak_memory_bytes"] > found["usable_memory_bytes"]:
            raise Failure(f"{found['peak_memory_bytes']} bytes do not fit into {found['usable_memory_bytes']}")
        code, text, _ = self.call("simulate", plan, "--json")
        if code != OK:
            raise Failure(f"its plan is not simulated: exit code {code}")
        again = json.loads(text)["step_time_s"]
        if abs(again - step) > 1e-9 * step:
            raise Failure(f"planned with {step} s, simulated with {again} s")
        if request.threads_matter:
            self.planned(request, options, "--threads", "3", "-o", "other.json", *([] if "--dump" in words(options) else ["--dump", "known"]))
            if (self.folder / plan).read_bytes() != (self.folder / "other.json").read_bytes():
                raise Failure("another number of threads gives another plan")
        self.call("simulate", plan, *words(changes))
        self.call("explain", plan)
        for verb, *more in random.Random(request.seed + 2).sample(MADE_OF_PLANS, MADE_OF_EACH):
            self.call(verb, plan, *more)
        if request.compared:
            self.planned(request, draw_options(random.Random(request.seed + 1), OPTIONS)[:2], "-o", "compared.json")
            if (self.folder / "compared.json").exists():
                self.call("explain", plan, "compared.json")
        if request.runs:
            code, _, error = self.call("run", plan, "--steps", "1", "--warmup", "0", "--check", "--precision", "f64")
            if code != OK and "amplif" not in error and "inference" not in words(options):
                raise Failure(f"its plan does not run: {error.strip().splitlines()[-1]}")
        return OK


WIDER = {
    "--recompute": ["none", "full", "selective"],
    "--micro-batches": ["1", "2", "4", "8", "16"],
    "--schedule": ["1f1b", "gpipe", "eager-1f1b", "zb-h1", "interleaved:2", "zb-v"],
    "--layers": ["default", "2", "3", "4"],
    "--submesh-space": ["power_of_two", "small_power_of_two", "manual:1x1,1x2"],
    "--logical-mesh-space": ["same_as_physical", "data_parallel_only", "model_parallel_only", "single_node_model_parallel"],
    "--method": ["data", "zero1", "zero2", "zero3", "shard", "megatron:tp=2,pp=2", "megatron:tp=2", "megatron:pp=2,zero=1,exact=1"],
    "--for": ["megatron", "torchtitan", "deepspeed", "fsdp", "maxtext"],
}
OPEN = {"--recompute": "auto", "--micro-batches": "auto", "--schedule": "auto", "--layers": "auto", "--submesh-space": "all", "--logical-mesh-space": "all"}


def check_wider(driver, request, draw):
    """One option left open against each value of it."""
    name = draw.choice(sorted(WIDER))
    others = [(n, v) for n, v in request.options if n not in (name, "--for", "--method", "--objective", "--pareto", "--schedule")]
    if name == "--recompute":  # these say what else is recomputed where nothing is
        others = [(n, v) for n, v in others if n not in ("--recompute-modules", "--recompute-layers")]
    wide = others + ([(name, OPEN[name])] if name in OPEN else [])
    if name in ("--method", "--for"):
        # What a method or framework does, the search can do where everything is left to it.
        wide = [(n, v) for n, v in others if n not in OPEN and n not in ("--software", "--matmul-dtype", "--states", "--attention", "--token-dispatch", "--loss-chunks", "--layer-cut", "--layers", "--logical-mesh", "--batch-axis", "--recompute-layers", "--recompute-modules")]
        others = list(wide)
        wide += list(OPEN.items())
    best_file, found_file = (str(driver.folder / name) for name in ("open.json", "one.json"))
    code, text, _ = driver.planned(request, wide, "--json", "--threads", "1", "-o", best_file)
    best = json.loads(text) if code == OK else None
    compared = 0
    for value in WIDER[name]:
        one = others + [(name, value)] + ([("--no-free-plan", None)] if name == "--for" else [])
        code, text, _ = driver.planned(request, one, "--json", "--threads", "1", "-o", found_file)
        if code != OK:
            continue
        found = json.loads(text)
        if best is None:
            raise Failure(f"{name} {value} has a plan, and {' '.join(words(wide))} has none")
        compared += 1
        if best["step_time_s"] > found["step_time_s"] * (1 + 1e-9) and name != "--for":
            raise Failure(f"{name} {value} takes {found['step_time_s']} s, and {' '.join(words(wide))} {best['step_time_s']} s")
        if best["lower_bound_s"] > found["step_time_s"] * (1 + 1e-9) and name != "--for":
            raise Failure(f"{name} {value} takes {found['step_time_s']} s, below the bound {best['lower_bound_s']} s of {' '.join(words(wide))}")
        within = best["lower_bound_within_layers_s"]
        if within > found["step_time_s"] * (1 + 1e-9) and name != "--for" and cut_of(best_file) == cut_of(found_file):
            raise Failure(f"{name} {value} takes {found['step_time_s']} s, below the bound within its layers of {within} s of {' '.join(words(wide))}")
    return compared


def cut_of(plan):
    """What a bound within layers holds for."""
    made = json.loads(pathlib.Path(plan).read_text(encoding="utf-8"))
    return made["layer_starts"], made["training"]["microbatches"]


def scaled(cluster, path, factor):
    """The cluster, each of its groups with the member at `path` so many times as large."""
    worse = json.loads(json.dumps(cluster))
    for group in worse.get("groups", [worse]):
        at = group
        for key in path[:-1]:
            at = at[key]
        value = at[path[-1]]
        at[path[-1]] = {key: factor * one for key, one in value.items()} if isinstance(value, dict) else factor * value
    return worse


def with_half_the_hosts(cluster, _):
    return dict(cluster, hosts=cluster["hosts"] // 2) if cluster.get("hosts", 1) >= 2 and "network" not in cluster else None


WORSE = {
    "slower links within hosts": lambda c, f: scaled(c, ["within_host", "bandwidth_bytes_per_s"], 1 / f),
    "slower links between hosts": lambda c, f: scaled(c, ["between_hosts", "bandwidth_bytes_per_s"], 1 / f),
    "later messages within hosts": lambda c, f: scaled(c, ["within_host", "alpha_s"], f),
    "later messages between hosts": lambda c, f: scaled(c, ["between_hosts", "alpha_s"], f),
    "slower products": lambda c, f: scaled(c, ["device", "peak_flops_per_s"], 1 / f),
    "slower memory": lambda c, f: scaled(c, ["device", "memory_bandwidth_bytes_per_s"], 1 / f),
    "later launches": lambda c, f: scaled(c, ["device", "launch_s"], f),
    "less memory": lambda c, f: scaled(c, ["device", "memory_bytes"], 1 / f),
    "fewer hosts": with_half_the_hosts,
}
# What does not depend on the cluster alone, or takes one that presets name.
NOT_COMPARED = ("--software", "--for", "--matmul-dtype", "--states", "--attention", "--token-dispatch", "--loss-chunks", "--nodes", "--devices-per-node", "--dump", "--pareto", "--objective", "--price-per-device-hour", "--tokens",
                "--no-free-plan", "--logical-mesh")


def check_worse(driver, request, draw, strict):
    """How many worse clusters the request was compared on."""
    options = [(name, value) for name, value in request.options if name not in NOT_COMPARED]
    files = {name: str(driver.folder / f"{name}.json") for name in ("better", "worse", "moved", "cluster")}
    if driver.planned(request, options, "--threads", "1", "-o", files["better"])[0] != OK:
        return 0
    cluster = json.loads(pathlib.Path(files["better"]).read_text(encoding="utf-8"))["cluster"]
    better = driver.step_of(files["better"])
    compared = 0
    for what in draw.sample(sorted(WORSE), 3):
        changed = WORSE[what](cluster, draw.choice([1.25, 2, 4]))
        # Methods that say what is split use every device, also where fewer would do.
        uses_all = dict(options).get("--method", "pipeshard") != "pipeshard"
        if changed is None or (what == "fewer hosts" and uses_all):
            continue
        pathlib.Path(files["cluster"]).write_text(json.dumps(changed), encoding="utf-8")
        base = [files["cluster"] if before == "--cluster" else word for before, word in zip([""] + request.base, request.base)]
        if driver.call("plan", *base, *words(options), "--threads", "1", "-o", files["worse"])[0] != OK:
            continue
        compared += 1
        plan = json.loads(pathlib.Path(files["worse"]).read_text(encoding="utf-8"))
        worse = driver.step_of(files["worse"])
        if strict and worse < better * (1 - MISSED):
            raise Failure(f"{what}: {worse} s instead of {better} s")
        if what == "fewer hosts":
            continue  # its plan leaves hosts of the better cluster out, which no plan may
        plan["cluster"] = cluster
        pathlib.Path(files["moved"]).write_text(json.dumps(plan), encoding="utf-8")
        moved = driver.step_of(files["moved"])
        if strict and moved < better * (1 - MISSED):
            raise Failure(f"{what}: the plan for the worse cluster takes {moved} s on the better one, whose own takes {better} s")
        if moved > worse * (1 + 1e-9):
            raise Failure(f"{what}: one plan takes {moved} s on the better cluster, and {worse} s on the worse")
    return compared


def smaller(driver, request, failure):
    """The options without those that the failure does not need."""
    options, changes = list(request.options), list(request.changes)
    for kept in (changes, options):
        for option in list(kept):
            kept.remove(option)
            try:
                driver.check(request, options, changes)
                kept.append(option)
            except Failure as again:
                failure = again
    return options, changes, failure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", default="1", help="a number, or program")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="no large model")
    parser.add_argument("--tiny", action="store_true", help="models of few ops on few devices")
    parser.add_argument("--open", action="store_true", help="published models with everything left to the search")
    parser.add_argument("--wider", action="store_true")
    parser.add_argument("--worse", action="store_true")
    parser.add_argument("--strict", action="store_true", help="with --worse: the search itself misses no plan that the worse cluster shows")
    given = parser.parse_args()
    if given.seed == "program":
        given.seed = int.from_bytes(hashlib.sha256(pathlib.Path(given.meshwright).read_bytes()).digest()[:3], "big")
    first = int(given.seed) * 1_000_000

    def one(number):
        seed = first + number
        request = Request(seed, given.tiny, given.open)
        if given.small and request.large:
            return None
        with tempfile.TemporaryDirectory() as place:
            driver = Driver(given.meshwright, pathlib.Path(place))
            try:
                if given.worse:
                    return check_worse(driver, request, random.Random(-seed), given.strict)
                if given.wider:
                    return check_wider(driver, request, random.Random(-seed))
                return driver.check(request, request.options, request.changes)
            except Failure as failure:
                options, changes = request.options, request.changes
                if not given.wider and not given.worse and not given.open and "took more than" not in str(failure):
                    options, changes, failure = smaller(driver, request, failure)
                print(f"seed {seed}: {failure}\n  meshwright plan {' '.join(request.base + words(options))}"
                      + (f"\n  meshwright simulate plan.json {' '.join(words(changes))}" if changes and not (given.wider or given.worse) else ""), flush=True)
                return "failed"

    ends = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        ends = [end for end in pool.map(one, range(given.count)) if end is not None]
    failed = ends.count("failed")
    print(f"seed {given.seed}")
    if given.wider or given.worse:
        print(f"{len(ends)} requests, {sum(end for end in ends if end != 'failed')} comparisons, {failed} failed")
    else:
        print(f"{len(ends)} requests: {ends.count(OK)} planned, {ends.count(WRONG)} wrong, {ends.count(INFEASIBLE)} without a plan, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
