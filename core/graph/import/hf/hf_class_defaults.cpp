// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/hf_class_defaults.h"

#include <algorithm>
#include <array>
#include <map>

namespace meshwright {

namespace {

struct ClassDefaults {
  const char *type, *members;  // as JSON
};

// In the order of their types. Members of which a type's reader knows the value, and modules for further tokens, which
// no class makes, are not among these.
constexpr ClassDefaults kMembers[] = {
    {"apertus1p5_text", R"({"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 65536,
         "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 266752})"},
    {"aria_text",
     R"({"hidden_size": 4096, "intermediate_size": 4096, "max_position_embeddings": 2048, "num_attention_heads":
         32, "num_hidden_layers": 32, "vocab_size": 32000})"},
    {"axk1", R"({"n_shared_experts": 1, "q_lora_rank": 1536, "routed_scaling_factor": 2.5})"},
    {"axk2", R"({"n_shared_experts": 1, "routed_scaling_factor": 2.5})"},
    {"bitnet", R"({"num_key_value_heads": 5})"},
    {"blenderbot", R"({"max_position_embeddings": 128})"},
    {"blenderbot-small", R"({"max_position_embeddings": 512})"},
    {"cohere_compass_text", R"({"hidden_size": 8192, "intermediate_size": 22528, "max_position_embeddings": 8192,
         "num_attention_heads": 64, "num_hidden_layers": 40, "vocab_size": 256000})"},
    {"cosmos3_edge_text", R"({"hidden_size": 2048, "intermediate_size": 9216, "max_position_embeddings": 131072,
         "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "vocab_size": 131072})"},
    {"cwm", R"({"num_key_value_heads": 8})"},
    {"deepseek_v2", R"({"n_shared_experts": 2, "q_lora_rank": 1536})"},
    {"deepseek_v3",
     R"({"first_k_dense_replace": 3, "n_shared_experts": 1, "q_lora_rank": 1536, "routed_scaling_factor": 2.5})"},
    {"deepseek_v32", R"({"n_shared_experts": 1, "routed_scaling_factor": 2.5})"},
    {"dots1", R"({"num_key_value_heads": 32})"},
    {"emu3_text_model", R"({"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 9216,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
         "vocab_size": 184622})"},
    {"ernie4_5", R"({"num_key_value_heads": 2})"},
    {"ernie4_5_moe", R"({"num_key_value_heads": 4})"},
    {"ernie4_5_vl_moe_text", R"({"num_key_value_heads": 4})"},
    {"exaone", R"({"num_key_value_heads": 8})"},
    {"exaone4", R"({"num_key_value_heads": 32, "sliding_window": 4096})"},
    {"exaone_moe", R"({"num_key_value_heads": 32, "sliding_window": 4096})"},
    {"flint", R"({"num_key_value_heads": 4})"},
    {"gemma", R"({"num_key_value_heads": 16})"},
    {"gemma2", R"({"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "num_key_value_heads": 4})"},
    {"gemma3_text", R"({"hidden_size": 2304, "intermediate_size": 9216, "max_position_embeddings": 131072,
         "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "vocab_size": 262208})"},
    {"gemma3n_text", R"({"final_logit_softcapping": 30.0, "hidden_size": 2048, "max_position_embeddings": 32768,
         "num_attention_heads": 8, "num_hidden_layers": 35, "vocab_size": 262400})"},
    {"gemma4_text", R"({"hidden_size": 2304, "intermediate_size": 9216, "max_position_embeddings": 131072,
         "num_attention_heads": 8, "num_hidden_layers": 30, "num_key_value_heads": 4, "vocab_size": 262144})"},
    {"gemma4_unified_text", R"({"hidden_size": 2304, "intermediate_size": 9216, "max_position_embeddings": 262144,
         "num_attention_heads": 8, "num_hidden_layers": 30, "num_key_value_heads": 4, "vocab_size": 262144})"},
    {"glm", R"({"attention_bias": true, "num_key_value_heads": 2})"},
    {"glm4", R"({"attention_bias": true, "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-07})"},
    {"glm4_moe", R"({"num_key_value_heads": 8})"},
    {"glm4_moe_lite",
     R"({"n_shared_experts": 1, "q_lora_rank": 768, "rms_norm_eps": 1e-05, "routed_scaling_factor": 1.8})"},
    {"glm4v_text", R"({"hidden_size": 4096, "intermediate_size": 13696, "max_position_embeddings": 32768,
         "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2, "vocab_size": 151552})"},
    {"glm_moe_dsa", R"({"n_shared_experts": 1, "rms_norm_eps": 1e-05, "routed_scaling_factor": 2.5})"},
    {"glm_ocr_text", R"({"hidden_size": 1024, "intermediate_size": 4096, "max_position_embeddings": 131072,
         "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 59392})"},
    {"glmasr", R"({"text_config": {"hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 8192,
         "model_type": "llama", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 4,
         "rms_norm_eps": 1e-05, "vocab_size": 59264}})"},
    {"gpt_oss", R"({"num_key_value_heads": 8})"},
    {"granite4_vision_text", R"({"hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 2048,
         "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000})"},
    {"granite_docling_text", R"({"attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "hidden_size": 1024,
         "intermediate_size": 2048, "logits_scaling": 4.0, "max_position_embeddings": 32768,
         "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 4, "residual_multiplier":
         0.263, "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "vocab_size": 133800})"},
    {"granite_swa", R"({"num_key_value_heads": 4})"},
    {"helium", R"({"num_key_value_heads": 20})"},
    {"hunyuan_vl_text", R"({"hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 2048,
         "num_attention_heads": 32, "num_hidden_layers": 32, "tie_word_embeddings": true, "vocab_size": 290943})"},
    {"hy_v3", R"({"head_dim": 128, "num_key_value_heads": 8, "router_scaling_factor": 2.826})"},
    {"hy_v4_vl_text", R"({"hidden_size": 6144, "index_n_heads": 32, "intermediate_size": 18432, "kv_lora_rank": 512,
         "max_position_embeddings": 262144, "moe_intermediate_size": 2048, "n_routed_experts": 256,
         "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 78, "q_lora_rank": 2048,
         "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "vocab_size": 120832})"},
    {"hyperclovax", R"({"use_post_norm": true})"},
    {"internlm3", R"({"num_key_value_heads": 2, "rms_norm_eps": 1e-05})"},
    {"iquestcoder", R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-05})"},
    {"jamba", R"({"num_key_value_heads": 8})"},
    {"kimi_k2",
     R"({"first_k_dense_replace": 3, "n_shared_experts": 1, "q_lora_rank": 1536, "routed_scaling_factor": 2.5})"},
    {"laguna", R"({"num_key_value_heads": 8})"},
    {"llama4_text",
     R"({"attention_chunk_size": 8192, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp":
         16384, "max_position_embeddings": 131072, "num_attention_heads": 40, "num_experts_per_tok": 1,
         "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 16, "vocab_size": 202048})"},
    {"mellum", R"({"num_key_value_heads": 4, "sliding_window": 1024})"},
    {"mimo_v2_flash", R"({"attention_value_scale": 0.707})"},
    {"minicpm3", R"({"dim_model_base": 256, "q_lora_rank": 768, "scale_depth": 1.4, "scale_emb": 12})"},
    {"minimax", R"({"num_key_value_heads": 8})"},
    {"minimax_m2", R"({"head_dim": 128, "num_key_value_heads": 8})"},
    {"minimax_m3_vl_text",
     R"({"dense_intermediate_size": 12288, "head_dim": 128, "hidden_size": 6144, "intermediate_size": 3072,
         "max_position_embeddings": 524288, "num_attention_heads": 64, "num_experts_per_tok": 4,
         "num_hidden_layers": 60, "num_key_value_heads": 4, "num_local_experts": 128, "rotary_dim": 64,
         "routed_scaling_factor": 2.0, "shared_intermediate_size": 3072, "vocab_size": 200064})"},
    {"ministral", R"({"num_key_value_heads": 8, "sliding_window": 4096})"},
    {"ministral3", R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-05})"},
    {"mistral", R"({"num_key_value_heads": 8, "sliding_window": 4096})"},
    {"mistral4", R"({"n_shared_experts": 1, "q_lora_rank": 1024})"},
    {"mixtral", R"({"num_key_value_heads": 8})"},
    {"molmo2_text", R"({"hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 36864,
         "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936})"},
    {"nanochat", R"({"final_logit_softcapping": 15.0})"},
    {"paddleocr_vl_text", R"({"hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 131072,
         "num_attention_heads": 16, "num_hidden_layers": 18, "num_key_value_heads": 2, "vocab_size": 103424})"},
    {"phi4_multimodal", R"({"num_key_value_heads": 8})"},
    {"phimoe", R"({"num_key_value_heads": 8})"},
    {"plbart", R"({"scale_embedding": true})"},
    {"qwen2", R"({"num_key_value_heads": 32})"},
    {"qwen2_5_omni_text", R"({"hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 32768,
         "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064})"},
    {"qwen2_5_vl_text", R"({"hidden_size": 8192, "intermediate_size": 29568, "max_position_embeddings": 32768,
         "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
         "vocab_size": 152064})"},
    {"qwen2_moe", R"({"num_key_value_heads": 16})"},
    {"qwen2_vl_text", R"({"hidden_size": 8192, "intermediate_size": 29568, "max_position_embeddings": 32768,
         "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
         "vocab_size": 152064})"},
    {"qwen3", R"({"num_key_value_heads": 32})"},
    {"qwen3_5_moe_text", R"({"num_key_value_heads": 2, "shared_expert_intermediate_size": 512})"},
    {"qwen3_5_text",
     R"({"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 16, "num_hidden_layers": 32,
         "num_key_value_heads": 4, "vocab_size": 248320})"},
    {"qwen3_moe", R"({"num_key_value_heads": 4})"},
    {"qwen3_next", R"({"intermediate_size": 5632, "num_experts": 512, "num_key_value_heads": 2,
         "shared_expert_intermediate_size": 512})"},
    {"qwen3_vl_moe_text", R"({"num_key_value_heads": 16})"},
    {"qwen3_vl_text", R"({"hidden_size": 4096, "intermediate_size": 22016, "max_position_embeddings": 128000,
         "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 151936})"},
    {"sarvam_mla", R"({"first_k_dense_replace": 1, "n_shared_experts": 1, "routed_scaling_factor": 2.5})"},
    {"sarvam_moe",
     R"({"num_key_value_heads": 4, "rms_norm_eps": 1e-06, "routed_scaling_factor": 2.5, "use_qk_norm": true})"},
    {"seed_oss", R"({"num_key_value_heads": 8})"},
    {"smollm3", R"({"num_key_value_heads": 4, "tie_word_embeddings": true})"},
    {"solar_open", R"({"num_key_value_heads": 8})"},
    {"stablelm", R"({"num_key_value_heads": 32})"},
    {"starcoder2", R"({"num_key_value_heads": 2})"},
    {"unlimited_ocr_text", R"({"hidden_size": 1280, "intermediate_size": 6848, "max_position_embeddings": 32768,
         "moe_intermediate_size": 896, "n_routed_experts": 64, "num_attention_heads": 10, "num_experts_per_tok":
         6, "num_hidden_layers": 12, "vocab_size": 129280})"},
    {"vaultgemma", R"({"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "num_key_value_heads": 4})"},
    {"vit_msn", R"({"layer_norm_eps": 1e-06})"},
    {"xlm-roberta-xl", R"({"layer_norm_eps": 1e-05, "type_vocab_size": 1})"},
    {"youtu", R"({"q_lora_rank": 1536})"},
};

// Of files that say nothing of a rotation.
constexpr ClassDefaults kRotations[] = {
    {"apertus", R"({"rope_parameters": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
         "original_max_position_embeddings": 8192, "rope_theta": 12000000.0, "rope_type": "llama3"}})"},
    {"apertus1p5_text", R"({"rope_parameters": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
         "original_max_position_embeddings": 8192, "rope_theta": 12000000.0, "rope_type": "llama3"}})"},
    {"bitnet", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"cohere", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"cwm", R"({"rope_parameters": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
         "original_max_position_embeddings": 8192, "rope_theta": 1000000.0, "rope_type": "llama3"}})"},
    {"emu3_text_model", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
    {"ernie4_5", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"ernie4_5_moe", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"ernie4_5_vl_moe_text", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"exaone", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"flex_olmo", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"gemma3_text", R"({"rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
         "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}})"},
    {"gpt_oss", R"({"rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
         "original_max_position_embeddings": 4096, "rope_theta": 150000.0, "rope_type": "yarn", "truncate":
         false}})"},
    {"helium", R"({"rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"}})"},
    {"hy_v3", R"({"rope_parameters": {"rope_theta": 11158840.0, "rope_type": "default"}})"},
    {"mellum", R"({"rope_parameters": {"full_attention": {"rope_theta": 500000.0, "rope_type": "default"},
         "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}})"},
    {"minimax_m2", R"({"rope_parameters": {"rope_theta": 5000000.0, "rope_type": "default"}})"},
    {"ministral3",
     R"({"rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1,
         "max_position_embeddings": 262144, "mscale": 1.0, "mscale_all_dim": 1.0,
         "original_max_position_embeddings": 16384, "rope_theta": 1000000.0, "rope_type": "yarn", "type":
         "yarn"}})"},
    {"mistral4",
     R"({"rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 128.0, "llama_4_scaling_beta": 0.1,
         "max_position_embeddings": 1048576, "mscale": 1.0, "mscale_all_dim": 1.0,
         "original_max_position_embeddings": 8192, "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
         "rope_type": "yarn", "type": "yarn"}})"},
    {"mixtral", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
    {"olmo3", R"({"rope_parameters": {"full_attention": {"rope_theta": 500000.0, "rope_type": "default"},
         "sliding_attention": {"rope_theta": 500000.0, "rope_type": "default"}}})"},
    {"paddleocr_vl_text", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"persimmon",
     R"({"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"}})"},
    {"phimoe", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
    {"qwen2_5_omni_text", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
    {"qwen2_5_vl_text", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
    {"qwen2_vl_text", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
    {"qwen3_vl_moe_text", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"qwen3_vl_text", R"({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})"},
    {"sarvam_moe",
     R"({"rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 8000000.0, "rope_type": "default"}})"},
    {"smollm3", R"({"rope_parameters": {"rope_theta": 2000000.0, "rope_type": "default"}})"},
    {"solar_open", R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})"},
};

template <std::size_t count>
std::map<std::string, Json> by_type(const ClassDefaults (&rows)[count]) {
  std::map<std::string, Json> all;
  for (const auto& [type, members] : rows) all.emplace(type, Json::parse(members));
  return all;
}

}  // namespace

std::vector<const Json*> hf_class_defaults(const std::string& type, const Json& object) {
  static const std::map<std::string, Json> members = by_type(kMembers), rotations = by_type(kRotations);
  constexpr std::array kOfRotation = {"rope_parameters", "rope_scaling", "rope_theta", "rotary_emb_base"};
  const bool rotates = std::any_of(kOfRotation.begin(), kOfRotation.end(),
                                   [&](const char* key) { return object.find(key) != object.end(); });
  std::vector<const Json*> found;
  if (const auto row = members.find(type); row != members.end()) found.push_back(&row->second);
  if (const auto row = rotations.find(type); !rotates && row != rotations.end()) found.push_back(&row->second);
  return found;
}

}  // namespace meshwright
