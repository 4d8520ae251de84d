# SPDX-License-Identifier: Apache-2.0
"""Decoders with mixtures of experts: a class of transformers and the configuration of a tiny one each."""
import transformers

from tiny_models.kinds import SEQ, VOCAB
from tiny_models.parts import decoder, delta, gemma4, granite_4, latent, yarn


def mixtures():
    t = transformers
    routed = dict(num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1, n_group=1, topk_group=1)
    laguna = dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24,
                  sliding_window=4, layer_types=["full_attention"] + ["sliding_attention"] * 3, moe_routed_scaling_factor=2.5)
    return {
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
        "glm4_moe": (t.Glm4MoeForCausalLM, t.Glm4MoeConfig(**decoder(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                     n_shared_experts=1, first_k_dense_replace=1, head_dim=8, n_group=1,
                                                                     topk_group=1, num_nextn_predict_layers=0))),
        "minimax_m2": (t.MiniMaxM2ForCausalLM, t.MiniMaxM2Config(**decoder(num_local_experts=4, num_experts_per_tok=2, head_dim=8))),
        # Two experts and two that give a token back.
        "longcat_flash": (t.LongcatFlashForCausalLM, t.LongcatFlashConfig(
            vocab_size=VOCAB, hidden_size=32, num_layers=2, num_attention_heads=4, max_position_embeddings=SEQ, ffn_hidden_size=48, q_lora_rank=16,
            kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, head_dim=4, v_head_dim=8, moe_topk=2, n_routed_experts=2, zero_expert_num=2,
            expert_ffn_hidden_size=24)),
        "jetmoe": (t.JetMoeForCausalLM, t.JetMoeConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_key_value_heads=2, kv_channels=8,
                                                       intermediate_size=48, max_position_embeddings=SEQ, num_local_experts=4)),
        "qwen3_next": (t.Qwen3NextForCausalLM, t.Qwen3NextConfig(**decoder(**delta, num_experts=4, num_experts_per_tok=2,
                                                                           moe_intermediate_size=24, shared_expert_intermediate_size=24))),
        # With many heads, so that few scores are zero alike: which of those are chosen is nobody's contract.
        "deepseek_v32": (t.DeepseekV32ForCausalLM, t.DeepseekV32Config(**{**decoder(), "num_key_value_heads": 4}, n_routed_experts=4,
                                                                       num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1,
                                                                       first_k_dense_replace=1, n_group=1, topk_group=1, q_lora_rank=16,
                                                                       kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
                                                                       num_nextn_predict_layers=0, index_n_heads=16, index_head_dim=8,
                                                                       rope_parameters={**yarn, "mscale": 1.0, "mscale_all_dim": 1.0},
                                                                       index_topk=4)),
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
        "gemma4_moe": (t.Gemma4ForCausalLM, t.Gemma4TextConfig(**{**decoder(head_dim=8), **gemma4}, hidden_size_per_layer_input=0,
                                                              attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True,
                                                              num_experts=4, top_k_experts=2, moe_intermediate_size=24)),
        "hunyuan_v1_moe": (t.HunYuanMoEV1ForCausalLM, t.HunYuanMoEV1Config(**decoder(head_dim=8, num_experts=4, moe_topk=2))),
        "granitemoe": (t.GraniteMoeForCausalLM, t.GraniteMoeConfig(**decoder(num_local_experts=4, num_experts_per_tok=2,
                                                                             attention_multiplier=0.25, residual_multiplier=0.5))),
        "granitemoeshared": (t.GraniteMoeSharedForCausalLM, t.GraniteMoeSharedConfig(**decoder(num_local_experts=4, num_experts_per_tok=2,
                                                                                              shared_intermediate_size=24))),
        "ernie4_5_moe": (t.Ernie4_5_MoeForCausalLM, t.Ernie4_5_MoeConfig(**decoder(moe_num_experts=4, moe_k=2, moe_intermediate_size=24))),
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
        "jamba": (t.JambaForCausalLM, t.JambaConfig(**decoder(num_experts=4, num_experts_per_tok=2, mamba_d_state=4, mamba_dt_rank=4,
                                                              attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                                                              expert_layer_offset=0))),
        # 1e-6 is added to the sum of a token's weights where they are normalised; ours add nothing.
        "lfm2_moe": (t.Lfm2MoeForCausalLM, t.Lfm2MoeConfig(**decoder(layer_types=["full_attention", "conv"], num_dense_layers=1,
                                                                     num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                     norm_topk_prob=False, routed_scaling_factor=2.0, conv_bias=True))),
        "granitemoehybrid": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig(**decoder(**granite_4, num_local_experts=4,
                                                                                              num_experts_per_tok=2))),
        "qwen3_vl_moe": (t.Qwen3VLMoeForConditionalGeneration, t.Qwen3VLMoeConfig(
            text_config=decoder(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
            vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, deepstack_visual_indexes=[0],
                               num_position_embeddings=16), tie_word_embeddings=False)),
        "dbrx": (t.DbrxForCausalLM, t.DbrxConfig(d_model=32, n_heads=4, n_layers=2, max_seq_len=SEQ, vocab_size=VOCAB,
                                                attn_config=dict(kv_n_heads=2, clip_qkv=0.5, rope_theta=10000.0),
                                                ffn_config=dict(hidden_size=32, ffn_hidden_size=24, moe_num_experts=4, moe_top_k=2))),
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
        # Windows in the second and last layer, and positions in these alone.
        "lara_mini": (t.LaraMiniForCausalLM, t.LaraMiniConfig(
            **{k: v for k, v in decoder(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                        shared_expert_intermediate_size=40, sliding_window=4, linear_num_key_heads=2, linear_num_value_heads=4,
                                        linear_key_head_dim=8, linear_value_head_dim=8).items() if k not in ("intermediate_size", "num_hidden_layers")},
            num_hidden_layers=5)),
        "bailing_hybrid": (t.BailingHybridForCausalLM, t.BailingHybridConfig(
            **{**decoder(head_dim=8), "num_key_value_heads": 4, "num_hidden_layers": 3}, **{**latent, "q_lora_rank": None}, num_local_experts=4,
            num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1, n_group=1, topk_group=1, layer_group_size=3, pad_token_id=0)),
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
        "step3p7": (t.Step3p7ForConditionalGeneration, t.Step3p7Config(
            text_config=dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
                             num_key_value_heads=2, head_dim=8, max_position_embeddings=SEQ, pad_token_id=0, num_sliding_attention_heads=8,
                             layer_types=["full_attention", "sliding_attention", "sliding_attention"], sliding_window=4,
                             mlp_layer_types=["dense", "sparse", "sparse"], n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                             share_expert_dim=40, moe_router_scaling_factor=1.5,
                             rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
            vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8))),
        # Values of two chunks meet in the second layer.
        "minimax": (t.MiniMaxForCausalLM, t.MiniMaxConfig(**decoder(head_dim=8, num_local_experts=4, num_experts_per_tok=2, block_size=4,
                                                                   full_attn_alpha_factor=2.0, full_attn_beta_factor=0.5,
                                                                   linear_attn_alpha_factor=0.5, linear_attn_beta_factor=2.0,
                                                                   mlp_alpha_factor=1.5, mlp_beta_factor=0.75))),
        "laguna": (t.LagunaForCausalLM, t.LagunaConfig(**{**decoder(**laguna), "num_hidden_layers": 4},
                                                       num_attention_heads_per_layer=[4, 8, 8, 8])),
        "laguna_wide": (t.LagunaForCausalLM, t.LagunaConfig(**decoder(**{**laguna, "layer_types": None}), gating="per-element")),
        "bailing_moe": (t.MixtralForCausalLM, t.MixtralConfig(**decoder(num_local_experts=4, num_experts_per_tok=2))),
        "bailing_moe_v2": (t.Glm4MoeForCausalLM, t.Glm4MoeConfig(**decoder(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                                                           n_shared_experts=1, first_k_dense_replace=1, head_dim=8, n_group=1,
                                                                           topk_group=1, num_nextn_predict_layers=0, use_qk_norm=True,
                                                                           routed_scaling_factor=1.5))),
    }
