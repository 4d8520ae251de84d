#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How fast whole commands plan: wall time and peak memory of the process, with the limits we hold ourselves to. Called by `./dev bench`.
#   bench/planning.sh MESHWRIGHT
set -euo pipefail

meshwright="$(realpath -- "$1")"
folder="$(mktemp -d)"
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 - "$meshwright" <<'PYTHON'
import json, resource, subprocess, sys, time

meshwright = sys.argv[1]
layers = [{"layers": [i, i], "submesh": [1, 4], "logical_shape": [1, 4]} for i in range(16)]
json.dump({"stages": layers}, open("alpa_39b.json", "w"))  # the plan recorded in Alpa's benchmark suite (suite_auto_gpt.py)

gpt39 = ["--model", "gpt-39b", "--cluster", "p3.16xlarge:8", "--batch", "1024", "--layers", "16", "--micro-batches", "1024"]
cases = [
    ("GPT-39B on 64 V100, 16 layers (Alpa: 2393 s)", 60, ["plan", *gpt39]),
    ("the same with recomputation", 60, ["plan", *gpt39, "--recompute", "full"]),
    ("Alpa's recorded plan for it", 60, ["plan", *gpt39, "--recompute", "full", "--method", "manual:alpa_39b.json"]),
    ("sweep, 4 layer counts x 5 micro-batch counts, GPT-2.6B on 8 V100", 60,
     ["sweep", "--model", "gpt-2.6b", "--cluster", "p3.16xlarge:1", "--batch", "1024", "--layers", "4,8,16,32",
      "--micro-batches", "32,64,128,256,512", "--db", "sweep.db"]),
    ("DeepSeek-V3 on 2048 H100", 60, ["plan", "--model", "deepseek-v3", "--cluster", "dgx-h100:256", "-o", "deepseek.json"]),
    # Without --json, which lists every device: devices that do the same are simulated once.
    ("its step with overlap and shared links", 5, ["simulate", "deepseek.json", "--network", "fluid", "--overlap"]),
    ("Llama-3.1-405B on 16384 H100", 60, ["plan", "--model", "llama-3.1-405b", "--cluster", "dgx-h100:2048"]),
]
print("# case, wall s (limit), peak GiB of all so far (limit 4), step s")
steps = []
slow = []
for name, limit, arguments in cases:
    began = time.monotonic()
    as_json = [] if arguments[0] == "simulate" else ["--json"]
    done = subprocess.run([meshwright, *arguments, *as_json], capture_output=True, text=True)
    wall = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr.strip()}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    found = json.loads(done.stdout) if as_json else {}
    step = found.get("step_time_s")
    steps.append(step)
    print(f"{name}: {wall:.2f} s ({limit}), {peak:.2f} GiB, {'-' if step is None else f'{step:.3f} s'}")
    if wall > limit or peak > 4:
        slow.append(name)
if steps[2] < steps[1]:
    slow.append("the recorded plan is faster than the plan found")
if slow:
    sys.exit("over the limit: " + "; ".join(slow))
PYTHON
