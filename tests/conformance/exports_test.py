#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds models that today's exporters wrote against transformers: exports_test.py MESHWRIGHT UNIT_IMPORT_TEST [--only FAMILY ...]

Small random models of transformers are exported by torch.onnx.export and torch.export, for a fixed batch, for one sample and for any batch. Of each
file `meshwright models` must tell the parameters and, to 1 %, the work that it tells of the model's own config.json, and find every attention, every
norm and every rotation of it; and every logit that the test OnnxRuntime of UNIT_IMPORT_TEST computes of an ONNX file must be PyTorch's to 1e-4 of
the largest.

Needs PyTorch, transformers, onnx and onnxscript (pip install torch transformers onnx onnxscript); without them it is skipped.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import onnx  # noqa: F401
    import onnxscript  # noqa: F401
    import torch
    import transformers
except ImportError as missing:
    print(f"[SKIP] {missing}: pip install torch transformers onnx onnxscript")
    sys.exit(77)

BATCH, SEQ, VOCAB = 3, 8, 64  # the batch is that of the test OnnxRuntime


def decoder(**more):
    return dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                max_position_embeddings=SEQ, tie_word_embeddings=False, **more)


def small(**more):
    return decoder(pad_token_id=0, bos_token_id=1, eos_token_id=2, **more)


def families():
    t = transformers
    llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 100}
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
    return {
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(**decoder())),
        "llama_scaled": (t.LlamaForCausalLM, t.LlamaConfig(**decoder(rope_parameters=llama3))),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**decoder(rope_parameters=yarn))),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**decoder(head_dim=16))),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(**decoder(sliding_window=4))),
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ)),
        "gpt_neox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(vocab_size=VOCAB, num_hidden_layers=2, num_attention_heads=4, hidden_size=32,
                                                           intermediate_size=64, max_position_embeddings=SEQ, rotary_pct=0.5)),
        "opt": (t.OPTForCausalLM, t.OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                              max_position_embeddings=SEQ, word_embed_proj_dim=32)),
        "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**decoder(pad_token_id=0, original_max_position_embeddings=SEQ))),
        "gemma": (t.GemmaForCausalLM, t.GemmaConfig(**{**decoder(head_dim=8), "tie_word_embeddings": True})),
        "olmo2": (t.Olmo2ForCausalLM, t.Olmo2Config(**decoder())),
        "granite": (t.GraniteForCausalLM, t.GraniteConfig(**decoder(embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
                                                                    attention_multiplier=0.25))),
        "bert": (t.BertForMaskedLM, t.BertConfig(vocab_size=VOCAB, num_hidden_layers=2, num_attention_heads=4, hidden_size=32,
                                                 intermediate_size=64, max_position_embeddings=SEQ)),
        # Pairs of neighbours that are rotated, of all dimensions of a head or of its first ones.
        "gptj": (t.GPTJForCausalLM, t.GPTJConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=SEQ)),
        "codegen": (t.CodeGenForCausalLM, t.CodeGenConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=SEQ)),
        "cohere": (t.CohereForCausalLM, t.CohereConfig(**small())),
        "glm": (t.GlmForCausalLM, t.GlmConfig(**small(head_dim=8))),
        "glm4": (t.Glm4ForCausalLM, t.Glm4Config(**small(head_dim=8))),
        "helium": (t.HeliumForCausalLM, t.HeliumConfig(**small(head_dim=8))),
        "ernie4_5": (t.Ernie4_5ForCausalLM, t.Ernie4_5Config(**small(head_dim=8))),
        "falcon": (t.FalconForCausalLM, t.FalconConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                       new_decoder_architecture=False, parallel_attn=True, max_position_embeddings=SEQ)),
        "bloom": (t.BloomForCausalLM, t.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4, seq_length=SEQ)),
        "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(**{**small(head_dim=8), "tie_word_embeddings": True})),
        "gemma3_text": (t.Gemma3ForCausalLM, t.Gemma3TextConfig(**{**small(head_dim=8), "tie_word_embeddings": True})),
        "phi": (t.PhiForCausalLM, t.PhiConfig(**small())),
        "stablelm": (t.StableLmForCausalLM, t.StableLmConfig(**small())),
        "starcoder2": (t.Starcoder2ForCausalLM, t.Starcoder2Config(**small())),
        "nemotron": (t.NemotronForCausalLM, t.NemotronConfig(**small(head_dim=8))),
        "olmo": (t.OlmoForCausalLM, t.OlmoConfig(**small())),
        "exaone4": (t.Exaone4ForCausalLM, t.Exaone4Config(**small(sliding_window=4))),
        "hunyuan_v1_dense": (t.HunYuanDenseV1ForCausalLM, t.HunYuanDenseV1Config(**small(head_dim=8))),
        "albert": (t.AlbertForMaskedLM, t.AlbertConfig(vocab_size=VOCAB, embedding_size=16, hidden_size=32, num_hidden_layers=2,
                                                       num_attention_heads=4, intermediate_size=64, max_position_embeddings=SEQ)),
        # Mixtures that sort their tokens by expert, which torch.onnx.export does not write.
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**small(num_local_experts=4))),
        "qwen2_moe": (t.Qwen2MoeForCausalLM, t.Qwen2MoeConfig(**small(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                                                      shared_expert_intermediate_size=16))),
        "qwen3_moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**small(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8))),
        "olmoe": (t.OlmoeForCausalLM, t.OlmoeConfig(**small(num_experts=4, num_experts_per_tok=2))),
        "gpt_oss": (t.GptOssForCausalLM, t.GptOssConfig(**small(num_local_experts=4, num_experts_per_tok=2, head_dim=8))),
    }


# Positions that are no rotations; encoders.
UNROTATED, ENCODERS = {"gpt2", "opt", "bert", "bloom", "albert"}, {"bert", "albert"}


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        more = {} if self.model.config.model_type in ENCODERS else {"use_cache": False}
        return self.model(input_ids=ids, **more).logits


def facts(meshwright, model):
    result = subprocess.run([meshwright, "models", model, "--json"], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip())
    return json.loads(result.stdout)


def counts(found):
    kinds = found["forward_ops"]
    return {"attention": kinds.get("grouped_attention", 0) + kinds.get("attention", 0), "rotary": kinds.get("rotary", 0),
            "norm": kinds.get("layer_norm", 0) + kinds.get("rms_norm", 0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("meshwright")
    parser.add_argument("unit_import_test")
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for family in arguments.only or families():
            kind, config = families()[family]
            torch.manual_seed(1)
            model = Logits(kind(config).eval())
            with torch.no_grad():  # alike, exporters would write them once
                for parameter in model.parameters():
                    parameter += 0.1 * torch.randn(parameter.shape)
            config_file = folder / f"{family}.json"
            config_file.write_text(json.dumps({**config.to_dict(), "model_type": config.model_type}))
            expected = facts(arguments.meshwright, str(config_file))
            for samples, dynamic in ((BATCH, False), (1, False), (BATCH, True)):
                ids = torch.randint(0, VOCAB, (samples, SEQ))
                shapes = ({0: torch.export.Dim("batch", max=64)},) if dynamic else None
                for form in ("pt2", "onnx"):
                    where = f"{family}, {'any batch' if dynamic else f'batch {samples}'}, {form}"
                    path = folder / f"{family}-{samples}-{dynamic}.{form}"
                    try:
                        if form == "pt2":
                            torch.export.save(torch.export.export(model, (ids,), dynamic_shapes=shapes), path)
                        else:
                            torch.onnx.export(model, (ids,), path, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False)
                    except Exception as error:
                        print(f"{where}: not exported: {str(error).splitlines()[0][:150]}")
                        continue
                    try:
                        found = facts(arguments.meshwright, str(path))
                        work = found["tflop_per_sample"] / expected["tflop_per_sample"]
                        # For a fixed batch, rows of a table of positions that no token can have are not exported, and of a table of
                        # two types only the row of the type that all tokens have.
                        folded = form == "onnx" and not dynamic
                        unused = {"opt": 2 * 32, "bert": 32, "albert": 16}.get(family, 0) if folded else 0
                        wrong = []
                        if found["parameters"] != expected["parameters"] - unused:
                            wrong.append(f"{found['parameters']} parameters, not {expected['parameters'] - unused}")
                        if abs(work - 1) > 0.01:
                            wrong.append(f"{work:.3f} of the work")
                        rotated = 2 * 2 * (family not in UNROTATED)
                        for what, number in {"attention": 2, "rotary": rotated}.items():
                            if counts(found)[what] != number:
                                wrong.append(f"{counts(found)[what]} {what}, not {number}")
                    except (RuntimeError, KeyError) as error:
                        wrong = [str(error)]
                    if form == "onnx" and not wrong and samples == BATCH:
                        keep = folder / "onnx"
                        keep.mkdir(exist_ok=True)
                        path.rename(keep / path.name)
                        result = model(ids).detach().flatten().tolist()
                        numbers = {"inputs": {"ids": ids.flatten().tolist()}, "result": result}
                        (keep / path.name).with_suffix(".json").write_text(json.dumps(numbers))
                    print(f"{where}: {'ok' if not wrong else '; '.join(wrong)}", flush=True)
                    failed += bool(wrong)
        if not (folder / "onnx").exists():
            print(f"exports_test: {failed} failed")
            return failed != 0
        run = subprocess.run([arguments.unit_import_test, "--gtest_filter=OnnxRuntime.ComputesTheSameOfEveryFile"], capture_output=True, text=True,
                             env={**os.environ, "MESHWRIGHT_ONNX_FOLDER": str(folder / "onnx")})
        print(run.stdout if run.returncode else "every logit is PyTorch's to 1e-4")
        failed += run.returncode != 0
    print(f"exports_test: {failed} failed")
    return failed != 0


sys.exit(main())
