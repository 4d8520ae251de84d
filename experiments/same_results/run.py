#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do two builds of the command find the same plans and predict the same times, to the byte?

    run.py MESHWRIGHT                    compares what it makes with digests.json beside this file; exit code 1 where they differ
    run.py MESHWRIGHT --against OTHER    compares two builds, and says what differs
    run.py MESHWRIGHT --accept           writes digests.json

A case is a folder of commands. Its digest covers every plan file to the byte, and of every --json document all numbers, names and
lists; sentences for people, measured times and version texts are left out, so that wording may change.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Members that are prose, or were measured by a clock.
LEFT_OUT = {"how", "reason", "version", "wall_s", "planning_wall_s", "search_wall_s", "cost_source", "costs", "command", "search",
            "db", "path", "sentence", "seconds", "planning_s", "lines", "elapsed_s", "circumstances"}

SMALL = "--model gpt:layers=4,hidden=128,heads=4,seq=64,vocab=512 --cluster cpu:4 --batch 16 --dtype f32"
GPT = "--model gpt-1.3b --cluster p3.16xlarge:1 --batch 64"


def plan(options):
    return [f"plan {options} -o plan.json --json", "simulate plan.json --json"]


CASES = {
    # Every method.
    "pipeshard": plan(f"{GPT} --micro-batches 16 --layers 8"),
    "shard": plan(f"{GPT} --method shard --micro-batches 4"),
    "largest": plan(f"{GPT} --method largest --micro-batches 8"),
    "data": plan(f"{SMALL} --method data --micro-batches 2"),
    "zero1": plan(f"{SMALL} --method zero1 --micro-batches 2"),
    "zero2": plan(f"{SMALL} --method zero2 --micro-batches 2"),
    "zero3": plan("--model llama-7b --cluster dgx-a100:2 --batch 64 --method zero3 --recompute full"),
    "megatron": plan("--model gpt-2.6b --cluster p3.16xlarge:2 --batch 64 --micro-batches 16 --method megatron:tp=4,pp=2"),
    "megatron_sp": plan("--model llama-7b --cluster dgx-h100:2 --batch 64 --method megatron:tp=8,pp=2,sp=1 --micro-batches 8"),
    "expert": plan("--model moe-380m --cluster p3.16xlarge:1 --batch 64 --method expert:ep=4 --micro-batches 2"),
    "context": plan("--model llama-7b --cluster dgx-h100:1 --batch 16 --method context:cp=4 --micro-batches 4 --recompute full"),
    "rules": plan(f"{SMALL} --method rules:batch=0,heads=1,mlp=1 --logical-mesh 2x2 --micro-batches 2"),
    "forced": plan(f"{SMALL} --method shard --force blk0.mlp.up=S0RS1 --logical-mesh 2x2 --micro-batches 2"),
    # Every family of models.
    "moe": plan("--model moe-380m --cluster p3.16xlarge:2 --batch 128 --micro-batches 16 --layers 8"),
    "wide_resnet": plan("--model wresnet-250m --cluster p3.16xlarge:1 --batch 256 --micro-batches 8 --layers 8"),
    "llama": plan("--model llama-7b --cluster dgx-a100:2 --batch 128 --micro-batches 16 --layers 8"),
    "bert": plan("--model bert-large --cluster dgx-a100:1 --batch 64 --micro-batches auto --layers 6"),
    "t5": plan("--model t5:layers=4,hidden=256,heads=4,intermediate=1024,seq=128,vocab=1024 --cluster p3.16xlarge:1 --batch 64 --dtype f16 --micro-batches 4"),
    "vit": plan("--model vit-l16 --dtype f16 --cluster p3.16xlarge:1 --batch 256 --micro-batches 8 --layers 8"),
    "mixtral": plan("--model mixtral-8x7b --cluster dgx-h100:4 --batch 128 --micro-batches 16 --layers 8 --recompute full"),
    "two_tower": plan("--model clip-b32 --cluster p3.16xlarge:1 --batch 1024 --micro-batches 4 --layers 8"),
    "mlp": plan("--model mlp:layers=4,hidden=1024 --cluster cpu:4 --batch 512 --dtype f32 --micro-batches 4 --layers 4"),
    # What the search chooses.
    "auto_micro_batches": plan(f"{GPT} --layers 8"),
    "auto_layers": plan("--model gpt-350m --cluster p3.16xlarge:1 --batch 32 --micro-batches auto --layers auto"),
    "auto_schedule": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 64 --micro-batches 32 --layers 8 --schedule auto"),
    "auto_recompute": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 64 --micro-batches 16 --layers 8 --recompute auto"),
    "interleaved": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 64 --micro-batches 32 --layers 8 --schedule interleaved:2"),
    "zb_h1": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 64 --micro-batches 16 --layers 8 --schedule zb-h1"),
    "inference": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 16 --micro-batches 4 --layers 8 --schedule inference"),
    "latency": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 16 --micro-batches 4 --layers 8 --schedule inference --objective latency"),
    "pareto": plan("--model gpt-350m --cluster p3.16xlarge:1 --batch 32 --micro-batches 4 --layers 6 --pareto"),
    "unlike_hosts": plan("--model gpt-2.6b --cluster dgx-a100:1+p3.16xlarge:1 --batch 64 --micro-batches 16 --layers 8"),
    "three_dimensional": plan(f"{GPT} --micro-batches 8 --layers 6 --logical-mesh-space three_dimensional"),
    "blocks": plan(f"{GPT} --micro-batches 8 --layer-cut blocks --submesh-space small_power_of_two"),
    "many_hosts": plan("--model gpt-39b --cluster p3.16xlarge:8 --batch 1024 --micro-batches 256 --layers 16"),
    "stage_profile": [f"plan {SMALL} --micro-batches 4 --layers 4 --write-stage-profile stages.csv -o first.json --json",
                      f"plan {SMALL} --micro-batches 4 --layers 4 --stage-profile stages.csv --stage-profile-mode wholly -o plan.json --json"],
    # What simulation asks.
    "circumstances": plan("--model gpt-2.6b --cluster p3.16xlarge:2 --batch 64 --micro-batches 16 --method megatron:tp=4,pp=4")
    + ["simulate plan.json --network fluid --overlap --report --json", "simulate plan.json --network fifo --broadcast --report --json",
       "simulate plan.json --controller single --fetch-every 2 --json", "simulate plan.json --slow-device 3=0.5 --json",
       "simulate plan.json --slow-links between-hosts=0.5 --replicas 2 --json", "simulate plan.json --jitter 0.05 --samples 50 --json",
       "simulate plan.json --failures 50000 --json"],
    "other_schedules": plan("--model gpt-2.6b --cluster p3.16xlarge:1 --batch 64 --micro-batches 16 --method megatron:tp=2,pp=4")
    + [f"simulate plan.json --schedule {kind} --json" for kind in ("gpipe", "eager-1f1b", "zb-h1", "zb-h2")]
    + ["simulate plan.json --batch 256 --micro-batches 64 --cluster dgx-a100:1 --json"],
    "sweep": [f"sweep {SMALL} --layers 2,4 --micro-batches 2,4,8 --schedule 1f1b,gpipe,zb-h1 --db sweep.db -o plan.json --json"],
    "explain": plan(f"{SMALL} --method shard --micro-batches 2")[:1] + ["explain plan.json --tensor blk0.mlp.up.weight --json"],
    "run_and_diff": [f"plan {SMALL} --micro-batches 4 --layers 4 --method megatron:tp=2,pp=2 -o plan.json --json",
                     "run plan.json --steps 2 --precision f64 --check --json > measured.json; "
                     "python3 -c \"import json; d = json.load(open('measured.json')); print(json.dumps([d['losses']]))\""],
    "listings": ["models --json", "clusters --json"],
    "solve": ["solve problem.json --json"],
}


def stripped(value):
    if isinstance(value, dict):
        return {key: stripped(inner) for key, inner in sorted(value.items()) if key not in LEFT_OUT}
    return [stripped(inner) for inner in value] if isinstance(value, list) else value


def play(binary, name):
    """[what the commands of a case leave]: JSON text of documents, bytes of plans."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "problem.json").write_bytes((HERE.parent.parent / "tests/golden/solve/problem.json").read_bytes())
        for command in CASES[name]:
            done = subprocess.run(f"'{binary}' {command}", shell=True, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return [f"exit code {done.returncode}: {command}: {done.stderr.strip().splitlines()[-1:]}"]
            try:
                made.append(json.dumps(stripped(json.loads(done.stdout)), sort_keys=True))
            except json.JSONDecodeError:
                made.append(f"not JSON: {command}")
        made += [path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(folder).glob("*.json"))
                 if path.name not in ("problem.json", "measured.json")]
    return made


def digest(made):
    return hashlib.sha256("\0".join(made).encode()).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    names = [name for name in CASES if arguments.only in name]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = dict(zip(names, pool.map(lambda name: play(arguments.meshwright.resolve(), name), names)))
        other = dict(zip(names, pool.map(lambda name: play(arguments.against.resolve(), name), names))) if arguments.against else None
    stored = HERE / "digests.json"
    digests = {name: digest(parts) for name, parts in made.items()}
    failed = {name: parts[0] for name, parts in made.items() if parts[0].startswith(("exit code", "not JSON"))}
    for name, why in failed.items():
        print(f"{name}: {why}")
    if arguments.accept:
        stored.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
        print(f"{len(digests)} cases written")
        return 1 if failed else 0
    known = {name: digest(parts) for name, parts in other.items()} if other else json.loads(stored.read_text(encoding="utf-8"))
    changed = [name for name in names if known.get(name) != digests[name]]
    for name in changed:
        print(f"{name}: {digests[name]}, expected {known.get(name)}")
        for mine, theirs in zip(made[name], other[name] if other else []):
            at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), None)
            if at is not None:
                print(f"  ...{mine[max(0, at - 80):at + 60]!r}\n  ...{theirs[max(0, at - 80):at + 60]!r}")
                break
    print(f"{len(names) - len(changed)} of {len(names)} cases alike to the byte, {len(changed)} differ, {len(failed)} failed")
    return 1 if changed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
