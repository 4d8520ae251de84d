#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted and measured steps of sixteen plans on cpu:2; see README.md.

    experiments/sixteen_plans/run.py MESHWRIGHT [--small] [--first] [--budget SECONDS] [--steps N] [--models gpt,mlp] [--tries N]
                                        [--keep DIR]
"""
import argparse
import contextlib
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


def middle_of(ran):
    """The median of a run's steps, and how far half of them are from it at most, as a share."""
    steps = ran["step_times_s"][2:]
    middle = statistics.median(steps)
    return middle, statistics.median(abs(step - middle) for step in steps) / middle


def is_calm(ran):
    return (ran["other_load_cores"] or 0.0) <= 0.1 and middle_of(ran)[1] <= 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshwright")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--first", action="store_true", help="before other programs, at a real-time priority (root)")
    parser.add_argument("--budget", type=int, default=90, help="seconds for each model's profile")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--models", default=",".join(MODELS), help="some of them (default: all)")
    parser.add_argument("--tries", type=int, default=1, help="runs of a plan until others take less than a tenth of a core and steps spread less than 5 %%; the calmest counts")
    parser.add_argument("--keep", help="folder for profiles, plans and reports by op of each plan (default: none is kept)")
    arguments = parser.parse_args()
    meshwright = str(pathlib.Path(arguments.meshwright).resolve())
    if arguments.first:  # of threads that differ in niceness alone, two may share a processor beside one that others have
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))

    def run(*words):
        result = subprocess.run([meshwright, *map(str, words)], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit code {result.returncode}\n{result.stderr[-2000:]}")
        return result.stdout

    rows, shortest = [], min(calibration() for _ in range(5))
    chosen = arguments.models.split(",")
    unknown = [name for name in chosen if name not in MODELS]
    if unknown:
        sys.exit(f"--models: no model {', '.join(unknown)}; expected some of {', '.join(MODELS)}")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(arguments.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="meshwright-sixteen-")))
        folder.mkdir(parents=True, exist_ok=True)
        print(f"# {time.strftime('%Y-%m-%d')}; median of {arguments.steps} steps, profiles of {arguments.budget} s a model; milliseconds"
              f"{'; before other programs' if arguments.first else ''}")
        print(f"# quiet: time of a fixed loop over the shortest before each row, and the cores that other programs took during it")
        print(f"{'model':<7}{'plan':<13}{'predicted':>10}{'measured':>10}{'error':>8}{'spread':>8}{'loop':>7}{'others':>8}", flush=True)
        for number, (model, (text, batch, microbatches)) in enumerate((SMALL if arguments.small else MODELS).items()):
            if model not in chosen:
                continue
            database = folder / f"{model}.db"
            database.unlink(missing_ok=True)
            profiled = run("profile", "--backend", "cpu", "--db", database, "--model", text, "--batch", batch, "--micro-batches",
                           f"1,{microbatches}", "--cluster", "cpu:2", "--budget", arguments.budget)
            for line in profiled.splitlines():
                if "other programs" in line:
                    print(f"{line.split(' during')[0]} during the profile of {model}", flush=True)
            plans = dict(PLANS)
            if number % 2 == 1:
                plans.pop("interleaved")
                plans.update(PLANS_OF_OTHERS)
            for plan, (method, schedule, several) in plans.items():
                loop = calibration()
                shortest = min(shortest, loop)
                file = folder / f"{model}-{plan.replace(' ', '-')}.json"
                run("plan", "--model", text, "--dtype", "f32", "--batch", batch, "--cluster", "cpu:2", "--method", method, "--schedule", schedule,
                    "--micro-batches", microbatches if several else 1, "--profile", database, "-o", file)
                runs = []
                while len(runs) < arguments.tries and not any(is_calm(one) for one in runs):
                    runs.append(json.loads(run("run", file, "--steps", arguments.steps, "--warmup", 2, "--profile", database, "--json")))
                ran = next((one for one in runs if is_calm(one)), None) or min(runs, key=lambda one: middle_of(one)[1])
                middle, spread = middle_of(ran)
                rows.append(dict(model=model, plan=plan, predicted=ran["step_time_s"], measured=middle, spread=spread))
                error = rows[-1]["predicted"] / middle - 1
                print(f"{model:<7}{plan:<13}{1e3 * ran['step_time_s']:>10.2f}{1e3 * middle:>10.2f}{error:>+8.1%}{spread:>8.1%}{loop / shortest:>7.2f}"
                      f"{ran['other_load_cores'] or 0.0:>8.2f}", flush=True)
                if arguments.keep:
                    file.with_suffix(".txt").write_text(run("run", file, "--steps", 10, "--warmup", 2, "--profile", database, "--report"))
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
