// SPDX-License-Identifier: Apache-2.0
// Kimi Linear: delta rules with a rate of each channel, and latent attention without positions.
#include <algorithm>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// The publisher numbers layers from 1.
void mark_layers(const HfReader& linear, const char* key, bool attends, std::vector<int>& kinds) {
  const Json& numbers = linear.at(key);
  require(numbers.is_array(), "{}: '{}' must be a list of numbers of layers.", linear.place(), key);
  for (const Json& number : numbers) {
    const bool fits = number.is_number_integer() && number >= 1 && number <= kinds.size();
    require(fits, "{}: '{}' has {}, expected numbers of layers from 1 to {}.", linear.place(), key, brief(number),
            kinds.size());
    kinds[number.get<std::size_t>() - 1] = attends ? 1 : 0;
  }
}

// As transformers has it where a file says nothing: each fourth layer but the first.
std::vector<bool> attending(const HfReader& config, const HfReader& linear, std::int64_t layers) {
  constexpr std::int64_t kMaxLayers = 10'000;
  const auto count = static_cast<std::size_t>(std::min(layers, kMaxLayers));
  std::vector<bool> attends(count);
  if (linear.has("full_attn_layers") && linear.has("kda_layers") && !config.has("layer_types")) {
    std::vector<int> kinds(count, -1);
    mark_layers(linear, "kda_layers", false, kinds);
    mark_layers(linear, "full_attn_layers", true, kinds);
    require(std::find(kinds.begin(), kinds.end(), -1) == kinds.end(),
            "{}: 'full_attn_layers' and 'kda_layers' do not name all {} layers; check them.", linear.place(), layers);
    std::transform(kinds.begin(), kinds.end(), attends.begin(), [](int kind) { return kind == 1; });
    return attends;
  }
  if (!config.has("layer_types")) {
    for (std::size_t layer = 4; layer < count; layer += 4) attends[layer] = true;
    return attends;
  }
  const Json& types = config.at("layer_types");
  require(types.is_array() && types.size() == count,
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  for (std::size_t layer = 0; layer < count; ++layer) {
    const bool full = types[layer] == "full_attention";
    require(full || types[layer] == "linear_attention",
            "{}: 'layer_types' has {}, which is not supported; \"full_attention\" and \"linear_attention\" are.",
            config.place(), brief(types[layer]));
    attends[layer] = full;
  }
  return attends;
}

// Widths of latent attention, whose heads all have keys and values of their own.
void read_latent_widths(ModelConfig& model, const HfReader& config) {
  require(config.size_or({"num_key_value_heads"}, model.heads) == model.heads,
          "{}: 'num_key_value_heads' is not 'num_attention_heads' ({}), which latent attention has.", config.place(),
          model.heads);
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "q_rank", config.size_or({"q_lora_rank"}, 0));
  set(model, "kv_rank", config.size({"kv_lora_rank"}));
  set(model, "nope_dim", config.size({"qk_nope_head_dim"}));
  set(model, "rope_dim", config.size({"qk_rope_head_dim"}));
  set(model, "value_dim", config.size({"v_head_dim"}));
}

// Under the names of publishers' files, or those of transformers' classes.
void read_mixture(ModelConfig& model, const HfReader& config, double scale) {
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"num_experts", "num_local_experts"}),
              config.size({"num_experts_per_token", "num_experts_per_tok"}), width);
  set(model, "shared_intermediate", width * config.size_or({"num_shared_experts", "n_shared_experts"}, 1, 0));
  set(model, "normalized", config.flag_or("moe_renormalize", config.flag_or("norm_topk_prob", true)));
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", scale);
}

ModelConfig made_linear(const HfReader& config) {
  ModelConfig model =
      made("kimi_linear",
           {config.size({"num_hidden_layers"}), config.size({"hidden_size"}), config.size({"num_attention_heads"}),
            config.size({"model_max_length", "max_position_embeddings"}), config.size({"vocab_size"})});
  read_latent_widths(model, config);
  return model;
}

// Ling 3: without a list of layers, the last one of each group attends.
std::vector<bool> last_of_groups(const HfReader& config, std::int64_t layers) {
  const std::int64_t group = config.size_or({"layer_group_size"}, 6);
  std::vector<bool> attends;
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(layers, 10'000); ++layer)
    attends.push_back((layer + 1) % group == 0);
  return attends;
}

}  // namespace

ModelConfig read_kimi_linear(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  expect_text(config, "moe_router_activation_func", "sigmoid");
  config.refuse("attention_bias");
  require(config.flag_or("mla_use_nope", true), "{}: 'mla_use_nope' is false, which is not supported; true is.",
          config.place());
  require(config.size_or({"moe_layer_freq"}, 1) == 1, "{}: 'moe_layer_freq' is {}, which is not supported; 1 is.",
          config.place(), config.size_or({"moe_layer_freq"}, 1));
  ModelConfig model = made_linear(config);
  // Nothing rotates; other members say the widths again.
  for (const char* unused : {"rope_theta", "rope_parameters", "head_dim", "qk_head_dim", "use_grouped_topk"})
    (void)config.has(unused);
  set_epsilon(model, config, "rms_norm_eps", 1e-5);
  const HfReader linear = config.part_or_empty("linear_attn_config");
  set(model, "delta_heads", linear.size_or({"num_heads"}, config.size_or({"linear_num_heads"}, 32)));
  set(model, "delta_dim", linear.size_or({"head_dim"}, config.size_or({"linear_head_dim"}, 128)));
  set(model, "conv", linear.size_or({"short_conv_kernel_size"}, config.size_or({"linear_conv_kernel_dim"}, 4)));
  set_attending_layers(model, attending(config, linear, model.layers), config.place() + ": 'num_hidden_layers'");
  read_mixture(model, config, 2.446);
  read_dense_layers(model, config, 1);
  require(config.size_or({"num_expert_group", "n_group"}, 1) == 1,
          "{}: 'num_expert_group' is {}, which is not supported; 1 is.", config.place(),
          config.size_or({"num_expert_group", "n_group"}, 1));
  (void)config.size_or({"topk_group"}, 1);
  require(config.size_or({"num_nextn_predict_layers"}, 0, 0) == 0,
          "{}: 'num_nextn_predict_layers' is not 0, which is not supported for this family.", config.place());
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  return model;
}

// Ling 3: Kimi Linear's rules with decays and gates that are products of the token, bounded decays, and attention that
// rotates, with a gate of each head. Experts are chosen among all of them.
ModelConfig read_bailing_hybrid(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  config.refuse("attention_bias");
  ModelConfig model = made_linear(config);
  for (const char* on : {"direct_gates", "rotary", "head_gate"}) set(model, on, 1);
  set_rotary_base(model, config, "rope_theta");
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 6e6;
  if (config.has("rope_parameters"))  // which counts where a file has both
    model.factors["rotary_base"] =
        config.part("rope_parameters").positive_or("rope_theta", model.factors["rotary_base"]);
  set_epsilon(model, config, "rms_norm_eps", 1e-6);
  set(model, "delta_heads", config.size_or({"linear_num_heads"}, model.heads));
  // transformers writes the width of the rotated part for the heads' own once it has made a model.
  const std::int64_t width = config.size_or({"linear_head_dim"}, config.size_or({"head_dim"}, 128));
  (void)config.has("head_dim");
  set(model, "delta_dim", width);
  const std::int64_t whole = model.more["nope_dim"] + model.more["rope_dim"];
  require(config.size_or({"qk_head_dim"}, whole) == whole,
          "{}: 'qk_head_dim' is {}, but 'qk_nope_head_dim' and 'qk_rope_head_dim' make heads of {}; check them.",
          config.place(), config.size_or({"qk_head_dim"}, whole), whole);
  set(model, "conv", config.size_or({"linear_conv_kernel_dim", "short_conv_kernel_size"}, 4));
  (void)config.has("short_conv_kernel_size");
  set(model, "bounded_decays", config.flag_or("kda_safe_gate", true));
  double bound = -5.0;
  if (config.has("kda_lower_bound")) {
    const Json& given = config.at("kda_lower_bound");
    require(given.is_number() && given.get<double>() < 0.0,
            "{}: 'kda_lower_bound' is {}; a number below 0 was expected.", config.place(), brief(given));
    bound = given.get<double>();
  }
  model.factors["decay_bound"] = -bound;
  const bool listed = config.has("layer_types");
  set_attending_layers(model, listed ? attending(config, config, model.layers) : last_of_groups(config, model.layers),
                       config.place() + ": 'num_hidden_layers'");
  (void)config.has("layer_group_size");
  read_mixture(model, config, 2.5);
  read_dense_layers(model, config, 2);
  // Modules for further tokens are left out, with the weight of their loss.
  if (config.aside("num_nextn_predict_layers") == 0) (void)config.has("num_nextn_predict_layers");
  (void)config.has("mtp_loss_scaling_factor");
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  return model;
}

}  // namespace meshwright::hf
