#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Six reports, each one page: make.sh MESHWRIGHT [FOLDER]   (some minutes on two cores; without a GPU)
set -euo pipefail

(($# >= 1)) || { printf 'usage: make.sh MESHWRIGHT [FOLDER for the pages]\n' >&2; exit 2; }
meshwright="$(realpath -- "$1")"
folder="${2:-$(dirname -- "$(dirname -- "$meshwright")")/gallery}"
mkdir -p -- "$folder"
cd -- "$folder"

# page NAME TITLE OPTION...: plans, and writes NAME.html.
page() {
  local name="$1" title="$2"
  shift 2
  printf '%s\n' "$title"
  "$meshwright" plan --quiet "$@" -o "$name.json" --html "$name.html" >"$name.txt"
}

page gpt-39b "GPT-39B on 64 V100" --model gpt-39b --cluster p3.16xlarge:8 --batch 1024 --layers 16 \
  --micro-batches 1024 --recompute full
page llama-70b "Llama 3.1 70B on 512 H100, as Megatron-LM runs it" --model llama-3.1-70b --cluster dgx-h100:64 --batch 512 --for megatron
page mixtral "Mixtral 8x7B on 64 H100" --model mixtral-8x7b --cluster dgx-h100:8 --batch 256 --for megatron
page wresnet "Wide-ResNet of 2B parameters on 16 V100" --model wresnet-2b --cluster p3.16xlarge:2 --batch 1536 --layers 16 --micro-batches 32
# Whole blocks as layers, six in either tower: stages of the two towers need not wait for each other.
towers="image.embed,$(printf 'image.blk%d.ln1,' 2 4 6 8 10)text.embed$(printf ',text.blk%d.ln1' 2 4 6 8 10)"
page clip "CLIP's two towers, side by side on 16 V100" --model clip-b32 --cluster p3.16xlarge:2 --batch 4096 --micro-batches 8 \
  --recompute full --layer-starts "$towers"

printf '%s\n' "A perceptron on two threads of this machine: predicted and measured"
mlp=(--model mlp --batch 512 --micro-batches 4)
rm -f profiles.db
"$meshwright" profile --quiet --backend cpu --db profiles.db --model mlp --batch 512 --micro-batches 4 --cluster cpu:2 --budget 20 >/dev/null
"$meshwright" plan --quiet "${mlp[@]}" --cluster cpu:2 --layers 2 --profile profiles.db -o measured.json >/dev/null
"$meshwright" run --quiet measured.json --profile profiles.db --steps 5 --check --html measured.html >measured.txt
printf 'pages: %s/{gpt-39b,llama-70b,mixtral,wresnet,clip,measured}.html\n' "$PWD"
