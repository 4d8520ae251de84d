#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports drawn plans and reads them back: round_trips.py [MESHWRIGHT] [--seed N] [--count N] [--wide] [--target NAME]

Each trip draws a framework, a model that it has, devices and a batch, plans for the framework, writes its launch files and reads these
as if somebody else had written them. What is read must be the plan that was written: its batch, schedule, recomputation, stages, meshes, shardings and
predicted step. Prints a line for each trip and exits with 1 if one differs; `no plan` is a draw that no plan of the framework fits.

With --wide, degrees of the framework's own (context, expert and sequence parallelism, groups of replicas, uneven stages), two hosts, optimizers,
recomputation of single layers, what hosts keep and how kernels and states are set up are drawn as well. The plan may then be one that the files cannot
say: `refused` is an export that says so, which is no difference, as it is none where the export prints in what the job differs.
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


def drawn_method(draw, target, kind, experts):
    """Degrees of 8 devices that the framework may launch, or ""."""
    if target in ("fsdp2", "accelerate", "torchtitan", "maxtext") and draw.random() < 0.3:
        return f"zero{draw.choice([2, 3])}" + draw.choice(["", ":shard=2", ":shard=4"])
    if target in ("megatron", "deepspeed", "nnscaler") and draw.random() < 0.15:
        return "zero1" + draw.choice(["", ":shard=4"])
    tp, pp = draw.choice([1, 1, 2, 4]), draw.choice([1, 1, 2, 4]) if target not in ("fsdp2", "accelerate") else 1
    if tp * pp > 8:
        return ""
    degrees = [f"tp={tp}", f"pp={pp}"]
    left = 8 // tp // pp
    if left > 1 and draw.random() < 0.4:
        degrees.append(f"cp={draw.choice([part for part in (2, 4) if left % part == 0])}")
        left //= int(degrees[-1][3:])
        if draw.random() < 0.5:
            degrees.append("cp-comm=" + draw.choice(["p2p", "a2a"]))
    if experts and left > 1 and draw.random() < 0.6:
        degrees.append(f"ep={draw.choice([part for part in (2, 4) if left % part == 0 and experts % part == 0])}")
        if tp > 1 and target.startswith("megatron") and draw.random() < 0.3:
            degrees.append("etp=1")
    if pp > 1 and draw.random() < 0.4:
        degrees.append(draw.choice(["first=1", "last=1", "vpp=2"]))
    if tp > 1 and draw.random() < 0.7:
        degrees.append("sp=1")
    degrees.append(f"zero={draw.choice([0, 1, 2, 3] if pp == 1 else [0, 1])}")
    return "megatron:" + ",".join(degrees) + ",exact=1"


# Whose costs know kernels and states: those of the others are of no software.
PRICED = {"megatron": "nemo", "megatron-bridge": "nemo", "torchtitan": "torchtitan", "deepspeed": "deepspeed", "fsdp2": "fsdp2",
          "accelerate": "fsdp2", "flagscale": "nemo", "alpa": "alpa"}


def further_options(draw, target, files, options):
    """Adds to the options of a trip what drawn_trip leaves as it is."""
    model = options[1]
    if target in ("jax", "alpa"):
        if draw.random() < 0.3:
            options[1] = draw.choice(["mlp:layers=6,hidden=512", "moe:layers=4,hidden=256,heads=8,experts=4,seq=256,vocab=1024,group=256",
                                      "vit:layers=4,hidden=256,heads=4,image=64,patch=8,classes=100", "two_tower:layers=2,hidden=128,heads=4,image=32,patch=8,text_layers=2,text_hidden=128,text_heads=4,seq=32,vocab=512,embed=64"])
        if draw.random() < 0.4:
            options += ["--schedule", draw.choice(["gpipe", "eager-1f1b"] if target == "alpa" else ["gpipe", "interleaved", "zb-h1", "zb-v", "eager-1f1b"])]
    if draw.random() < 0.3:
        options[3] = options[3][:-1] + "2"
    optimizer = draw.choice(["adam"] * 4 + ["sgd", "momentum", "sgd", "adafactor" if target in ("jax", "alpa") else "momentum"])
    # accelerate's own file says nothing of the optimizer: the script does.
    if target == "jax" or (draw.random() < 0.5 and files != ["accelerate.yaml"]):
        options += ["--optimizer", optimizer, "--learning-rate", draw.choice(["0.001", "0.0003"])]
        if optimizer == "momentum":
            options += ["--momentum", "0.95"]
    if "f16" in options and draw.random() < 0.5:
        options += ["--loss-scale", "65536"]
    if draw.random() < 0.08:
        options += ["--offload", draw.choice(["optimizer", "activations", "weights"] if target == "jax" else ["optimizer"])]
    if target == "jax" and "--recompute" not in options and draw.random() < 0.4:
        options += ["--recompute", "auto"]
    if "--recompute" not in options and target in ("megatron", "megatron-bridge", "torchtitan", "jax") and draw.random() < 0.2:
        options += ["--recompute", "selective"]
    if target in PRICED and draw.random() < 0.15:
        options += draw.choice([["--states", "16-bit"], ["--states", "8-bit-moments"], ["--attention", "unfused"], ["--attention", "fused"],
                                ["--loss-chunks", "4"], ["--loss-chunks", "auto"], ["--matmul-dtype", "fp8"]])
    if draw.random() < 0.03:
        options += ["--loss", "sum"]
    if target not in ("jax", "alpa") and draw.random() < 0.15:
        # Not for the framework: its degrees have to follow from the stages.
        options += ["--method", draw.choice(["pipeshard", "shard", "data", "zero1", "zero2", "zero3", "megatron:tp=2,pp=2", "megatron:tp=4,zero=1"]),
                    "--layer-cut", "blocks"]
    elif target not in ("jax", "alpa") and draw.random() < 0.6:
        sizes = dict(size.split("=") for size in model.split(":")[1].split(","))
        method = drawn_method(draw, target, model.split(":")[0], int(sizes.get("experts", 0)))
        if method:
            options += ["--method", method]
            if "--schedule" in options and "vpp" not in method:
                options[options.index("--schedule") + 1] = "1f1b"
            if method.startswith("megatron") and draw.random() < 0.3:
                options += ["--recompute-layers", "0-1:full"]
    return options


# Of a stage what the search expected of it, which a plan that is given lacks.
EXPECTED = ("forward_s", "backward_s", "update_s", "peak_memory_bytes")


# What of a plan file must come back.
def essence(plan):
    stages = [{key: value for key, value in stage.items() if key not in EXPECTED} for stage in plan["stages"]]
    # A stage by its first op: layers may be cut otherwise within it.
    for stage in stages:
        stage["layers"] = plan["layer_starts"][stage["layers"][0]]
    return {"training": plan["training"], "runs": plan.get("schedule_runs"), "schedule": plan["schedule"], "stages": stages,
            "graph": plan["graph_fingerprint"], "step": plan["predicted"]["step_time_s"], "software": plan.get("software")}


def differences(one, other, at=""):
    if isinstance(one, dict) and isinstance(other, dict):
        return [line for key in sorted(set(one) | set(other)) for line in differences(one.get(key), other.get(key), f"{at}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for i, pair in enumerate(zip(one, other)) for line in differences(*pair, f"{at}[{i}]")]
    return [] if one == other else [f"{at}: {str(one)[:80]} came back as {str(other)[:80]}"]


def trip(meshwright, draw, number, targets, wide):
    target, framework, files = targets[number % len(targets)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def run(*arguments):
            return subprocess.run([meshwright, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=900)

        # Most of the further options suit few of the others: the first draw that has a plan is taken.
        for _ in range(12 if wide else 1):
            options, devices = drawn_trip(draw, target, files)
            if wide:
                options = further_options(draw, target, files, options)
                devices = options[3]
            label = f"{number:3} {target} {files[0]} {' '.join(options)}"
            # JAX and Alpa take any mesh: the search is free.
            asks = ["--for", framework, "--no-free-plan"] if framework not in (None, "alpa") else ["--for", framework] if framework else []
            # No set of degrees of a framework.
            if "--layer-cut" in options or any(option.startswith("zero") for option in options):
                asks = ["--software", PRICED[target]] if target in PRICED else []
            planned = run("plan", *options, *asks, "-o", folder / "plan.json")
            if planned.returncode not in (2, 5):
                break
        if planned.returncode != 0:
            return label, ["no plan: " + planned.stderr.strip().splitlines()[-1][:200]], planned.returncode not in (2, 5)
        written = run("export", folder / "plan.json", "--to", target, "-o", folder / "files")
        if written.returncode != 0:
            return label, [("refused: " if wide else "export: ") + written.stderr.strip()[:400]], not wide or written.returncode != 2
        # DeepSpeed's own file says no degrees: those of stages, tensors and experts are in the scripts.
        if files == ["ds_config.json"] and re.search(r"(pp|tp|ep)=([2-9]|1\d)", json.loads((folder / "plan.json").read_text())["method"]):
            files = ["run.sh"]
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
        # Degrees that follow from stages may stand for another plan, which the export says.
        said = [line for line in written.stdout.splitlines() if line.startswith("# the job differs: ")]
        return label + f"  {plan['method']} {plan['schedule']}", said[:3] + found[:6], bool(found) != bool(said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("meshwright", nargs="?", default=str(pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "meshwright"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=36)
    parser.add_argument("--wide", action="store_true", help="draw further options")
    parser.add_argument("--target", help="trips to this target alone")
    given = parser.parse_args()
    targets = [target for target in TARGETS if given.target in (None, target[0])]
    failed = 0
    for number in range(given.count):
        label, found, wrong = trip(given.meshwright, random.Random(given.seed * 1000 + number), number, targets, given.wide)
        failed += wrong
        print(("DIFFERS " if wrong else "same    ") + label, *found, sep="\n          " if found else "", flush=True)
    print(f"{given.count} trips, {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
