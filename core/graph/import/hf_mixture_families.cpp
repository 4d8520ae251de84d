// SPDX-License-Identifier: Apache-2.0
// Decoders with mixtures of experts.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/hf_families.h"
#include "core/graph/import/hf_parts.h"

namespace meshwright::hf {

ModelConfig read_mixtral(const HfReader& config) {
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  return model;
}

ModelConfig read_qwen3_moe(const HfReader& config) {
  ModelConfig model = read_qwen3_decoder("mixtral", config);
  set(model, "experts", config.size({"num_experts", "num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  set(model, "expert_intermediate", config.size({"moe_intermediate_size"}));
  set(model, "mixture_every", config.size_or({"decoder_sparse_step"}, 1));
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  if (!config.has("mlp_only_layers")) return model;
  const Json& dense = config.at("mlp_only_layers");
  bool first_ones = dense.is_array();
  for (std::size_t i = 0; first_ones && i < dense.size(); ++i) first_ones = dense[i] == i;
  require(first_ones, "{}: 'mlp_only_layers' is supported for the first layers alone, as in [0, 1, 2].",
          config.place());
  set(model, "dense_layers", static_cast<std::int64_t>(dense.size()));
  return model;
}

// gpt-oss: biases everywhere, sinks, and windows in every other layer, the first included.
ModelConfig read_gpt_oss(const HfReader& config) {
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  if (!config.has("head_dim")) set(model, "head_dim", 64);
  set_attention_bias(model, config, true);
  set(model, "window", config.size_or({"sliding_window"}, 128));
  set(model, "full_every", 2);
  read_layer_types(model, config);
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok", "experts_per_token"}));
  for (const char* key : {"router_bias", "expert_bias", "sinks", "clipped_gate"}) set(model, key, 1);
  for (const auto& [key, only] : {std::pair("swiglu_alpha", 1.702), std::pair("swiglu_limit", 7.0)}) {
    const double given = config.positive_or(key, only);
    require(given == only, "{}: '{}' is {}, which is not supported; {} is.", config.place(), key, given, only);
  }
  return model;
}

ModelConfig read_llama4(const HfReader& config) {
  if (const auto text = text_part(config, "llama4")) return read_llama4(*text);
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  const std::int64_t expert = config.size({"intermediate_size"});
  set(model, "expert_intermediate", expert);
  set(model, "shared_intermediate", expert);
  set(model, "intermediate", config.size({"intermediate_size_mlp"}));
  set(model, "mixture_every", config.size_or({"interleave_moe_layer_step"}, 1));
  set(model, "sigmoid", 1);
  set(model, "normalized", 0);
  set(model, "no_rotary_every", config.size_or({"no_rope_layer_interval"}, 4, 0));
  set(model, "attention_chunk", config.size_or({"attention_chunk_size"}, 0));
  return model;
}

namespace {

// `usual`: shared experts and dense layers where the file does not say how many.
void read_routed_experts(ModelConfig& model, const HfReader& config, std::int64_t usual) {
  set(model, "experts", config.size({"n_routed_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  const std::int64_t expert = config.size({"moe_intermediate_size"});
  set(model, "expert_intermediate", expert);
  set(model, "shared_intermediate", expert * config.size_or({"n_shared_experts"}, usual, 0));
  set(model, "dense_layers", config.size_or({"first_k_dense_replace"}, usual, 0));
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
  set(model, "mtp", config.size_or({"num_nextn_predict_layers"}, 0, 0));
}

// Throws InputError unless the member is missing or a list of `first` times the one value, then the other.
void expect_layers(const HfReader& config, const char* key, std::int64_t layers, std::int64_t first,
                   const std::string& begin, const std::string& rest) {
  if (!config.has(key)) return;
  const Json& types = config.at(key);
  bool expected = types.is_array() && types.size() == static_cast<std::size_t>(layers);
  for (std::int64_t layer = 0; expected && layer < layers; ++layer)
    expected = types[static_cast<std::size_t>(layer)] == (layer < first ? begin : rest);
  require(expected, "{}: '{}' is another list than \"{}\" for each of the {} layers{}, which is not supported.",
          config.place(), key, rest, layers, first == 0 ? "" : fmt::format(" behind {} of \"{}\"", first, begin));
}

}  // namespace

ModelConfig read_glm4_moe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set(model, "qkv_bias", config.flag_or("attention_bias", false));
  set(model, "qk_norm", config.flag_or("use_qk_norm", false));
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  read_routed_experts(model, config, 1);
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  return model;
}

ModelConfig read_dots1(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", 1);
  read_routed_experts(model, config, 0);
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  const std::int64_t first = config.size_or({"max_window_layers"}, model.layers, 0);
  require(!config.has("sliding_window") || first >= model.layers,
          "{}: 'sliding_window' is set for the layers from {} on, which is not supported; null is.", config.place(),
          first);
  return model;
}

// Layer norms and biases; weights of its two experts are taken from one softmax.
ModelConfig read_phimoe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "layer_norm", 1);
  set(model, "head_bias", config.flag_or("lm_head_bias", false));
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  set(model, "normalized", 0);
  return model;
}

// MiniMax-M2: without its layers for further tokens.
ModelConfig read_minimax_m2(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "qk_norm_type", "per_layer");
  set(model, "wide_qk_norm", config.flag_or("use_qk_norm", true));
  set(model, "rotary_dims", config.size_or({"rotary_dim"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  set(model, "expert_intermediate", config.size({"intermediate_size"}));
  set(model, "shared_intermediate", config.size_or({"shared_intermediate_size"}, 0, 0));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", config.flag_or("use_routing_bias", true));
  return model;
}

namespace {

void read_latent_decoder(ModelConfig& model, const HfReader& config) {
  set(model, "intermediate", config.size({"intermediate_size"}));
  read_routed_experts(model, config, 0);
  const std::int64_t step = config.size_or({"moe_layer_freq"}, 1);
  require(step == 1, "{}: 'moe_layer_freq' is {}, which is not supported; 1 is.", config.place(), step);
  // All heads have keys and values of their own, whatever the file says.
  (void)config.has("num_key_value_heads");
  set(model, "q_rank", config.size_or({"q_lora_rank"}, 0));
  set(model, "kv_rank", config.size({"kv_lora_rank"}));
  set(model, "nope_dim", config.size({"qk_nope_head_dim"}));
  set(model, "rope_dim", config.size({"qk_rope_head_dim"}));
  set(model, "value_dim", config.size({"v_head_dim"}));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-6);
}

}  // namespace

ModelConfig read_deepseek_v3(const HfReader& config) {
  ModelConfig model = made("deepseek_v3", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  config.refuse("attention_bias");
  expect_text(config, "scoring_func", "sigmoid");
  read_latent_decoder(model, config);
  return model;
}

// Scores are a softmax, chosen by without a bias.
ModelConfig read_deepseek_v2(const HfReader& config) {
  ModelConfig model = made("deepseek_v3", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  config.refuse("attention_bias");
  expect_text(config, "scoring_func", "softmax");
  read_latent_decoder(model, config);
  set(model, "sigmoid", 0);
  set(model, "selection_bias", 0);
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  return model;
}

// DeepSeek-V3 with an indexer in each layer.
ModelConfig read_deepseek_v32(const HfReader& config) {
  ModelConfig model = read_deepseek_v3(config);
  set(model, "dense_layers", config.size_or({"first_k_dense_replace"}, 3, 0));
  set(model, "q_rank", config.size({"q_lora_rank"}));
  set(model, "index_heads", config.size_or({"index_n_heads"}, 64));
  set(model, "index_dim", config.size_or({"index_head_dim"}, 128));
  set(model, "index_top_k", config.size_or({"index_topk"}, 2048));
  expect_layers(config, "mlp_layer_types", model.layers, std::min(model.layers, model.more["dense_layers"]), "dense",
                "sparse");
  expect_layers(config, "layer_types", model.layers, 0, "", "deepseek_sparse_attention");
  return model;
}

}  // namespace meshwright::hf
