# SPDX-License-Identifier: Apache-2.0
"""The tiny models of random weights, as files of their families hold them, and what they train on."""
import json

import numpy
import safetensors.torch
import torch

from tiny_models.decoders import decoders
from tiny_models.encoders import encoders
from tiny_models.kinds import (
    BATCH, BESIDE_TEXT, ENCODERS, FURTHER, IMAGES, ONE_TYPE, PAIRS, SCANS, SEQ, SHIFTED, STEPS, TOWERS, TYPED, UNTRAINED, VOCAB,
    WIDE_IMAGES)
from tiny_models.mixtures import mixtures
from tiny_models.modules import WideResNet, compute_in_double


def internlm2(tensors):
    def name(key):
        for of, to in (("self_attn.o_proj", "attention.wo"), ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
                       ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"),
                       ("embed_tokens", "tok_embeddings"), ("lm_head", "output")):
            key = key.replace(of, to)
        return key

    def pack(q, k, v):  # for each of 2 groups its queries, its key and its value
        return torch.cat([part.reshape(2, -1, 32) for part in (q, k, v)], dim=1).reshape(-1, 32)
    return packed(tensors, "attention.wqkv.weight", pack, name)


def bailing(tensors):
    def name(key):
        for of, to in (("self_attn.o_proj", "attention.dense"), ("self_attn.q_norm", "attention.query_layernorm"),
                       ("self_attn.k_norm", "attention.key_layernorm"), ("block_sparse_moe", "mlp"), (".w1.", ".gate_proj."),
                       (".w2.", ".down_proj."), (".w3.", ".up_proj."), ("e_score_correction_bias", "expert_bias"),
                       ("embed_tokens", "word_embeddings")):
            key = key.replace(of, to)
        return key
    return packed(tensors, "attention.query_key_value.weight", lambda q, k, v: torch.cat([q, k, v]), name)


def packed(tensors, joint, pack, name):
    parts = [f"self_attn.{which}_proj.weight" for which in "qkv"]
    made = {name(key): value for key, value in tensors.items() if not key.endswith(tuple(parts))}
    for key in tensors:
        if key.endswith(parts[0]):
            layer = key[:-len(parts[0])]
            made[layer + joint] = pack(*(tensors[layer + part] for part in parts))
    return made


def esm(tensors):
    """As its publisher names norms, without the part that predicts contacts."""
    made = {key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): v for key, v in tensors.items()}
    return {key: value for key, value in made.items() if ".contact_head." not in key and not key.endswith("inv_freq")}


def weights_alone(tensors):
    """Without what computing with integers keeps beside weights, and a pooler that no loss reads."""
    return {key: value for key, value in tensors.items() if key.endswith((".weight", ".bias")) and ".pooler." not in key}


def olmo_hybrid(tensors):
    """transformers 5.24 saves the norm of what attention makes by the name of another that layers of delta rules have."""
    attends = {key.split(".self_attn.")[0] for key in tensors if ".self_attn." in key}
    name = {f"{layer}.feedforward_layer_norm.weight": f"{layer}.post_attention_layernorm.weight" for layer in attends}
    return {name.get(key, key): value for key, value in tensors.items()}


def transposed_experts(tensors):
    return {key: value.transpose(1, 2) if ".mlp.experts." in key else value for key, value in tensors.items()}


def longcat_flash(tensors):
    """transformers 5.24 has weights of gates and ups for the experts that have none."""
    return {key: value for key, value in tensors.items() if ".mlp.experts." not in key or int(key.split(".experts.")[1].split(".")[0]) < 2}


# Families that transformers has no class of, or saves unlike their publisher: what their files say, and how they hold the tensors of a
# class that computes the same.
STAND_INS = {
    "qwen3_vl_moe": ({}, transposed_experts),
    "esm": ({}, esm),
    "longcat_flash": ({}, longcat_flash),
    "big_bird": ({}, weights_alone),
    "olmo_hybrid": ({}, olmo_hybrid),
    "ibert": ({}, weights_alone),
    "layoutlm": ({}, weights_alone),
    "fnet": ({}, weights_alone),
    "mimo": ({}, dict),
    "internlm2": ({"bias": False}, internlm2),
    "minicpm": ({"scale_emb": 3.0, "scale_depth": 0.5 * 2 ** 0.5, "dim_model_base": 8}, dict),
    "bailing_moe": ({"num_experts": 4, "moe_intermediate_size": 48, "num_shared_experts": 0}, bailing),
    "bailing_moe_v2": ({"num_experts": 4, "num_shared_experts": 1, "score_function": "sigmoid"}, bailing),
}


# What publishers' files say, and transformers' own do not.
PUBLISHED = {
    "segformer": {"image_size": 32},
    "nemotron_h": {"num_hidden_layers": len(SCANS), "hybrid_override_pattern": SCANS},
    "qwen3_next": {"full_attention_interval": 2},
    "qwen3_5_text": {"full_attention_interval": 2},
    "qwen3_5_moe_text": {"full_attention_interval": 2},
    "deepseek_v32": {"layer_types": ["deepseek_sparse_attention"] * 2},
}


def families():
    return {**decoders(), **mixtures(), **encoders()}


def make(family, folder):
    """The model, saved, and the option that names it."""
    torch.manual_seed(7)
    folder.mkdir(parents=True, exist_ok=True)
    if family == "wide_resnet":
        model = WideResNet(4, 2, 10).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, dtype=torch.float64)
                parameter.copy_(parameter.bfloat16())
        safetensors.torch.save_file({k: v for k, v in model.state_dict().items() if "num_batches" not in k}, folder / "model.safetensors")
        return model.train(), "wresnet:layers=14,channels=4,width=2,image=32,classes=10"
    kind, config = families()[family]
    config._attn_implementation = config._experts_implementation = "eager"
    compute_in_double()  # of the families that have been made, and below of this one
    kind(config)
    compute_in_double()
    model = kind(config).double()
    if family == "fsmt":  # whose class of transformers 5.24 would train its sines, though it says that it does not
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.requires_grad = False
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():  # transformers begins with zero biases and equal norms, by which no mistake shows
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad and not name.endswith(UNTRAINED):  # a table of sines
                continue
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(parameter.bfloat16())  # so that 16 bits store it
    for name, buffer in model.named_buffers():
        if name.endswith(UNTRAINED):
            if name.endswith("tid2eid"):  # of the experts of a word no two are one
                draws = torch.rand(buffer.shape[0], config.n_routed_experts, generator=generator)
                buffer.copy_(draws.argsort(dim=1)[:, :buffer.shape[1]])
                continue
            buffer.copy_((buffer + 0.1 * torch.randn(buffer.shape, generator=generator, dtype=torch.float64)).bfloat16())
    model.save_pretrained(folder)
    if family in STAND_INS:
        config, hold_tensors = folder / "config.json", STAND_INS[family][1]
        config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": family, **STAND_INS[family][0]}, indent=1))
        tensors = {key: value.contiguous() for key, value in hold_tensors(safetensors.torch.load_file(folder / "model.safetensors")).items()}
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
    if family in PUBLISHED:
        config = folder / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **PUBLISHED[family]}, indent=1))
    if family == "vit":
        return model.train(), "vit:layers=2,hidden=32,heads=4,intermediate=64,image=8,patch=4,classes=10,epsilon=1e-12,erf=1"
    model.train()
    return model, str(folder / "config.json")


def make_inputs(family, folder):
    """The files of five steps of samples, and the options that name them."""
    draw = numpy.random.default_rng(3)
    count = BATCH * STEPS

    def save(name, array):
        numpy.save(folder / f"{name}.npy", array)
        return ["--inputs", f"{name}={folder / name}.npy"]

    if family in IMAGES:
        size = 64 if family in SHIFTED else 32 if family in WIDE_IMAGES else 8
        images, labels = draw.integers(-8, 9, (count, 3, size, size)) / 4, draw.integers(0, 10, count)
        return save("images", images) + save("labels", labels), dict(images=images, labels=labels)
    # Not the padding, whose row of the table transformers leaves alone.
    tokens, labels = draw.integers(3, VOCAB, (count, SEQ)), draw.integers(0, VOCAB, (count, SEQ))
    if family in TOWERS:
        images = draw.integers(-8, 9, (count, 3, 8, 8)) / 4
        return save("images", images) + save("tokens", tokens), dict(images=images, tokens=tokens)
    if family in ENCODERS:
        types = numpy.zeros((count, SEQ), dtype=numpy.int64)
        more = save("token_types", types) if family in ONE_TYPE else []
        return save("tokens", tokens) + save("labels", labels) + more, dict(tokens=tokens, labels=labels)
    if family in TYPED:
        types = draw.integers(0, 2, (count, SEQ))
        if family == "layoutlm":
            left, top, width, height = draw.integers(0, 8, (4, count, SEQ))
            boxes = dict(left=left, top=top, right=left + width, bottom=top + height, height=height, width=width)
            parts = dict(tokens=tokens, labels=labels, token_types=types, **boxes)
            box = numpy.stack([boxes[side] for side in ("left", "top", "right", "bottom")], axis=-1)
            return [option for name, array in parts.items() for option in save(name, array)], dict(tokens=tokens, labels=labels, types=types, box=box)
        return (save("tokens", tokens) + save("labels", labels) + save("token_types", types), dict(tokens=tokens, labels=labels, types=types))
    if family == "whisper":
        frames = draw.integers(-8, 9, (count, 1, 12, 4)) / 4
        return (save("frames", frames) + save("tokens", tokens) + save("labels", labels), dict(frames=frames, tokens=tokens, labels=labels))
    if family in PAIRS:
        before = draw.integers(3, VOCAB, (count, SEQ))
        return (save("tokens", tokens) + save("decoder_tokens", before) + save("labels", labels),
                dict(tokens=tokens, labels=labels, before=before))
    if family in FURTHER:
        rows = draw.integers(3, VOCAB, (count, SEQ + 2))
        parts = dict(tokens=rows[:, :-2], labels=rows[:, 1:-1], labels_2=rows[:, 2:])
        return [option for name, array in parts.items() for option in save(name, array)], parts
    rows = draw.integers(3, VOCAB, (count, SEQ + 1))
    numpy.save(folder / "tokens.npy", rows)
    return ["--inputs", str(folder / "tokens.npy")], dict(tokens=rows[:, :-1], labels=rows[:, 1:])


def stored(family, model, folder, name, values):
    """Values by parameter, as the family's files would have them."""
    if family == "wide_resnet":
        return values
    model.config.dtype = torch.float64  # saving it has left a text
    copy = type(model)(model.config).double()
    compute_in_double()
    with torch.no_grad():
        for key, parameter in copy.named_parameters():
            parameter.copy_(values[key])
        for key, buffer in copy.named_buffers():
            if key.endswith(UNTRAINED):
                buffer.zero_() if name == "gradients" else buffer.copy_(dict(model.named_buffers())[key])
    copy.save_pretrained(folder / name)
    tensors = safetensors.torch.load_file(folder / name / "model.safetensors")
    tensors = STAND_INS[family][1](tensors) if family in STAND_INS else tensors
    # What no sample reads, or no step changes.
    apart = {key for key, parameter in model.named_parameters() if not parameter.requires_grad and not key.endswith(UNTRAINED)}
    return {key: value for key, value in tensors.items()
            if not (key.startswith(("model.visual.", "visual.", *BESIDE_TEXT.get(family, ()))) or key in apart)}
