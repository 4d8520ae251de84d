// SPDX-License-Identifier: Apache-2.0
// Decoders whose layers keep a state in place of keys, most of them: RecurrentGemma and MiniMax-01.
#include <cmath>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// The number of 8 significant bits that is nearest.
double in_bf16(double x) {
  constexpr int kBits = 8;
  int exponent = 0;
  const double part = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(part, kBits)), exponent - kBits);
}

// `block_types`, over and over.
std::vector<bool> attends_by_turns(const HfReader& config, std::int64_t layers) {
  std::vector<bool> turns = {false, false, true};
  if (config.has("block_types")) {
    const Json& types = config.at("block_types");
    require(types.is_array() && !types.empty(), "{}: 'block_types' must be a list of types of layers.", config.place());
    turns.clear();
    for (const Json& type : types) {
      require(type == "recurrent" || type == "attention",
              "{}: 'block_types' has {}, which is not supported; \"recurrent\" and \"attention\" are.", config.place(),
              brief(type));
      turns.push_back(type == "attention");
    }
  }
  std::vector<bool> attends;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    attends.push_back(turns[static_cast<std::size_t>(layer) % turns.size()]);
  return attends;
}

// `layer_types`; where the file has none, the first layer and every second behind it.
std::vector<bool> softmax_layers(const HfReader& config, std::int64_t layers) {
  std::vector<bool> attends;
  for (std::int64_t layer = 0; layer < layers; ++layer) attends.push_back(layer % 2 == 0);
  if (!config.has("layer_types")) return attends;
  const Json& types = config.at("layer_types");
  require(types.is_array() && types.size() == static_cast<std::size_t>(layers),
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    require(types[layer] == "full_attention" || types[layer] == "linear_attention",
            "{}: 'layer_types' has {}, which is not supported; \"full_attention\" and \"linear_attention\" are.",
            config.place(), brief(types[layer]));
    attends[layer] = types[layer] == "full_attention";
  }
  return attends;
}

}  // namespace

// `intermediate_size` counts gates and ups together, and the embedding's factor is rounded as weights are.
ModelConfig read_recurrent_gemma(const HfReader& config) {
  constexpr std::int64_t kTrainedLength = 8192;
  ModelConfig model =
      made("griffin",
           Core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}), config.size({"num_attention_heads"}),
                config.size_or({"max_position_embeddings"}, kTrainedLength), config.size({"vocab_size"})});
  const std::int64_t both = config.size({"intermediate_size"});
  require(both % 2 == 0, "{}: 'intermediate_size' is {}, of which gates and ups would not have half each.",
          config.place(), both);
  set(model, "intermediate", both / 2);
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, model.heads));
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  const std::int64_t width = config.size_or({"lru_width"}, model.hidden);
  require(width % model.heads == 0,
          "{}: 'lru_width' is {}, which is no multiple of 'num_attention_heads' {}; each has a block of channels.",
          config.place(), width, model.heads);
  set(model, "rnn_width", width);
  set(model, "window", config.size_or({"attention_window_size", "sliding_window"}, 2048));
  set(model, "conv", config.size_or({"conv1d_width"}, 4));
  set(model, "qkv_bias", config.flag_or("attention_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_activation(model, config, "hidden_activation", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf});
  set_griffin_attention(model, attends_by_turns(config, model.layers), config.place() + ": 'num_hidden_layers'");
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  read_rotation(model, config, 1e-6);
  model.factors["embed_scale"] = in_bf16(std::sqrt(static_cast<double>(model.hidden)));
  model.factors["logit_cap"] = config.positive_or("logits_soft_cap", 30.0);
  for (const char* initial : {"w_init_variance_scale", "final_w_init_variance_scale"}) (void)config.has(initial);
  return model;
}

ModelConfig read_minimax(const HfReader& config) {
  ModelConfig model = made_with_groups("lightning", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  const std::int64_t head = head_of(model), turned = config.size_or({"rotary_dim"}, head);
  require(turned == head, "{}: 'rotary_dim' is {}, which is not supported; all {} dimensions of a head are.",
          config.place(), turned, head);
  require(!config.has("sliding_window"), "{}: 'sliding_window' is given, which is not supported; null is.",
          config.place());
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set(model, "scan_chunk", config.size_or({"block_size"}, 256));
  set(model, "experts", config.size_or({"num_local_experts", "num_experts"}, 8));
  set(model, "top_k", config.size_or({"num_experts_per_tok"}, 2));
  set_softmax_layers(model, softmax_layers(config, model.layers), config.place() + ": 'num_hidden_layers'");
  read_rotation(model, config, 1e-5);
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 1e6;
  for (const auto& [factor, key] : {std::pair("full_alpha", "full_attn_alpha_factor"),
                                    {"full_beta", "full_attn_beta_factor"},
                                    {"linear_alpha", "linear_attn_alpha_factor"},
                                    {"linear_beta", "linear_attn_beta_factor"},
                                    {"mlp_alpha", "mlp_alpha_factor"},
                                    {"mlp_beta", "mlp_beta_factor"}})
    model.factors[factor] = config.positive_or(key, 1.0);
  return model;
}

}  // namespace meshwright::hf
