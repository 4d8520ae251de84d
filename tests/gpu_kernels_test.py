#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_kernels must measure every kernel that it names, and say the same in its table as in its JSON."""
import json
import math
import subprocess
import sys

EXPECTED = {
    "memory": """bias_add bias_gradient gelu gelu_backward silu silu_backward multiply add convert dropout copy_tile add_tile reduce copy_strided
        reduce_sum layer_norm layer_norm_backward layer_norm_parameter_backward rms_norm rms_norm_backward rms_norm_parameter_backward layer_norm_of_sum layer_norm_backward_and_sum
        rms_norm_of_sum rms_norm_backward_and_sum softmax
        softmax_backward embedding embedding_backward row_max sum_exp cross_entropy_rows cross_entropy cross_entropy_backward rotary top_k_slots gate_weights
        gate_weights_backward one_hot_slots scatter_tokens gather_tokens gather_weights_backward adam_update momentum_update sum_squares
        accumulate batch_sums batch_norm batch_norm_parameter_backward batch_norm_backward relu relu_backward max_pool max_pool_backward
        average_pool average_pool_backward""".split(),
    "convolutions": ["convolution"],
    "attention": ["attention", "attention_backward", "grouped_attention", "grouped_attention_backward"],
}
FIGURES = {
    "memory": ("bytes", "time_s", "spread_s", "bytes_per_s", "of_copy", "of_copy_as_large"),
    "products": ("flops", "first_s", "timed_s", "best_s", "algorithms", "first_of_best", "timed_of_best"),
    "convolutions": ("flops", "time_s", "spread_s", "flop_per_s", "of_best_product"),
    "attention": ("flops", "time_s", "spread_s", "flop_per_s", "of_best_product"),
}


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def check(document, failures):
    for part, kernels in EXPECTED.items():
        missing = set(kernels) - {row["kernel"].split(" ")[0] for row in document[part]}
        if missing:
            failures.append(f"{part}: no row of {', '.join(sorted(missing))}")
    for part, names in FIGURES.items():
        for row in document[part]:
            wrong = [name for name in names if not math.isfinite(row.get(name, math.nan)) or row[name] < 0]
            if wrong or "error" in row:
                failures.append(f"{part}: {row['kernel']} {row['shape']} has no figure for {', '.join(wrong) or row['error']}")
    for row in document["products"]:
        if not row["best_s"] <= row["timed_s"] <= row["first_s"] * 1.0001:
            failures.append(f"{row['kernel']}: the best is slower than what was chosen, or that than the first")
    # Twelve layers' forms, each forward and to its two gradients.
    if len(document["products"]) != 36:
        failures.append(f"{len(document['products'])} products in the place of 36")


def main():
    program, failures = sys.argv[1], []
    done = run(program, "--tiny", "--json")
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr}")
    document = json.loads(done.stdout)
    check(document, failures)
    table = run(program, "--tiny", "--only", "memory").stdout
    failures += [f"no line of {row['kernel']} {row['shape']} in the table" for row in document["memory"]
                 if f"{row['kernel']}  {row['shape']}  {row['moves']}" not in table]
    for words in (["--tiny", "--only", "speed"], ["--slow"]):
        refused = run(program, *words)
        if refused.returncode != 2 or refused.stdout or words[-1].strip("-") not in refused.stderr:
            failures.append(f"{' '.join(words)}: exit code {refused.returncode}, '{refused.stderr}'")
    print("\n".join(failures) if failures else f"gpu_kernels: {len(document['memory'])} kernels and {len(document['products'])} products measured")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
