// SPDX-License-Identifier: Apache-2.0
// Families with delta rules beside attention: Qwen3-Next, Qwen3.5, Olmo Hybrid and Lara Mini.
#include <algorithm>
#include <array>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// Delta rules in all layers but every n-th, which `layer_types` may say again, or alone.
std::int64_t full_attention_every(const HfReader& config, std::int64_t layers) {
  std::int64_t every = config.size_or({"full_attention_interval"}, 4);
  if (!config.has("layer_types")) return every;
  const Json& types = config.at("layer_types");
  if (!config.has("full_attention_interval") && types.is_array())
    every = std::find(types.begin(), types.end(), "full_attention") - types.begin() + 1;
  require(types.is_array() && types.size() == static_cast<std::size_t>(layers),
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const char* expected = (layer + 1) % every == 0 ? "full_attention" : "linear_attention";
    require(types[static_cast<std::size_t>(layer)] == expected,
            "{}: 'layer_types' follow no order that is supported; linear_attention in all layers but every {}th is.",
            config.place(), every);
  }
  return every;
}

void read_gated_experts(ModelConfig& model, const HfReader& config) {
  model.more["experts"] = config.size({"num_experts"});
  model.more["top_k"] = config.size({"num_experts_per_tok"});
  model.more["expert_intermediate"] = config.size({"moe_intermediate_size"});
  model.more["shared_intermediate"] = config.size_or({"shared_expert_intermediate_size"}, 0, 0);
  model.more["normalized"] = config.flag_or("norm_topk_prob", true);
  require(config.size_or({"decoder_sparse_step"}, 1) == 1 &&
              (!config.has("mlp_only_layers") || config.at("mlp_only_layers") == Json::array()),
          "{}: some layers have no experts, which is not supported for this family; experts in all layers are.",
          config.place());
}

// All but which layers attend.
ModelConfig read_gated_delta(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  require(config.flag_or("attn_output_gate", true), "{}: 'attn_output_gate' is false, which is not supported; true is.",
          config.place());
  ModelConfig model;
  model.family = "delta";
  model.layers = config.size({"num_hidden_layers"});
  model.hidden = config.size({"hidden_size"});
  model.heads = config.size({"num_attention_heads"});
  model.seq = std::min(config.size_or({"max_position_embeddings"}, 32768), kLongestSequence);
  model.vocab = config.size({"vocab_size"});
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, model.heads);
  model.more["head_dim"] = config.size_or({"head_dim"}, 256);
  model.more["delta_heads"] = config.size_or({"linear_num_key_heads"}, 16);
  model.more["delta_value_heads"] = config.size_or({"linear_num_value_heads"}, 32);
  model.more["key_dim"] = config.size_or({"linear_key_head_dim"}, 128);
  model.more["value_dim"] = config.size_or({"linear_value_head_dim"}, 128);
  model.more["conv"] = config.size_or({"linear_conv_kernel_dim"}, 4);
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
  model.more["tied"] = config.flag_or("tie_word_embeddings", false);
  const bool inner = !config.has("rope_theta") && config.has("rope_parameters");
  const HfReader rope = inner ? config.part("rope_parameters") : config;
  model.factors["rotary_base"] = rope.positive_or("rope_theta", 10000.0);
  const double share = rope.has("partial_rotary_factor") ? rope.positive_or("partial_rotary_factor", 0.25)
                                                         : config.positive_or("partial_rotary_factor", 0.25);
  model.more["rotary_dims"] =
      static_cast<std::int64_t>(std::min(1.0, share) * static_cast<double>(model.more["head_dim"]));
  model.factors["epsilon"] = config.positive_or("rms_norm_eps", 1e-6);
  model.more["mtp"] = config.size_or({"mtp_num_hidden_layers"}, 0, 0);
  config.refuse("mtp_use_dedicated_embeddings");
  const bool experts = config.has("num_experts") && config.at("num_experts") != 0;
  if (experts) read_gated_experts(model, config);
  if (!experts || config.has("intermediate_size")) model.more["intermediate"] = config.size({"intermediate_size"});
  return model;
}

}  // namespace

// Files of Qwen3.5 hold the text model as a part, beside that of images.
ModelConfig read_qwen3_next(const HfReader& config) {
  if (config.has("text_config")) {
    ModelConfig model = read_qwen3_next(config.part("text_config"));
    set_tied_by_whole(model, config);
    return model;
  }
  ModelConfig model = read_gated_delta(config);
  model.more["full_every"] = full_attention_every(config, model.layers);
  return model;
}

// Olmo Hybrid: layers with attention are Olmo 3's, without positions where the file's rotation has no base.
ModelConfig read_olmo_hybrid(const HfReader& config) {
  ModelConfig model = made_with_groups("delta", config);
  expect_text(config, "hidden_act", "silu");
  set(model, "head_dim", std::max<std::int64_t>(1, model.hidden / model.heads));
  const std::int64_t heads = config.size_or({"linear_num_key_heads"}, model.heads);
  const std::int64_t key =
      config.size_or({"linear_key_head_dim"}, std::max<std::int64_t>(1, 3 * model.hidden / 4 / heads));
  set(model, "delta_heads", heads);
  set(model, "delta_value_heads", config.size_or({"linear_num_value_heads"}, model.heads));
  set(model, "key_dim", key);
  set(model, "value_dim", config.size_or({"linear_value_head_dim"}, 2 * key));
  set(model, "conv", config.size_or({"linear_conv_kernel_dim"}, 4));
  set(model, "full_every", full_attention_every(config, model.layers));
  for (const char* bias : {"qkv_bias", "out_bias"}) set(model, bias, config.flag_or("attention_bias", false));
  set(model, "attn_gate", 0);
  for (const char* on : {"wide_qk_norm", "result_norms"}) set(model, on, 1);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  const bool rotates =
      config.has("rope_theta") || !config.has("rope_parameters") || config.part("rope_parameters").has("rope_theta");
  set(model, "rotary", rotates);
  if (rotates) set_rotary_base(model, config, "rope_theta");
  set_epsilon(model, config, "rms_norm_eps", 1e-6);
  model.factors["delta_epsilon"] = 1e-5;
  model.factors["delta_strength"] = config.flag_or("linear_allow_neg_eigval", true) ? 2.0 : 1.0;
  // First values of its parameters.
  for (const char* first :
       {"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"})
    (void)config.has(first);
  return model;
}

namespace {

// As transformers has it where a file says nothing: of each five layers two have windows, and one sees all keys.
std::vector<DeltaLayer> kinds_of_layers(const HfReader& config, std::int64_t layers) {
  using enum DeltaLayer;
  constexpr std::array kUsual = {Delta, Windowed, Delta, Full, Windowed};
  constexpr std::array kNames = {"linear_attention", "sliding_attention", "full_attention"};
  std::vector<DeltaLayer> kinds;
  if (!config.has("layer_types")) {
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(std::min<std::int64_t>(layers, 10'000)); ++layer)
      kinds.push_back(kUsual[layer % kUsual.size()]);
    return kinds;
  }
  const Json& types = config.at("layer_types");
  require(types.is_array() && types.size() == static_cast<std::size_t>(layers),
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  for (const Json& type : types) {
    const auto name = std::find_if(kNames.begin(), kNames.end(), [&](const char* known) { return type == known; });
    require(name != kNames.end(), "{}: 'layer_types' has {}, which is not supported; {} are.", config.place(),
            brief(type), join(std::vector<std::string>(kNames.begin(), kNames.end()), ", "));
    kinds.push_back(static_cast<DeltaLayer>(name - kNames.begin()));
  }
  return kinds;
}

}  // namespace

// Lara Mini: attention without a gate, with windows in some layers, which alone have positions, and a shared expert
// without a gate.
ModelConfig read_lara_mini(const HfReader& config) {
  ModelConfig model = read_gated_delta(config);
  set(model, "attn_gate", 0);
  set(model, "shared_gate", 0);
  set(model, "rotary_windows_alone", 1);
  set(model, "rotary_dims", 0);
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, 4));
  set(model, "head_dim", config.size_or({"head_dim"}, 128));
  set(model, "delta_heads", config.size_or({"linear_num_key_heads"}, 8));
  set(model, "delta_value_heads", config.size_or({"linear_num_value_heads"}, 16));
  set(model, "shared_intermediate", config.size_or({"shared_expert_intermediate_size"}, 512));
  set(model, "window", config.size_or({"sliding_window"}, 512));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_delta_layers(model, kinds_of_layers(config, model.layers), config.place() + ": 'num_hidden_layers'");
  return model;
}

}  // namespace meshwright::hf
