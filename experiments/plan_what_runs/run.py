#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The best plan that each framework launches beside the free plan: run.py MESHWRIGHT [--threads 2] [--only llama]

All plans of a row have the costs and the memory of one software, so that they differ by what the frameworks can express alone.
"""
import argparse
import json
import subprocess
import sys
import time

EVERYTHING = "--layers auto --micro-batches auto --schedule auto --recompute auto"
FRAMEWORKS = ["megatron", "torchtitan", "deepspeed", "fsdp"]
# Model, cluster, batch, software.
ROWS = [
    ("gpt-1.3b", "p3.16xlarge:1", 64, "megatron"),
    ("gpt-2.6b", "p3.16xlarge:2", 256, "megatron"),
    ("gpt-6.7b", "p3.16xlarge:4", 256, "megatron"),
    ("gpt-15b", "dgx-a100:4", 256, "megatron"),
    ("gpt-39b", "dgx-a100:8", 512, "nemo"),
    ("llama-7b", "dgx-a100:1", 64, "nemo"),
    ("llama-13b", "dgx-a100:4", 256, "nemo"),
    ("llama-3.1-8b", "dgx-h100:2", 128, "nemo"),
    ("llama-3.1-8b", "dgx-h100:8", 256, "nemo"),
    ("llama-3.1-70b", "dgx-h100:8", 512, "nemo"),
    ("mixtral-8x7b", "dgx-h100:4", 256, "nemo"),
    ("qwen3-30b-a3b", "dgx-h100:4", 256, "nemo"),
]


def plan(meshwright, row, threads, *options):
    """(step in s, degrees or stages, wall seconds) or (None, the reason, wall seconds)."""
    model, cluster, batch, software = row
    begin = time.monotonic()
    done = subprocess.run([meshwright, "plan", "--model", model, "--cluster", cluster, "--batch", str(batch), "--software", software,
                           "--threads", threads, "--json", *options], capture_output=True, text=True, check=False)
    wall = time.monotonic() - begin
    if done.returncode == 5:
        return None, "nothing fits", wall
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    return found["step_time_s"], found, wall


def degrees_text(found):
    method = found["method"].removeprefix("megatron:").removesuffix(",exact=1")
    return f"{method}, {found['schedule']}, {found['recompute']}, {found['num_micro_batches']} mb"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--only", default="", help="rows whose model contains this")
    parser.add_argument("--free", default=EVERYTHING, help="options of the free plan (default: %(default)s)")
    arguments = parser.parse_args()
    for row in ROWS:
        if arguments.only not in row[0]:
            continue
        print(f"{row[0]}, {row[1]}, batch {row[2]}, as {row[3]} spends time and memory", flush=True)
        steps = {}
        step, found, wall = plan(arguments.meshwright, row, arguments.threads, *arguments.free.split())
        if step is not None:
            steps["free"] = step
            print(f"  {'free':11} {step:9.3f} s  {len(found['stages'])} stages, {found['num_micro_batches']} mb  ({wall:.0f} s)", flush=True)
        for framework in FRAMEWORKS:
            step, found, wall = plan(arguments.meshwright, row, arguments.threads, "--for", framework, "--no-free-plan")
            if step is None:
                print(f"  {framework:11} {'-':>9}    {found}  ({wall:.0f} s)", flush=True)
                continue
            steps[framework] = step
            best = min(steps.values())
            print(f"  {framework:11} {step:9.3f} s  {step / best - 1:+.1%}  {degrees_text(found)}  ({wall:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
