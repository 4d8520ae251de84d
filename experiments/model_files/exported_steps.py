#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether an exported model takes as long a step as the same model by its config.json: exported_steps.py MESHWRIGHT [--only FAMILY ...]

Random models of transformers with four layers are exported by torch.export.export and planned on eight A100s, by their file and by their
config, with three sets of Megatron-LM's degrees. Needs PyTorch and transformers (pip install torch transformers).
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
    import transformers as t
except ImportError as missing:
    sys.exit(f"{missing}: pip install torch transformers")

SEQ = 512
DEGREES = [("tp=1,pp=1", 1), ("tp=4,pp=1", 2), ("tp=2,pp=2", 8)]


def families():
    d = dict(vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4,
             max_position_embeddings=SEQ, tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return {
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(**d)),
        "phi": (t.PhiForCausalLM, t.PhiConfig(**d)),
        "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**d)),
        "cohere": (t.CohereForCausalLM, t.CohereConfig(**d)),
        "nemotron": (t.NemotronForCausalLM, t.NemotronConfig(**d, head_dim=64)),
        "bloom": (t.BloomForCausalLM, t.BloomConfig(vocab_size=8192, hidden_size=1024, n_layer=4, n_head=16)),
        "bert": (t.BertForMaskedLM, t.BertConfig(vocab_size=8192, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16,
                                                 intermediate_size=4096, max_position_embeddings=SEQ)),
        "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(**{**d, "tie_word_embeddings": True}, head_dim=64)),
        "glm": (t.GlmForCausalLM, t.GlmConfig(**d, head_dim=64)),
        "gptj": (t.GPTJForCausalLM, t.GPTJConfig(vocab_size=8192, n_embd=1024, n_layer=4, n_head=16, rotary_dim=32, n_positions=SEQ)),
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**d, num_local_experts=8)),
        "qwen3_moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**d, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=512, head_dim=64)),
        "albert": (t.AlbertForMaskedLM, t.AlbertConfig(vocab_size=8192, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16,
                                                       intermediate_size=4096, max_position_embeddings=SEQ, embedding_size=128)),
        "modernbert": (t.ModernBertForMaskedLM, t.ModernBertConfig(vocab_size=8192, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16,
                                                                   intermediate_size=2816, max_position_embeddings=SEQ, pad_token_id=0, bos_token_id=1,
                                                                   eos_token_id=2, cls_token_id=1, sep_token_id=2)),
        "falcon": (t.FalconForCausalLM, t.FalconConfig(vocab_size=8192, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16)),
        "gpt_neox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(vocab_size=8192, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16,
                                                           intermediate_size=4096, max_position_embeddings=SEQ)),
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=8192, n_embd=1024, n_layer=4, n_head=16, n_positions=SEQ)),
        "mpt": (t.MptForCausalLM, t.MptConfig(vocab_size=8192, d_model=1024, n_layers=4, n_heads=16, max_seq_len=SEQ)),
        "gpt_oss": (t.GptOssForCausalLM, t.GptOssConfig(**d, num_local_experts=8, num_experts_per_tok=2, head_dim=64)),
    }


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        try:
            return self.model(input_ids=ids, use_cache=False).logits
        except TypeError:  # an encoder
            return self.model(input_ids=ids).logits


def step(meshwright, model, degrees, microbatches):
    seq = ["--seq", str(SEQ)] if model.endswith(".json") else []
    command = [meshwright, "plan", "--model", model, *seq, "--cluster", "dgx-a100:1", "--batch", "64", "--dtype", "bf16", "--method",
               f"megatron:{degrees}", "--micro-batches", str(microbatches), "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr.strip())
    return json.loads(result.stdout)["step_time_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("meshwright")
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("# milliseconds of a step: of the config, of the exported file, and how much longer the file's takes")
    with tempfile.TemporaryDirectory() as folder:
        for family in arguments.only or families():
            kind, config = families()[family]
            exported, described = pathlib.Path(folder) / f"{family}.pt2", pathlib.Path(folder) / f"{family}.json"
            program = torch.export.export(Logits(kind(config).eval()), (torch.randint(3, 8192, (2, SEQ)),))
            torch.export.save(program, exported)
            described.write_text(json.dumps({**config.to_dict(), "model_type": config.model_type}))
            for degrees, microbatches in DEGREES:
                own, file = (step(arguments.meshwright, str(model), degrees, microbatches) for model in (described, exported))
                print(f"{family:<10} {degrees:<10} {1e3 * own:8.2f} {1e3 * file:8.2f} {100 * (file / own - 1):+7.2f} %", flush=True)


main()
