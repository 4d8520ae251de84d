#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Methods against the free search inside one stage, beside Alpa's intra-operator ablation; see README.md.

    experiments/alpa_intra_op_ablation/run.py MESHWRIGHT
"""
import json
import subprocess
import sys

# GPUs, hidden size, heads; 8 layers, sequence 1024, vocabulary 25600, batch 8, no accumulation (OSDI'22, intra-operator ablation, GPT).
MODELS = [(1, 2048, 16), (2, 3072, 24), (4, 4096, 32)]
# Method here, its name there, published latency in s and peak memory in GB by GPUs; None: out of memory or not given.
METHODS = [
    ("shard", "auto", [(0.454, 9.54), (0.536, 10.34), (0.433, 12.42)]),
    ("data", "data parallel", [None, None, None]),
    ("zero2", "ZeRO-2", [None, (0.536, 10.34), (0.433, 12.42)]),
    ("zero3", "ZeRO-3", [None, (0.635, 9.59), (0.498, 10.02)]),
    ("largest", "heuristic", [None, (0.641, 8.94), (0.462, 7.51)]),
]
OUT_OF_MEMORY = 5  # exit code: no feasible plan


def plan(meshwright: str, gpus: int, hidden: int, heads: int, method: str):
    """(step time in s, peak memory in GB, gap of the sharding), or None when nothing fits."""
    model = f"gpt:layers=8,hidden={hidden},heads={heads},seq=1024,vocab=25600"
    done = subprocess.run(
        [meshwright, "plan", "--model", model, "--cluster", "p3.16xlarge:1", "--devices-per-node", str(gpus), "--batch", "8",
         "--micro-batches", "1", "--recompute", "full", "--software", "alpa", "--method", method, "--json"],
        capture_output=True, text=True)
    if done.returncode == OUT_OF_MEMORY:
        return None
    done.check_returncode()
    found = json.loads(done.stdout)
    return found["step_time_s"], found["peak_memory_bytes"] / 1e9, found["sharding_gap"]


def main() -> None:
    print("# GPUs  method         predicted (s, GB)     published (s, GB)   sharding gap")
    slower = []
    for column, (gpus, hidden, heads) in enumerate(MODELS):
        best = None
        for method, name, published in METHODS:
            found = plan(sys.argv[1], gpus, hidden, heads, method)
            shown = "out of memory" if found is None else f"{found[0]:.3f}  {found[1]:5.2f}"
            theirs = published[column]
            known = "" if theirs is None else f"{theirs[0]:.3f}  {theirs[1]:5.2f}"
            if method == "data" and gpus > 1:
                known = "out of memory"
            gap = "" if found is None else f"{found[2]:.2%}"
            print(f"  {gpus:4}  {name:13}  {shown:>16}  {known:>20}   {gap:>12}")
            if method == "shard":
                best = found[0]
            elif found is not None and found[0] < best * (1 - 1e-9):
                slower.append(f"{name} on {gpus}")
    print("# the free search is never slower than a method" if not slower else f"# slower than: {', '.join(slower)}")


if __name__ == "__main__":
    main()
