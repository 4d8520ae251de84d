#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a profile is off on machines that it was not fitted to: leave_out.py MESHWRIGHT DATA SOFTWARE NUMBER,NUMBER...

Fits the numbers (those of fit.sh) to the software's rows of all sources but one, and predicts that one: per source its rows, their mean
error, and the spread that they need. Then the spread that all need, each source counted by the root of its rows.
"""
import collections
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from report import validate
from spread import DEVIATIONS, needed, text


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def weighted(rows):
    """As needed, of (log, parts, weight)."""
    each = sorted((needed([(log, parts)]), weight) for log, parts, weight in rows)
    left = 0.9 * sum(weight for _, weight in each)
    for spread, weight in each:
        left -= weight
        if left <= 0:
            return spread
    return each[-1][0]


def main():
    meshwright, data, software, numbers = sys.argv[1:]
    here = pathlib.Path(__file__).parent
    table = subprocess.run([sys.executable, "-B", str(here / "select_runs.py"), data, software, "fitted"], capture_output=True, text=True, check=True).stdout
    sources = collections.defaultdict(list)
    for row in csv.DictReader(table.splitlines()):
        sources[row["source_id"]].append(row)
    of_all = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for left_out, rows in sorted(sources.items()):
            others = [row for source, some in sources.items() if source != left_out for row in some]
            if not others:
                sys.exit(f"{software} has one source only")
            write(folder / "others.csv", others)
            write(folder / "rows.csv", rows)
            profile = folder / "profile.json"
            # Rows that contradict themselves leave an exit code, and the others fitted.
            subprocess.run([meshwright, "calibrate", str(folder / "others.csv"), "--software", software, "--fit", numbers, "-o", str(profile)],
                           capture_output=True, check=False)
            fitted = json.loads(profile.read_text())
            del fitted["fitted"]  # whose generations would widen the interval
            profile.write_text(json.dumps(fitted))
            logs = []
            for row in validate(meshwright, [str(folder / "rows.csv")], "--software", str(profile))["rows"]:
                if row["predicted_step_time_s"] and row["published_step_time_s"]:
                    deviation = math.log(row["interval_s"][1] / row["interval_s"][0]) / 2 / DEVIATIONS
                    logs.append((math.log(row["predicted_step_time_s"] / row["published_step_time_s"]),
                                 math.sqrt(max(0.0, deviation ** 2 - fitted["spread"] ** 2))))
            if not logs:
                continue
            of_all += [(log, parts, len(logs) ** -0.5) for log, parts in logs]
            mean = sum(abs(math.expm1(log)) for log, _ in logs) / len(logs)
            print(f"{left_out}: {len(logs)} rows, mean error {100 * mean:.1f} %, spread needed {text(needed(logs))}", flush=True)
    print(f"all: spread needed {text(weighted(of_all))}")


if __name__ == "__main__":
    main()
