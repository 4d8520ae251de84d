#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each software's published runs say of its intervals: spread.py MESHWRIGHT DATA

Per software: dense rows, the spread of the step that they need (the least with which nine in ten lie in their intervals) and how many lie
in the shipped ones; rows of memory and the spread that they need. Then what mixtures of experts need beside their software's spread, and
what all rows of software that was not fitted need.
"""
import collections
import csv
import json
import math
import pathlib
import sys

from report import tables, validate

DEVIATIONS = 1.645  # validation/interval.h
MIXTURE = 0.2
DEFAULT = {"spread": 0.13, "memory_spread": 0.18}


def needed(rows):
    """The least spread with which nine in ten of (log, other parts of the deviation) are covered."""
    each = sorted(math.sqrt(max(0.0, (log / DEVIATIONS) ** 2 - parts ** 2)) for log, parts in rows)
    return each[max(1, math.ceil(0.9 * len(each))) - 1] if each else None


def text(value):
    return "-" if value is None else f"{value:.3f}"


def mixtures(files):
    found = set()
    for path in files:
        with open(path, encoding="utf-8", newline="") as file:
            found.update(row["row_id"] for row in csv.DictReader(file) if row.get("arch") == "moe")
    return found


def main():
    meshwright, data = sys.argv[1:]
    files = tables(data)
    shipped = {}
    for p in json.loads((pathlib.Path(__file__).parents[2] / "costmodel/sheets/software.json").read_text())["profiles"]:
        shipped[p["name"]] = {**shipped.get(p.get("like"), DEFAULT), **p}
    of_mixtures, step, memory, covered = mixtures(files), collections.defaultdict(list), collections.defaultdict(list), collections.Counter()
    mixed, unfitted = [], []
    for row in validate(meshwright, files)["rows"]:
        software = row["software"]
        if row["predicted_bytes"] and row["published_bytes"]:
            memory[software].append((math.log(row["predicted_bytes"] / row["published_bytes"]), 0.0))
        if not row["predicted_step_time_s"] or not row["published_step_time_s"]:
            continue
        low, high = row["interval_s"]
        log = math.log(row["predicted_step_time_s"] / row["published_step_time_s"])
        squares = (math.log(high / low) / 2 / DEVIATIONS) ** 2
        if row["id"] in of_mixtures:
            mixed.append((log, math.sqrt(max(0.0, squares - MIXTURE ** 2))))
            continue
        parts = math.sqrt(max(0.0, squares - shipped[software]["spread"] ** 2))
        step[software].append((log, parts))
        covered[software] += low <= row["published_step_time_s"] <= high
        if "fitted" not in shipped[software]:
            unfitted.append((log, parts))
    print("software: dense rows, step spread needed, shipped, covered (%); rows of memory, spread needed, shipped")
    for name in sorted(set(step) | set(memory)):
        share = f"{100 * covered[name] / len(step[name]):.0f}" if step[name] else "-"
        print(f"{name}: {len(step[name])}, {text(needed(step[name]))}, {shipped[name]['spread']}, {share}; "
              f"{len(memory[name])}, {text(needed(memory[name]))}, {shipped[name]['memory_spread']}")
    print(f"memory of all: {text(needed([row for rows in memory.values() for row in rows]))}")
    print(f"mixtures: {len(mixed)} rows, {text(needed(mixed))}; software that was not fitted: {len(unfitted)} rows, {text(needed(unfitted))}")


if __name__ == "__main__":
    main()
