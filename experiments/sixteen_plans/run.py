#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted and measured steps of sixteen plans on cpu:2; see README.md.

    experiments/sixteen_plans/run.py MESHWRIGHT [--small] [--realtime] [--budget SECONDS] [--steps N]
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {  # name: model, batch, micro-batches of the pipelines
    "gpt": ("gpt:layers=4,hidden=256,heads=8,seq=128,vocab=2048", 16, 4),
    "llama": ("llama:layers=4,hidden=256,heads=8,kv_heads=4,intermediate=704,seq=128,vocab=2048", 16, 4),
    "vit": ("vit:layers=4,hidden=256,heads=8,intermediate=1024,image=64,patch=8,classes=100", 32, 4),
    "mlp": ("mlp:layers=4,hidden=512", 512, 4),
}
SMALL = {
    "gpt": ("gpt:layers=4,hidden=128,heads=4,seq=64,vocab=512", 16, 4),
    "llama": ("llama:layers=4,hidden=128,heads=4,kv_heads=2,intermediate=352,seq=64,vocab=512", 16, 4),
    "vit": ("vit:layers=4,hidden=128,heads=4,intermediate=512,image=32,patch=4,classes=10", 16, 4),
    "mlp": ("mlp:layers=4,hidden=256", 256, 4),
}
PLANS = {  # name: method, schedule, in micro-batches of the pipelines
    "data": ("data", "1f1b", False),
    "tensor": ("megatron:tp=2,pp=1", "1f1b", False),
    "1F1B": ("megatron:tp=1,pp=2", "1f1b", True),
    "interleaved": ("megatron:tp=1,pp=2", "interleaved:2", True),
}
PLANS_OF_OTHERS = {"zero bubble": ("megatron:tp=1,pp=2", "zb-h1", True)}  # of every second model, in the place of the last


def calibration():
    """Seconds for a fixed piece of work, on one thread."""
    begin, sum_ = time.perf_counter(), 0
    for number in range(2_000_000):
        sum_ += number
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshwright")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--realtime", action="store_true", help="with the scheduler's priority over other programs (root)")
    parser.add_argument("--budget", type=int, default=90, help="seconds for each model's profile")
    parser.add_argument("--steps", type=int, default=25)
    arguments = parser.parse_args()
    meshwright = str(pathlib.Path(arguments.meshwright).resolve())
    first = ["chrt", "-r", "10"] if arguments.realtime else []

    def run(*words, quiet=True):
        result = subprocess.run([*(first if quiet else []), meshwright, *map(str, words)], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit code {result.returncode}\n{result.stderr[-2000:]}")
        return result.stdout

    rows, shortest = [], min(calibration() for _ in range(5))
    with tempfile.TemporaryDirectory(prefix="meshwright-sixteen-") as name:
        folder = pathlib.Path(name)
        print(f"# {time.strftime('%Y-%m-%d')}; median of {arguments.steps} steps, profiles of {arguments.budget} s a model; milliseconds"
              f"{'; real-time priority' if arguments.realtime else ''}")
        print(f"# quiet: time of a fixed loop over the shortest, and the load average, before each row")
        print(f"{'model':<7}{'plan':<13}{'predicted':>10}{'measured':>10}{'error':>8}{'spread':>8}{'loop':>7}{'load':>6}", flush=True)
        for number, (model, (text, batch, microbatches)) in enumerate((SMALL if arguments.small else MODELS).items()):
            database = folder / f"{model}.db"
            run("profile", "--backend", "cpu", "--db", database, "--model", text, "--batch", batch, "--micro-batches", f"1,{microbatches}", "--cluster",
                "cpu:2", "--budget", arguments.budget)
            plans = dict(PLANS)
            if number % 2 == 1:
                plans.pop("interleaved")
                plans.update(PLANS_OF_OTHERS)
            for plan, (method, schedule, several) in plans.items():
                loop = calibration()
                shortest = min(shortest, loop)
                load = os.getloadavg()[0]
                run("plan", "--model", text, "--dtype", "f32", "--batch", batch, "--cluster", "cpu:2", "--method", method, "--schedule", schedule,
                    "--micro-batches", microbatches if several else 1, "--profile", database, "-o", folder / "plan.json", quiet=False)
                ran = json.loads(run("run", folder / "plan.json", "--steps", arguments.steps, "--warmup", 2, "--profile", database, "--json"))
                steps = ran["step_times_s"][2:]
                middle = statistics.median(steps)
                spread = statistics.median(abs(step - middle) for step in steps) / middle
                rows.append(dict(model=model, plan=plan, predicted=ran["step_time_s"], measured=middle, spread=spread))
                error = rows[-1]["predicted"] / middle - 1
                print(f"{model:<7}{plan:<13}{1e3 * ran['step_time_s']:>10.2f}{1e3 * middle:>10.2f}{error:>+8.1%}{spread:>8.1%}{loop / shortest:>7.2f}"
                      f"{load:>6.1f}", flush=True)
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    print(f"# error: mean {statistics.mean(errors):.1%}, worst {max(errors):.1%}")
    told = wrong = 0
    for one, other in itertools.combinations(rows, 2):
        gap = abs(one["measured"] / other["measured"] - 1)
        if one["model"] != other["model"] or gap < 2 * (one["spread"] + other["spread"]):
            continue
        told += 1
        if (one["measured"] < other["measured"]) != (one["predicted"] < other["predicted"]):
            wrong += 1
            print(f"# {one['model']}: {one['plan']} and {other['plan']} are predicted in the wrong order; they are {gap:.1%} apart")
    print(f"# order: {told - wrong} of {told} pairs that differ by more than twice their spreads")


if __name__ == "__main__":
    main()
