#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How fast steps are simulated, and beside SimGrid where it is installed:
#   experiments/simulator/run.sh [FOLDER with the benchmarks: build/release/bench]
set -euo pipefail

folder="${1:-build/release/bench}"
[[ -x "$folder/simulator_bench" ]] || { echo "run.sh: no simulator_bench in $folder; build with ./dev build" >&2; exit 2; }

printf '# Here: CPU time; step_ms is what the step takes, published_ms what other simulators say it does.\n'
"$folder/simulator_bench" --benchmark_min_time=0.2 --benchmark_format=json 2>/dev/null | python3 -c '
import json, sys
columns = ["time/task", "time/run", "bytes/task", "step_ms", "published_ms", "tasks", "peak_MiB"]
for run in json.load(sys.stdin)["benchmarks"]:
    notes = []
    for column in columns:
        if run.get(column):
            value = run[column]
            notes.append(f"{column} {value * 1e9:.2f} ns" if "time" in column else f"{column} {value:.9g}")
    unit, cpu = run["time_unit"], run["cpu_time"]
    print("{:<70} {:>12.3f} {}  {}".format(run["name"], cpu, unit, ", ".join(notes)))
'
if [[ -x "$folder/simgrid_bench" ]]; then
  printf '\n# Beside SimGrid\n'
  "$folder/simgrid_bench"
else
  printf '\n# No comparison with SimGrid: install libsimgrid-dev and configure again.\n'
fi
