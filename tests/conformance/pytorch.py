#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the executor against PyTorch and transformers.

Makes a tiny model of random weights for each family, saves it as Hugging Face does, trains it for five steps of Adam with PyTorch in
double precision, and has `meshwright run` do the same from the same files, on one device and under plans that split batches, weights,
layers, optimizer states and experts. Logits, the loss of every step, every gradient of the first step and every weight after five must
agree.

    pytorch.py MESHWRIGHT [--only FAMILY ...] [--plans one data ...] [--fixtures tests/conformance/fixtures]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; `./dev conformance` installs PyTorch and transformers")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tiny_models.checkpoints import families, make, make_inputs, stored  # noqa: E402
from tiny_models.kinds import (  # noqa: E402
    BATCH, DERIVED, ENCODERS, FURTHER, IMAGES, MIXTURES, PAIRS, RATE, SEQ, STEPS, TOWERS, TYPED, UNTRAINED, VOCAB)

BOUNDS = {"f64": 1e-9, "f32": 1e-4}
PLANS = {
    "one": (1, ["--method", "data"]),
    "data": (4, ["--method", "data", "--micro-batches", "1"]),
    "tensor": (4, ["--method", "megatron:tp=2,pp=1", "--micro-batches", "1"]),
    "pipeline": (2, ["--method", "megatron:tp=1,pp=2", "--micro-batches", "2"]),
    "zero3": (4, ["--method", "zero3", "--micro-batches", "1"]),
    "expert": (4, ["--method", "expert:ep=2", "--micro-batches", "1"]),
}


def logits_of(family, model, inputs, part):
    cut = {key: torch.as_tensor(value[part]) for key, value in inputs.items()}
    if family == "wide_resnet":
        return model(cut["images"]), cut["labels"]
    if family in IMAGES:
        return model(pixel_values=cut["images"]).logits, cut["labels"]
    if family in TOWERS:  # each text with each image: whether they belong together
        images = {"pixel_values": cut["images"]}
        if family == "siglip2":  # 2 x 2 patches, each a row of its pixels
            rows = cut["images"].reshape(BATCH, 3, 2, 4, 2, 4).permute(0, 2, 4, 3, 5, 1).reshape(BATCH, 4, -1)
            images = {"pixel_values": rows, "pixel_attention_mask": torch.ones(BATCH, 4, dtype=torch.long),
                      "spatial_shapes": torch.full((BATCH, 2), 2)}
        scores = model(input_ids=cut["tokens"], **images).logits_per_text
        return torch.stack([torch.zeros_like(scores), scores], dim=-1), torch.eye(BATCH, dtype=torch.long)
    if family == "layoutlm":
        return model(input_ids=cut["tokens"], token_type_ids=cut["types"], bbox=cut["box"]).logits, cut["labels"]
    if family == "flaubert_norm_first":  # whose class takes a layer's part of a cache that has none
        transformers.EncoderDecoderCache.__getitem__ = lambda cache, layer: cache
    if family == "xlm":
        return model(input_ids=cut["tokens"], langs=cut["types"]).logits, cut["labels"]
    if family in TYPED:
        return model(input_ids=cut["tokens"], token_type_ids=cut["types"]).logits, cut["labels"]
    if family == "whisper":
        return model(input_features=cut["frames"][:, 0].transpose(1, 2), decoder_input_ids=cut["tokens"]).logits, cut["labels"]
    if family in PAIRS:
        more = {"use_cache": False} if family == "fsmt" else {}  # which hides later tokens only then
        return model(input_ids=cut["tokens"], decoder_input_ids=cut["before"], **more).logits, cut["labels"]
    more = {} if family in ENCODERS else {"use_cache": False}
    return model(input_ids=cut["tokens"], **more).logits, cut["labels"]


def train(family, model, inputs, folder):
    """What PyTorch makes of it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses, logits, gradients = [], None, None
    for step in range(STEPS):
        made, labels = logits_of(family, model, inputs, slice(step * BATCH, (step + 1) * BATCH))
        loss = torch.nn.functional.cross_entropy(made.reshape(-1, made.shape[-1]), labels.reshape(-1))
        if family in TOWERS:  # the sum over images
            loss = loss * BATCH
        if family in FURTHER:
            further = torch.as_tensor(inputs["labels_2"][step * BATCH:(step + 1) * BATCH])
            loss = loss + 0.3 * torch.nn.functional.cross_entropy(model.further_logits(labels).reshape(-1, VOCAB), further.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():  # of an expert that no token went to: Adam moves its weights on, as ours does
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        if step == 0:
            logits = made.detach().numpy().copy()
            zero = {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
            gradients = stored(family, model, folder, "gradients", zero)
        optimizer.step()
        losses.append(loss.item())
    weights = stored(family, model, folder, "weights", {name: p.detach() for name, p in model.named_parameters()})
    return dict(logits=logits, losses=numpy.array(losses), gradients=gradients, weights=weights)


def difference(ours, theirs):
    ours, theirs = numpy.asarray(ours, dtype=numpy.float64), numpy.asarray(theirs, dtype=numpy.float64)
    if ours.shape != theirs.shape:
        return float("inf")
    size = numpy.linalg.norm(theirs)
    return float(numpy.linalg.norm(ours - theirs) / size) if size > 0 else float(numpy.linalg.norm(ours))


def compare(what, ours, theirs, rows, gradients=None, rounding=0.0):
    # Running statistics, further names of one tensor, and what is trained by no gradient.
    more = ("running_mean", "running_var", "embed_tokens.weight", "final_logits_bias", "act_fn.beta", "act_fn.eps", *DERIVED, *UNTRAINED, "expert_bias",
            "ffn.gate.bias", "moe.router_bias")
    untrained = {k for k in theirs if what == "gradient" and ".indexer." in k and float(theirs[k].abs().max()) == 0.0}
    names = {k for k in theirs if not ((k.endswith(more) or k in untrained) and k not in ours)}
    for name in sorted(set(ours) ^ names):
        rows.append((f"{what} of {name} is not in both", float("inf")))
    scale = max(float(numpy.abs(theirs[n].numpy()).max()) for n in names)
    for name in sorted(set(ours) & names):
        a, b = ours[name].numpy(), theirs[name].numpy()
        # The gradient of a key's bias is nothing but rounding: both are held against the largest gradient. Adam makes
        # whole steps of it, whose direction means nothing.
        if gradients is not None:
            moved_by_rounding = numpy.abs(gradients[name].numpy()) < rounding * max(float(numpy.abs(g.numpy()).max()) for g in gradients.values())
            far = float(numpy.abs(a - b)[moved_by_rounding].max(initial=0.0)) > 2.1 * STEPS * RATE
            a, b = numpy.where(moved_by_rounding, 0.0, a), numpy.where(moved_by_rounding, 0.0, b)
            if far:
                rows.append((f"{what} of {name}, moved by rounding", float("inf")))
        tiny = float(numpy.abs(b).max()) < 1e-12 * scale
        rows.append((f"{what} of {name}", float(numpy.abs(a - b).max()) / scale if tiny else difference(a, b)))


def sample(values):
    """Three numbers that another tensor is not likely to have."""
    flat = numpy.asarray(values, dtype=numpy.float64).reshape(-1)
    return [float(flat.sum()), float(numpy.linalg.norm(flat)), float(flat @ numpy.cos(numpy.arange(1, flat.size + 1)))]


def write_fixture(family, model_name, inputs, folder, theirs, fixture):
    """What fixtures_test.py needs, without PyTorch, to hold the executor against what PyTorch made."""
    fixture.mkdir(parents=True, exist_ok=True)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file({k: v.bfloat16().contiguous() for k, v in tensors.items() if not k.endswith(("running_mean", "running_var"))},
                                fixture / "model.safetensors")
    if (folder / "config.json").exists():
        shutil.copy(folder / "config.json", fixture)
    names = []
    for option in inputs[1::2]:
        name, _, path = option.rpartition("=")
        array = numpy.load(path)
        numpy.save(fixture / pathlib.Path(path).name, array.astype(numpy.float32 if array.dtype.kind == "f" else numpy.uint8))
        names.append([name, pathlib.Path(path).name])
    expected = {"model": model_name if ":" in model_name else "config.json", "mixture": family in MIXTURES, "inputs": names, "batch": BATCH,
                "seq": 0 if family in IMAGES else SEQ, "steps": STEPS, "learning_rate": RATE,
                "losses": theirs["losses"].tolist(), "logits": sample(theirs["logits"]),
                "gradients": {k: sample(v) for k, v in sorted(theirs["gradients"].items())}}
    (fixture / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def run(command, place):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{place}: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def hold(meshwright, family, plan, precision, model_name, inputs, folder, theirs):
    devices, method = PLANS[plan]
    if family in TOWERS or family == "wide_resnet":  # whose batch norm, or pairs, are others in parts of a batch
        method = [word if word != "2" else "1" for word in method]
    here = folder / f"{plan}-{precision}"
    here.mkdir()
    sizes = [] if family in IMAGES else ["--seq", str(SEQ)]
    planning = ["--cluster", f"cpu:{devices}", *method, "--batch", str(BATCH), *sizes, "--dtype", "f64", "--learning-rate", str(RATE), "-o",
                here / "plan.json"]
    if family in MIXTURES:  # a place at every expert for all tokens: 2 of 4 are chosen, in JetMoE's attention one by one
        model_name = f"{model_name}:capacity_factor={4 if family == 'jetmoe' else 2}"
    run([meshwright, "plan", "--model", model_name, *planning], f"{family} {plan}")
    common = [meshwright, "run", here / "plan.json", "--weights", folder, *inputs, "--warmup", "0", "--precision", precision]
    run([*common, "--steps", "1", "--dump", "logits", here / "logits.npy", "--dump", "gradients", here / "gradients.safetensors"],
        f"{family} {plan}")
    run([*common, "--steps", str(STEPS), "--dump", "loss", here / "loss.npy", "--save-weights", here / "weights"], f"{family} {plan}")
    rows = [("logits", difference(numpy.load(here / "logits.npy"), theirs["logits"])),
            ("losses", difference(numpy.load(here / "loss.npy"), theirs["losses"]))]
    compare("gradient", safetensors.torch.load_file(here / "gradients.safetensors"), theirs["gradients"], rows)
    compare("weight", safetensors.torch.load_file(here / "weights" / "model.safetensors"), theirs["weights"], rows,
            theirs["gradients"], 1e-10 if precision == "f64" else 1e-4)
    worst = max(rows, key=lambda row: row[1])
    good = worst[1] <= BOUNDS[precision]
    print(f"{family:12} {plan:9} {precision} {len(rows):3} values, worst {worst[1]:.2e} ({worst[0]}) {'ok' if good else 'TOO FAR'}",
          flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshwright")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--plans", nargs="*", default=list(PLANS))
    parser.add_argument("--precisions", nargs="*", default=list(BOUNDS))
    parser.add_argument("--keep", help="folder for the models and what is made of them")
    parser.add_argument("--fixtures", help="write what fixtures_test.py reads to this folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    logging = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(arguments.keep or temporary)
        for family in arguments.only or [*families(), "wide_resnet"]:
            folder = root / family
            shutil.rmtree(folder, ignore_errors=True)
            try:
                model, model_name = make(family, folder)
                options, inputs = make_inputs(family, folder)
                theirs = train(family, model, inputs, folder)
            except Exception as error:  # of PyTorch or transformers
                print(f"{family:12} FAILED in PyTorch: {error}", flush=True)
                good = False
                continue
            if arguments.fixtures:
                write_fixture(family, model_name, options, folder, theirs, pathlib.Path(arguments.fixtures) / family)
                continue
            for plan in arguments.plans:
                if plan == "expert" and family not in MIXTURES:
                    continue
                for precision in arguments.precisions:
                    try:
                        good &= hold(arguments.meshwright, family, plan, precision, model_name, options, folder, theirs)
                    except (RuntimeError, AssertionError, FileNotFoundError) as error:
                        print(f"{family:12} {plan:9} {precision} FAILED: {error}", flush=True)
                        good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
