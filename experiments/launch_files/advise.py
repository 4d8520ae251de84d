#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What published launch files could gain: advise.py [MESHWRIGHT]   (needs $MESHWRIGHT_DATA)

One row per file: its predicted step, the best step of its framework on the same devices, the number of changes that lead there, the step
of the best plan that no framework restricts, and how long the answer took. Files and what they leave open are those of run.py.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

from run import FILES

ADVISED = ["megatron/train_gpt3_175b_distributed.sh", "megatron/train_mixtral_8x7b_distributed.sh",
           "megatron/deepseekv3_proxy_layout_model_config.yaml", "megatron/tr11-176B-ml.slurm", "torchtitan/llama3_70b.toml",
           "deepspeed/gpt-neox_20B.yml", "accelerate/tp_hsdp.yaml", "maxtext/a3_llama_3.1_405b_128vm.sh"]


def seconds(value):
    return "-" if value is None else f"{value:.3f}"


def row(meshwright, folder, files, options):
    begin = time.monotonic()
    command = [meshwright, "advise", *[str(folder / file) for file in files], *options, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = f"{time.monotonic() - begin:.0f}"
    if result.returncode != 0:
        why = (result.stderr.strip().splitlines() or ["no answer"])[-1].removeprefix("meshwright: error: ")
        return [files[0], "", "", "", "", "", wall, "refused: " + why[:90]]
    found = json.loads(result.stdout)
    now = found["now"]["step_time_s"] if found["now"] else None
    best = found["best_step_time_s"]
    gain = "-" if now is None else f"{100 * (1 - best / now):.1f}"
    changes = sum(len(of["changes"]) for of in found["rows"])
    return [files[0], seconds(now), seconds(best), gain, str(changes), seconds(found.get("free_step_time_s")), wall, found["best"]]


def main():
    data = os.environ.get("MESHWRIGHT_DATA")
    if not data:
        sys.exit("MESHWRIGHT_DATA is not set: no launch files here")
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    meshwright = sys.argv[1] if len(sys.argv) > 1 else str(root / "build" / "release" / "meshwright")
    rows = [["file", "now (s)", "best (s)", "gain (%)", "changes", "free (s)", "wall (s)", "best of the framework"]]
    for files, options in FILES:
        if files[0] in ADVISED:
            rows.append(row(meshwright, pathlib.Path(data) / "launch", files, options))
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


if __name__ == "__main__":
    main()
