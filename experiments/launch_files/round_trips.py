#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports drawn plans and reads them back: round_trips.py [MESHWRIGHT] [--seed N] [--count N]

Each trip draws a framework, a model that it has, devices and a batch, plans for the framework, writes its launch files and reads these
as if somebody else had written them. What is read must be the plan that was written: its batch, schedule, recomputation, stages, meshes, shardings and
predicted step. Prints a line for each trip and exits with 1 if one differs; `no plan` is a draw that no plan of the framework fits.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

# (target, framework of --for, file that is read)
TARGETS = [("megatron", "megatron", ["run.sh"]), ("megatron-bridge", "megatron-bridge", ["run.sh"]), ("torchtitan", "torchtitan", ["plan.toml"]),
           ("torchtitan", "torchtitan", ["plan.py"]), ("torchtitan", "torchtitan", ["run.sh"]), ("deepspeed", "deepspeed", ["ds_config.json"]),
           ("deepspeed", "deepspeed", ["run.sh"]), ("accelerate", "accelerate", ["accelerate.yaml"]), ("accelerate", "accelerate", ["run.sh"]),
           ("accelerate", "accelerate", ["train.py"]), ("fsdp2", "fsdp", ["train.py"]),
           ("maxtext", "maxtext", ["plan.yml"]), ("maxtext", "maxtext", ["run.sh"]), ("flagscale", "flagscale", ["plan.yaml"]),
           ("nnscaler", "nnscaler", ["train.yaml"]), ("jax", None, ["sharding_plan.py"]), ("alpa", "alpa", ["alpa_plan.py"])]


# What the files of a target can say of a model, beside llama, mixtral and deepseek_v3.
KINDS = {"megatron": ["gpt2", "gpt", "gpt_neox", "decoder", "decoder_moe"], "megatron-bridge": ["gpt2", "gpt", "gpt_neox", "decoder", "decoder_moe"],
         "flagscale": ["gpt2", "gpt", "gpt_neox", "decoder", "decoder_moe"], "deepspeed": ["gpt2", "gpt", "gpt_neox"], "accelerate": ["gpt2", "gpt", "gpt_neox"], "fsdp2": ["gpt2", "gpt", "gpt_neox"],
         "torchtitan": [], "maxtext": [], "nnscaler": ["gpt2", "gpt", "gpt_neox"], "jax": ["gpt2", "gpt", "gpt_neox"], "alpa": ["gpt2", "gpt", "gpt_neox"]}


def drawn_model(draw, target):
    heads = draw.choice([4, 8, 16])
    hidden = heads * draw.choice([32, 64])
    size = {"layers": draw.choice([4, 5, 6, 8]), "hidden": hidden, "heads": heads, "seq": draw.choice([128, 256, 512, 1024]),
            "vocab": 1024 * draw.randint(1, 8)}
    # The model written for nnScaler has dense blocks alone.
    kind = draw.choice((["llama"] if target == "nnscaler" else ["llama", "llama", "mixtral", "deepseek_v3"]) + KINDS[target])
    if kind not in ("gpt", "gpt2", "gpt_neox"):
        size["intermediate"] = hidden * draw.choice([2, 3, 4])
    if kind in ("llama", "mixtral", "decoder", "decoder_moe"):
        size["kv_heads"] = draw.choice([part for part in (1, 2, 4, 8) if heads % part == 0])
        if target != "torchtitan" and draw.random() < 0.3:
            size["qk_norm"] = 1
        if target not in ("torchtitan", "deepspeed", "accelerate") and kind in ("llama", "decoder") and draw.random() < 0.3:
            size["qkv_bias"] = 1
        if draw.random() < 0.2:
            size["head_dim"] = 48
    if kind in ("mixtral", "deepseek_v3", "decoder_moe"):
        size["experts"], size["top_k"] = draw.choice([4, 8]), draw.choice([1, 2])
    if kind == "deepseek_v3":
        size.update(dense_layers=draw.choice([0, 1, 2]), q_rank=64, kv_rank=32, nope_dim=32, rope_dim=16, value_dim=32)
    if kind == "gpt_neox":
        size.update(parallel=0, rotary_dims=draw.choice([8, 16, 32]))
    if kind in ("decoder", "decoder_moe"):
        size["rotary_dims"] = 16
    if kind == "decoder_moe" and draw.random() < 0.5:
        size.update(sigmoid=1, selection_bias=1)
    if kind in ("llama", "mixtral", "deepseek_v3", "gpt2") and draw.random() < 0.3:
        size["tied"] = draw.choice([0, 1])
    return kind + ":" + ",".join(f"{name}={value}" for name, value in size.items())


def drawn_trip(draw, target, files):
    devices = draw.choice(["dgx-a100:1", "dgx-h100:1", "p4d.24xlarge:1"])
    options = ["--model", drawn_model(draw, target), "--cluster", devices, "--batch", str(draw.choice([16, 32, 48]))]
    if draw.random() < 0.4:
        options += ["--recompute", draw.choice(["full", "none"])]
    if draw.random() < 0.3:
        options += ["--dtype", "f16" if target == "megatron-bridge" else "f32"]
    # All schedules of torchtitan together take long to search.
    if target == "torchtitan":
        options += ["--schedule", draw.choice(["1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe-v"])]
    # torchtitan always clips gradients; of accelerate's jobs the script says it.
    if (draw.random() < 0.3 and (target != "accelerate" or files == ["train.py"])) or target == "torchtitan":
        options += ["--weight-decay", "0.1", "--max-norm", "1"]
    return options, devices


# Of a stage what the search expected of it, which a plan that is given lacks.
EXPECTED = ("forward_s", "backward_s", "update_s", "peak_memory_bytes")


# What of a plan file must come back.
def essence(plan):
    stages = [{key: value for key, value in stage.items() if key not in EXPECTED} for stage in plan["stages"]]
    # A stage by its first op: layers may be cut otherwise within it.
    for stage in stages:
        stage["layers"] = plan["layer_starts"][stage["layers"][0]]
    training = {key: plan["training"].get(key) for key in ("batch", "microbatches", "dtype", "optimizer", "recompute")}
    return {"training": training, "schedule": plan["schedule"], "stages": stages,
            "graph": plan["graph_fingerprint"], "step": plan["predicted"]["step_time_s"], "software": plan.get("software")}


def differences(one, other, at=""):
    if isinstance(one, dict) and isinstance(other, dict):
        return [line for key in sorted(set(one) | set(other)) for line in differences(one.get(key), other.get(key), f"{at}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for i, pair in enumerate(zip(one, other)) for line in differences(*pair, f"{at}[{i}]")]
    return [] if one == other else [f"{at}: {str(one)[:80]} came back as {str(other)[:80]}"]


def trip(meshwright, draw, number):
    target, framework, files = TARGETS[number % len(TARGETS)]
    options, devices = drawn_trip(draw, target, files)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def run(*arguments):
            return subprocess.run([meshwright, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=900)

        label = f"{number:3} {target} {files[0]} {' '.join(options)}"
        # JAX and Alpa take any mesh: the search is free.
        asks = ["--for", framework, "--no-free-plan"] if framework not in (None, "alpa") else ["--for", framework] if framework else []
        planned = run("plan", *options, *asks, "-o", folder / "plan.json")
        if planned.returncode != 0:
            return label, ["no plan: " + planned.stderr.strip().splitlines()[-1][:200]], planned.returncode not in (2, 5)
        written = run("export", folder / "plan.json", "--to", target, "-o", folder / "files")
        if written.returncode != 0:
            return label, ["export: " + written.stderr.strip()[:300]], True
        if not (folder / "files" / files[0]).exists():
            return label, ["not written: " + files[0]], False
        plan = json.loads((folder / "plan.json").read_text())
        asked = ["--cluster", devices]
        # torchtitan's sizes are in its model.py.
        if target in ("torchtitan", "deepspeed", "accelerate", "fsdp2", "nnscaler", "jax", "alpa"):
            asked += ["--model", options[1]]
        if target == "accelerate" and files != ["train.py"]:
            micro = re.search(r"^MICRO_BATCH, .* = (\d+),", (folder / "files" / "train.py").read_text(), re.M).group(1)
            asked += ["--batch", options[5], "--micro-batch", micro]
        read = run("read", *[folder / "files" / file for file in files], *asked, "-o", folder / "read.json")
        if read.returncode != 0:
            return label, ["read: " + (read.stderr.strip() or read.stdout.strip())[:600]], True
        one, other = essence(plan), essence(json.loads((folder / "read.json").read_text()))
        if target == "alpa":
            # Alpa's solver chooses the shardings: its files say layers, submeshes and meshes.
            for made in (one, other):
                made.pop("step", None)
                made["stages"] = [{key: stage[key] for key in ("layers", "submesh", "logical_shape", "devices") if key in stage} for stage in made["stages"]]
        found = differences(one, other)
        return label + f"  {plan['method']} {plan['schedule']}", found[:6], bool(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("meshwright", nargs="?", default=str(pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "meshwright"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=36)
    given = parser.parse_args()
    failed = 0
    for number in range(given.count):
        label, found, wrong = trip(given.meshwright, random.Random(given.seed * 1000 + number), number)
        failed += wrong
        print(("DIFFERS " if wrong else "same    ") + label, *found, sep="\n          " if found else "", flush=True)
    print(f"{given.count} trips, {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
