// SPDX-License-Identifier: Apache-2.0
// Families with scans beside attention: Mamba, Mamba-2, Nemotron-H, Bamba and Granite 4; Qwen3-Next and Qwen3.5.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/hf_config.h"
#include "core/graph/import/hf_families.h"
#include "core/graph/import/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// Steps that are kept within bounds are another model; from 0 to Infinity (which a reader sees as no number) is none.
void refuse_bounded_steps(const HfReader& config) {
  if (!config.has("time_step_limit")) return;
  const Json& limit = config.at("time_step_limit");
  const bool open = limit.is_array() && limit.size() == 2 && limit[0].is_number() && limit[0].get<double>() == 0.0 &&
                    !limit[1].is_number();
  require(open, "{}: 'time_step_limit' bounds the steps, which is not supported; from 0.0 to Infinity is.",
          config.place());
}

struct ScanNames {
  const char *heads, *head_dim, *state;
  const char *groups = "n_groups", *chunk = "chunk_size", *conv = "conv_kernel", *conv_bias = "use_conv_bias",
             *epsilon = "layer_norm_epsilon";
};

ModelConfig read_scans(const HfReader& config, const ScanNames& names, std::int64_t attention_heads) {
  refuse_bounded_steps(config);
  ModelConfig model;
  model.family = "hybrid";
  model.layers = config.size({"num_hidden_layers"});
  model.hidden = config.size({"hidden_size"});
  model.heads = attention_heads;
  model.seq = std::min(config.size_or({"max_position_embeddings"}, 2048), kLongestSequence);
  model.vocab = config.size({"vocab_size"});
  model.more["scan_heads"] = config.size({names.heads});
  model.more["scan_head_dim"] = config.size({names.head_dim});
  model.more["state"] = config.size({names.state});
  model.more["scan_groups"] = config.size({names.groups});
  model.more["scan_chunk"] = config.size_or({names.chunk}, 256);
  model.more["conv"] = config.size_or({names.conv}, 4);
  model.more["conv_bias"] = config.flag_or(names.conv_bias, true);
  model.more["tied"] = config.flag_or("tie_word_embeddings", false);
  model.factors["epsilon"] = config.positive_or(names.epsilon, 1e-5);
  return model;
}

// Bamba's and Granite 4's layers: a scan or attention, then what `after` stands for.
ModelConfig read_pairs(const HfReader& config, std::int64_t inner, const std::vector<bool>& attends, char after) {
  expect_text(config, "hidden_act", "silu");
  const ScanNames names{.heads = "mamba_n_heads",
                        .head_dim = "mamba_d_head",
                        .state = "mamba_d_state",
                        .groups = "mamba_n_groups",
                        .chunk = "mamba_chunk_size",
                        .conv = "mamba_d_conv",
                        .conv_bias = "mamba_conv_bias",
                        .epsilon = "rms_norm_eps"};
  ModelConfig model = read_scans(config, names, config.size({"num_attention_heads"}));
  const std::int64_t scanned = model.more["scan_heads"] * model.more["scan_head_dim"],
                     expanded = config.size_or({"mamba_expand"}, 2) * model.hidden;
  require(
      scanned == expanded,
      "{}: 'mamba_n_heads' times 'mamba_d_head' is {}, but 'mamba_expand' times 'hidden_size' is {}; check the sizes.",
      config.place(), scanned, expanded);
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, model.heads);
  model.more["intermediate"] = inner;
  model.more["group_norm"] = 1;
  model.more["gated"] = 1;
  model.more["scan_bias"] = config.flag_or("mamba_proj_bias", false);
  model.more["mlp_bias"] = config.flag_or("mlp_bias", false);
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
  if (after == 'E') {
    model.more["experts"] = config.size({"num_local_experts"});
    model.more["top_k"] = config.size({"num_experts_per_tok"});
    model.more["expert_intermediate"] = config.size({"intermediate_size"});
    model.more["shared_intermediate"] = inner;
    model.more["softmax_scores"] = 1;
  }
  std::string kinds;
  for (const bool one : attends) (kinds += one ? '*' : 'M') += after;
  model.layers = static_cast<std::int64_t>(kinds.size());
  set_layer_kinds(model, kinds, config.place());
  return model;
}

// Delta rules in all layers but every n-th, which `layer_types` may say again.
std::int64_t full_attention_every(const HfReader& config, std::int64_t layers) {
  const std::int64_t every = config.size_or({"full_attention_interval"}, 4);
  if (!config.has("layer_types")) return every;
  const Json& types = config.at("layer_types");
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

}  // namespace

// Every channel is a head of its own; its state is a row.
ModelConfig read_mamba(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  require(config.flag_or("rms_norm", true), "{}: 'rms_norm' is false, which is not supported; true is.",
          config.place());
  ModelConfig model;
  model.family = "hybrid";
  model.layers = config.size({"num_hidden_layers", "n_layer"});
  model.hidden = config.size({"hidden_size", "d_model"});
  model.heads = 1;  // it has no attention; the number only has to fit
  model.seq = std::min(config.size_or({"max_position_embeddings"}, 2048), kLongestSequence);
  model.vocab = config.size({"vocab_size"});
  const std::int64_t inner = config.size_or({"expand"}, 2) * model.hidden;
  for (const auto& [key, expected] : {std::pair<const char*, std::int64_t>{"intermediate_size", inner},
                                      {"d_inner", inner},
                                      {"d_model", model.hidden},
                                      {"n_layer", model.layers}})
    require(config.size_or({key}, expected) == expected,
            "{}: '{}' is {}, but other members make it {}; check the sizes.", config.place(), key,
            config.size_or({key}, expected), expected);
  const bool automatic = !config.has("time_step_rank") || config.at("time_step_rank") == "auto";
  constexpr std::int64_t kChannelsOfRank = 16;
  model.more["scan_rank"] =
      automatic ? (model.hidden + kChannelsOfRank - 1) / kChannelsOfRank : config.size({"time_step_rank"});
  model.more["scan_heads"] = inner;
  model.more["scan_head_dim"] = 1;
  model.more["state"] = config.size_or({"state_size"}, 16);
  model.more["conv"] = config.size_or({"conv_kernel"}, 4);
  model.more["conv_bias"] = config.flag_or("use_conv_bias", true);
  model.more["scan_bias"] = config.flag_or("use_bias", false);
  model.more["tied"] = config.flag_or("tie_word_embeddings", true);
  model.factors["epsilon"] = config.positive_or("layer_norm_epsilon", 1e-5);
  set_layer_kinds(model, std::string(static_cast<std::size_t>(std::min<std::int64_t>(model.layers, 1000)), 'M'),
                  config.place());
  return model;
}

ModelConfig read_mamba2(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  require(config.flag_or("rms_norm", true), "{}: 'rms_norm' is false, which is not supported; true is.",
          config.place());
  // It has no attention; its number of heads only has to fit.
  ModelConfig model = read_scans(config, {"num_heads", "head_dim", "state_size"}, 1);
  const std::int64_t inner = model.more["scan_heads"] * model.more["scan_head_dim"];
  require(inner == config.size_or({"expand"}, 2) * model.hidden,
          "{}: 'num_heads' times 'head_dim' is {}, but 'expand' times 'hidden_size' is {}; check the sizes.",
          config.place(), inner, config.size_or({"expand"}, 2) * model.hidden);
  model.more["scan_bias"] = config.flag_or("use_bias", false);
  set_layer_kinds(model, std::string(static_cast<std::size_t>(std::min<std::int64_t>(model.layers, 1000)), 'M'),
                  config.place());
  return model;
}

ModelConfig read_nemotron_h(const HfReader& config) {
  expect_text(config, "mamba_hidden_act", "silu");
  expect_text(config, "mlp_hidden_act", "relu2");
  ModelConfig model =
      read_scans(config, {"mamba_num_heads", "mamba_head_dim", "ssm_state_size"}, config.size({"num_attention_heads"}));
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, model.heads);
  model.more["head_dim"] = config.size({"attention_head_dim", "head_dim"});
  model.more["intermediate"] = config.size({"intermediate_size"});
  model.more["group_norm"] = 1;
  // Other members say the same: the scans' width, and the epsilon of all norms.
  (void)config.size_or({"expand"}, 2);
  (void)config.positive_or("rms_norm_eps", 1e-5);
  // `use_bias` is of the scan's last projection, `mamba_proj_bias` of its first ones.
  const bool bias = config.flag_or("mamba_proj_bias", false);
  require(bias == config.flag_or("use_bias", false),
          "{}: 'mamba_proj_bias' and 'use_bias' differ, which is not supported; both true or both false are.",
          config.place());
  model.more["scan_bias"] = bias;
  model.more["mlp_bias"] = config.flag_or("mlp_bias", false);
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
  const std::string kinds = config.text_or("hybrid_override_pattern", "");
  if (kinds.find('E') != std::string::npos) {
    const std::int64_t width = config.size({"moe_intermediate_size"});
    model.more["experts"] = config.size({"n_routed_experts"});
    model.more["top_k"] = config.size({"num_experts_per_tok"});
    model.more["expert_intermediate"] = width;
    const std::int64_t shared = config.size_or({"n_shared_experts"}, 1, 0);
    require(shared <= 1, "{}: 'n_shared_experts' is {}, which is not supported; 0 and 1 are.", config.place(), shared);
    model.more["shared_intermediate"] = shared * config.size_or({"moe_shared_expert_intermediate_size"}, width);
    model.more["normalized"] = config.flag_or("norm_topk_prob", true);
    model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
    require(!config.has("moe_latent_size"),
            "{}: 'moe_latent_size' is given, which is not supported; models without it are.", config.place());
  }
  require(static_cast<std::int64_t>(kinds.size()) == model.layers,
          "{}: 'hybrid_override_pattern' has {} layers, expected {} ('num_hidden_layers').", config.place(),
          kinds.size(), model.layers);
  set_layer_kinds(model, kinds, config.place() + ": 'hybrid_override_pattern'");
  return model;
}

// `attn_layer_indices` attend, half of each head rotated.
ModelConfig read_bamba(const HfReader& config) {
  std::vector<bool> attends(
      static_cast<std::size_t>(std::min<std::int64_t>(config.size({"num_hidden_layers"}), 10000)));
  if (config.has("attn_layer_indices")) {
    const Json& layers = config.at("attn_layer_indices");
    require(layers.is_array(), "{}: 'attn_layer_indices' must be a list of layers.", config.place());
    for (const Json& layer : layers) {
      const bool known = layer.is_number_unsigned() && layer < attends.size();
      require(known, "{}: 'attn_layer_indices' has {}, which is none of the {} layers.", config.place(), brief(layer),
              attends.size());
      attends[layer.get<std::size_t>()] = true;
    }
  }
  ModelConfig model = read_pairs(config, config.size({"intermediate_size"}), attends, '-');
  model.more["rotary"] = 1;
  set_rotary_base(model, config, "rope_theta");
  if (config.has("attn_rotary_emb"))
    model.more["rotary_dims"] = config.size({"attn_rotary_emb"});
  else
    set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  return model;
}

// Granite 4: a shared expert beside the others, or alone; Granite's factors.
ModelConfig read_granitemoehybrid(const HfReader& config) {
  std::vector<bool> attends;
  const std::int64_t layers = config.size({"num_hidden_layers"});
  const bool listed = config.has("layer_types") && config.at("layer_types").is_array() &&
                      config.at("layer_types").size() == static_cast<std::size_t>(layers);
  require(listed, "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  for (const Json& type : config.at("layer_types")) {
    const bool attention = type == "attention" || type == "full_attention";
    require(attention || type == "mamba" || type == "linear_attention",
            "{}: 'layer_types' has {}, which is not supported; \"mamba\" and \"attention\" are.", config.place(),
            brief(type));
    attends.push_back(attention);
  }
  const bool experts = config.size_or({"num_local_experts"}, 0, 0) > 0;
  ModelConfig model = read_pairs(config, config.size({"shared_intermediate_size"}), attends, experts ? 'E' : '-');
  const std::string positions = config.text_or("position_embedding_type", "nope");
  require(positions == "nope" || positions == "rope",
          "{}: 'position_embedding_type' is \"{}\", which is not supported; \"nope\" and \"rope\" are.", config.place(),
          positions);
  model.more["rotary"] = positions == "rope";
  set_rotary_base(model, config, "rope_theta");
  set_granite_factors(model, config);
  return model;
}

// Files of Qwen3.5 hold the text model as a part, beside that of images.
ModelConfig read_qwen3_next(const HfReader& config) {
  if (config.has("text_config")) return read_qwen3_next(config.part("text_config"));
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
  model.more["full_every"] = full_attention_every(config, model.layers);
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

}  // namespace meshwright::hf
