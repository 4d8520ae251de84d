// SPDX-License-Identifier: Apache-2.0
// Decoders whose layers keep a state in place of keys, most of them: RecurrentGemma, MiniMax-01, Zamba2
// and RWKV-4.
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

namespace {

// `layers_block_type`: which layers use a shared block.
std::vector<bool> hybrid_layers(const HfReader& config, std::int64_t layers) {
  const char* key = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
  require(config.has(key), "{}: 'layers_block_type' is missing; it says which layers use a shared block.",
          config.place());
  const Json& types = config.at(key);
  require(types.is_array() && types.size() == static_cast<std::size_t>(layers),
          "{}: '{}' must be a list of one type for each of the {} layers.", config.place(), key, layers);
  std::vector<bool> hybrid;
  for (const Json& type : types) {
    require(type == "mamba" || type == "linear_attention" || type == "hybrid",
            "{}: '{}' has {}, which is not supported; \"mamba\", \"linear_attention\" and \"hybrid\" are.",
            config.place(), key, brief(type));
    hybrid.push_back(type == "hybrid");
  }
  return hybrid;
}

// Members that say again what others do.
void expect_again(const HfReader& config, const char* key, std::int64_t value) {
  const std::int64_t again = config.size_or({key}, value);
  require(again == value, "{}: '{}' is {}, but other members make it {}; check them.", config.place(), key, again,
          value);
}

}  // namespace

ModelConfig read_zamba2(const HfReader& config) {
  ModelConfig model = made("zamba2", config);
  config.refuse("add_bias_linear");
  config.refuse("use_long_context");
  require(config.flag_or("use_conv_bias", true), "{}: 'use_conv_bias' is false, which is not supported; true is.",
          config.place());
  require(config.flag_or("use_shared_mlp_adapter", true),
          "{}: 'use_shared_mlp_adapter' is false, which is not supported; true is.", config.place());
  require(!config.has("sliding_window"), "{}: 'sliding_window' is given, which is not supported; null is.",
          config.place());
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set(model, "intermediate", config.size_or({"intermediate_size"}, 4 * model.hidden));
  expect_again(config, "ffn_hidden_size", model.more["intermediate"]);
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, model.heads));
  require(2 * model.hidden % model.heads == 0 && model.more["kv_heads"] == model.heads,
          "{}: 'num_key_value_heads' is {} of {} heads in {} dimensions, which is not supported; one for each head is.",
          config.place(), model.more["kv_heads"], model.heads, 2 * model.hidden);
  set(model, "head_dim", 2 * model.hidden / model.heads);
  expect_again(config, "attention_head_dim", model.more["head_dim"]);
  expect_again(config, "head_dim", model.more["head_dim"]);
  expect_again(config, "attention_hidden_size", 2 * model.hidden);
  expect_again(config, "num_query_groups", model.heads);
  (void)config.has("kv_channels");
  const std::int64_t inner = config.size_or({"mamba_expand"}, 2) * model.hidden, heads = config.size({"n_mamba_heads"});
  require(inner % heads == 0, "{}: 'n_mamba_heads' is {}, which does not divide the {} channels of a scan.",
          config.place(), heads, inner);
  set(model, "scan_heads", heads);
  set(model, "scan_head_dim", inner / heads);
  expect_again(config, "mamba_headdim", inner / heads);
  set(model, "scan_groups", config.size_or({"mamba_ngroups"}, 1));
  require(heads % model.more["scan_groups"] == 0, "{}: 'mamba_ngroups' is {}, which does not divide its {} heads.",
          config.place(), model.more["scan_groups"], heads);
  set(model, "state", config.size({"mamba_d_state"}));
  set(model, "conv", config.size_or({"mamba_d_conv"}, 4));
  set(model, "scan_chunk", config.size_or({"chunk_size"}, 256));
  set(model, "shared_blocks", config.size_or({"num_mem_blocks"}, 1));
  set(model, "adapter_rank", config.size_or({"adapter_rank", "lora_rank"}, 128));
  set(model, "attention_adapters", config.flag_or("use_shared_attention_adapter", false));
  set(model, "rotary", config.flag_or("use_mem_rope", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  for (const char* other : {"hybrid_layer_ids", "use_mem_eff_path"}) (void)config.has(other);
  set_zamba2_hybrids(model, hybrid_layers(config, model.layers), config.place() + ": 'num_hidden_layers'");
  read_rotation(model, config, 1e-5);
  constexpr double kGroupEpsilon = 1e-5;  // of the norms in scans, which is no member
  require(model.factors["epsilon"] == kGroupEpsilon,
          "{}: 'rms_norm_eps' is {:g}, which is not supported for this family; {:g} is.", config.place(),
          model.factors["epsilon"], kGroupEpsilon);
  model.factors["step_min"] = config.positive_or("time_step_min", 0.001);
  return model;
}

// RWKV-4. What divides hidden states every few layers does so when the model answers alone.
ModelConfig read_rwkv(const HfReader& config) {
  const std::int64_t positions = config.size_or({"context_length", "max_position_embeddings"}, 1024);
  ModelConfig model = made("rwkv", Core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}), 0, positions,
                                        config.size({"vocab_size"})});
  (void)config.has("rescale_every");
  set(model, "time_width", config.size_or({"attention_hidden_size"}, model.hidden));
  set(model, "intermediate", config.size_or({"intermediate_size"}, 4 * model.hidden));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  constexpr double kLastEpsilon = 1e-5;  // of the norm behind the layers, which is no member
  require(model.factors["epsilon"] == kLastEpsilon,
          "{}: 'layer_norm_epsilon' is {:g}, which is not supported for this family; {:g} is.", config.place(),
          model.factors["epsilon"], kLastEpsilon);
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
