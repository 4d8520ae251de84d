#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What three runs of a user's own are worth: own_runs.py MESHWRIGHT DATA [--seeds N] [--fit NUMBERS] [SOURCE ...]

DATA is a folder of published runs (docs/files.md). For each source and seed, three random rows of one group are taken for a user's
runs, `meshwright calibrate --from-run` corrects the profile by them, and the errors on the other rows of the source are printed,
before and after. Rows of the three runs' own configurations are left out of the others, and those are at most 12, by chance.
"""
import argparse
import csv
import json
import pathlib
import random
import subprocess
import tempfile

SIZES = ("model", "n_gpus", "layers", "hidden", "seq", "tp", "pp", "vpp", "dp", "cp", "micro_batch", "num_micro", "global_batch", "precision")
OTHERS = 12


def read_sources(data):
    """{source: rows}: those with a time and the sizes that a prediction needs."""
    sources = {}
    for path in sorted(pathlib.Path(data).glob("*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if not row.get("row_id") or not row.get("iteration_s") or row.get("status") == "oom" or row.get("arch") not in ("gpt", "llama"):
                    continue
                if all(row[column] for column in ("tp", "layers", "hidden", "heads", "seq", "n_gpus")):
                    sources.setdefault(row["source_id"], []).append(row)
    return sources


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def split(rows, chance):
    """Three rows of one group, of three configurations, and the others."""
    groups = {}
    for row in rows:
        groups.setdefault((row["group"], row["framework"]), []).append(row)
    own = chance.choice(sorted(key for key, some in groups.items() if len({config_of(row) for row in some}) >= 3))
    by_config = {config_of(row): row for row in groups[own]}
    chosen = chance.sample(sorted(by_config), 3)
    others = [row for row in rows if config_of(row) not in chosen and row["framework"] == own[1]]
    return [by_config[config] for config in chosen], chance.sample(others, min(OTHERS, len(others)))


def config_of(row):
    return "|".join(row[size] for size in SIZES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("meshwright")
    parser.add_argument("data")
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fit", default="")
    options = parser.parse_intermixed_args()
    sources = read_sources(options.data)
    print("source  seeds  mean error before (%)  after (%)  better  covered (%)")
    total = []
    for name in options.sources or sorted(sources):
        results = []
        for seed in range(options.seeds):
            chance = random.Random(f"{name} {seed}")
            try:
                own, others = split(sources[name], chance)
            except IndexError:  # no group has three configurations
                continue
            if not others:
                continue
            with tempfile.TemporaryDirectory() as folder:
                write_rows(f"{folder}/own.csv", own)
                write_rows(f"{folder}/others.csv", others)
                command = [options.meshwright, "calibrate", "--from-run", f"{folder}/own.csv", f"{folder}/others.csv", "--threads", "1", "--json"]
                command += ["--fit", options.fit] if options.fit else []
                run = subprocess.run(command, capture_output=True, text=True, check=False)
            try:
                other = json.loads(run.stdout)["profile"]["fitted"]["kept_back"]
            except (json.JSONDecodeError, KeyError):
                continue
            if other["after"]["rows"] > 0:
                results.append((other["before"]["mean"], other["after"]["mean"], other["covered"] / other["after"]["rows"]))
        if results:
            total += results
            print(line(name, results), flush=True)
    if total:
        print(line("all", total))


def line(name, results):
    count = len(results)
    before, after, covered = (100 * sum(result[i] for result in results) / count for i in range(3))
    better = sum(result[1] < result[0] for result in results)
    return f"{name}  {count}  {before:.1f}  {after:.1f}  {better} of {count}  {covered:.0f}"


if __name__ == "__main__":
    main()
