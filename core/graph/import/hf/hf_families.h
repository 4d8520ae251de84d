// SPDX-License-Identifier: Apache-2.0
// What each family's config.json means.
#pragma once

#include <string>
#include <vector>

#include "core/graph/import/hf/hf_reader.h"
#include "core/graph/models/models.h"

namespace meshwright {

struct HfFamily {
  const char* model_type;
  // The sizes and the family; name, batch and dtype are left to the caller.
  ModelConfig (*read)(const HfReader& config);
};

namespace hf {

// hf_plain_families.cpp
[[nodiscard]] ModelConfig read_gpt2(const HfReader& config);
[[nodiscard]] ModelConfig read_imagegpt(const HfReader& config);
[[nodiscard]] ModelConfig read_gpt_bigcode(const HfReader& config);
[[nodiscard]] ModelConfig read_ctrl(const HfReader& config);
[[nodiscard]] ModelConfig read_gpt_neo(const HfReader& config);
[[nodiscard]] ModelConfig read_openai_gpt(const HfReader& config);
[[nodiscard]] ModelConfig read_biogpt(const HfReader& config);
[[nodiscard]] ModelConfig read_xglm(const HfReader& config);
[[nodiscard]] ModelConfig read_opt(const HfReader& config);
[[nodiscard]] ModelConfig read_bloom(const HfReader& config);
[[nodiscard]] ModelConfig read_mpt(const HfReader& config);
[[nodiscard]] ModelConfig read_gpt_neox(const HfReader& config);
[[nodiscard]] ModelConfig read_gpt_neox_japanese(const HfReader& config);
[[nodiscard]] ModelConfig read_bert(const HfReader& config);
// What BERT and its relatives say alike; positions and the head's weights are the caller's.
[[nodiscard]] ModelConfig read_bert_sizes(const HfReader& config);
[[nodiscard]] ModelConfig read_roberta(const HfReader& config);
[[nodiscard]] ModelConfig read_megatron_bert(const HfReader& config);
[[nodiscard]] ModelConfig read_roberta_norm_first(const HfReader& config);
[[nodiscard]] ModelConfig read_ernie(const HfReader& config);
[[nodiscard]] ModelConfig read_modernbert(const HfReader& config);
[[nodiscard]] ModelConfig read_distilbert(const HfReader& config);
[[nodiscard]] ModelConfig read_electra(const HfReader& config);
[[nodiscard]] ModelConfig read_albert(const HfReader& config);
[[nodiscard]] ModelConfig read_t5(const HfReader& config);  // and mT5, umT5

[[nodiscard]] ModelConfig read_longt5(const HfReader& config);
[[nodiscard]] ModelConfig read_switch_transformers(const HfReader& config);

// hf_encoder_families.cpp
[[nodiscard]] ModelConfig read_mpnet(const HfReader& config);
[[nodiscard]] ModelConfig read_esm(const HfReader& config);
[[nodiscard]] ModelConfig read_nomic_bert(const HfReader& config);
[[nodiscard]] ModelConfig read_jina_embeddings_v3(const HfReader& config);
[[nodiscard]] ModelConfig read_gte(const HfReader& config);
[[nodiscard]] ModelConfig read_roformer(const HfReader& config);
[[nodiscard]] ModelConfig read_rembert(const HfReader& config);
[[nodiscard]] ModelConfig read_longformer(const HfReader& config);
[[nodiscard]] ModelConfig read_ibert(const HfReader& config);
[[nodiscard]] ModelConfig read_layoutlm(const HfReader& config);
[[nodiscard]] ModelConfig read_big_bird(const HfReader& config);

// hf_bert_likes.cpp
[[nodiscard]] ModelConfig read_xlm(const HfReader& config);
[[nodiscard]] ModelConfig read_flaubert(const HfReader& config);
[[nodiscard]] ModelConfig read_bert_generation(const HfReader& config);
[[nodiscard]] ModelConfig read_git(const HfReader& config);
[[nodiscard]] ModelConfig read_mobilebert(const HfReader& config);
[[nodiscard]] ModelConfig read_fnet(const HfReader& config);
[[nodiscard]] ModelConfig read_deberta(const HfReader& config);
[[nodiscard]] ModelConfig read_deberta_v2(const HfReader& config);

// hf_encoder_decoder_families.cpp
[[nodiscard]] ModelConfig read_bart(const HfReader& config);  // and PLBART, MVP
[[nodiscard]] ModelConfig read_led(const HfReader& config);
[[nodiscard]] ModelConfig read_fsmt(const HfReader& config);
[[nodiscard]] ModelConfig read_mbart(const HfReader& config);
[[nodiscard]] ModelConfig read_pegasus(const HfReader& config);
[[nodiscard]] ModelConfig read_marian(const HfReader& config);
[[nodiscard]] ModelConfig read_blenderbot(const HfReader& config);
[[nodiscard]] ModelConfig read_m2m_100(const HfReader& config);
[[nodiscard]] ModelConfig read_whisper(const HfReader& config);

// hf_image_families.cpp
[[nodiscard]] ModelConfig read_vit(const HfReader& config);     // and DeiT
[[nodiscard]] ModelConfig read_dinov2(const HfReader& config);  // and with registers
[[nodiscard]] ModelConfig read_ijepa(const HfReader& config);
[[nodiscard]] ModelConfig read_beit(const HfReader& config);  // and data2vec's

[[nodiscard]] ModelConfig read_resnet(const HfReader& config);
[[nodiscard]] ModelConfig read_convnext(const HfReader& config);  // and its second version
[[nodiscard]] ModelConfig read_segformer(const HfReader& config);
[[nodiscard]] ModelConfig read_swin(const HfReader& config);  // and Donut's
[[nodiscard]] ModelConfig read_clip(const HfReader& config);
[[nodiscard]] ModelConfig read_siglip(const HfReader& config);  // and its second version

// hf_wrapped_families.cpp: the text model of a file that describes others beside it
[[nodiscard]] ModelConfig read_wrapped(const HfReader& config);
[[nodiscard]] ModelConfig read_mllama(const HfReader& config);

// hf_decoder_families.cpp
[[nodiscard]] ModelConfig read_llama(const HfReader& config);
[[nodiscard]] ModelConfig read_mistral(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen2(const HfReader& config);
[[nodiscard]] ModelConfig read_mimo(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen3(const HfReader& config);
[[nodiscard]] ModelConfig read_phi(const HfReader& config);
[[nodiscard]] ModelConfig read_phi3(const HfReader& config);
[[nodiscard]] ModelConfig read_falcon(const HfReader& config);
[[nodiscard]] ModelConfig read_apertus(const HfReader& config);
[[nodiscard]] ModelConfig read_apertus1p5_text(const HfReader& config);
[[nodiscard]] ModelConfig read_bitnet(const HfReader& config);
[[nodiscard]] ModelConfig read_nanochat(const HfReader& config);
[[nodiscard]] ModelConfig read_persimmon(const HfReader& config);
[[nodiscard]] ModelConfig read_gptj(const HfReader& config);
[[nodiscard]] ModelConfig read_starcoder2(const HfReader& config);
[[nodiscard]] ModelConfig read_stablelm(const HfReader& config);
[[nodiscard]] ModelConfig read_olmo(const HfReader& config);
[[nodiscard]] ModelConfig read_olmo2(const HfReader& config);
[[nodiscard]] ModelConfig read_smollm3(const HfReader& config);
[[nodiscard]] ModelConfig read_arcee(const HfReader& config);
[[nodiscard]] ModelConfig read_cosmos3_edge_text(const HfReader& config);
[[nodiscard]] ModelConfig read_nemotron(const HfReader& config);
[[nodiscard]] ModelConfig read_jais2(const HfReader& config);
[[nodiscard]] ModelConfig read_cohere(const HfReader& config);
[[nodiscard]] ModelConfig read_cohere2(const HfReader& config);
[[nodiscard]] ModelConfig read_cohere_compass(const HfReader& config);

// hf_llama_likes.cpp
[[nodiscard]] ModelConfig read_granite(const HfReader& config);
[[nodiscard]] ModelConfig read_granite_swa(const HfReader& config);  // and with experts
[[nodiscard]] ModelConfig read_ministral(const HfReader& config);
[[nodiscard]] ModelConfig read_mistral3(const HfReader& config);  // and Ministral 3
[[nodiscard]] ModelConfig read_olmo3(const HfReader& config);
[[nodiscard]] ModelConfig read_seed_oss(const HfReader& config);
[[nodiscard]] ModelConfig read_ernie4_5(const HfReader& config);
[[nodiscard]] ModelConfig read_glm(const HfReader& config);  // and GLM-4-0414
[[nodiscard]] ModelConfig read_exaone4(const HfReader& config);
[[nodiscard]] ModelConfig read_internlm(const HfReader& config);  // 1 to 3
[[nodiscard]] ModelConfig read_minicpm(const HfReader& config);
[[nodiscard]] ModelConfig read_hunyuan_dense(const HfReader& config);
[[nodiscard]] ModelConfig read_cwm(const HfReader& config);
[[nodiscard]] ModelConfig read_helium(const HfReader& config);
[[nodiscard]] ModelConfig read_exaone(const HfReader& config);  // 3
[[nodiscard]] ModelConfig read_hyperclovax(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen3_vl(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen2_vl(const HfReader& config);
[[nodiscard]] ModelConfig read_eurobert(const HfReader& config);
[[nodiscard]] ModelConfig read_granitemoe(const HfReader& config);

// hf_mixture_likes.cpp
[[nodiscard]] ModelConfig read_qwen3_vl_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_olmoe(const HfReader& config);
[[nodiscard]] ModelConfig read_ernie4_5_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_bailing_moe(const HfReader& config);  // Ling 1 and 2
[[nodiscard]] ModelConfig read_exaone_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_hunyuan_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_hy_v3(const HfReader& config);
[[nodiscard]] ModelConfig read_flex_olmo(const HfReader& config);

// hf_mixture_families.cpp
[[nodiscard]] ModelConfig read_mixtral(const HfReader& config);
[[nodiscard]] ModelConfig read_dbrx(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen3_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen2_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_mellum(const HfReader& config);
[[nodiscard]] ModelConfig read_flint(const HfReader& config);
[[nodiscard]] ModelConfig read_gpt_oss(const HfReader& config);
[[nodiscard]] ModelConfig read_llama4(const HfReader& config);
[[nodiscard]] ModelConfig read_glm4_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_solar_open(const HfReader& config);
[[nodiscard]] ModelConfig read_sarvam_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_afmoe(const HfReader& config);
[[nodiscard]] ModelConfig read_cohere2_moe(const HfReader& config);
[[nodiscard]] ModelConfig read_aria_text(const HfReader& config);
[[nodiscard]] ModelConfig read_minimax_m2(const HfReader& config);
[[nodiscard]] ModelConfig read_deepseek_ocr2_text(const HfReader& config);
[[nodiscard]] ModelConfig read_unlimited_ocr_text(const HfReader& config);
[[nodiscard]] ModelConfig read_dots1(const HfReader& config);
[[nodiscard]] ModelConfig read_phimoe(const HfReader& config);
[[nodiscard]] ModelConfig read_jetmoe(const HfReader& config);

// hf_windowed_mixtures.cpp
[[nodiscard]] ModelConfig read_mimo_v2_flash(const HfReader& config);
[[nodiscard]] ModelConfig read_step3p7(const HfReader& config);
[[nodiscard]] ModelConfig read_laguna(const HfReader& config);

// hf_latent_families.cpp
[[nodiscard]] ModelConfig read_deepseek_v2(const HfReader& config);
[[nodiscard]] ModelConfig read_deepseek_v3(const HfReader& config);
[[nodiscard]] ModelConfig read_deepseek_v32(const HfReader& config);  // and GLM-5
[[nodiscard]] ModelConfig read_glm4_moe_lite(const HfReader& config);
[[nodiscard]] ModelConfig read_youtu(const HfReader& config);
[[nodiscard]] ModelConfig read_minicpm3(const HfReader& config);
[[nodiscard]] ModelConfig read_mistral4(const HfReader& config);
[[nodiscard]] ModelConfig read_axk1(const HfReader& config);
[[nodiscard]] ModelConfig read_axk2(const HfReader& config);
[[nodiscard]] ModelConfig read_hy_v4(const HfReader& config);
[[nodiscard]] ModelConfig read_longcat_flash(const HfReader& config);

// hf_block_families.cpp
[[nodiscard]] ModelConfig read_minimax_m3(const HfReader& config);

// hf_kimi_families.cpp
[[nodiscard]] ModelConfig read_kimi_linear(const HfReader& config);
[[nodiscard]] ModelConfig read_bailing_hybrid(const HfReader& config);  // Ling 3

// hf_stream_families.cpp
[[nodiscard]] ModelConfig read_deepseek_v4(const HfReader& config);

// hf_gemma_families.cpp
[[nodiscard]] ModelConfig read_gemma(const HfReader& config);
[[nodiscard]] ModelConfig read_gemma2(const HfReader& config);  // and VaultGemma
[[nodiscard]] ModelConfig read_t5gemma(const HfReader& config);
[[nodiscard]] ModelConfig read_gemma3(const HfReader& config);
[[nodiscard]] ModelConfig read_gemma3n(const HfReader& config);
[[nodiscard]] ModelConfig read_gemma4(const HfReader& config);

// hf_hybrid_families.cpp
[[nodiscard]] ModelConfig read_mamba(const HfReader& config);  // and Falcon Mamba
[[nodiscard]] ModelConfig read_mamba2(const HfReader& config);
[[nodiscard]] ModelConfig read_nemotron_h(const HfReader& config);
[[nodiscard]] ModelConfig read_bamba(const HfReader& config);
[[nodiscard]] ModelConfig read_jamba(const HfReader& config);
[[nodiscard]] ModelConfig read_falcon_h1(const HfReader& config);
[[nodiscard]] ModelConfig read_lfm2(const HfReader& config);
[[nodiscard]] ModelConfig read_granitemoehybrid(const HfReader& config);

// hf_convolution_families.cpp
[[nodiscard]] ModelConfig read_lfm3(const HfReader& config);

// hf_recurrent_families.cpp
[[nodiscard]] ModelConfig read_recurrent_gemma(const HfReader& config);
[[nodiscard]] ModelConfig read_minimax(const HfReader& config);
[[nodiscard]] ModelConfig read_zamba2(const HfReader& config);
[[nodiscard]] ModelConfig read_rwkv(const HfReader& config);

// hf_published_families.cpp: of publishers' own programs
[[nodiscard]] ModelConfig read_qwen(const HfReader& config);
[[nodiscard]] ModelConfig read_baichuan(const HfReader& config);
[[nodiscard]] ModelConfig read_chatglm(const HfReader& config);
[[nodiscard]] ModelConfig read_deepseek(const HfReader& config);
[[nodiscard]] ModelConfig read_orion(const HfReader& config);
[[nodiscard]] ModelConfig read_grok(const HfReader& config);
[[nodiscard]] ModelConfig read_hf_olmo(const HfReader& config);
[[nodiscard]] ModelConfig read_kolibri(const HfReader& config);
[[nodiscard]] ModelConfig read_molmo2(const HfReader& config);

// hf_nas_families.cpp
[[nodiscard]] ModelConfig read_nemotron_nas(const HfReader& config);

// hf_delta_families.cpp
[[nodiscard]] ModelConfig read_qwen3_next(const HfReader& config);  // and Qwen3.5
[[nodiscard]] ModelConfig read_olmo_hybrid(const HfReader& config);
[[nodiscard]] ModelConfig read_lara_mini(const HfReader& config);

}  // namespace hf

[[nodiscard]] const std::vector<HfFamily>& hf_families();  // by name
// That of `model_type`. Throws InputError, with the nearest families, where it is missing or another.
[[nodiscard]] const HfFamily& hf_family_of(const HfReader& config);

}  // namespace meshwright
