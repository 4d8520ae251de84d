#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# First light: profile this machine, sweep in simulation, run the winner for real, compare. Called by `./dev demo`; by hand:
#   experiments/first_light/run.sh MESHWRIGHT [FOLDER]
set -euo pipefail

(($# >= 1)) || { echo "usage: run.sh MESHWRIGHT [FOLDER for the files it makes]" >&2; exit 2; }
meshwright="$(realpath -- "$1")"
folder="${2:-$(dirname -- "$(dirname -- "$meshwright")")/demo}"
mkdir -p -- "$folder"
cd -- "$folder"
model=(--model mlp --cluster cpu:2 --batch 2048)

# show COMMAND...: print it as a user would type it, then run it.
show() {
  printf '\n$ meshwright %s\n' "$*"
  "$meshwright" "$@"
}

printf '# 1. A cluster nobody here has: the fastest plan for GPT-2.6B on eight V100s, from the cost model alone.\n'
show plan --model gpt-2.6b --cluster p3.16xlarge:1 --batch 1024 --layers 8 --micro-batches 128 -o gpt.json 2>/dev/null
printf '\n# 2. Measure this machine (once; the numbers stay in %s/profiles.db).\n' "$PWD"
rm -f profiles.db
show profile --backend cpu --db profiles.db "${model[@]}" --micro-batches 2,4,8 --budget 60 2>/dev/null

printf '\n# 3. Sweep layers and micro-batches in simulation; every point is kept in sweep.db.\n'
rm -f sweep.db
show sweep "${model[@]}" --layers 2,4 --micro-batches 2,4,8 --profile profiles.db --db sweep.db -o best.json 2>/dev/null

printf '\n# 4. Look at the winner: its schedule, and a trace for ui.perfetto.dev.\n'
show simulate best.json --profile profiles.db --timeline --trace predicted_trace.json

printf '\n# 5. Run it for real and compare losses and every weight with one device that runs no plan.\n'
show run best.json --profile profiles.db --steps 3 --check --trace measured_trace.json 2>/dev/null

printf '\n# 6. The same comparison in double, small enough to be quick: equal to twelve digits.\n'
show plan --model mlp:layers=2,hidden=256 --cluster cpu:2 --batch 256 --layers 4 --micro-batches 4 --method megatron:pp=2 \
  -o small.json >/dev/null 2>&1
show run small.json --steps 3 --precision f64 --check 2>/dev/null | tail -n 1

printf '\n# 7. Is the prediction right for other plans too? Data-parallel, tensor-parallel, and a two-stage pipeline.\n'
for method in data megatron:tp=2 megatron:pp=2; do
  "$meshwright" plan "${model[@]}" --layers 2 --micro-batches 4 --method "$method" --profile profiles.db -o "plan.json" >/dev/null 2>&1
  printf '%-14s ' "$method"
  "$meshwright" run plan.json --profile profiles.db --steps 5 2>/dev/null | grep '^# step time' | cut -c3-
done

printf '\n# files: %s\n' "$PWD"
