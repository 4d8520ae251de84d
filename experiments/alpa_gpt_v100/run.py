#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted against published step times of Alpa's GPT plans on one p3.16xlarge; see README.md.

    experiments/alpa_gpt_v100/run.py MESHWRIGHT
"""
import json
import subprocess
import sys

# GPUs, model, hidden size and transformer layers, layers and micro-batches of the recorded plan, published TFLOPS per GPU (OSDI'22 artifact, end to end, GPT, Alpa).
ROWS = [
    (1, "gpt-350m", 1024, 24, 1, 512, 45.07),
    (2, "gpt-760m", 1536, 24, 6, 128, 57.92),
    (4, "gpt-1.3b", 2048, 24, 6, 128, 58.21),
    (8, "gpt-2.6b", 2560, 32, 8, 128, 61.61),
]


def flops(hidden: int, layers: int) -> float:
    """Of one step of 1024 sequences, every forward done twice: the count behind the published figures."""
    tokens, seq, vocab = 1024 * 1024, 1024, 51200
    return 96 * tokens * hidden**2 * layers * (1 + seq / (6 * hidden)) + 6 * tokens * hidden * vocab


def main() -> None:
    meshwright = sys.argv[1]
    print("# GPUs  model      stages  predicted  published  error   (TFLOPS per GPU, recomputed work counted)")
    errors = []
    for gpus, model, hidden, blocks, layers, microbatches, published in ROWS:
        arguments = ["plan", "--model", model, "--cluster", "p3.16xlarge:1", "--devices-per-node", str(gpus), "--batch", "1024",
                     "--layers", str(layers), "--micro-batches", str(microbatches), "--recompute", "full", "--json"]
        done = subprocess.run([meshwright, *arguments], capture_output=True, text=True, check=True)
        plan = json.loads(done.stdout)
        predicted = flops(hidden, blocks) / plan["step_time_s"] / gpus / 1e12
        error = predicted / published - 1
        errors.append(abs(error))
        print(f"  {gpus:4}  {model:9}  {plan['num_stages']:6}  {predicted:9.2f}  {published:9.2f}  {error:+6.1%}")
    print(f"# mean absolute error {sum(errors) / len(errors):.1%}")


if __name__ == "__main__":
    main()
