// SPDX-License-Identifier: Apache-2.0
// Mixtures that differ from others by a member or two: biases, norms, windows, scores, shared experts.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// One number, or a list of it for each layer.
std::int64_t size_in_all_layers(const HfReader& config, const char* key) {
  if (!config.has(key) || !config.at(key).is_array()) return config.size({key});
  const Json& sizes = config.at(key);
  const bool alike = !sizes.empty() && sizes[0].is_number_unsigned() && sizes[0] >= 1u && sizes[0] <= 1u << 30 &&
                     std::all_of(sizes.begin(), sizes.end(), [&](const Json& size) { return size == sizes[0]; });
  require(alike, "{}: '{}' is no list of one positive number for all layers, which alone is supported.", config.place(),
          key);
  return sizes[0].get<std::int64_t>();
}

// One number, or one for words and one for images.
std::int64_t size_for_words(const HfReader& config, const char* key) {
  if (!config.has(key) || !config.at(key).is_array()) return config.size({key});
  const Json& sizes = config.at(key);
  const bool fits = sizes.size() == 2 && sizes[0].is_number_unsigned() && sizes[0] >= 1u && sizes[0] <= 1u << 30;
  require(fits, "{}: '{}' is no list of a positive number for words and one for images.", config.place(), key);
  return sizes[0].get<std::int64_t>();
}
std::int64_t size_for_words_or(const HfReader& config, const char* key, std::int64_t otherwise, std::int64_t minimum) {
  const bool list = config.has(key) && config.at(key).is_array();
  return list ? size_for_words(config, key) : config.size_or({key}, otherwise, minimum);
}

}  // namespace

// Weights of a token's experts add up to 1 where the file does not say, unlike Qwen3's.
ModelConfig read_qwen3_vl_moe(const HfReader& config) {
  if (auto text = read_text_part(config, "qwen3_vl_moe", read_qwen3_vl_moe)) return *std::move(text);
  ModelConfig model = read_qwen3_moe(config);
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  return model;
}

ModelConfig read_olmoe(const HfReader& config) {
  require(!config.has("clip_qkv"), "{}: 'clip_qkv' bounds queries, keys and values, which is not supported; null is.",
          config.place());
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "wide_qk_norm", 1);
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}),
              config.size({"intermediate_size"}));
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  return model;
}

// With an eye it has experts of its own for images, which are left out.
ModelConfig read_ernie4_5_moe(const HfReader& config) {
  if (auto text = read_text_part(config, "ernie4_5_vl_moe", read_ernie4_5_moe)) return *std::move(text);
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set_all_biases(model, config.flag_or("use_bias", false));
  require(!config.flag_or("use_bias", false),
          "{}: 'use_bias' is true, which is not supported for this family; false is.", config.place());
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  const std::int64_t width = size_for_words(config, "moe_intermediate_size");
  set_experts(model, size_for_words(config, "moe_num_experts"), config.size({"moe_k"}), width);
  set(model, "shared_intermediate", width * config.size_or({"moe_num_shared_experts"}, 2, 0));
  set(model, "dense_layers", size_for_words_or(config, "moe_layer_start_index", 1, 0));
  if (config.has("mlp_layer_types")) read_dense_layers(model, config, 1);
  set(model, "mixture_every", config.size_or({"moe_layer_interval"}, 1));
  const std::int64_t last = size_for_words_or(config, "moe_layer_end_index", model.layers - 1, -1);
  require(last == -1 || last >= model.layers - 1,
          "{}: 'moe_layer_end_index' is {}, behind which layers have no experts; that is not supported, {} is.",
          config.place(), last, model.layers - 1);
  set(model, "selection_bias", 1);
  return model;
}

// Ling 1 and 2: the second with norms of queries and keys, half of each head rotated, and sigmoid scores with a bias.
ModelConfig read_bailing_moe(const HfReader& config) {
  const bool second = config.text_or("model_type", "bailing_moe") == "bailing_moe_v2";
  ModelConfig model = read_decoder("decoder_moe", config);
  set(model, "qkv_bias", config.flag_or("use_qkv_bias", false));
  const bool bias = config.flag_or("use_bias", false);
  set(model, "out_bias", bias);
  require(!bias, "{}: 'use_bias' is true, which is not supported for this family; false is.", config.place());
  set(model, "qk_norm", config.flag_or("use_qk_norm", second));
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}), width);
  set(model, "shared_intermediate",
      config.size_or({"moe_shared_expert_intermediate_size"}, width) * config.size_or({"num_shared_experts"}, 0, 0));
  set(model, "dense_layers", config.size_or({"first_k_dense_replace"}, 0, 0));
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  if (!second) return model;
  expect_text(config, "score_function", "sigmoid");
  set(model, "sigmoid", 1);
  set(model, "selection_bias", config.flag_or("moe_router_enable_expert_bias", true));
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
  set_rotated_share(model, config, "partial_rotary_factor", 1.0);
  if (config.has("rotary_dim")) set(model, "rotary_dims", config.size({"rotary_dim"}));
  set(model, "mtp", config.size_or({"num_nextn_predict_layers"}, 0, 0));
  return model;
}

// EXAONE 4 with norms in front and DeepSeek's routing.
ModelConfig read_exaone_moe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set(model, "qk_norm", 1);
  read_windows(model, config, config.size_or({"sliding_window"}, 0), config.size_or({"sliding_window_pattern"}, 4));
  if (model.more["window"] > 0) set(model, "no_rotary_every", model.more["full_every"]);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}), width);
  set(model, "shared_intermediate", width * config.size_or({"num_shared_experts"}, 1, 0));
  read_dense_layers(model, config, 1);
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 2.5);
  return model;
}

// One feed-forward layer beside the experts, as wide as each of them. Norms of queries and keys behind their rotation.
ModelConfig read_hunyuan_moe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", config.flag_or("use_qk_norm", true));
  set(model, "qk_norm_rotated", 1);
  const std::int64_t width = config.size({"intermediate_size"});
  for (const auto& [key, expected] :
       {std::pair("moe_intermediate_size", width), std::pair("num_shared_expert", std::int64_t{1})}) {
    const std::int64_t given = config.has(key) ? size_in_all_layers(config, key) : expected;
    require(given == expected, "{}: '{}' is {}, which is not supported; {} is.", config.place(), key, given, expected);
  }
  set_experts(model, size_in_all_layers(config, "num_experts"), size_in_all_layers(config, "moe_topk"), width);
  set(model, "shared_intermediate", width);
  return model;
}

// Hunyuan 3: without its layers for further tokens.
ModelConfig read_hy_v3(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", 1);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}), width);
  set(model, "shared_intermediate", width * config.size_or({"num_shared_experts"}, 1, 0));
  read_dense_layers(model, config, 1);
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  model.factors["routed_scale"] = config.positive_or("router_scaling_factor", 1.0);
  return model;
}

// Arcee's Trinity: norms of what attention and experts make, too, and a gate for each number that a head makes. Layers
// that see all keys have no positions.
ModelConfig read_afmoe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", 1);
  set(model, "norms", 1);
  set(model, "head_gate", 2);
  read_windows(model, config, config.size_or({"sliding_window"}, 1024),
               config.size_or({"global_attn_every_n_layers"}, 4));
  set(model, "rotary_windows_alone", 1);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}), width);
  set(model, "shared_intermediate", width * config.size_or({"num_shared_experts"}, 2, 0));
  set(model, "dense_layers", config.size_or({"num_dense_layers"}, 1, 0));
  // Publishers' files say what transformers takes for granted.
  expect_text(config, "score_func", "sigmoid");
  set(model, "normalized", config.flag_or("route_norm", true));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  model.factors["routed_scale"] = config.positive_or("route_scale", 1.0);
  if (config.flag_or("mup_enabled", false)) model.factors["embed_scale"] = std::sqrt(static_cast<double>(model.hidden));
  return model;
}

// Command A with experts beside attention. The first layers may be dense, of a width and with windows of their own.
ModelConfig read_cohere2_moe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  const bool rms = config.has("rms_norm_eps");
  if (!rms) set_epsilon(model, config, "layer_norm_eps", 1e-5);
  (void)config.has("layer_norm_eps");
  set(model, "layer_norm", rms ? 0 : 2);
  set(model, "parallel", 2);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  model.factors["logit_scale"] = config.positive_or("logit_scale", 0.0625);
  const std::int64_t width = config.size({"intermediate_size"});
  set_experts(model, config.size_or({"num_experts"}, 8), config.size_or({"num_experts_per_tok"}, 2), width);
  set(model, "shared_intermediate", width * config.size_or({"num_shared_experts"}, 0, 0));
  const std::string joined = config.text_or("shared_expert_combination_strategy", "average"),
                    scores = config.text_or("expert_selection_fn", "softmax");
  require(joined == "average" || joined == "sum",
          "{}: 'shared_expert_combination_strategy' is \"{}\"; \"average\" or \"sum\" was expected.", config.place(),
          joined);
  require(scores == "softmax" || scores == "sigmoid",
          "{}: 'expert_selection_fn' is \"{}\"; \"softmax\" or \"sigmoid\" was expected.", config.place(), scores);
  set(model, "averaged", joined == "average");
  set(model, "sigmoid", scores == "sigmoid");
  // A softmax over the chosen experts' scores alone is that over all, normalised.
  const bool norm = config.flag_or("norm_topk_prob", true);
  set(model, "normalized", scores == "softmax" || norm);
  read_dense_layers(model, config, 0);
  const std::int64_t dense = model.more["dense_layers"];
  if (dense > 0) set(model, "intermediate", config.size({"prefix_dense_intermediate_size"}));
  (void)config.has("prefix_dense_intermediate_size");
  const std::int64_t pattern = config.size_or({"prefix_dense_sliding_window_pattern"}, 1);
  set(model, "window", config.size_or({"sliding_window"}, 4096));
  // transformers counts both patterns from their own first layer.
  std::vector<bool> windowed;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    windowed.push_back(layer < dense ? (layer + 1) % pattern != 0
                                     : (layer - dense + 1) % config.size_or({"sliding_window_pattern"}, 4) != 0);
  if (config.has("layer_types"))
    read_layer_types(model, config);
  else
    set_windowed_layers(model, windowed, config.place() + ": the layers with windows");
  set(model, "rotary_windows_alone", 1);
  set(model, "rotary_first", pattern == 1 ? dense : 0);
  return model;
}

// The text model of Aria: shared experts beside the others, which are as wide as `intermediate_size`.
ModelConfig read_aria_text(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  const std::int64_t width = config.size({"intermediate_size"});
  set_experts(model, config.size_or({"moe_num_experts"}, 8), config.size_or({"moe_topk"}, 2), width);
  set(model, "shared_intermediate", width * config.size_or({"moe_num_shared_experts"}, 2, 0));
  return model;
}

// OLMo 2 with OLMoE's experts.
ModelConfig read_flex_olmo(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  set(model, "norms", 2);
  set(model, "wide_qk_norm", 1);
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}),
              config.size({"intermediate_size"}));
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  return model;
}

}  // namespace meshwright::hf
