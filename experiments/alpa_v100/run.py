#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted against published throughput of Alpa's evaluation on V100; see README.md.

    experiments/alpa_v100/run.py MESHWRIGHT [--only GPT,MoE] [--software NAME]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PLANS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "alpa_osdi22"
NO_PLAN = 5  # exit code: no feasible plan
HOST = 8  # GPUs of a p3.16xlarge
T = 1e12

# Hidden size and blocks; with experts: every second block is a mixture of so many.
GPT = {"gpt-350m": (1024, 24), "gpt-760m": (1536, 24), "gpt-1.3b": (2048, 24), "gpt-2.6b": (2560, 32), "gpt-39b": (8192, 48)}
MOE = {"moe-380m": (768, 8, 8), "moe-690m": (768, 8, 16), "moe-1.3b": (768, 16, 16), "moe-2.4b": (1024, 16, 16),
       "moe-10b": (1536, 16, 32), "moe-27b": (2048, 16, 48), "moe-70b": (2048, 32, 64)}
# Channels, width and blocks of the four stages.
WRESNET = {"wresnet-250m": (160, 2, (3, 4, 6, 3)), "wresnet-500m": (224, 2, (3, 4, 6, 3)), "wresnet-1b": (320, 2, (3, 4, 6, 3)),
           "wresnet-2b": (448, 2, (3, 4, 6, 3)), "wresnet-13b": (320, 16, (3, 4, 23, 3))}
OPTIMIZER = {"gpt": "adam", "moe": "sgd", "wresnet": "momentum"}  # MoE: Adafactor, whose state is about as small as none
BATCH = {"wresnet": 1536, "wresnet-13b": 1520}


def gpt_flops(model):
    """The artifact's count for one step of 1024 sequences of 1024 tokens, every forward pass counted twice."""
    hidden, blocks = GPT[model]
    tokens, seq = 1024 * 1024, 1024
    return 96 * tokens * hidden**2 * blocks * (1 + seq / (6 * hidden)) + 6 * tokens * hidden * 51200


def moe_flops(model):
    """As gpt_flops; one-hot products that give tokens to experts and back are counted, in groups of 2048 tokens."""
    hidden, blocks, experts = MOE[model]
    tokens, seq, group = 1024 * 1024, 1024, 2048
    attention = 8 * tokens * hidden**2 + 4 * tokens * seq * hidden
    mlp = 32 * tokens * hidden**2
    routed = 2 * mlp + 2 * tokens * hidden * experts + 4 * tokens * group + 8 * tokens * hidden * group
    return 4 * blocks / 2 * (2 * attention + mlp + routed) + 6 * tokens * hidden * 32000


def convolution_flops(image, inside, outside, window, stride):
    """Forward, of one sample, and the result's height. XLA counts no window position that lies in the padding."""
    height = (image - 1) // stride + 1
    before = window // 2 if stride == 1 or window == 7 else max((height - 1) * stride + window - image, 0) // 2
    taken = sum(0 <= out * stride - before + at < image for out in range(height) for at in range(window))
    return 2 * taken**2 * inside * outside, height


def wresnet_flops(model, recomputed):
    """XLA's count of convolutions and products of one step, recomputed ones included; the images need no gradient."""
    channels, width, stages = WRESNET[model]
    stem, image = convolution_flops(224, 3, channels, 7, 2)
    forward, inside, image = stem, channels, (image + 1) // 2
    for stage, blocks in enumerate(stages):
        narrow = channels << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            reduce, _ = convolution_flops(image, inside, narrow, 1, 1)
            wide, after = convolution_flops(image, narrow, narrow * width, 3, stride)
            expand, _ = convolution_flops(after, narrow * width, narrow * 4, 1, 1)
            shortcut, _ = convolution_flops(image, inside, narrow * 4, 1, stride) if inside != narrow * 4 else (0, 0)
            forward += reduce + wide + expand + shortcut
            image, inside = after, narrow * 4
    forward += 2 * inside * 1024
    return BATCH.get(model, 1536) * ((4 if recomputed else 3) * forward - stem)


def family_of(model):
    return model.split("-")[0]


def flops(model, recomputed):
    if model in GPT:
        return gpt_flops(model)
    return moe_flops(model) if model in MOE else wresnet_flops(model, recomputed)


def mesh(shape):
    return f"{shape[0]}x{shape[1]}"


# How a published run is asked for: (options of `meshwright plan`, whether forward passes are repeated).
def recorded(model, layers, microbatches):
    return ["--method", f"manual:{PLANS / model}.json", "--layers", str(layers), "--micro-batches", str(microbatches)], True


def one_stage(shape, microbatches, batch_axis=False, recomputed=True):
    axis = ["--batch-axis", "0"] if batch_axis else []
    return ["--method", "shard", "--logical-mesh", mesh(shape), "--micro-batches", str(microbatches), *axis], recomputed


def tensor_parallel(degree, microbatches):
    return ["--method", f"megatron:tp={degree},pp=1", "--micro-batches", str(microbatches)], True


def equal_stages(stages, microbatches):
    return ["--method", f"megatron:tp=1,pp={stages}", "--layers", str(stages), "--layer-cut", "uniform", "--micro-batches",
            str(microbatches)], True


def stages_of(layers, microbatches, stages):
    """stages: (number of layers, devices) of each, data-parallel inside."""
    first, rows = 0, []
    for count, devices in stages:
        rows.append({"layers": [first, first + count - 1], "submesh": [1, devices], "logical_shape": [devices, 1], "batch_axis": 0})
        first += count
    return ["--layers", str(layers), "--micro-batches", str(microbatches), {"stages": rows}], True


# Family, method, GPUs, model, published TFLOPS per GPU, the runs of which the best was published. 64 GPUs: the paper's total
# over 64. OSDI'22 artifact: figures of the end-to-end evaluation, plans of suite_artifact_e2e_*.py, exp_intra_only.py and
# exp_inter_only.py.
ROWS = [
    ("GPT", "Alpa", 1, "gpt-350m", 45.07, [recorded("gpt-350m", 1, 512)]),
    ("GPT", "Alpa", 2, "gpt-760m", 57.92, [recorded("gpt-760m", 6, 128)]),
    ("GPT", "Alpa", 4, "gpt-1.3b", 58.21, [recorded("gpt-1.3b", 6, 128)]),
    ("GPT", "Alpa", 8, "gpt-2.6b", 61.61, [recorded("gpt-2.6b", 8, 128)]),
    ("GPT", "Alpa", 64, "gpt-39b", 3650 / 64, [recorded("gpt-39b", 16, 1024)]),
    ("GPT", "intra-op only", 1, "gpt-350m", 46.20, [one_stage((1, 1), 64, True)]),
    ("GPT", "intra-op only", 2, "gpt-760m", 59.54, [one_stage((2, 1), 64, True)]),
    ("GPT", "intra-op only", 4, "gpt-1.3b", 58.36, [one_stage((4, 1), 64, True)]),
    ("GPT", "intra-op only", 8, "gpt-2.6b", 50.82, [tensor_parallel(2, 32)]),
    ("GPT", "inter-op only", 1, "gpt-350m", 44.23, [equal_stages(1, n) for n in (64, 128, 256)]),
    ("GPT", "inter-op only", 2, "gpt-760m", 57.94, [equal_stages(2, n) for n in (64, 128, 256)]),
    ("GPT", "inter-op only", 4, "gpt-1.3b", 53.99, [equal_stages(4, n) for n in (64, 128, 256, 512)]),
    ("GPT", "inter-op only", 8, "gpt-2.6b", 56.57, [equal_stages(8, n) for n in (64, 128, 256, 512, 1024)]),
    ("MoE", "Alpa", 1, "moe-380m", 45.46, [one_stage((1, 1), 32)]),
    ("MoE", "Alpa", 2, "moe-690m", 43.03, [recorded("moe-690m", 8, 32)]),
    ("MoE", "Alpa", 4, "moe-1.3b", 39.92, [recorded("moe-1.3b", 8, 32)]),
    ("MoE", "Alpa", 8, "moe-2.4b", 45.76, [recorded("moe-2.4b", 8, 32)]),
    ("MoE", "Alpa", 64, "moe-70b", 2340 / 64, [recorded("moe-70b", 8, 64)]),
    ("MoE", "intra-op only", 2, "moe-690m", 42.17, [one_stage((2, 1), 32)]),
    ("MoE", "intra-op only", 4, "moe-1.3b", 41.13, [one_stage((4, 1), 16)]),
    ("MoE", "intra-op only", 8, "moe-2.4b", 46.72, [one_stage((8, 1), 16)]),
    ("MoE", "intra-op only", 16, "moe-10b", 22.9, [one_stage((2, 8), 32)]),
    ("MoE", "intra-op only", 32, "moe-27b", 1.5, [one_stage((1, 32), 32)]),
    ("MoE", "inter-op only", 2, "moe-690m", 40.75, [equal_stages(2, n) for n in (64, 128, 256)]),
    ("MoE", "inter-op only", 4, "moe-1.3b", 37.52, [equal_stages(4, n) for n in (64, 128, 256, 512)]),
    ("MoE", "inter-op only", 8, "moe-2.4b", 39.80, [equal_stages(8, n) for n in (64, 128, 256, 512, 1024)]),
    ("W-ResNet", "Alpa", 1, "wresnet-250m", 8.3, [recorded("wresnet-250m", 16, 24)]),
    ("W-ResNet", "Alpa", 2, "wresnet-500m", 8.46, [recorded("wresnet-500m", 16, 24)]),
    ("W-ResNet", "Alpa", 4, "wresnet-1b", 8.16, [recorded("wresnet-1b", 16, 24)]),
    ("W-ResNet", "Alpa", 8, "wresnet-2b", 8.04, [recorded("wresnet-2b", 16, 24)]),
    ("W-ResNet", "Alpa", 64, "wresnet-13b", 340 / 64, [recorded("wresnet-13b", 33, 38)]),
    ("W-ResNet", "intra-op only", 1, "wresnet-250m", 8.37, [one_stage((1, 1), 48, recomputed=False)]),
    ("W-ResNet", "intra-op only", 2, "wresnet-500m", 8.48, [one_stage((2, 1), 32, recomputed=False)]),
    ("W-ResNet", "intra-op only", 4, "wresnet-1b", 8.15, [one_stage((4, 1), 32, recomputed=False)]),
    ("W-ResNet", "intra-op only", 8, "wresnet-2b", 7.71, [one_stage((8, 1), 48, recomputed=False)]),
    ("W-ResNet", "inter-op only", 4, "wresnet-1b", 6.47, [stages_of(16, 64, [(6, 1), (5, 1), (3, 1), (2, 1)])]),
    ("W-ResNet", "inter-op only", 8, "wresnet-2b", 5.46,
     [stages_of(16, 96, [(3, 1), (3, 1), (2, 1), (3, 1), (2, 1), (1, 1), (1, 1), (1, 1)])]),
    ("W-ResNet", "PP-DP", 4, "wresnet-1b", 8.08, [stages_of(16, 32, [(8, 2), (5, 1), (3, 1)])]),
    ("W-ResNet", "PP-DP", 8, "wresnet-2b", 7.72, [stages_of(16, 32, [(9, 4), (2, 1), (3, 2), (2, 1)])]),
]


def step_seconds(arguments, devices, model, run):
    """The predicted time of a step, None where nothing fits, or a sentence when the question was refused."""
    options, recomputed = run
    with tempfile.NamedTemporaryFile("w", suffix=".json") as stages:
        if isinstance(options[-1], dict):
            json.dump(options[-1], stages)
            stages.flush()
            options = [*options[:-1], "--method", f"manual:{stages.name}"]
        done = subprocess.run(
            [arguments.meshwright, "plan", "--model", model, "--cluster", f"p3.16xlarge:{max(1, devices // HOST)}", "--devices-per-node",
             str(min(HOST, devices)), "--recompute", "full" if recomputed else "none", "--optimizer", OPTIMIZER[family_of(model)],
             "--threads", "1", "--json", *options, *(["--software", arguments.software] if arguments.software else [])],
            capture_output=True, text=True)
    if done.returncode == NO_PLAN:
        return None
    return json.loads(done.stdout)["step_time_s"] if done.returncode == 0 else done.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshwright")
    parser.add_argument("--only", default="GPT,MoE,W-ResNet", help="families, by comma")
    parser.add_argument("--software", default="alpa", help="empty: the costs of the cluster's description")
    arguments = parser.parse_args()
    print(f"# TFLOPS per GPU as the artifact counts them; costs of software {arguments.software or '(none)'}")
    print("# family    method         GPUs  model          published  predicted   error")
    errors, faults = {}, []
    for family, method, devices, model, published, runs in ROWS:
        if family not in arguments.only.split(","):
            continue
        found = [step_seconds(arguments, devices, model, run) for run in runs]
        faults += [f"{model}, {method}: {text}" for text in found if isinstance(text, str)]
        times = [seconds for seconds in found if isinstance(seconds, float)]
        predicted = flops(model, runs[0][1]) / min(times) / devices / T if times else None
        error = predicted / published - 1 if times else None
        if times:
            errors.setdefault(family, []).append((method, devices, error))
        print(f"  {family:9} {method:14} {devices:4}  {model:13} {published:9.2f}  "
              + (f"{predicted:9.2f}  {error:+7.1%}" if times else "does not fit"), flush=True)
    for family, rows in errors.items():
        for name, some in (("all", [e for _, _, e in rows]), ("Alpa", [e for method, _, e in rows if method == "Alpa"]),
                           ("one host", [e for _, devices, e in rows if devices <= HOST])):
            print(f"# {family:9} {name:9} mean error {sum(map(abs, some)) / len(some):5.1%}, bias {sum(some) / len(some):+6.1%} "
                  f"({len(some)} rows)")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
