#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the parameters of model types with changed members against those of transformers.

Draws model types that are read, and for each some changes of its own configuration: a switch the other way, another size, another order of
layers, a member that the file does not say. Trained parameters must be equal in number, as counts.py compares them, unless the file is
refused, a changed member is named as left out, or transformers makes no such model.

    config_keys.py MESHWRIGHT [--seed N] [--types N] [--tries N] [--only TYPE ...]

Prints a line for each change that went WRONG, which fails, and how many of each verdict there were.
"""
import argparse
import collections
import json
import pathlib
import random
import sys
import tempfile
import warnings

from counts import CONFIG_MAPPING, SIZES, heads_of, hold, transformers

# Members of names, tokens, training and generation, and what other parts than the text model have.
NO_SIZE = ("_token_id", "_token_index", "dropout", "_pdrop", "drop", "init", "initializer", "output_", "return_", "use_cache", "gradient_checkpointing",
           "_coef", "chunk_size", "is_encoder_decoder", "transformers_version", "architectures", "model_type", "dtype", "id2label", "label2id",
           "problem_type", "_name_or_path", "rope_parameters", "jitter", "epsilon", "_eps", "_scale", "_multiplier", "theta", "mrope")
LAYERS = 4
ABSENT = "(absent)"


def is_size(key):
    return not any(part in key for part in NO_SIZE)


def other_values(key, value):
    """What a member may say instead."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [v for v in {0, 1, 2, value // 2, value * 2} if v != value and (v > 0 or "hidden_size" not in key)]
    if value is None:
        return [64, 2, True]
    if isinstance(value, list) and len(value) > 1:
        return [value[::-1], value[1:] + value[:1], [value[0]] * len(value), [value[-1]] * len(value)]
    return []


def text_of(config):
    return "text_config" if getattr(config, "text_config", None) is not None else None


def made(model_type, changes, part):
    """The configuration of a type with these members, and the text of its file."""
    sizes = dict(SIZES.get(model_type, {}))
    said = {key: value for key, value in changes.items() if value is not ABSENT}
    if part:
        sizes[part] = {**sizes.get(part, {}), **said}
    else:
        sizes.update(said)
    kind = CONFIG_MAPPING[model_type]
    file = json.loads(kind(**sizes).to_json_string())
    members = file[part] if part else file
    for key, value in changes.items():
        if value is ABSENT:
            members.pop(key, None)
    for members in (file, file.get(part) or {}):
        if members.get("num_nextn_predict_layers"):
            members["num_nextn_predict_layers"] = 0
    return kind.from_dict(json.loads(json.dumps(file))), json.dumps(file, indent=1)


def small(model_type):
    """Fewer layers, where there can be."""
    config = CONFIG_MAPPING[model_type](**SIZES.get(model_type, {}))
    part = text_of(config)
    members = json.loads(config.to_json_string())
    members = members[part] if part else members
    return part, members, {"num_hidden_layers": LAYERS} if "num_hidden_layers" in members and model_type not in SIZES else {}


def draw(generator, members):
    keys = sorted(key for key in members if is_size(key))
    changes = {}
    for key in generator.sample(keys, min(len(keys), generator.choice((1, 1, 2)))):
        values = other_values(key, members[key]) + [ABSENT]
        changes[key] = generator.choice(values)
    return changes


def try_type(meshwright, model_type, tries, generator, folder, found):
    part, members, base = small(model_type)
    for layers in (base, {}):
        config, text = made(model_type, layers, part)
        verdict, said, _ = hold(meshwright, model_type, config, text, folder)
        if verdict not in ("refused", "unknown"):
            break
        base = {}
    found[verdict] += 1
    if verdict == "WRONG":
        print(f"WRONG    {model_type} {base}: {said}", flush=True)
    if verdict not in ("equal", "text"):
        return
    for _ in range(tries):
        changes = draw(generator, members)
        try:
            config, text = made(model_type, {**base, **changes}, part)
        except Exception:  # a value that the type does not allow
            found["not allowed"] += 1
            continue
        verdict, said, named = hold(meshwright, model_type, config, text, folder)
        if verdict == "WRONG" and any(key in name for key in changes for name in named):
            verdict = "named"
        found[verdict] += 1
        if verdict == "WRONG":
            print(f"WRONG    {model_type} {changes}: {said}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshwright")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--types", type=int, default=40)
    parser.add_argument("--tries", type=int, default=12)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity(50)
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    generator = random.Random(seed)
    print(f"# seed {seed}", flush=True)
    types = [model_type for model_type in sorted(CONFIG_MAPPING.keys()) if list(heads_of(model_type))]
    found, taken = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for model_type in arguments.only or generator.sample(types, len(types)):
            before = found["equal"] + found["text"]
            try:
                try_type(arguments.meshwright, model_type, arguments.tries, generator, pathlib.Path(folder), found)
            except Exception as error:  # of transformers' own defaults
                print(f"unknown  {model_type}: transformers makes no configuration: {type(error).__name__}", flush=True)
            if found["equal"] + found["text"] > before:
                taken += 1
                print(f"# {model_type}: {dict(found)}", flush=True)
            if taken >= arguments.types and not arguments.only:
                break
    for verdict, number in sorted(found.items()):
        print(f"# {verdict}: {number}")
    sys.exit(1 if found["WRONG"] else 0)


if __name__ == "__main__":
    main()
