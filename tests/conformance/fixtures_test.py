#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `meshwright run` against what PyTorch made of tiny models, which pytorch.py --fixtures has stored: no PyTorch is needed.

    fixtures_test.py MESHWRIGHT
"""
import array
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
BOUND = 1e-9
# Beside one device: plans of which each family tries one in turn.
PLANS = [(2, ["--method", "data", "--micro-batches", "1"]), (2, ["--method", "megatron:tp=2,pp=1", "--micro-batches", "1"]),
         (2, ["--method", "megatron:tp=1,pp=2", "--micro-batches", "2"]), (2, ["--method", "zero3", "--micro-batches", "1"])]


def doubles(data):
    values = array.array("d")
    values.frombytes(data)
    return values


def read_npy(path):
    data = path.read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return doubles(data[begin:])


def read_safetensors(path):
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: doubles(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def sample(values):
    return [math.fsum(values), math.sqrt(math.fsum(v * v for v in values)), math.fsum(v * math.cos(i) for i, v in enumerate(values, 1))]


def far(ours, theirs, count, scale):
    """Whether samples of `count` numbers differ by more than rounding; `scale`: what is large among their like."""
    size = max(theirs[1], 1e-6 * scale) * math.sqrt(count)
    return max(abs(a - b) for a, b in zip(ours, theirs)) > BOUND * size


def run(command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")


def complaints(meshwright, fixture, devices, method, here):
    expected = json.loads((fixture / "expected.json").read_text())
    model = str(fixture / "config.json") if expected["model"] == "config.json" else expected["model"]
    sizes = ["--seq", expected["seq"]] if expected["seq"] else []
    planning = ["--cluster", f"cpu:{devices}", *method, "--batch", expected["batch"], *sizes, "--dtype", "f64", "--learning-rate",
                expected["learning_rate"], "-o", here / "plan.json"]
    if expected["mixture"]:  # a place at every expert for all tokens: 2 of 4 are chosen
        model += ":capacity_factor=2"
    run([meshwright, "plan", "--model", model, *planning])
    inputs = [word for name, file in expected["inputs"] for word in ("--inputs", (f"{name}=" if name else "") + str(fixture / file))]
    common = [meshwright, "run", here / "plan.json", "--weights", fixture, *inputs, "--warmup", 0, "--precision", "f64"]
    run([*common, "--steps", 1, "--dump", "logits", here / "logits.npy", "--dump", "gradients", here / "gradients.safetensors"])
    run([*common, "--steps", expected["steps"], "--dump", "loss", here / "loss.npy"])
    found = []
    losses = read_npy(here / "loss.npy")
    if max(abs(a - b) / abs(b) for a, b in zip(losses, expected["losses"])) > BOUND:
        found.append(f"losses {list(losses)}, PyTorch has {expected['losses']}")
    logits = read_npy(here / "logits.npy")
    if far(sample(logits), expected["logits"], len(logits), expected["logits"][1]):
        found.append("logits differ")
    gradients = read_safetensors(here / "gradients.safetensors")
    scale = max(numbers[1] for numbers in expected["gradients"].values())
    for name, numbers in expected["gradients"].items():
        if name in gradients and far(sample(gradients[name]), numbers, len(gradients[name]), scale):
            found.append(f"the gradient of {name} differs")
        elif name not in gradients and numbers[1] > 0:
            found.append(f"the gradient of {name} is missing")
    return found


def main():
    failed = 0
    fixtures = sorted(path.parent for path in FIXTURES.glob("*/expected.json"))
    if not fixtures:
        sys.exit(f"{FIXTURES} has no fixtures")
    for number, fixture in enumerate(fixtures):
        plans = [(1, ["--method", "data"])]
        if fixture.name != "wide_resnet":  # whose batch norm is another in parts of a batch
            plans.append(PLANS[number % len(PLANS)])
        for devices, method in plans:
            with tempfile.TemporaryDirectory() as here:
                for sentence in complaints(sys.argv[1], fixture, devices, method, pathlib.Path(here)):
                    print(f"{fixture.name} on {devices} devices, {' '.join(method)}: {sentence}")
                    failed += 1
    print(f"fixtures_test: {len(fixtures)} models, {failed} differences from PyTorch")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
