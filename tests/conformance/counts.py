#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the parameters of every model type that transformers has against those that `meshwright models` counts.

Writes a config.json with the type's own defaults, and makes the model of it without memory (on torch's meta device). Trained parameters
must be equal in number; so are biases that only choose experts and factors of layers, which transformers keeps beside the parameters,
and what it makes as a parameter and never trains but tables of sines. Of a file that describes several models, those of the text model.

    counts.py MESHWRIGHT [--only TYPE ...]

Prints a line for each type: equal, text (of its text model), refused, or WRONG, which fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
    import transformers
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
except ImportError as error:
    print(f"skipped: {error}; `./dev conformance` installs PyTorch and transformers")
    sys.exit(77)

HEADS = ["CAUSAL_LM", "CAUSAL_IMAGE_MODELING", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_CLASSIFICATION",
         "ZERO_SHOT_IMAGE_CLASSIFICATION"]
TEXT_MODELS = ("model.language_model.", "language_model.", "model.text_model.", "projection_head.", "thinker.model.language_model.",
               "thinker.lm_head.", "lm_head.")
KEPT_BESIDE = ("e_score_correction_bias", "expert_bias", "layer_scalar", "tid2eid")
SINES = ("embed_positions.weight",)
NO_PART_OF_THE_LOSS = (".contact_head.", "layoutlm.pooler.", "fnet.pooler.", "bert.pooler.", ".mlp.vision_moe.")  # by which nothing is trained
BESIDE_TEXT = {"phi4_multimodal": ("model.embed_tokens_extend.",), "git": ("git.image_encoder.", "git.visual_projection.")}  # where the text model has no name of its own
# Defaults of transformers that make no model, and what makes one of them; layers that predict further tokens, which it leaves out.
WHOLE = {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
SIZES = {"glm4_moe": {"head_dim": 128}, "hunyuan_v1_dense": {"head_dim": 128}, "hunyuan_v1_moe": {"head_dim": 128}, "ministral": {"head_dim": 128},
         "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
         "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16}, "deepseek_v2": {"num_experts_per_tok": 6, "n_routed_experts": 64},
         "dots1": {"n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2},
         "esm": {"position_embedding_type": "rotary", "vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
         "deepseek_ocr2": {"text_config": {"num_experts_per_tok": 6, "num_hidden_layers": 2, "mlp_layer_types": ["dense", "sparse"]}},
         "emu3": {"vocabulary_map": {"<image>": 0}}, "big_bird": {"attention_type": "original_full"},
         "cohere_compass_text": {"rope_parameters": WHOLE}, "cohere_compass": {"text_config": {"rope_parameters": WHOLE}},
         "dbrx": {"attn_config": {"rope_theta": 10000.0}, "ffn_config": {"hidden_size": 2048}}}


def heads_of(model_type):
    for head in HEADS:
        names = getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {}).get(model_type, ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(transformers, name):
                yield getattr(transformers, name)


def counts(kind, config):
    """Of the whole model, and of the text model in it."""
    with torch.device("meta"):
        model = kind(config)
    kept = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad or not name.endswith(SINES)}
    kept = {name: n for name, n in kept.items() if not any(part in name for part in NO_PART_OF_THE_LOSS)}
    if config.model_type == "fsmt":  # which says that these are not trained, and lets them be
        kept = {name: n for name, n in kept.items() if not name.endswith(SINES)}
    if config.model_type == "longcat_flash":  # gates and ups of the experts that give a token back, which it has and does not read
        routed, total = config.n_routed_experts, config.n_routed_experts + config.zero_expert_num
        kept = {name: n * routed // total if name.endswith("experts.gate_up_proj") else n for name, n in kept.items()}
    kept.update({name: b.numel() for name, b in model.named_buffers() if name.endswith(KEPT_BESIDE)})
    # Layers that text alone passes by.
    crossing = tuple(f".layers.{layer}." for layer in getattr(config.get_text_config(), "cross_attention_layers", None) or ())
    beside = BESIDE_TEXT.get(config.model_type)
    is_text = (lambda name: not name.startswith(beside)) if beside else (lambda name: name.startswith(TEXT_MODELS))
    text = {name: n for name, n in kept.items() if is_text(name) and not any(layer in name for layer in crossing)}
    return sum(kept.values()), sum(text.values())


def judge(meshwright, model_type, folder):
    config = CONFIG_MAPPING[model_type](**SIZES.get(model_type, {}))
    for part in (config, getattr(config, "text_config", None)):
        if getattr(part, "num_nextn_predict_layers", None):
            part.num_nextn_predict_layers = 0
    return hold(meshwright, model_type, config, config.to_json_string(), folder)[:2]


def hold(meshwright, model_type, config, text, folder):
    """What is made of a file's text against what transformers makes of the configuration: a verdict, a sentence, and what was named as left out."""
    path = folder / "config.json"
    path.write_text(text)
    result = subprocess.run([meshwright, "models", path, "--json"], capture_output=True, text=True)
    if result.returncode == 2:
        return "refused", result.stderr.strip().split("config.json: ")[-1].split("; the nearest that are")[0], []
    if result.returncode != 0:
        return "WRONG", f"exit code {result.returncode}: {result.stderr.strip()}", []
    document = json.loads(result.stdout)
    ours, theirs, failures = document["parameters"], {}, []
    for kind in heads_of(model_type):
        try:
            theirs[kind.__name__] = counts(kind, config)
        except Exception as error:  # of a class that another part of the family is for, or of a package that is missing
            failures.append(f"{kind.__name__}: {type(error).__name__}")
    named = document.get("left_out", [])
    left_out = ", ".join(named)
    said = f"{ours}{'; left out: ' + left_out if left_out else ''}"
    for name, (whole, text) in theirs.items():
        if ours == whole:
            return "equal", f"{name} {said}", named
    for name, (whole, text) in theirs.items():
        if ours == text:
            return "text", f"{name} {said}", named
    if not theirs:
        return "unknown", f"{ours}, but transformers makes none ({', '.join(failures)})", named
    return "WRONG", f"{ours}, but transformers' are {theirs}; left out: {left_out}", named


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meshwright")
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity(50)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for model_type in arguments.only or sorted(CONFIG_MAPPING.keys()):
            if not list(heads_of(model_type)):
                continue
            try:
                verdict, said = judge(arguments.meshwright, model_type, pathlib.Path(folder))
            except Exception as error:  # of transformers' own defaults
                verdict, said = "unknown", f"transformers makes no configuration: {type(error).__name__}"
            found.setdefault(verdict, []).append(model_type)
            print(f"{verdict:8} {model_type}: {said}", flush=True)
    for verdict, types in sorted(found.items()):
        print(f"# {verdict}: {len(types)}")
    sys.exit(1 if "WRONG" in found else 0)


if __name__ == "__main__":
    main()
