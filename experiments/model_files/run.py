#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads published model files and prints what is made of them: run.py [MESHWRIGHT]   (needs $MESHWRIGHT_DATA)

One row per file of $MESHWRIGHT_DATA/models: parameters, work of one sample's forward and backward, blocks, attentions that were found, how
many notes the command makes, wall time, and, where no model is made, what the refusal says or the module holds.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

# Sizes that files leave open.
DIMS = {
    "bert_toy_optimized.onnx": ["batch=4", "max_seq_len_in_batch=16"],
    "gpt2_megatron.onnx": ["past_seq_len=8", "seq_len=8"],
    "llama_tiny_external.onnx": [],
}
ENDINGS = (".hlo", ".js", ".mlir", ".onnx", ".pt2", ".json.gz", "_config.json")


def row(meshwright, root, path):
    options = [part for dim in DIMS.get(path.name, []) for part in ("--dim", dim)]
    begin = time.monotonic()
    result = subprocess.run([meshwright, "models", str(path), *options, "--json"], capture_output=True, text=True, check=False)
    seconds = f"{time.monotonic() - begin:.2f}"
    name = str(path.relative_to(root))
    if not result.stdout:
        said = result.stderr.strip().removeprefix("meshwright: error: ").replace(str(path) + ": ", "")
        return [name, "", "", "", "", "", seconds, "refused: " + said[:150]]
    found = json.loads(result.stdout)
    if "parameters" not in found:
        program = found["program"]
        runs = sum(int(of["runs"]) for of in program["collectives"].values())
        return [name, "", f"{program['dot_tflop'] + program['convolution_tflop']:.4g}", "", "", "", seconds,
                f"described: {program['instructions']} instructions, {runs} collectives, {program['partitions']} partitions"]
    attentions = sum(count for op, count in found.get("forward_ops", {}).items() if op in ("attention", "grouped_attention"))
    return [name, str(found["parameters"]), f"{found['tflop_per_sample']:.4g}", str(found.get("blocks", "")), str(attentions or ""),
            str(len(found.get("notes", [])) + len(found.get("left_out", []))), seconds,
            "; ".join(found.get("notes", []) + found.get("assumed", []))[:200]]


def main():
    data = os.environ.get("MESHWRIGHT_DATA")
    if not data:
        sys.exit("MESHWRIGHT_DATA is not set: no model files here")
    here = pathlib.Path(__file__).resolve().parent.parent.parent
    meshwright = sys.argv[1] if len(sys.argv) > 1 else str(here / "build" / "release" / "meshwright")
    root = pathlib.Path(data) / "models"
    paths = sorted(path for path in root.rglob("*") if path.name.endswith(ENDINGS) or path.parent.name.endswith("_config"))
    rows = [["file", "parameters", "TFLOP", "blocks", "attentions", "notes", "s", "what is said"]]
    rows += [row(meshwright, root, path) for path in paths]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


if __name__ == "__main__":
    main()
