#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every instance of the contest at its time limit, beside the best published figures; see README.md.

    MESHWRIGHT_DATA=FOLDER experiments/iopddl/run.py MESHWRIGHT [A B ...]      FOLDER/iopddl holds the .json.gz files
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["instance", "nodes", "edges", "cost", "against the contest's best", "against the best known", "lower bound", "gap",
           "best known gap", "time", "limit", "method"]


def published():
    with open(HERE / "published.csv", encoding="utf-8", newline="") as file:
        return {row["instance"]: row for row in csv.DictReader(file)}


def instances(wanted):
    folder = pathlib.Path(os.environ.get("MESHWRIGHT_DATA") or sys.exit("run.py: MESHWRIGHT_DATA is not set; see the top.")) / "iopddl"
    found = {path.name.split(".")[0].rsplit("-", 1)[-1]: path for path in sorted(folder.glob("asplos-2025-iopddl-*.json*"))}
    missing = [letter for letter in wanted if letter not in found]
    if missing or not found:
        sys.exit(f"run.py: {folder} does not hold {' '.join(missing) or 'any instance'}; see README.md for where they come from.")
    return {letter: found[letter] for letter in wanted or found}


def difference(cost, text):
    """Relative to a published figure; empty where none is known."""
    return f"{cost / int(text) - 1:+.4%}" if text else ""


def gap(cost, bound):
    return "" if bound in ("", None) else f"{(cost - int(bound)) / cost:.4%}"


def solve(meshwright, path, limit):
    """The command's JSON, its wall time, and the cost by a second process that only evaluates."""
    with tempfile.TemporaryDirectory() as folder:
        solution = pathlib.Path(folder) / "solution.json"
        began = time.monotonic()
        run = subprocess.run([meshwright, "solve", str(path), "--time-limit", limit, "--json", "-o", str(solution)],
                             capture_output=True, text=True, check=False)
        wall = time.monotonic() - began
        if run.returncode != 0:
            return None, wall, run.stderr.strip().splitlines()[-1]
        answer = json.loads(run.stdout)
        check = subprocess.run([meshwright, "solve", str(path), "--check", str(solution), "--json"], capture_output=True, text=True,
                               check=False)
        if check.returncode != 0 or json.loads(check.stdout)["cost"] != answer["cost"]:
            return None, wall, f"the check disagrees: {check.stdout}{check.stderr}"
        return answer, wall, ""


def row(letter, known, answer, wall):
    cost, best = answer["cost"], known["best_known_cost"]
    best_gap = gap(int(best), known["best_known_bound"]) if best else ""
    return [letter, answer["num_nodes"], answer["num_edges"], cost, difference(cost, known["contest_best_cost"]),
            difference(cost, best), answer["lower_bound"], "proven" if answer["proven"] else f"{answer['gap']:.4%}", best_gap,
            f"{wall:.1f} s", f"{known['time_limit_s']} s", answer["method"]]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    meshwright, known = sys.argv[1], published()
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    failures = 0
    for letter, path in instances(sys.argv[2:]).items():
        if letter not in known:
            sys.exit(f"run.py: published.csv has no row for {letter}; add its time limit there.")
        answer, wall, why = solve(meshwright, path, known[letter]["time_limit_s"])
        late = wall > float(known[letter]["time_limit_s"])
        failures += answer is None or late
        cells = row(letter, known[letter], answer, wall) if answer else [letter, f"no solution after {wall:.1f} s: {why}"]
        print("| " + " | ".join(str(cell) for cell in cells) + " |" + (" over the time limit" if late else ""), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
