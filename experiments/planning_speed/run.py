#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the search takes, and how much memory; see README.md.

    experiments/planning_speed/run.py MESHWRIGHT [--threads 2] [--only gpt-39b]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

GPT_39B = ["--model", "gpt-39b", "--cluster", "p3.16xlarge:8", "--batch", "1024"]
LLAMA_70B = ["--model", "llama-3.1-70b", "--cluster", "dgx-h100:64", "--batch", "1024"]
GPT_1T = "gpt:layers=128,hidden=25600,heads=160,seq=2048,vocab=51200"
EVERYTHING = ["--layers", "auto", "--micro-batches", "auto", "--schedule", "auto", "--recompute", "auto"]
# Name, options, published seconds.
ROWS = [
    ("gpt-39b, 64 V100, 16 layers, 1024 micro-batches", GPT_39B + ["--layers", "16", "--micro-batches", "1024", "--recompute", "full"],
     "2393.26"),
    ("gpt-39b, 64 V100, 16 layers, 256 micro-batches", GPT_39B + ["--layers", "16", "--micro-batches", "256", "--recompute", "full"], "-"),
    ("gpt-39b, 64 V100, everything searched", GPT_39B + EVERYTHING, "-"),
    ("llama-3.1-70b, 64 H100, batch 256, everything", ["--model", "llama-3.1-70b", "--cluster", "dgx-h100:8", "--batch", "256"] + EVERYTHING, "-"),
    ("llama-3.1-70b, 512 H100, micro-batches searched", LLAMA_70B, "-"),
    ("llama-3.1-70b, 512 H100, everything searched", LLAMA_70B + EVERYTHING, "-"),
    ("gpt-1t, 3072 A100, micro-batches searched", ["--model", GPT_1T, "--cluster", "dgx-a100:384", "--batch", "3072", "--recompute", "full"], "-"),
    ("gpt-1t, 3072 A100, everything searched", ["--model", GPT_1T, "--cluster", "dgx-a100:384", "--batch", "3072"] + EVERYTHING, "-"),
    ("llama-3.1-405b, 16384 H100, batch 2048", ["--model", "llama-3.1-405b", "--cluster", "dgx-h100:2048", "--batch", "2048"], "-"),
    ("deepseek-v3, 2048 H100, batch 4096", ["--model", "deepseek-v3", "--cluster", "dgx-h100:256", "--batch", "4096"], "-"),
]


def measure(command):
    """(exit code, stdout, last line of stderr, wall seconds, peak resident bytes) of one process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        last = (err.read().decode().strip().splitlines() or [""])[-1]
        return child.returncode, out.read().decode(), last, wall, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    arguments = parser.parse_args()
    print(f"# threads of the search: {arguments.threads}; published: Alpa's compilation of gpt-39b with 1024 micro-batches")
    print("# plan                                              wall (s)  peak (MiB)  published (s)   step (s)     gap  within layers  layers  micro-batches  "
          "stages  points  programs")
    faults = []
    for name, options, published in ROWS:
        if arguments.only not in name:
            continue
        code, out, last, wall, peak = measure([arguments.meshwright, "plan", *options, "--threads", arguments.threads, "--json"])
        if code != 0:
            faults.append(f"{name}: exit code {code}: {last}")
            print(f"  {name:48}  {wall:8.1f}  {peak / 2**20:10.0f}  {published:>13}   exit code {code}", flush=True)
            continue
        plan = json.loads(out)
        print(f"  {name:48}  {wall:8.1f}  {peak / 2**20:10.0f}  {published:>13}  {plan['step_time_s']:9.3f}  {plan['gap']:6.1%}  {plan['gap_within_layers']:13.1%}  "
              f"{plan['num_layers']:6}  {plan['num_micro_batches']:13}  {plan['num_stages']:6}  {plan['points']:6}  {plan['simulations']:8}",
              flush=True)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
