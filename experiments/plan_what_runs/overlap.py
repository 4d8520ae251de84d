#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a plan searched under overlap, or on shared links, ever slower than a simple method under them?

    overlap.py MESHWRIGHT [--threads 2] [--only llama] [--conditions="--overlap" --conditions="--network fluid"] [--options="--micro-batches 8"]

Of each row: the plan found under the conditions, then every method of a grid (data parallelism, its ZeRO levels, Megatron's tp x pp x sp x
ZeRO) planned without them and simulated under them. Exit code 1 where one that fits is faster.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

# Model, cluster, batch.
ROWS = [
    ("gpt-350m", "p3.16xlarge:1", 64),
    ("gpt-1.3b", "p3.16xlarge:1", 64),
    ("gpt-2.6b", "p3.16xlarge:2", 128),
    ("gpt-6.7b", "p3.16xlarge:4", 256),
    ("gpt-15b", "dgx-a100:4", 256),
    ("llama-7b", "dgx-a100:1", 64),
    ("llama-7b", "dgx-h100:2", 128),
    ("llama-13b", "dgx-a100:4", 256),
    ("llama-3.1-8b", "dgx-h100:2", 128),
    ("llama-3.1-8b", "dgx-h100:8", 256),
    ("moe-1.3b", "p3.16xlarge:2", 256),
    ("mixtral-8x7b", "dgx-h100:4", 256),
]
CONDITIONS = ["--overlap", "--network fluid"]


def grid():
    methods = ["data", "zero1", "zero2", "zero3"]
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4, 8):
            for sp in (0, 1) if tp > 1 else (0,):
                for zero in (0, 1, 2, 3):
                    methods.append(f"megatron:tp={tp},pp={pp}{',sp=1' if sp else ''},zero={zero}")
    return methods


def run(command):
    """The JSON document, or None where nothing fits or the method does not suit the row."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in (2, 5):
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--only", default="", help="rows whose model, cluster or both contain this, as 'llama-7b dgx-h100:2'")
    parser.add_argument("--conditions", action="append", help="options of simulate; repeatable")
    parser.add_argument("--options", default="", help="of every plan, such as --options='--micro-batches 8 --recompute full'")
    arguments = parser.parse_args()
    faster = 0
    for model, cluster, batch in ROWS:
        if arguments.only not in f"{model} {cluster}":
            continue
        request = ["--model", model, "--cluster", cluster, "--batch", str(batch), "--threads", arguments.threads, *arguments.options.split()]
        conditions = [text.split() for text in arguments.conditions or CONDITIONS]
        with tempfile.TemporaryDirectory() as folder:
            plain = {}  # method -> plan file
            for number, method in enumerate(grid()):
                path = str(pathlib.Path(folder) / f"{number}.json")
                if run([arguments.meshwright, "plan", *request, "--method", method, "-o", path, "--json"]) is not None:
                    plain[method] = path
            for under in conditions:
                begin = time.monotonic()
                path = str(pathlib.Path(folder) / "free.json")
                found = run([arguments.meshwright, "plan", *request, *under, "-o", path, "--json"])
                wall = time.monotonic() - begin
                steps = {}
                for method, plan in plain.items():
                    simulated = run([arguments.meshwright, "simulate", plan, *under, "--json"])
                    if simulated["fits"]:
                        steps[method] = simulated["step_time_s"]
                best = min(steps, key=steps.get) if steps else None
                free = found["step_time_s"] if found else float("inf")
                if found:
                    again = run([arguments.meshwright, "simulate", path, *under, "--json"])
                    if again["step_time_s"] != free:
                        sys.exit(f"{model} on {cluster}: the plan promises {free} s, simulate says {again['step_time_s']} s")
                beaten = [method for method, step in steps.items() if step < free]
                faster += len(beaten)
                rival = f"best of {len(steps)} methods {steps[best]:.4f} s ({best}, {steps[best] / free - 1:+.1%})" if best else "no method fits"
                bound = f", at least {found['lower_bound_s']:.4f} s" if found else ""
                print(f"{model}, {cluster}, batch {batch}, {' '.join(under)}: found {free:.4f} s in {wall:.0f} s{bound}; {rival}"
                      f"{'; FASTER: ' + ', '.join(beaten) if beaten else ''}", flush=True)
    sys.exit(1 if faster else 0)


if __name__ == "__main__":
    main()
