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
import os
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

BATCH, SEQ, VOCAB, STEPS, RATE = 4, 8, 64, 5, 1e-3
BOUNDS = {"f64": 1e-9, "f32": 1e-4}
PLANS = {
    "one": (1, ["--method", "data"]),
    "data": (4, ["--method", "data", "--micro-batches", "1"]),
    "tensor": (4, ["--method", "megatron:tp=2,pp=1", "--micro-batches", "1"]),
    "pipeline": (2, ["--method", "megatron:tp=1,pp=2", "--micro-batches", "2"]),
    "zero3": (4, ["--method", "zero3", "--micro-batches", "1"]),
    "expert": (4, ["--method", "expert:ep=2", "--micro-batches", "1"]),
}
MIXTURES = {"mixtral", "qwen3_moe", "gpt_oss", "deepseek_v3", "glm4_moe", "minimax_m2", "qwen3_next", "deepseek_v32", "qwen2_moe",
            "olmoe", "flex_olmo", "exaone_moe", "dots1", "hy_v3", "solar_open", "glm4_moe_lite", "llama4_text", "gemma4_moe", "granitemoe", "granitemoeshared",
            "ernie4_5_moe", "hunyuan_v1_moe", "deepseek_v2", "qwen3_5_moe_text", "glm_moe_dsa", "granitemoehybrid", "qwen3_vl_moe",
            "bailing_moe", "bailing_moe_v2", "jamba", "lfm2_moe", "dbrx", "glm_moe_dsa_shared", "nemotron_h_latent", "mimo_v2_flash",
            "deepseek_v4", "kimi_linear", "minimax_m3_vl_text", "mistral4", "axk1", "afmoe", "cohere2_moe", "cohere2_moe_sums", "granitemoe_swa",
            "aria_text", "step3p7", "laguna", "laguna_wide", "minimax", "longcat_flash", "jetmoe", "flint", "axk2", "bailing_hybrid", "hy_v4"}
PAIRS = {"t5gemma", "fsmt", "longt5", "switch_transformers", "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "blenderbot", "blenderbot-small", "m2m_100", "plbart", "mvp", "led"}  # encoders with decoders
IMAGES = {"vit", "deit", "dinov2", "dinov2_gated", "dinov2_with_registers", "wide_resnet", "convnext", "convnextv2", "swin", "donut-swin", "beit", "beit_apart",
          "data2vec-vision", "ijepa", "segformer"}
SHIFTED = {"swin", "donut-swin"}  # of 64 pixels a side
TOWERS = {"siglip", "siglip2"}
WIDE_IMAGES = {"wide_resnet", "convnext", "convnextv2", "segformer"}  # of 32 pixels a side
ENCODERS = {"roberta", "distilbert", "modernbert", "modernbert_biases", "eurobert", "data2vec-text", "roberta-prelayernorm",
            "xlm-roberta-xl", "mpnet", "esm", "jina_embeddings_v3", "gte", "longformer", "ibert", "flaubert", "flaubert_norm_first", "deberta-v2",
            "deberta-v2_apart", "deberta-v2_plain"}  # that predict the words of labels of their own
ONE_TYPE = {"roberta", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl", "jina_embeddings_v3", "gte", "longformer", "ibert"}
TYPED = {"bert", "big_bird", "electra", "albert", "megatron-bert", "ernie", "nomic_bert", "roformer", "rembert", "layoutlm", "xlm", "deberta", "mobilebert", "mobilebert_gelu", "fnet"}  # that are given a type of each token
UNTRAINED = ("e_score_correction_bias", "tid2eid", "layer_scalar", "feed_forward.expert_bias", "mlp.expert_bias", "embeddings.mask_token", "_global.weight", "_global.bias")  # what is saved beside the parameters
DERIVED = ("relative_position_index", "slope_rate", "query_decay", "key_decay", "diagonal_decay")  # what files have of no parameter
BESIDE_TEXT = {"step3p7": ("vision_model.", "vit_large_projector."), "git": ("git.image_encoder.", "git.visual_projection.")}
FURTHER = {"mimo"}  # with a module that predicts the token behind the next
SCANS = "M-*-"  # the layers of nemotron_h


class DoubleTorch:
    """torch for transformers: where it computes in single precision whatever the model's, it computes in double."""

    float32 = float = torch.float64
    FloatTensor = torch.DoubleTensor

    def __getattr__(self, name):
        return getattr(torch, name)


def compute_in_double():
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers.") and ".modeling" in name and getattr(module, "torch", None) is torch:
            module.torch = DoubleTorch()
        if hasattr(module, "BloomGelu"):  # whose constant has 8 digits
            module.BloomGelu.forward = lambda self, x: torch.nn.functional.gelu(x, approximate="tanh")
        if name.endswith(".modeling_recurrent_gemma"):  # which sums in what was single precision when it was defined
            module.RecurrentGemmaRglru._rnn_scan.__defaults__ = (torch.float64,)


class FurtherToken(torch.nn.Module):
    """MiMo's module behind the blocks: it reads what these made of a token, and the embedding of the next one."""

    def __init__(self, config):
        super().__init__()
        qwen2 = transformers.models.qwen2.modeling_qwen2
        norm = lambda: qwen2.Qwen2RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.token_layernorm, self.hidden_layernorm, self.final_layernorm = norm(), norm(), norm()
        self.input_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        layer = qwen2.Qwen2DecoderLayer(config, 0)  # whose parts are the module's own in files
        for name, part in layer.named_children():
            setattr(self, name, part)

    def forward(self, before, embedded, rotation, mask):
        x = self.input_proj(torch.cat([self.hidden_layernorm(before), self.token_layernorm(embedded)], dim=-1))
        x = x + self.self_attn(self.input_layernorm(x), position_embeddings=rotation, attention_mask=mask)[0]
        return self.final_layernorm(x + self.mlp(self.post_attention_layernorm(x)))


class MimoForCausalLM(transformers.Qwen2ForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.model.mtp_layers = torch.nn.ModuleList([FurtherToken(config)])
        self.model.layers[-1].register_forward_hook(lambda _, __, made: setattr(self, "made", made))

    def further_logits(self, following):
        """Of the last call's tokens, which `following` came after."""
        before = self.made[0] if isinstance(self.made, tuple) else self.made
        positions = torch.arange(before.shape[1])[None]
        mask = torch.full((before.shape[1],) * 2, -torch.inf, dtype=before.dtype).triu(1)[None, None]
        made = self.model.mtp_layers[0](before, self.model.embed_tokens(following), self.model.rotary_emb(before, positions), mask)
        return self.lm_head(made)


def decoder(**more):
    return dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=SEQ, tie_word_embeddings=False, **more)


def gemma_module(layers):
    return {**decoder(head_dim=8, sliding_window=4, query_pre_attn_scalar=8, attn_logit_softcapping=0.5, final_logit_softcapping=2.0),
            "num_hidden_layers": layers, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"][:layers],
            "tie_word_embeddings": True}


def families():
    t = transformers
    delta = dict(head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
                 full_attention_interval=2)
    small = dict(vocab_size=VOCAB, num_hidden_layers=2, num_attention_heads=4, hidden_size=32)
    no_drop = dict(attention_dropout=0.0, hidden_dropout=0.0)
    routed = dict(num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1, n_group=1, topk_group=1)
    gemma4 = dict(layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=4, global_head_dim=16, final_logit_softcapping=5.0,
                  num_hidden_layers=4, tie_word_embeddings=True, vocab_size_per_layer_input=VOCAB)
    gemma2 = dict(head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=8,
                  attn_logit_softcapping=0.5, final_logit_softcapping=2.0)
    narrow = dict(embedding_size=16, intermediate_size=64, max_position_embeddings=SEQ, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    modern = dict(**small, intermediate_size=48, max_position_embeddings=SEQ, local_attention=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                  cls_token_id=1, sep_token_id=2)
    pairs = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=4, mamba_n_groups=1, mamba_chunk_size=8)
    pair = dict(vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    masked = dict(**small, intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    patches = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=8, patch_size=4, num_labels=10)
    stages = dict(hidden_sizes=[4, 8, 8, 16], depths=[1, 2, 1, 1], image_size=32, num_labels=10)
    parallel = dict(mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=4, mamba_n_groups=2, mamba_chunk_size=8,
                    embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.5, attention_in_multiplier=2.0,
                    attention_out_multiplier=0.5, ssm_in_multiplier=0.5, ssm_out_multiplier=2.0, ssm_multipliers=[0.5, 2.0, 0.25, 4.0, 0.5],
                    mlp_multipliers=[0.5, 2.0])
    granite_4 = dict(**pairs, layer_types=["mamba", "attention"], embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
                     attention_multiplier=0.25, shared_intermediate_size=24)
    lingual = dict(vocab_size=VOCAB, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0)
    bottleneck = dict(max_position_embeddings=SEQ, embedding_size=8, intra_bottleneck_size=16, num_feedforward_networks=3)
    laguna = dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24,
                  sliding_window=4, layer_types=["full_attention"] + ["sliding_attention"] * 3, moe_routed_scaling_factor=2.5)
    latent = dict(q_lora_rank=16, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8)
    # Rotations that are scaled: of the pairs of a head some turn as they did, some more slowly, and some in between.
    llama3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 100}
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
    longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [1.0, 2.0, 4.0, 8.0]}
    return {
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ, resid_pdrop=0,
                                                 embd_pdrop=0, attn_pdrop=0)),
        "opt": (t.OPTForCausalLM, t.OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                              max_position_embeddings=SEQ, word_embed_proj_dim=16, dropout=0.0, attention_dropout=0.0)),
        "bloom": (t.BloomForCausalLM, t.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4, seq_length=SEQ, **no_drop)),
        "gpt_neox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(**small, intermediate_size=64, max_position_embeddings=SEQ, rotary_pct=0.5,
                                                           **no_drop)),
        "bert": (t.BertForMaskedLM, t.BertConfig(**small, intermediate_size=64, max_position_embeddings=SEQ, hidden_dropout_prob=0.0,
                                                 attention_probs_dropout_prob=0.0)),
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(**decoder())),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(**decoder(sliding_window=4))),
        "llama_scaled": (t.LlamaForCausalLM, t.LlamaConfig(**decoder(rope_parameters=llama3))),
        "mistral_scaled": (t.MistralForCausalLM, t.MistralConfig(**decoder(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0,
                                                                                            "factor": 2.0}))),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**decoder())),
        "qwen2_scaled": (t.Qwen2ForCausalLM, t.Qwen2Config(**decoder(rope_parameters=yarn))),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**decoder(head_dim=16))),
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**decoder(num_local_experts=4, num_experts_per_tok=2))),
        "qwen3_moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**decoder(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                       norm_topk_prob=True, head_dim=8))),
        "gpt_oss": (t.GptOssForCausalLM, t.GptOssConfig(**decoder(num_local_experts=4, num_experts_per_tok=2, head_dim=8,
                                                                  sliding_window=4))),
        "deepseek_v3": (t.DeepseekV3ForCausalLM, t.DeepseekV3Config(**{**decoder(), "num_key_value_heads": 4}, n_routed_experts=4,
                                                                    num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1,
                                                                    first_k_dense_replace=1, n_group=1, topk_group=1, q_lora_rank=16,
                                                                    kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
                                                                    rope_parameters={**yarn, "mscale": 0.5, "mscale_all_dim": 1.0},
                                                                    num_nextn_predict_layers=0)),
        "t5": (t.T5ForConditionalGeneration, t.T5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2,
                                                        num_heads=4, feed_forward_proj="relu", dropout_rate=0.0, n_positions=SEQ,
                                                        tie_word_embeddings=True)),
        # Windows of two keys on either side.
        "longt5": (t.LongT5ForConditionalGeneration, t.LongT5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                                    dropout_rate=0.0, local_radius=2)),
        # Experts have room for three of a sample's tokens.
        "switch_transformers": (t.SwitchTransformersForConditionalGeneration, t.SwitchTransformersConfig(
            vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=4, num_decoder_layers=2, num_heads=4, dropout_rate=0.0, expert_capacity=3,
            num_sparse_encoder_layers=2, num_sparse_decoder_layers=1, num_experts=4, router_jitter_noise=0.0, router_bias=True,
            router_z_loss_coef=0.0, router_aux_loss_coef=0.0)),
        "vit": (t.ViTForImageClassification, t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                                         image_size=8, patch_size=4, num_labels=10, hidden_dropout_prob=0.0,
                                                         attention_probs_dropout_prob=0.0)),
        # Further ones that are read and written.
        "gemma": (t.GemmaForCausalLM, t.GemmaConfig(**{**decoder(head_dim=8), "tie_word_embeddings": True})),
        "gemma3_text": (t.Gemma3ForCausalLM, t.Gemma3TextConfig(**{**decoder(head_dim=8, sliding_window=4,
                                                                             layer_types=["sliding_attention", "full_attention"],
                                                                             query_pre_attn_scalar=8,
                                                                             rope_parameters={
                                                                                 "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                                                                 "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                                                                    "rope_theta": 1e6}}),
                                                                   "tie_word_embeddings": True})),
        "olmo2": (t.Olmo2ForCausalLM, t.Olmo2Config(**decoder())),
        "phi": (t.PhiForCausalLM, t.PhiConfig(**decoder())),
        "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**decoder(pad_token_id=0, original_max_position_embeddings=SEQ))),
        "phi3_scaled": (t.Phi3ForCausalLM, t.Phi3Config(**decoder(pad_token_id=0, original_max_position_embeddings=4,
                                                                  rope_parameters=longrope))),
        "falcon": (t.FalconForCausalLM, t.FalconConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                       num_kv_heads=2, new_decoder_architecture=True, alibi=False, **no_drop)),
        "granite": (t.GraniteForCausalLM, t.GraniteConfig(**decoder(embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
                                                                    attention_multiplier=0.25))),
        "starcoder2": (t.Starcoder2ForCausalLM, t.Starcoder2Config(**decoder(sliding_window=4, residual_dropout=0.0, embedding_dropout=0.0))),
        "stablelm": (t.StableLmForCausalLM, t.StableLmConfig(**decoder(partial_rotary_factor=0.5))),
        "smollm3": (t.SmolLM3ForCausalLM, t.SmolLM3Config(**decoder(no_rope_layers=[1, 0], no_rope_layer_interval=2, pad_token_id=0))),
        "glm4_moe": (t.Glm4MoeForCausalLM, t.Glm4MoeConfig(**decoder(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                     n_shared_experts=1, first_k_dense_replace=1, head_dim=8, n_group=1,
                                                                     topk_group=1, num_nextn_predict_layers=0))),
        "minimax_m2": (t.MiniMaxM2ForCausalLM, t.MiniMaxM2Config(**decoder(num_local_experts=4, num_experts_per_tok=2, head_dim=8))),
        "gptj": (t.GPTJForCausalLM, t.GPTJConfig(vocab_size=VOCAB, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, resid_pdrop=0,
                                                 embd_pdrop=0, attn_pdrop=0)),
        # Windows of four keys back; of the encoder of four on either side.
        "t5gemma": (t.T5GemmaForConditionalGeneration, t.T5GemmaConfig(
            encoder=t.T5GemmaModuleConfig(**gemma_module(3)), decoder=t.T5GemmaModuleConfig(**gemma_module(2)), vocab_size=VOCAB)),
        "gpt_neox_japanese": (t.GPTNeoXJapaneseForCausalLM, t.GPTNeoXJapaneseConfig(**small, intermediate_multiple_size=2,
                                                                                   max_position_embeddings=SEQ, attention_dropout=0.0)),
        "imagegpt": (t.ImageGPTForCausalImageModeling, t.ImageGPTConfig(vocab_size=VOCAB + 1, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4,
                                                                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
        "big_bird": (t.BigBirdForMaskedLM, t.BigBirdConfig(**masked, max_position_embeddings=SEQ, attention_type="original_full")),
        "fsmt": (t.FSMTForConditionalGeneration, t.FSMTConfig(
            src_vocab_size=VOCAB + 8, tgt_vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=64, max_position_embeddings=SEQ, dropout=0.0)),
        # Two experts and two that give a token back.
        "longcat_flash": (t.LongcatFlashForCausalLM, t.LongcatFlashConfig(
            vocab_size=VOCAB, hidden_size=32, num_layers=2, num_attention_heads=4, max_position_embeddings=SEQ, ffn_hidden_size=48, q_lora_rank=16,
            kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, head_dim=4, v_head_dim=8, moe_topk=2, n_routed_experts=2, zero_expert_num=2,
            expert_ffn_hidden_size=24)),
        "jetmoe": (t.JetMoeForCausalLM, t.JetMoeConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_key_value_heads=2, kv_channels=8,
                                                       intermediate_size=48, max_position_embeddings=SEQ, num_local_experts=4)),
        "rwkv": (t.RwkvForCausalLM, t.RwkvConfig(vocab_size=VOCAB, context_length=SEQ, hidden_size=32, num_hidden_layers=2, attention_hidden_size=24,
                                                 intermediate_size=48)),
        # Two blocks, of which the first is used twice.
        "zamba2": (t.Zamba2ForCausalLM, t.Zamba2Config(
            vocab_size=VOCAB, hidden_size=32, num_hidden_layers=5, num_attention_heads=4, intermediate_size=48, max_position_embeddings=SEQ,
            layers_block_type=["mamba", "hybrid", "hybrid", "mamba", "hybrid"], mamba_d_state=4, mamba_ngroups=2, n_mamba_heads=4,
            chunk_size=8, num_mem_blocks=2, use_shared_attention_adapter=True, adapter_rank=4, use_mem_rope=True, time_step_min=0.5)),
        "mamba": (t.MambaForCausalLM, t.MambaConfig(vocab_size=VOCAB, hidden_size=32, state_size=4, num_hidden_layers=2, time_step_rank=4)),
        # With several groups transformers has heads take turns with them in the place of neighbours that share one.
        "mamba2": (t.Mamba2ForCausalLM, t.Mamba2Config(vocab_size=VOCAB, hidden_size=32, state_size=4, num_hidden_layers=2, num_heads=4,
                                                       head_dim=16, n_groups=1, chunk_size=8, tie_word_embeddings=False)),
        "nemotron_h": (t.NemotronHForCausalLM, t.NemotronHConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_attention_heads=4,
                                                                 num_key_value_heads=2, head_dim=8, mamba_num_heads=4, mamba_head_dim=8,
                                                                 ssm_state_size=4, n_groups=2, chunk_size=8, num_hidden_layers=4,
                                                                 hybrid_override_pattern=SCANS)),
        "qwen3_next": (t.Qwen3NextForCausalLM, t.Qwen3NextConfig(**decoder(**delta, num_experts=4, num_experts_per_tok=2,
                                                                           moe_intermediate_size=24, shared_expert_intermediate_size=24))),
        "qwen3_5_text": (t.Qwen3_5ForCausalLM, t.Qwen3_5TextConfig(**decoder(**delta))),
        # With many heads, so that few scores are zero alike: which of those are chosen is nobody's contract.
        "deepseek_v32": (t.DeepseekV32ForCausalLM, t.DeepseekV32Config(**{**decoder(), "num_key_value_heads": 4}, n_routed_experts=4,
                                                                       num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1,
                                                                       first_k_dense_replace=1, n_group=1, topk_group=1, q_lora_rank=16,
                                                                       kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
                                                                       num_nextn_predict_layers=0, index_n_heads=16, index_head_dim=8,
                                                                       rope_parameters={**yarn, "mscale": 1.0, "mscale_all_dim": 1.0},
                                                                       index_topk=4)),
        "arcee": (t.ArceeForCausalLM, t.ArceeConfig(**decoder())),
        "nemotron": (t.NemotronForCausalLM, t.NemotronConfig(**decoder(head_dim=8))),
        "jais2": (t.Jais2ForCausalLM, t.Jais2Config(**decoder(head_dim=8))),
        "cwm": (t.CwmForCausalLM, t.CwmConfig(**decoder(sliding_window=4, head_dim=8, layer_types=["full_attention", "sliding_attention"],
                                                        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}))),
        "seed_oss": (t.SeedOssForCausalLM, t.SeedOssConfig(**decoder(head_dim=8, attention_bias=True, residual_dropout=0.0, attention_dropout=0.0))),
        "helium": (t.HeliumForCausalLM, t.HeliumConfig(**decoder(head_dim=8, pad_token_id=0))),
        "ernie4_5": (t.Ernie4_5ForCausalLM, t.Ernie4_5Config(**decoder(head_dim=8))),
        "hyperclovax": (t.HyperCLOVAXForCausalLM, t.HyperCLOVAXConfig(**decoder(embedding_multiplier=2.0, residual_multiplier=0.5,
                                                                                logits_scaling=4.0, attention_multiplier=0.25))),
        "olmo3": (t.Olmo3ForCausalLM, t.Olmo3Config(**decoder(sliding_window=4, layer_types=["sliding_attention", "full_attention"],
                                                            rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                                                             "full_attention": yarn}))),
        "exaone4": (t.Exaone4ForCausalLM, t.Exaone4Config(**decoder(sliding_window=4, sliding_window_pattern=2))),
        "qwen2_moe": (t.Qwen2MoeForCausalLM, t.Qwen2MoeConfig(**decoder(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                       shared_expert_intermediate_size=40))),
        "olmoe": (t.OlmoeForCausalLM, t.OlmoeConfig(**decoder(num_experts=4, num_experts_per_tok=2))),
        "flex_olmo": (t.FlexOlmoForCausalLM, t.FlexOlmoConfig(**decoder(num_experts=4, num_experts_per_tok=2, pad_token_id=0))),
        "exaone_moe": (t.ExaoneMoeForCausalLM, t.ExaoneMoeConfig(**decoder(**routed, num_experts=4, num_shared_experts=1, sliding_window=4,
                                                                          sliding_window_pattern=2))),
        "dots1": (t.Dots1ForCausalLM, t.Dots1Config(**decoder(**routed, n_routed_experts=4, n_shared_experts=1, head_dim=8,
                                                              norm_topk_prob=True))),
        "hy_v3": (t.HYV3ForCausalLM, t.HYV3Config(**decoder(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                           num_shared_experts=1))),
        "solar_open": (t.SolarOpenForCausalLM, t.SolarOpenConfig(**{k: v for k, v in decoder(**routed).items()
                                                                   if k not in ("intermediate_size", "first_k_dense_replace")},
                                                                n_routed_experts=4, n_shared_experts=1, head_dim=8)),
        "glm4_moe_lite": (t.Glm4MoeLiteForCausalLM, t.Glm4MoeLiteConfig(**{**decoder(), "num_key_value_heads": 4}, **latent, n_routed_experts=4,
                                                                       num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1,
                                                                       n_group=1, topk_group=1)),
        # Chunks of half a sequence, and queries scaled from the fourth on.
        "llama4_text": (t.Llama4ForCausalLM, t.Llama4TextConfig(**{**decoder(head_dim=8), "num_hidden_layers": 4, "intermediate_size": 24},
                                                               intermediate_size_mlp=48, num_local_experts=4, num_experts_per_tok=2,
                                                               interleave_moe_layer_step=2, no_rope_layer_interval=2, attention_chunk_size=4,
                                                               floor_scale=3, attn_scale=0.7)),
        "gemma4_text": (t.Gemma4ForCausalLM, t.Gemma4TextConfig(**{**decoder(head_dim=8), **gemma4}, hidden_size_per_layer_input=8,
                                                               num_kv_shared_layers=2, use_double_wide_mlp=True)),
        "gemma4_moe": (t.Gemma4ForCausalLM, t.Gemma4TextConfig(**{**decoder(head_dim=8), **gemma4}, hidden_size_per_layer_input=0,
                                                              attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True,
                                                              num_experts=4, top_k_experts=2, moe_intermediate_size=24)),
        # Of a token's gates those are activated that are more than their mean by 0.25 standard deviations.
        "gemma3n_text": (t.Gemma3nForCausalLM, t.Gemma3nTextConfig(
            **{**decoder(head_dim=8), "num_hidden_layers": 4, "tie_word_embeddings": True}, vocab_size_per_layer_input=VOCAB,
            hidden_size_per_layer_input=8, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=4, num_kv_shared_layers=2,
            altup_num_inputs=3, laurel_rank=4, final_logit_softcapping=5.0, activation_sparsity_pattern=[0.6, 0.6, 0.0, 0.0], pad_token_id=0,
            rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                             "full_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
        "gpt_bigcode": (t.GPTBigCodeForCausalLM, t.GPTBigCodeConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ,
                                                                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
        # Norms behind the rotation, without a bias, or without weights.
        "olmo": (t.OlmoForCausalLM, t.OlmoConfig(**decoder(pad_token_id=0))),
        "cohere": (t.CohereForCausalLM, t.CohereConfig(**{**decoder(logit_scale=0.25), "tie_word_embeddings": True})),
        "cohere2": (t.Cohere2ForCausalLM, t.Cohere2Config(**{**decoder(logit_scale=0.25, sliding_window=4, sliding_window_pattern=2,
                                                                      layer_types=["sliding_attention", "full_attention"]),
                                                            "tie_word_embeddings": True})),
        "hunyuan_v1_dense": (t.HunYuanDenseV1ForCausalLM, t.HunYuanDenseV1Config(**decoder(head_dim=8))),
        "hunyuan_v1_moe": (t.HunYuanMoEV1ForCausalLM, t.HunYuanMoEV1Config(**decoder(head_dim=8, num_experts=4, moe_topk=2))),
        "glm": (t.GlmForCausalLM, t.GlmConfig(**decoder(head_dim=8, pad_token_id=0))),
        "glm4": (t.Glm4ForCausalLM, t.Glm4Config(**decoder(head_dim=8, pad_token_id=0))),
        "granitemoe": (t.GraniteMoeForCausalLM, t.GraniteMoeConfig(**decoder(num_local_experts=4, num_experts_per_tok=2,
                                                                             attention_multiplier=0.25, residual_multiplier=0.5))),
        "granitemoeshared": (t.GraniteMoeSharedForCausalLM, t.GraniteMoeSharedConfig(**decoder(num_local_experts=4, num_experts_per_tok=2,
                                                                                              shared_intermediate_size=24))),
        "ernie4_5_moe": (t.Ernie4_5_MoeForCausalLM, t.Ernie4_5_MoeConfig(**decoder(moe_num_experts=4, moe_k=2, moe_intermediate_size=24))),
        "ministral3": (t.Ministral3ForCausalLM, t.Ministral3Config(**decoder(head_dim=8, pad_token_id=0, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": SEQ}))),
        "ministral3_far": (t.Ministral3ForCausalLM, t.Ministral3Config(**decoder(head_dim=8, pad_token_id=0, rope_parameters={
            **yarn, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 2}))),
        "deepseek_v2": (t.DeepseekV2ForCausalLM, t.DeepseekV2Config(**{**decoder(**routed), **latent, "num_key_value_heads": 4},
                                                                   n_routed_experts=4, n_shared_experts=1)),
        "glm_moe_dsa": (t.GlmMoeDsaForCausalLM, t.GlmMoeDsaConfig(**{**decoder(**routed), **latent, "num_key_value_heads": 4},
                                                                 n_routed_experts=4, n_shared_experts=1, index_n_heads=16, index_head_dim=8,
                                                                 index_topk=4, num_nextn_predict_layers=0)),
        "glm_moe_dsa_shared": (t.GlmMoeDsaForCausalLM, t.GlmMoeDsaConfig(
            **{**decoder(**routed), **latent, "num_key_value_heads": 4, "num_hidden_layers": 4}, n_routed_experts=4, n_shared_experts=1,
            index_n_heads=16, index_head_dim=8, index_topk=4, num_nextn_predict_layers=0,
            indexer_types=["full", "shared", "shared", "full"])),
        "nemotron_h_latent": (t.NemotronHForCausalLM, t.NemotronHConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=8, mamba_num_heads=4,
            mamba_head_dim=8, ssm_state_size=4, n_groups=2, chunk_size=8, layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
            n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, moe_shared_expert_intermediate_size=40, moe_latent_size=16,
            routed_scaling_factor=2.5, time_step_min=1e-6)),  # below which transformers holds steps, whatever the file says
        "mimo_v2_flash": (t.MiMoV2FlashForCausalLM, t.MiMoV2FlashConfig(
            **{**decoder(**routed), "num_hidden_layers": 4, "num_key_value_heads": 1}, n_routed_experts=4, head_dim=12, v_head_dim=8,
            sliding_window=4, layer_types=["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.34},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.34}})),
        "qwen3_5_moe_text": (t.Qwen3_5MoeForCausalLM, t.Qwen3_5MoeTextConfig(**decoder(**delta, num_experts=4, num_experts_per_tok=2,
                                                                                      moe_intermediate_size=24,
                                                                                      shared_expert_intermediate_size=24))),
        "roberta": (t.RobertaForMaskedLM, t.RobertaConfig(**small, intermediate_size=64, max_position_embeddings=SEQ + 2, type_vocab_size=1,
                                                         hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
        "distilbert": (t.DistilBertForMaskedLM, t.DistilBertConfig(vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
                                                                  max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0)),
        "youtu": (t.YoutuForCausalLM, t.YoutuConfig(**{**decoder(), "num_key_value_heads": 4}, **latent)),
        "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(**{**decoder(**gemma2), "tie_word_embeddings": True})),
        "vaultgemma": (t.VaultGemmaForCausalLM, t.VaultGemmaConfig(**{**decoder(**gemma2), "tie_word_embeddings": True})),
        "gpt_neo": (t.GPTNeoForCausalLM, t.GPTNeoConfig(vocab_size=VOCAB, hidden_size=32, num_layers=2, num_heads=4, window_size=4,
                                                        attention_types=[[["global", "local"], 1]], max_position_embeddings=SEQ)),
        "codegen": (t.CodeGenForCausalLM, t.CodeGenConfig(vocab_size=VOCAB, n_embd=32, n_head=8, n_layer=2, n_positions=SEQ, rotary_dim=4)),
        # Heads that are no power of two: whose slopes are those of the next one.
        "mpt": (t.MptForCausalLM, t.MptConfig(vocab_size=VOCAB, d_model=48, n_heads=6, n_layers=2, max_seq_len=SEQ)),
        "electra": (t.ElectraForMaskedLM, t.ElectraConfig(**small, **narrow)),
        "albert": (t.AlbertForMaskedLM, t.AlbertConfig(**{**small, "num_hidden_layers": 4}, **narrow, num_hidden_groups=2)),
        "granite_swa": (t.GraniteSWAForCausalLM, t.GraniteSWAConfig(**{**decoder(sliding_window=4, layer_types=["full_attention", "sliding_attention"],
                                                                                layer_rope_theta=[0, 1000.0], embedding_multiplier=2.0,
                                                                                residual_multiplier=0.5, logits_scaling=4.0,
                                                                                attention_multiplier=0.25), "tie_word_embeddings": True})),
        "cohere_qk_norm": (t.CohereForCausalLM, t.CohereConfig(**{**decoder(logit_scale=0.25, use_qk_norm=True), "tie_word_embeddings": True})),
        "modernbert": (t.ModernBertForMaskedLM, t.ModernBertConfig(**{**modern, "num_hidden_layers": 4})),
        "modernbert_biases": (t.ModernBertForMaskedLM, t.ModernBertConfig(**modern, attention_bias=True, mlp_bias=True, norm_bias=True,
                                                                          classifier_bias=True)),
        "modernbert_decoder": (t.ModernBertDecoderForCausalLM, t.ModernBertDecoderConfig(**{**modern, "local_attention": 8})),
        "eurobert": (t.EuroBertForMaskedLM, t.EuroBertConfig(**decoder(mlp_bias=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                                                       mask_token_id=2))),
        "mt5": (t.MT5ForConditionalGeneration, t.MT5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                           dropout_rate=0.0)),
        "data2vec-text": (t.Data2VecTextForMaskedLM, t.Data2VecTextConfig(**small, intermediate_size=64, max_position_embeddings=SEQ + 2,
                                                                          type_vocab_size=1, hidden_dropout_prob=0.0,
                                                                          attention_probs_dropout_prob=0.0)),
        "qwen2_5_vl": (t.Qwen2_5_VLForConditionalGeneration, t.Qwen2_5_VLConfig(
            text_config=decoder(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
            vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, fullatt_block_indexes=[0]),
            tie_word_embeddings=True)),
        "jamba": (t.JambaForCausalLM, t.JambaConfig(**decoder(num_experts=4, num_experts_per_tok=2, mamba_d_state=4, mamba_dt_rank=4,
                                                              attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                                                              expert_layer_offset=0))),
        "falcon_h1": (t.FalconH1ForCausalLM, t.FalconH1Config(**decoder(**parallel, head_dim=8))),
        "falcon_h1_norms": (t.FalconH1ForCausalLM, t.FalconH1Config(**decoder(**parallel, mamba_rms_norm=True, mamba_proj_bias=True,
                                                                              attention_bias=True, mlp_bias=True))),
        "lfm2": (t.Lfm2ForCausalLM, t.Lfm2Config(**{**decoder(layer_types=["conv", "full_attention"], block_multiple_of=8),
                                                    "tie_word_embeddings": True})),
        # 1e-6 is added to the sum of a token's weights where they are normalised; ours add nothing.
        "lfm2_moe": (t.Lfm2MoeForCausalLM, t.Lfm2MoeConfig(**decoder(layer_types=["full_attention", "conv"], num_dense_layers=1,
                                                                     num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                     norm_topk_prob=False, routed_scaling_factor=2.0, conv_bias=True))),
        "bamba": (t.BambaForCausalLM, t.BambaConfig(**decoder(**pairs, attn_layer_indices=[1]))),
        "granitemoehybrid": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig(**decoder(**granite_4, num_local_experts=4,
                                                                                              num_experts_per_tok=2))),
        "granitemoehybrid_dense": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig(**decoder(**granite_4, num_local_experts=0,
                                                                                                    num_experts_per_tok=0))),
        "qwen3_vl_moe": (t.Qwen3VLMoeForConditionalGeneration, t.Qwen3VLMoeConfig(
            text_config=decoder(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
            vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, deepstack_visual_indexes=[0],
                               num_position_embeddings=16), tie_word_embeddings=False)),
        "exaone": (t.LlamaForCausalLM, t.ExaoneConfig(**decoder(attention_bias=True, mlp_bias=True))),
        "bart": (t.BartForConditionalGeneration, t.BartConfig(**pair)),
        "mbart": (t.MBartForConditionalGeneration, t.MBartConfig(**pair, scale_embedding=True)),
        "pegasus": (t.PegasusForConditionalGeneration, t.PegasusConfig(**pair, activation_function="relu")),
        "blenderbot": (t.BlenderbotForConditionalGeneration, t.BlenderbotConfig(**pair)),
        "blenderbot-small": (t.BlenderbotSmallForConditionalGeneration, t.BlenderbotSmallConfig(**pair)),
        "m2m_100": (t.M2M100ForConditionalGeneration, t.M2M100Config(**pair, encoder_layerdrop=0.0, decoder_layerdrop=0.0)),
        "plbart": (t.PLBartForConditionalGeneration, t.PLBartConfig(**pair)),
        "mvp": (t.MvpForConditionalGeneration, t.MvpConfig(**pair)),
        "umt5": (t.UMT5ForConditionalGeneration, t.UMT5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                                                             dropout_rate=0.0)),
        "openai-gpt": (t.OpenAIGPTLMHeadModel, t.OpenAIGPTConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ,
                                                                resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
        "biogpt": (t.BioGptForCausalLM, t.BioGptConfig(**masked, max_position_embeddings=SEQ)),
        "xglm": (t.XGLMForCausalLM, t.XGLMConfig(vocab_size=VOCAB, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48,
                                                max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)),
        "megatron-bert": (t.MegatronBertForMaskedLM, t.MegatronBertConfig(**masked, max_position_embeddings=SEQ)),
        "ernie": (t.ErnieForMaskedLM, t.ErnieConfig(**masked, max_position_embeddings=SEQ)),
        "roberta-prelayernorm": (t.RobertaPreLayerNormForMaskedLM, t.RobertaPreLayerNormConfig(**masked, max_position_embeddings=SEQ + 2,
                                                                                              type_vocab_size=1)),
        "xlm-roberta-xl": (t.XLMRobertaXLForMaskedLM, t.XLMRobertaXLConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=1)),
        "persimmon": (t.PersimmonForCausalLM, t.PersimmonConfig(**{k: v for k, v in decoder(hidden_dropout=0.0).items()
                                                                  if k != "num_key_value_heads"})),
        "dbrx": (t.DbrxForCausalLM, t.DbrxConfig(d_model=32, n_heads=4, n_layers=2, max_seq_len=SEQ, vocab_size=VOCAB,
                                                attn_config=dict(kv_n_heads=2, clip_qkv=0.5, rope_theta=10000.0),
                                                ffn_config=dict(hidden_size=32, ffn_hidden_size=24, moe_num_experts=4, moe_top_k=2))),
        "apertus": (t.ApertusForCausalLM, t.ApertusConfig(**decoder(pad_token_id=0))),
        "olmo_bounded": (t.OlmoForCausalLM, t.OlmoConfig(**decoder(pad_token_id=0, clip_qkv=0.5))),
        "phi_norms": (t.PhiForCausalLM, t.PhiConfig(**decoder(qk_layernorm=True))),
        "falcon_mamba": (t.FalconMambaForCausalLM, t.FalconMambaConfig(vocab_size=VOCAB, hidden_size=32, state_size=4, num_hidden_layers=2,
                                                                      time_step_rank=4)),
        "deit": (t.DeiTForImageClassification, t.DeiTConfig(**patches, intermediate_size=48)),
        "dinov2": (t.Dinov2ForImageClassification, t.Dinov2Config(**patches)),
        "dinov2_gated": (t.Dinov2ForImageClassification, t.Dinov2Config(**patches, use_swiglu_ffn=True)),
        "dinov2_with_registers": (t.Dinov2WithRegistersForImageClassification, t.Dinov2WithRegistersConfig(**patches)),
        "whisper": (t.WhisperForConditionalGeneration, t.WhisperConfig(
            **{k: v for k, v in pair.items() if k != "max_position_embeddings"}, num_mel_bins=4, max_source_positions=6, max_target_positions=SEQ,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)),
        # Windows of 2 and 4 tokens in 8, of which a query chooses 2 of the former; as many heads as deepseek_v32's indexer has.
        "deepseek_v4": (t.DeepseekV4ForCausalLM, t.DeepseekV4Config(
            vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, head_dim=16, q_lora_rank=16,
            moe_intermediate_size=24, num_experts_per_tok=2, n_routed_experts=4, max_position_embeddings=SEQ,
            layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
            compress_rates={"compressed_sparse_attention": 2, "heavily_compressed_attention": 4}, hc_sinkhorn_iters=3,
            mlp_layer_types=["hash_moe", "moe", "moe"], sliding_window=3, o_groups=2, o_lora_rank=8, index_n_heads=16,
            index_head_dim=8, index_topk=2, partial_rotary_factor=0.25, swiglu_limit=0.1, num_nextn_predict_layers=0,
            rope_parameters={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})),
        "minimax_m3_vl_text": (t.MiniMaxM3VLForCausalLM, t.MiniMaxM3VLTextConfig(
            **{**decoder(), "intermediate_size": 24}, head_dim=8, rotary_dim=4, num_experts_per_tok=2, num_local_experts=4,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
            dense_intermediate_size=48, shared_intermediate_size=24, mlp_layer_types=["dense", "sparse"], index_n_heads=2, index_head_dim=8,
            index_block_size=2, index_topk_blocks=2, layer_types=["full_attention", "minimax_m3_sparse"])),
        "kimi_linear": (t.KimiLinearForCausalLM, t.KimiLinearConfig(
            **{k: v for k, v in decoder(**latent).items() if k not in ("q_lora_rank", "num_key_value_heads")}, num_key_value_heads=4,
            moe_intermediate_size=24, num_experts_per_tok=2, num_local_experts=4, linear_head_dim=8, linear_num_heads=2, pad_token_id=0,
            layer_types=["linear_attention", "full_attention"], mlp_layer_types=["sparse", "sparse"])),
        "minicpm3": (t.MiniCPM3ForCausalLM, t.MiniCPM3Config(**{**decoder(), "num_key_value_heads": 4, "tie_word_embeddings": True}, **latent,
                                                            scale_emb=3, scale_depth=0.7, dim_model_base=8)),
        # Queries grow from the third position on.
        "mistral4": (t.Mistral4ForCausalLM, t.Mistral4Config(
            **{**decoder(**routed), **latent, "num_key_value_heads": 4}, n_routed_experts=4, n_shared_experts=1, pad_token_id=0,
            routed_scaling_factor=1.5, rope_parameters={**yarn, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5,
                                                        "original_max_position_embeddings": 2})),
        "axk1": (t.AXK1ForCausalLM, t.AXK1Config(**{**decoder(**routed), **latent, "num_key_value_heads": 4}, n_routed_experts=4,
                                                n_shared_experts=1)),
        "axk2": (t.AXK2ForCausalLM, t.AXK2Config(**{**decoder(), **latent, "num_key_value_heads": 4}, n_routed_experts=4, num_experts_per_tok=2,
                                                 moe_intermediate_size=24, index_n_heads=16, index_head_dim=8, index_topk=4, gated_norm_rank=4)),
        "hy_v4": (t.HYV4ForCausalLM, t.HYV4Config(
            **{**decoder(), **latent, "num_key_value_heads": 4, "num_hidden_layers": 3}, n_routed_experts=4, num_experts_per_tok=2,
            moe_intermediate_size=24, index_n_heads=16, index_head_dim=8, index_topk=4, indexer_types=["full", "shared", "full"], hc_mult=2,
            hc_magnitude=1.5, swiglu_limit=0.1, pad_token_id=0)),
        # Windows in the second, third and fifth layer: the last one follows no order.
        "flint": (t.FlintForCausalLM, t.FlintConfig(
            **{**decoder(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
                         mlp_only_layers=[0], sliding_window=4), "num_hidden_layers": 6},
            layer_types=[f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full", "sliding", "full")])),
        "lfm3": (t.Lfm3ForCausalLM, t.Lfm3Config(
            **{**decoder(head_dim=8, conv_bias=True, conv_L_cache=3, attention_bias=True, sliding_window=4, pad_token_id=0), "num_hidden_layers": 5,
               "tie_word_embeddings": True},
            layer_types=["conv", "full_attention", "sliding_attention", "full_attention", "sliding_attention"])),
        "bailing_hybrid": (t.BailingHybridForCausalLM, t.BailingHybridConfig(
            **{**decoder(head_dim=8), "num_key_value_heads": 4, "num_hidden_layers": 3}, **{**latent, "q_lora_rank": None}, num_local_experts=4,
            num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1, n_group=1, topk_group=1, layer_group_size=3, pad_token_id=0)),
        "nanochat": (t.NanoChatForCausalLM, t.NanoChatConfig(**decoder(final_logit_softcapping=2.0))),
        "bitnet": (t.BitNetForCausalLM, t.BitNetConfig(**decoder(rope_parameters={"rope_type": "default", "rope_theta": 10000.0}))),
        "afmoe": (t.AfmoeForCausalLM, t.AfmoeConfig(**decoder(
            head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=2, num_dense_layers=1, sliding_window=4,
            global_attn_every_n_layers=2, mup_enabled=True, route_scale=1.5))),
        "cohere2_moe": (t.Cohere2MoeForCausalLM, t.Cohere2MoeConfig(**{**decoder(
            head_dim=8, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, sliding_window=4, sliding_window_pattern=2,
            first_k_dense_replace=1, prefix_dense_intermediate_size=40, logit_scale=0.25, expert_selection_fn="sigmoid", pad_token_id=0,
            bos_token_id=1, eos_token_id=2), "num_hidden_layers": 3, "tie_word_embeddings": True})),
        "cohere2_moe_sums": (t.Cohere2MoeForCausalLM, t.Cohere2MoeConfig(**decoder(
            head_dim=8, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, sliding_window=4, sliding_window_pattern=2, rms_norm_eps=1e-5,
            shared_expert_combination_strategy="sum", pad_token_id=0, bos_token_id=1, eos_token_id=2))),
        "granitemoe_swa": (t.GraniteMoeSWAForCausalLM, t.GraniteMoeSWAConfig(**decoder(
            sliding_window=4, layer_types=["full_attention", "sliding_attention"], layer_rope_theta=[0, 1000.0], num_local_experts=4,
            num_experts_per_tok=2, shared_intermediate_size=24, attention_multiplier=0.25))),
        "aria_text": (t.AriaTextForCausalLM, t.AriaTextConfig(**decoder(moe_num_experts=4, moe_topk=2, moe_num_shared_experts=1, pad_token_id=0))),
        "mpnet": (t.MPNetForMaskedLM, t.MPNetConfig(**masked, max_position_embeddings=SEQ + 2)),
        "esm": (t.EsmForMaskedLM, t.EsmConfig(**masked, max_position_embeddings=SEQ + 2, position_embedding_type="rotary", token_dropout=True,
                                              mask_token_id=1, pad_token_id=0, emb_layer_norm_before=True)),
        "nomic_bert": (t.NomicBertForMaskedLM, t.NomicBertConfig(**masked, max_position_embeddings=SEQ)),
        "jina_embeddings_v3": (t.JinaEmbeddingsV3ForMaskedLM, t.JinaEmbeddingsV3Config(**masked, max_position_embeddings=SEQ)),
        "gte": (t.GteForMaskedLM, t.GteConfig(**masked, max_position_embeddings=SEQ, pad_token_id=0)),
        "roformer": (t.RoFormerForMaskedLM, t.RoFormerConfig(**masked, max_position_embeddings=SEQ)),
        "rembert": (t.RemBertForMaskedLM, t.RemBertConfig(**masked, max_position_embeddings=SEQ, input_embedding_size=16, output_embedding_size=40)),
        # Windows of two keys on either side.
        "longformer": (t.LongformerForMaskedLM, t.LongformerConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=1, attention_window=4)),
        "ibert": (t.IBertForMaskedLM, t.IBertConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=1)),
        "layoutlm": (t.LayoutLMForMaskedLM, t.LayoutLMConfig(**masked, max_position_embeddings=SEQ, max_2d_position_embeddings=16)),
        "olmo_hybrid": (t.OlmoHybridForCausalLM, t.OlmoHybridConfig(**{**decoder(
            layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
            linear_value_head_dim=8, pad_token_id=0, eos_token_id=2, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})})),
        "step3p7": (t.Step3p7ForConditionalGeneration, t.Step3p7Config(
            text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
                             num_key_value_heads=2, head_dim=8, max_position_embeddings=SEQ, pad_token_id=0, num_sliding_attention_heads=8,
                             layer_types=["full_attention", "sliding_attention", "sliding_attention"], sliding_window=4,
                             mlp_layer_types=["dense", "sparse", "sparse"], n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                             share_expert_dim=40, moe_router_scaling_factor=1.5,
                             rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
            vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8))),
        "siglip": (t.SiglipModel, t.SiglipConfig(
            text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             max_position_embeddings=SEQ, projection_size=24, bos_token_id=1, eos_token_id=2, pad_token_id=0),
            vision_config=dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4))),
        "siglip2": (t.Siglip2Model, t.Siglip2Config(
            text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             max_position_embeddings=SEQ, projection_size=24, bos_token_id=1, eos_token_id=2, pad_token_id=0),
            vision_config=dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, num_patches=4, patch_size=4))),
        "mimo": (MimoForCausalLM, t.Qwen2Config(**decoder(), num_nextn_predict_layers=1)),
        "convnext": (t.ConvNextForImageClassification, t.ConvNextConfig(**stages, layer_scale_init_value=0.5)),
        "convnextv2": (t.ConvNextV2ForImageClassification, t.ConvNextV2Config(**stages)),
        "swin": (t.SwinForImageClassification, t.SwinConfig(image_size=64, patch_size=4, window_size=2, embed_dim=8, depths=[2, 1, 1, 2],
                                                            num_heads=[1, 2, 2, 4], num_labels=10, drop_path_rate=0.0)),
        "donut-swin": (t.DonutSwinForImageClassification, t.DonutSwinConfig(image_size=64, patch_size=4, window_size=2, embed_dim=8,
                                                                            depths=[2, 1, 1, 2], num_heads=[1, 2, 2, 4], num_labels=10,
                                                                            drop_path_rate=0.0)),
        "segformer": (t.SegformerForImageClassification, t.SegformerConfig(
            depths=[1, 2, 1, 1], hidden_sizes=[4, 8, 8, 16], num_attention_heads=[1, 2, 2, 4], sr_ratios=[4, 2, 1, 1], num_labels=10,
            drop_path_rate=0.0)),
        "ijepa": (t.IJepaForImageClassification, t.IJepaConfig(**patches, intermediate_size=64)),
        # Biases of each layer, by the mean of the patches; of all layers and each, beside positions; of all layers, by the class token.
        "beit": (t.BeitForImageClassification, t.BeitConfig(**patches, intermediate_size=64, drop_path_rate=0.0,
                                                            use_relative_position_bias=True)),
        "beit_apart": (t.BeitForImageClassification, t.BeitConfig(
            **patches, intermediate_size=64, drop_path_rate=0.0, use_shared_relative_position_bias=True, use_mean_pooling=False,
            use_mask_token=True, layer_scale_init_value=0.0)),
        "data2vec-vision": (t.Data2VecVisionForImageClassification, t.Data2VecVisionConfig(
            **patches, intermediate_size=64, drop_path_rate=0.0, use_relative_position_bias=True, use_shared_relative_position_bias=True,
            use_absolute_position_embeddings=True)),
        # Distances of 4 and more words share rows by their logarithm.
        "deberta-v2": (t.DebertaV2ForMaskedLM, t.DebertaV2Config(
            **masked, max_position_embeddings=SEQ, relative_attention=True, position_buckets=6, norm_rel_ebd="layer_norm", share_att_key=True,
            pos_att_type="p2c|c2p", position_biased_input=False, conv_kernel_size=3, conv_act="gelu")),
        "deberta-v2_apart": (t.DebertaV2ForMaskedLM, t.DebertaV2Config(
            **masked, max_position_embeddings=SEQ, relative_attention=True, max_relative_positions=4, pos_att_type=["c2p", "p2c"],
            conv_kernel_size=3)),
        "deberta-v2_plain": (t.DebertaV2ForMaskedLM, t.DebertaV2Config(**masked, max_position_embeddings=SEQ)),
        "deberta": (t.DebertaForMaskedLM, t.DebertaConfig(**masked, max_position_embeddings=SEQ + 2, type_vocab_size=2, relative_attention=True,
                                                          pos_att_type="c2p|p2c", position_biased_input=False)),
        "mobilebert": (t.MobileBertForMaskedLM, t.MobileBertConfig(**masked, **bottleneck)),
        "mobilebert_gelu": (t.MobileBertForMaskedLM, t.MobileBertConfig(**masked, **{**bottleneck, "num_feedforward_networks": 1},
                                                                        hidden_act="gelu")),
        "fnet": (t.FNetForMaskedLM, t.FNetConfig(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, intermediate_size=48,
                                                 hidden_dropout_prob=0.0, max_position_embeddings=SEQ, pad_token_id=0)),
        "xlm": (t.XLMWithLMHeadModel, t.XLMConfig(**lingual, n_langs=2)),
        "flaubert": (t.FlaubertWithLMHeadModel, t.FlaubertConfig(**lingual)),
        "flaubert_norm_first": (t.FlaubertWithLMHeadModel, t.FlaubertConfig(**lingual, pre_norm=True)),
        "bert-generation": (t.BertGenerationDecoder, t.BertGenerationConfig(**masked, max_position_embeddings=SEQ, is_decoder=True)),
        "git": (t.GitForCausalLM, t.GitConfig(**masked, max_position_embeddings=SEQ, vision_config=dict(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4))),
        "ctrl": (t.CTRLLMHeadModel, t.CTRLConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, dff=48, n_positions=SEQ, resid_pdrop=0.0,
                                                 embd_pdrop=0.0)),
        # Two keys on either side; more positions are encoded than decoded.
        "led": (t.LEDForConditionalGeneration, t.LEDConfig(
            **{k: v for k, v in pair.items() if k != "max_position_embeddings"}, attention_window=4, max_encoder_position_embeddings=2 * SEQ,
            max_decoder_position_embeddings=SEQ)),
        "apertus1p5_text": (t.Apertus1p5TextForCausalLM, t.Apertus1p5TextConfig(**{**decoder(head_dim=8), "vocab_size": VOCAB + 16},
                                                                                output_vocab_size=VOCAB, pad_token_id=0)),
        # Values of two chunks meet in the second layer.
        "minimax": (t.MiniMaxForCausalLM, t.MiniMaxConfig(**decoder(head_dim=8, num_local_experts=4, num_experts_per_tok=2, block_size=4,
                                                                   full_attn_alpha_factor=2.0, full_attn_beta_factor=0.5,
                                                                   linear_attn_alpha_factor=0.5, linear_attn_beta_factor=2.0,
                                                                   mlp_alpha_factor=1.5, mlp_beta_factor=0.75))),
        "recurrent_gemma": (t.RecurrentGemmaForCausalLM, t.RecurrentGemmaConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            lru_width=48, attention_window_size=4, logits_soft_cap=5.0)),
        "laguna": (t.LagunaForCausalLM, t.LagunaConfig(**{**decoder(**laguna), "num_hidden_layers": 4},
                                                       num_attention_heads_per_layer=[4, 8, 8, 8])),
        "laguna_wide": (t.LagunaForCausalLM, t.LagunaConfig(**decoder(**{**laguna, "layer_types": None}), gating="per-element")),
        # By another family's class, as STAND_INS tells.
        "internlm2": (t.LlamaForCausalLM, t.LlamaConfig(**decoder())),
        "minicpm": (t.GraniteForCausalLM, t.GraniteConfig(**decoder(embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=4.0,
                                                                    attention_multiplier=8 ** -0.5))),
        "bailing_moe": (t.MixtralForCausalLM, t.MixtralConfig(**decoder(num_local_experts=4, num_experts_per_tok=2))),
        "bailing_moe_v2": (t.Glm4MoeForCausalLM, t.Glm4MoeConfig(**decoder(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                           n_shared_experts=1, first_k_dense_replace=1, head_dim=8, n_group=1,
                                                                           topk_group=1, num_nextn_predict_layers=0, use_qk_norm=True,
                                                                           routed_scaling_factor=1.5))),
    }


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


class Bottleneck(torch.nn.Module):
    """Of the wide residual networks of Alpa's benchmark: the second of three convolutions is the wide one."""

    def __init__(self, into, base, width, stride, first):
        super().__init__()
        n = torch.nn
        self.conv1, self.bn1 = n.Conv2d(into, base, 1, bias=False), n.BatchNorm2d(base)
        self.conv2, self.bn2 = n.Conv2d(base, base * width, 3, stride, 1, bias=False), n.BatchNorm2d(base * width)
        self.conv3, self.bn3 = n.Conv2d(base * width, 4 * base, 1, bias=False), n.BatchNorm2d(4 * base)
        self.downsample = n.Sequential(n.Conv2d(into, 4 * base, 1, stride, bias=False), n.BatchNorm2d(4 * base)) if first else None

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class WideResNet(torch.nn.Module):
    def __init__(self, channels, width, classes):
        super().__init__()
        n = torch.nn
        self.conv1, self.bn1 = n.Conv2d(3, channels, 7, 2, 3, bias=False), n.BatchNorm2d(channels)
        self.maxpool = n.MaxPool2d(3, 2, 1)
        into = channels
        for stage in range(4):
            block = Bottleneck(into, channels << stage, width, 2 if stage > 0 else 1, True)
            setattr(self, f"layer{stage + 1}", n.Sequential(block))
            into = 4 * (channels << stage)
        self.fc = n.Linear(into, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


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
    more = ("running_mean", "running_var", "embed_tokens.weight", "final_logits_bias", "act_fn.beta", "act_fn.eps", *DERIVED, *UNTRAINED, "expert_bias", "ffn.gate.bias", "moe.router_bias")
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
    compare("weight", safetensors.torch.load_file(here / "weights" / "model.safetensors"), theirs["weights"], rows, theirs["gradients"], 1e-10 if precision == "f64" else 1e-4)
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
