// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts whose layers with windows have other heads than those without: MiMo-V2-Flash, Step 3.7
// and Laguna.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// A list of 0 and 1, one for each layer.
std::vector<bool> ones_of(const HfReader& config, const char* key, std::int64_t layers) {
  const Json& list = config.at(key);
  require(list.is_array() && list.size() == static_cast<std::size_t>(layers),
          "{}: '{}' must be a list of 0 or 1 for each of the {} layers.", config.place(), key, layers);
  std::vector<bool> ones;
  for (const Json& one : list) {
    require(one == 0 || one == 1, "{}: '{}' has {}; 0 or 1 was expected.", config.place(), key, brief(one));
    ones.push_back(one == 1);
  }
  return ones;
}

std::vector<bool> windowed_by_type(const HfReader& config, std::int64_t layers) {
  const Json& types = config.at("layer_types");
  // Types of modules for further tokens may follow.
  require(types.is_array() && types.size() >= static_cast<std::size_t>(layers),
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  std::vector<bool> windowed;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer) {
    const Json& type = types[layer];
    require(type == "full_attention" || type == "sliding_attention",
            "{}: 'layer_types' has {}, which is not supported; \"full_attention\" and \"sliding_attention\" are.",
            config.place(), brief(type));
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

// The base of the rotation, and the share of a head that is rotated, in layers of one kind: by that kind's object, or
// by lists over the layers, or by one number for all.
struct Rotated {
  double base, share;
};
Rotated rotated(const HfReader& config, const std::vector<bool>& windowed, bool of_windows, const Rotated& usual) {
  const char* kind = of_windows ? "sliding_attention" : "full_attention";
  Rotated found = usual;
  if (config.has("rope_parameters") && config.part("rope_parameters").has(kind)) {
    const HfReader part = config.part("rope_parameters").part(kind);
    return {part.positive_or("rope_theta", usual.base), part.positive_or("partial_rotary_factor", usual.share)};
  }
  const auto first = std::find(windowed.begin(), windowed.end(), of_windows) - windowed.begin();
  const auto read = [&](const char* key, double& value) {
    if (!config.has(key)) return;
    if (!config.at(key).is_array()) {
      value = config.positive_or(key, value);
      return;
    }
    const Json& list = config.at(key);
    for (std::size_t layer = 0; layer < windowed.size(); ++layer) {
      if (windowed[layer] != of_windows) continue;
      const bool same = list.size() >= windowed.size() && list[layer].is_number() && list[layer].get<double>() > 0.0 &&
                        list[layer] == list[static_cast<std::size_t>(first)];
      require(same, "{}: '{}' is no list of positive numbers that are the same in all layers of a kind.",
              config.place(), key);
      value = list[layer].get<double>();
    }
  };
  read("rope_theta", found.base);
  read("partial_rotary_factors", found.share);
  return found;
}

// Which layers have windows, and how each kind rotates. `usual`: without windows and with them.
void read_kinds(ModelConfig& model, const HfReader& config, const std::vector<bool>& windowed, const Rotated& usual,
                const Rotated& usual_of_windows) {
  set_windowed_layers(model, windowed, config.place() + ": 'layer_types'");
  const auto dims = [&](double share) {
    return static_cast<std::int64_t>(std::min(1.0, share) * static_cast<double>(model.more["head_dim"]));
  };
  const Rotated full = rotated(config, windowed, false, usual), own = rotated(config, windowed, true, usual_of_windows);
  model.factors["rotary_base"] = full.base;
  model.factors["window_rotary_base"] = own.base;
  set(model, "rotary_dims", dims(full.share));
  set(model, "window_rotary_dims", dims(own.share));
}

void set_sigmoid_experts(ModelConfig& model) {
  for (const char* key : {"sigmoid", "selection_bias"}) set(model, key, 1);
}

}  // namespace

// Values are narrower than keys, and scaled; layers with windows have twice as many keys, and sinks.
ModelConfig read_mimo_v2_flash(const HfReader& config) {
  ModelConfig model = made_with_groups("decoder_moe", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  expect_text(config, "scoring_func", "sigmoid");
  set(model, "head_dim", config.size_or({"head_dim"}, 192));
  set(model, "value_dim", config.size_or({"v_head_dim"}, 128));
  set(model, "qkv_bias", config.flag_or("attention_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  model.factors["value_scale"] = config.positive_or("attention_value_scale", 1.0);
  set_epsilon(model, config, config.has("layernorm_epsilon") ? "layernorm_epsilon" : "rms_norm_eps", 1e-5);
  // A window of `sliding_window_size` keys is beside the query's own.
  const std::int64_t window = config.has("sliding_window_size") ? config.size({"sliding_window_size"}) + 1
                                                                : config.size_or({"sliding_window"}, 129);
  (void)config.size_or({"sliding_window"}, window);
  (void)config.size_or({"attention_chunk_size"}, window);  // the window again; no layer attends in chunks
  set(model, "window", window);
  set(model, "window_heads", config.size_or({"swa_num_attention_heads"}, model.heads));
  set(model, "window_kv_heads", config.size_or({"swa_num_key_value_heads"}, 2 * model.more["kv_heads"]));
  for (const auto& [key, same] : {std::pair("swa_head_dim", "head_dim"), std::pair("swa_v_head_dim", "value_dim")})
    require(config.size_or({key}, model.more[same]) == model.more[same],
            "{}: '{}' is {}, which is not supported; {}, as in the other layers, is.", config.place(), key,
            config.size_or({key}, model.more[same]), model.more[same]);
  const bool in_windows = config.flag_or("add_swa_attention_sink_bias", true);
  set(model, "sinks", config.flag_or("add_full_attention_sink_bias", false) && in_windows);
  require(in_windows || !config.flag_or("add_full_attention_sink_bias", false),
          "{}: sinks in the layers without windows alone ('add_full_attention_sink_bias') are not supported; in those "
          "with windows, or in all, they are.",
          config.place());
  set(model, "window_sinks", in_windows && model.more["sinks"] == 0);
  const bool by_type = config.has("layer_types");
  require(by_type || config.has("hybrid_layer_pattern"),
          "{}: 'hybrid_layer_pattern' or 'layer_types' is missing; take the file as its publisher has it.",
          config.place());
  const std::vector<bool> windowed =
      by_type ? windowed_by_type(config, model.layers) : ones_of(config, "hybrid_layer_pattern", model.layers);
  const double share = config.positive_or("partial_rotary_factor", 0.334);
  read_kinds(model, config, windowed, {5'000'000.0, share}, {config.positive_or("swa_rope_theta", 10000.0), share});
  if (config.has("rope_theta")) model.factors["window_rotary_base"] = config.positive_or("swa_rope_theta", 10000.0);
  set_experts(model, config.size({"n_routed_experts", "num_local_experts"}), config.size({"num_experts_per_tok"}),
              config.size({"moe_intermediate_size"}));
  require(config.size_or({"n_shared_experts"}, 0, 0) == 0,
          "{}: 'n_shared_experts' is {}, which is not supported; null is.", config.place(),
          config.size_or({"n_shared_experts"}, 0, 0));
  if (config.has("moe_layer_freq")) {
    const std::vector<bool> sparse = ones_of(config, "moe_layer_freq", model.layers);
    const auto first = std::find(sparse.begin(), sparse.end(), true);
    require(std::find(first, sparse.end(), false) == sparse.end(),
            "{}: 'moe_layer_freq' has dense layers behind those with experts, which is not supported; in front of them "
            "is.",
            config.place());
    set(model, "dense_layers", first - sparse.begin());
  } else {
    read_dense_layers(model, config, 1);
  }
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
  set_sigmoid_experts(model);
  return model;
}

// A gate of each head, norms of queries and keys; layers with windows may have more heads. Its modules for further
// tokens have heads of their own, and are left out, as are bounds of gates (`swiglu_limits`).
ModelConfig read_step3p7(const HfReader& config) {
  if (config.has("text_config")) {
    ModelConfig text = read_step3p7(config.part("text_config"));
    set_tied_by_whole(text, config);
    return text;
  }
  ModelConfig model = made("decoder_moe", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  expect_text(config, "scoring_func", "sigmoid");
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "kv_heads", config.size({"num_key_value_heads", "num_attention_groups"}));
  set(model, "head_dim", config.size_or({"head_dim"}, 128));
  for (const char* key : {"qkv_bias", "out_bias"}) set(model, key, config.flag_or("attention_bias", false));
  set(model, "mlp_bias", config.flag_or("mlp_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  for (const char* key : {"qk_norm", "head_gate"}) set(model, key, 1);
  set_epsilon(model, config, "rms_norm_eps", 1e-5);
  std::vector<bool> windowed(static_cast<std::size_t>(std::min<std::int64_t>(model.layers, 10'000)));
  if (config.has("layer_types")) windowed = windowed_by_type(config, model.layers);
  if (std::find(windowed.begin(), windowed.end(), true) != windowed.end()) {
    set(model, "window", config.size({"sliding_window"}));
    std::int64_t heads = config.size_or({"num_sliding_attention_heads"}, model.heads);
    if (config.has("attention_other_setting"))
      heads = config.part("attention_other_setting").size_or({"num_attention_heads"}, heads);
    set(model, "window_heads", heads);
  }
  read_kinds(model, config, windowed, {10000.0, 1.0}, {10000.0, 1.0});
  set_experts(model, config.size({"n_routed_experts", "moe_num_experts", "num_experts", "num_local_experts"}),
              config.size({"num_experts_per_tok", "moe_top_k"}), config.size({"moe_intermediate_size"}));
  set(model, "shared_intermediate",
      config.size_or({"n_shared_experts"}, 1) * config.size({"share_expert_dim", "share_expert_dims"}));
  read_dense_layers(model, config, 3);
  model.factors["routed_scale"] = config.positive_or("moe_router_scaling_factor", 1.0);
  set_sigmoid_experts(model);
  set(model, "selection_bias", config.flag_or("use_moe_router_bias", true));
  return model;
}

namespace {

// One number for layers without windows, and one for those with them, of a list with one for each layer.
struct OfKinds {
  std::int64_t full, windowed;
};
OfKinds sizes_of_kinds(const HfReader& config, const char* key, const std::vector<bool>& windowed,
                       std::int64_t otherwise) {
  OfKinds found{otherwise, otherwise};
  if (!config.has(key)) return found;
  const Json& list = config.at(key);
  std::optional<std::int64_t> full, own;
  bool same = list.is_array() && list.size() == windowed.size();
  for (std::size_t layer = 0; same && layer < windowed.size(); ++layer) {
    std::optional<std::int64_t>& of = windowed[layer] ? own : full;
    same = list[layer].is_number_unsigned() && list[layer] >= 1u && list[layer] <= 1u << 20;
    if (!same) break;
    const auto size = list[layer].get<std::int64_t>();
    same = !of || *of == size;
    of = size;
  }
  require(same, "{}: '{}' is no list of positive numbers that are the same in all layers of a kind.", config.place(),
          key);
  return {full.value_or(otherwise), own.value_or(otherwise)};
}

}  // namespace

// Laguna (poolside, 2026): gates that are softpluses, of each head or of each number that it makes, and layers with
// windows of other heads.
ModelConfig read_laguna(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  for (const char* key : {"qkv_bias", "out_bias"}) set(model, key, config.flag_or("attention_bias", false));
  set(model, "qk_norm", 1);
  config.refuse("moe_apply_router_weight_on_input");
  const bool of_numbers = config.has("gating") && config.at("gating") == "per-element";
  require(!config.has("gating") || of_numbers || config.at("gating") == true || config.at("gating") == "per-head",
          "{}: 'gating' is {}, which is not supported; true, \"per-head\" and \"per-element\" are.", config.place(),
          config.has("gating") ? brief(config.at("gating")) : "");
  set(model, "head_gate", of_numbers ? 4 : 3);
  std::vector<bool> windowed(static_cast<std::size_t>(std::min<std::int64_t>(model.layers, 10'000)));
  if (config.has("layer_types")) windowed = windowed_by_type(config, model.layers);
  const bool any = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
  const std::int64_t window = config.size_or({"sliding_window"}, 512);
  const OfKinds heads = sizes_of_kinds(config, "num_attention_heads_per_layer", windowed, model.heads);
  model.heads = heads.full;
  if (any) {
    set(model, "window", window);
    set(model, "window_heads", heads.windowed);
  }
  read_kinds(model, config, windowed, {500000.0, 0.5}, {10000.0, 1.0});
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}),
              config.size({"moe_intermediate_size"}));
  set(model, "shared_intermediate", config.size_or({"shared_expert_intermediate_size"}, 512));
  read_dense_layers(model, config, config.has("mlp_layer_types") ? 0 : 1);
  model.factors["routed_scale"] = config.positive_or("moe_routed_scaling_factor", 1.0);
  const bool capped = config.has("moe_router_logit_softcapping") && config.at("moe_router_logit_softcapping") != 0;
  require(!capped, "{}: 'moe_router_logit_softcapping' bounds the router's scores, which is not supported; 0 is.",
          config.place());
  set_sigmoid_experts(model);
  return model;
}

}  // namespace meshwright::hf
