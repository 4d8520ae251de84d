#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fits every software profile to published runs, a random third of the configurations kept back:
#   experiments/accuracy/fit.sh MESHWRIGHT DATA FOLDER [SOFTWARE ...]
# DATA holds tables of published runs (docs/files.md); FOLDER gets, for each software, its rows, its fitted profile and the report.
# One set of numbers per software, whatever the source, model or device. adopt.py takes the profiles over into software.json.
set -euo pipefail

(($# >= 3)) || { echo "usage: fit.sh MESHWRIGHT DATA FOLDER [SOFTWARE ...]" >&2; exit 2; }
here="$(dirname -- "${BASH_SOURCE[0]}")"
meshwright="$(realpath -- "$1")" data="$2" folder="$3"
shift 3
mkdir -p -- "$folder"

# Few numbers each: those that the rows determine and in which software differs.
declare -A numbers=(
  [megatron]=sustained,pass_factor,score_factor,collective_factor
  [megatron-deepspeed]=sustained,score_factor,collective_factor,network_share,accumulation_factor,gradient_bytes
  [megatron-deepspeed-plain]=sustained,pass_factor,score_factor,collective_factor,network_share,accumulation_factor,dispatch_us,dispatch_collective_us,dispatch_peer_us,dispatch_run_us,step_ms
  [megatron-te]=pass_factor,attention_factor,collective_factor
  [internevo]=pass_factor,collective_factor,network_share,gradient_overlap
  [fsdp]=sustained,pass_factor,attention_factor,attention_on_newer,network_share
  [torchtitan]=sustained,pass_factor,attention_factor
  [nemo-mlperf]=sustained,pass_factor,collective_factor,quantise_passes,step_ms
  [nemo]=sustained,pass_factor,attention_factor,collective_factor,gradient_overlap,step_ms,quantise_passes
)
# What mixtures of experts add, from their runs alone.
declare -A of_mixtures=(
  [megatron-te]=grouped_factor,exchange_factor
  [nemo]=grouped_factor,exchange_factor,exchange_between_hosts,exchange_overlap,dispatch_tokens_us
  [nemo-2026]=grouped_factor,exchange_factor,exchange_overlap
)

fit() {  # SOFTWARE NUMBERS NAME fitted|mixtures
  python3 -B "$here/select_runs.py" "$data" "$1" "$4" > "$folder/$3.csv"
  python3 -B "$here/start.py" "$here/../../costmodel/sheets/software.json" "$1" "$4" > "$folder/$3.start.json"
  # Rows that contradict themselves leave an exit code, and the others fitted.
  "$meshwright" calibrate "$folder/$3.csv" --software "$folder/$3.start.json" --fit "$2" --holdout 0.33 --seed 1 -o "$folder/$3.json" \
    > "$folder/$3.txt" || true
  cat -- "$folder/$3.txt"
}

(($# > 0)) || set -- megatron megatron-deepspeed megatron-deepspeed-plain megatron-te internevo fsdp torchtitan nemo nemo-mlperf nemo-2026
for software in "$@"; do
  [[ -z "${numbers[$software]:-}" ]] || fit "$software" "${numbers[$software]}" "$software" fitted
  [[ -z "${of_mixtures[$software]:-}" ]] || fit "$software" "${of_mixtures[$software]}" "$software-mixtures" mixtures
done
