#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `shard` finds without hints, how near it is to its bound, and how long that takes; see README.md.

    experiments/intra_op/run.py BUILD_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile

# Name, arguments, ops to show, methods that people would name.
CASES = [
    ("mlp, batch 64 x hidden", ["--model", "mlp:layers=2,hidden=512", "--cluster", "p3.16xlarge:1", "--batch", "32768", "--micro-batches", "1"],
     ["blk1.up", "blk1.down"], ["data", "zero2", "megatron:tp=8"]),
    ("mlp, batch 8 x hidden", ["--model", "mlp:layers=2,hidden=1024", "--cluster", "p3.16xlarge:1", "--batch", "8192", "--micro-batches", "1"],
     ["blk1.up", "blk1.down"], ["data", "zero2", "megatron:tp=8"]),
    ("gpt-6.7b, one sequence", ["--model", "gpt-6.7b", "--cluster", "dgx-a100:1", "--batch", "1", "--micro-batches", "1"],
     ["blk15.attn.core", "blk15.mlp.up"], ["data", "megatron:tp=8"]),
    ("llama-7b, 512 tokens", ["--model", "llama-7b", "--cluster", "dgx-a100:1", "--batch", "1", "--micro-batches", "1", "--seq", "512"],
     ["blk15.attn.core", "blk15.mlp.up"], ["data", "megatron:tp=8"]),
    ("mixtral-8x7b", ["--model", "mixtral-8x7b", "--cluster", "dgx-h200:1", "--batch", "32", "--micro-batches", "1", "--recompute", "full"],
     ["blk5.attn.core", "blk5.moe.up"], ["data", "zero3", "expert:ep=8"]),
    ("moe-2.4b", ["--model", "moe-2.4b", "--cluster", "p3.16xlarge:1", "--batch", "256", "--micro-batches", "8"],
     ["blk6.attn.core", "blk6.moe.up"], ["data", "zero3", "expert:ep=8"]),
    ("gpt-2.6b, memory binds", ["--model", "gpt-2.6b", "--cluster", "p3.16xlarge:1", "--batch", "128", "--micro-batches", "16"],
     ["blk5.mlp.up", "blk20.mlp.up"], ["data", "zero1", "zero2", "megatron:tp=8"]),
    ("wresnet-250m, 32 images", ["--model", "wresnet-250m", "--cluster", "p3.16xlarge:1", "--batch", "32", "--micro-batches", "1"],
     ["blk0.2.conv", "blk15.2.conv"], ["data", "zero2"]),
    ("gpt3-175b, 8 x 8", ["--model", "gpt3-175b", "--cluster", "dgx-a100:8", "--batch", "256", "--micro-batches", "16", "--logical-mesh", "8x8"],
     ["blk48.attn.core", "blk48.mlp.up"], []),
]


def plan(meshwright: str, arguments: list[str], method: str) -> tuple[dict, dict] | None:
    """The document and the plan; None when nothing fits."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "plan.json")
        done = subprocess.run([meshwright, "plan", *arguments, "--method", method, "--json", "-o", str(path)],
                              capture_output=True, text=True, check=False)
        if done.returncode == 5:
            return None
        done.check_returncode()
        return json.loads(done.stdout), json.loads(path.read_text())


def split(stage: dict, op: str) -> str:
    """'batch/8' or 'heads/4 batch/2': into how many parts each axis of an op is cut."""
    shape = stage["logical_shape"]
    parts = []
    for axis, mesh_axes in stage["ops"][op]["axes"].items():
        count = 1
        for mesh_axis in mesh_axes:
            count *= shape[mesh_axis]
        if count > 1:
            parts.append(f"{axis}/{count}")
    return " ".join(parts) or "whole"


def main() -> None:
    build = pathlib.Path(sys.argv[1])
    meshwright = str(build / "meshwright")
    for name, arguments, ops, methods in CASES:
        found = plan(meshwright, arguments, "shard")
        if found is None:
            print(f"{name}: nothing fits")
            continue
        document, written = found
        stage = written["stages"][0]
        states = [p["state"] for p in stage["parameters"].values()]
        print(f"{name}: mesh {'x'.join(map(str, stage['logical_shape']))}, step {1e3 * document['step_time_s']:.3f} ms, "
              f"sharding gap {document['sharding_gap']:.3%}, planned in {document['planning_wall_s']:.2f} s; "
              f"{sum('S' in s for s in states)} of {len(states)} optimizer states split")
        for op in ops:
            print(f"    {op}: {split(stage, op)}")
        for method in methods:
            other = plan(meshwright, [*arguments], method)
            print(f"    {method}: " + ("does not fit" if other is None else f"{1e3 * other[0]['step_time_s']:.3f} ms"))
    for tests in ("known_truths", "intra_op_exactness"):
        done = subprocess.run([str(build / "tests" / f"oracle_{tests}_test"), "--gtest_brief=1"], capture_output=True, text=True, check=False)
        print(f"{tests}_test: " + " ".join(line.strip() for line in done.stdout.splitlines() if "PASSED" in line or "FAILED" in line))
    measured = subprocess.run([str(build / "bench" / "intra_op_bench"), "--benchmark_repetitions=5", "--benchmark_format=json"],
                              capture_output=True, text=True, check=True)
    for row in json.loads(measured.stdout)["benchmarks"]:
        if row.get("aggregate_name") == "median":
            print(f"{row['run_name']}: {row['cpu_time']:.2f} {row['time_unit']}" + (f", gap {row['gap']:.3%}" if "gap" in row else ""))


if __name__ == "__main__":
    main()
