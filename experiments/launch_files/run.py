#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads published launch files and prints what they are predicted to take: run.py [MESHWRIGHT]   (needs $MESHWRIGHT_DATA)

One row per file: the framework, how many settings were understood, had no effect on the plan, and were not understood, how many rules
of the framework it breaks, and the predicted step. What a file leaves open (devices, model, batch) is in the table below.
"""
import json
import os
import pathlib
import subprocess
import sys

# The devices that the file's source names, and what it leaves to others.
FILES = [
    (["megatron/train_gpt3_175b_distributed.sh"], ["--cluster", "dgx-a100:16"]),
    (["megatron/train_mixtral_8x7b_distributed.sh"], ["--cluster", "dgx-h100:4"]),
    (["megatron/sbatch_mfsdp_deepseek_v3.sh"], ["--cluster", "dgx-h100:16"]),
    (["megatron/deepseekv3_proxy_layout_model_config.yaml"], ["--cluster", "dgx-h100:16", "--vocab", "129280"]),
    (["megatron/gpt3_pp4_vp2_account_for_embedding_model_config.yaml"], ["--cluster", "dgx-h100:1"]),
    (["megatron/tr11-176B-ml.slurm"], ["--cluster", "jean-zay-a100"]),
    (["torchtitan/llama3_405b.toml"], ["--cluster", "dgx-h100:16"]),
    (["torchtitan/llama3_70b.toml"], ["--cluster", "dgx-a100:8"]),
    (["torchtitan/deepseek_v3_671b.toml"], ["--cluster", "dgx-h100:32"]),
    (["torchtitan/multinode_trainer.slurm"], ["--cluster", "p4d.24xlarge", "--model", "llama-3.1-8b"]),
    (["deepspeed/gpt-neox_20B.yml"], ["--cluster", "p4d.24xlarge:12"]),
    (["deepspeed/ds_config_func_bs8_zero2_gas3.json"], ["--cluster", "dgx-a100:1", "--model", "gpt-1.3b"]),
    (["deepspeed/zero_stage2_config.json"], ["--cluster", "dgx-a100:1", "--model", "llama-7b", "--batch", "16"]),
    (["deepspeed/zero_stage3_offload_config.json"], ["--cluster", "dgx-a100:1", "--model", "llama-7b", "--batch", "16"]),
    (["accelerate/deepspeed.yaml"], ["--cluster", "dgx-a100", "--model", "gpt-1.3b", "--batch", "16"]),
    (["accelerate/fsdp.yaml"], ["--cluster", "dgx-a100", "--model", "gpt-1.3b", "--batch", "16"]),
    (["accelerate/latest_fsdp.yaml"], ["--cluster", "dgx-a100", "--model", "gpt-125m", "--batch", "16"]),
    (["accelerate/tp_hsdp.yaml"], ["--cluster", "dgx-a100", "--model", "llama-7b", "--batch", "16"]),
    (["maxtext/a3_llama_3.1_405b_128vm.sh"], ["--cluster", "dgx-h100"]),
    (["maxtext/gpu_llama3.1_405b.yml", "maxtext/model_llama3.1-405b.yml"], ["--cluster", "dgx-h100:128"]),
    (["maxtext/v5p_128b.sh"], ["--cluster", "dgx-h100:16"]),
    (["flagscale/hetero_tp2dp1_tp2dp2_tp1dp2_experiment.yaml", "flagscale/hetero_tp2dp1_tp2dp2_tp1dp2_train.yaml"],
     ["--cluster", "dgx-a100"]),
    (["flagscale/deepseek_hetero_experiment.yaml", "flagscale/deepseek_hetero_train.yaml"], ["--cluster", "dgx-a100"]),
]


def row(meshwright, folder, files, options):
    command = [meshwright, "read", *[str(folder / file) for file in files], *options, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if not result.stdout:
        return [files[0], "", "", "", "", "", "refused: " + result.stderr.strip().removeprefix("meshwright: error: ")[:90]]
    found = json.loads(result.stdout)
    settings = found["settings"]
    if "step_time_s" in found:
        mfu = f", MFU {100 * found['mfu']:.1f} %" if found["mfu"] else ""
        step = f"{found['step_time_s'] * 1e3:.1f} ms{mfu}, {'fits' if found['fits'] else 'does not fit'}"
    else:
        step = "none: " + found["no_step"][:80]
    return [files[0], found["framework"], str(settings["understood"]), str(settings["without_effect"]),
            str(len(settings["not_understood"])), str(len(found["broken_rules"])), step]


def main():
    data = os.environ.get("MESHWRIGHT_DATA")
    if not data:
        sys.exit("MESHWRIGHT_DATA is not set: no launch files here")
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    meshwright = sys.argv[1] if len(sys.argv) > 1 else str(root / "build" / "release" / "meshwright")
    rows = [["file", "framework", "understood", "no effect", "not understood", "rules broken", "predicted step"]]
    rows += [row(meshwright, pathlib.Path(data) / "launch", files, options) for files, options in FILES]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


if __name__ == "__main__":
    main()
