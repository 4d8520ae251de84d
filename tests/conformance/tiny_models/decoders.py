# SPDX-License-Identifier: Apache-2.0
"""Decoders without experts: a class of transformers and the configuration of a tiny one each."""
import transformers

from tiny_models.kinds import SCANS, SEQ, VOCAB
from tiny_models.modules import MimoForCausalLM
from tiny_models.parts import decoder, delta, gemma4, granite_4, latent, masked, modern, pairs, small, yarn


def decoders():
    t = transformers
    no_drop = dict(attention_dropout=0.0, hidden_dropout=0.0)
    gemma2 = dict(head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=8,
                  attn_logit_softcapping=0.5, final_logit_softcapping=2.0)
    parallel = dict(mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=4, mamba_n_groups=2, mamba_chunk_size=8,
                    embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.5, attention_in_multiplier=2.0,
                    attention_out_multiplier=0.5, ssm_in_multiplier=0.5, ssm_out_multiplier=2.0, ssm_multipliers=[0.5, 2.0, 0.25, 4.0, 0.5],
                    mlp_multipliers=[0.5, 2.0])
    # Rotations that are scaled: of the pairs of a head some turn as they did, some more slowly, and some in between.
    llama3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 100}
    longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [1.0, 2.0, 4.0, 8.0]}
    return {
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ, resid_pdrop=0,
                                                 embd_pdrop=0, attn_pdrop=0)),
        "opt": (t.OPTForCausalLM, t.OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                              max_position_embeddings=SEQ, word_embed_proj_dim=16, dropout=0.0, attention_dropout=0.0)),
        "bloom": (t.BloomForCausalLM, t.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4, seq_length=SEQ, **no_drop)),
        "gpt_neox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(**small, intermediate_size=64, max_position_embeddings=SEQ, rotary_pct=0.5,
                                                           **no_drop)),
        "llama": (t.LlamaForCausalLM, t.LlamaConfig(**decoder())),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(**decoder(sliding_window=4))),
        "llama_scaled": (t.LlamaForCausalLM, t.LlamaConfig(**decoder(rope_parameters=llama3))),
        "mistral_scaled": (t.MistralForCausalLM, t.MistralConfig(**decoder(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0,
                                                                                            "factor": 2.0}))),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**decoder())),
        "qwen2_scaled": (t.Qwen2ForCausalLM, t.Qwen2Config(**decoder(rope_parameters=yarn))),
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**decoder(head_dim=16))),
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
        "gptj": (t.GPTJForCausalLM, t.GPTJConfig(vocab_size=VOCAB, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, resid_pdrop=0,
                                                 embd_pdrop=0, attn_pdrop=0)),
        "gpt_neox_japanese": (t.GPTNeoXJapaneseForCausalLM, t.GPTNeoXJapaneseConfig(**small, intermediate_multiple_size=2,
                                                                                   max_position_embeddings=SEQ, attention_dropout=0.0)),
        "imagegpt": (t.ImageGPTForCausalImageModeling, t.ImageGPTConfig(vocab_size=VOCAB + 1, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4,
                                                                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
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
        "qwen3_5_text": (t.Qwen3_5ForCausalLM, t.Qwen3_5TextConfig(**decoder(**delta))),
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
        "gemma4_text": (t.Gemma4ForCausalLM, t.Gemma4TextConfig(**{**decoder(head_dim=8), **gemma4}, hidden_size_per_layer_input=8,
                                                               num_kv_shared_layers=2, use_double_wide_mlp=True)),
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
        # No positions in the layer without a window.
        "cohere_compass_text": (t.CohereCompassForCausalLM, t.CohereCompassTextConfig(**{
            **decoder(sliding_window=4, layer_types=["sliding_attention", "full_attention"],
                      rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 1, 1]},
                                       "full_attention": None}), "tie_word_embeddings": True})),
        "hunyuan_v1_dense": (t.HunYuanDenseV1ForCausalLM, t.HunYuanDenseV1Config(**decoder(head_dim=8))),
        "glm": (t.GlmForCausalLM, t.GlmConfig(**decoder(head_dim=8, pad_token_id=0))),
        "glm4": (t.Glm4ForCausalLM, t.Glm4Config(**decoder(head_dim=8, pad_token_id=0))),
        "ministral3": (t.Ministral3ForCausalLM, t.Ministral3Config(**decoder(head_dim=8, pad_token_id=0, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": SEQ}))),
        "ministral3_far": (t.Ministral3ForCausalLM, t.Ministral3Config(**decoder(head_dim=8, pad_token_id=0, rope_parameters={
            **yarn, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 2}))),
        "youtu": (t.YoutuForCausalLM, t.YoutuConfig(**{**decoder(), "num_key_value_heads": 4}, **latent)),
        "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config(**{**decoder(**gemma2), "tie_word_embeddings": True})),
        "vaultgemma": (t.VaultGemmaForCausalLM, t.VaultGemmaConfig(**{**decoder(**gemma2), "tie_word_embeddings": True})),
        "gpt_neo": (t.GPTNeoForCausalLM, t.GPTNeoConfig(vocab_size=VOCAB, hidden_size=32, num_layers=2, num_heads=4, window_size=4,
                                                        attention_types=[[["global", "local"], 1]], max_position_embeddings=SEQ)),
        "codegen": (t.CodeGenForCausalLM, t.CodeGenConfig(vocab_size=VOCAB, n_embd=32, n_head=8, n_layer=2, n_positions=SEQ, rotary_dim=4)),
        # Heads that are no power of two: whose slopes are those of the next one.
        "mpt": (t.MptForCausalLM, t.MptConfig(vocab_size=VOCAB, d_model=48, n_heads=6, n_layers=2, max_seq_len=SEQ)),
        "granite_swa": (t.GraniteSWAForCausalLM, t.GraniteSWAConfig(**{**decoder(sliding_window=4, layer_types=["full_attention", "sliding_attention"],
                                                                                layer_rope_theta=[0, 1000.0], embedding_multiplier=2.0,
                                                                                residual_multiplier=0.5, logits_scaling=4.0,
                                                                                attention_multiplier=0.25), "tie_word_embeddings": True})),
        "cohere_qk_norm": (t.CohereForCausalLM, t.CohereConfig(**{**decoder(logit_scale=0.25, use_qk_norm=True), "tie_word_embeddings": True})),
        "modernbert_decoder": (t.ModernBertDecoderForCausalLM, t.ModernBertDecoderConfig(**{**modern, "local_attention": 8})),
        "qwen2_5_vl": (t.Qwen2_5_VLForConditionalGeneration, t.Qwen2_5_VLConfig(
            text_config=decoder(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
            vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, fullatt_block_indexes=[0]),
            tie_word_embeddings=True)),
        "falcon_h1": (t.FalconH1ForCausalLM, t.FalconH1Config(**decoder(**parallel, head_dim=8))),
        "falcon_h1_norms": (t.FalconH1ForCausalLM, t.FalconH1Config(**decoder(**parallel, mamba_rms_norm=True, mamba_proj_bias=True,
                                                                              attention_bias=True, mlp_bias=True))),
        "lfm2": (t.Lfm2ForCausalLM, t.Lfm2Config(**{**decoder(layer_types=["conv", "full_attention"], block_multiple_of=8),
                                                    "tie_word_embeddings": True})),
        "bamba": (t.BambaForCausalLM, t.BambaConfig(**decoder(**pairs, attn_layer_indices=[1]))),
        "granitemoehybrid_dense": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig(**decoder(**granite_4, num_local_experts=0,
                                                                                                    num_experts_per_tok=0))),
        "exaone": (t.LlamaForCausalLM, t.ExaoneConfig(**decoder(attention_bias=True, mlp_bias=True))),
        "openai-gpt": (t.OpenAIGPTLMHeadModel, t.OpenAIGPTConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ,
                                                                resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
        "biogpt": (t.BioGptForCausalLM, t.BioGptConfig(**masked, max_position_embeddings=SEQ)),
        "xglm": (t.XGLMForCausalLM, t.XGLMConfig(vocab_size=VOCAB, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48,
                                                max_position_embeddings=SEQ, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)),
        "persimmon": (t.PersimmonForCausalLM, t.PersimmonConfig(**{k: v for k, v in decoder(hidden_dropout=0.0).items()
                                                                  if k != "num_key_value_heads"})),
        "apertus": (t.ApertusForCausalLM, t.ApertusConfig(**decoder(pad_token_id=0))),
        "olmo_bounded": (t.OlmoForCausalLM, t.OlmoConfig(**decoder(pad_token_id=0, clip_qkv=0.5))),
        "phi_norms": (t.PhiForCausalLM, t.PhiConfig(**decoder(qk_layernorm=True))),
        "falcon_mamba": (t.FalconMambaForCausalLM, t.FalconMambaConfig(vocab_size=VOCAB, hidden_size=32, state_size=4, num_hidden_layers=2,
                                                                      time_step_rank=4)),
        "minicpm3": (t.MiniCPM3ForCausalLM, t.MiniCPM3Config(**{**decoder(), "num_key_value_heads": 4, "tie_word_embeddings": True}, **latent,
                                                            scale_emb=3, scale_depth=0.7, dim_model_base=8)),
        "lfm3": (t.Lfm3ForCausalLM, t.Lfm3Config(
            **{**decoder(head_dim=8, conv_bias=True, conv_L_cache=3, attention_bias=True, sliding_window=4, pad_token_id=0), "num_hidden_layers": 5,
               "tie_word_embeddings": True},
            layer_types=["conv", "full_attention", "sliding_attention", "full_attention", "sliding_attention"])),
        "nanochat": (t.NanoChatForCausalLM, t.NanoChatConfig(**decoder(final_logit_softcapping=2.0))),
        "bitnet": (t.BitNetForCausalLM, t.BitNetConfig(**decoder(rope_parameters={"rope_type": "default", "rope_theta": 10000.0}))),
        "olmo_hybrid": (t.OlmoHybridForCausalLM, t.OlmoHybridConfig(**{**decoder(
            layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
            linear_value_head_dim=8, pad_token_id=0, eos_token_id=2, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})})),
        "mimo": (MimoForCausalLM, t.Qwen2Config(**decoder(), num_nextn_predict_layers=1)),
        "ctrl": (t.CTRLLMHeadModel, t.CTRLConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, dff=48, n_positions=SEQ, resid_pdrop=0.0,
                                                 embd_pdrop=0.0)),
        "apertus1p5_text": (t.Apertus1p5TextForCausalLM, t.Apertus1p5TextConfig(**{**decoder(head_dim=8), "vocab_size": VOCAB + 16},
                                                                                output_vocab_size=VOCAB, pad_token_id=0)),
        "recurrent_gemma": (t.RecurrentGemmaForCausalLM, t.RecurrentGemmaConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            lru_width=48, attention_window_size=4, logits_soft_cap=5.0)),
        # By another family's class, as STAND_INS tells.
        "internlm2": (t.LlamaForCausalLM, t.LlamaConfig(**decoder())),
        "minicpm": (t.GraniteForCausalLM, t.GraniteConfig(**decoder(embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=4.0,
                                                                    attention_multiplier=8 ** -0.5))),
    }
