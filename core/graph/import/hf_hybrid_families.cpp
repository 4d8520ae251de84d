// SPDX-License-Identifier: Apache-2.0
// Families with scans beside attention: Mamba-2 and Nemotron-H.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/hf_config.h"
#include "core/graph/import/hf_families.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

// Throws InputError unless the member is missing or has this value.
void expect_activation(const HfReader& config, const char* key, const char* only) {
  const std::string text = config.text_or(key, only);
  require(text == only, "{}: '{}' is \"{}\", which is not supported; \"{}\" is.", config.place(), key, text, only);
}

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
  model.more["scan_groups"] = config.size({"n_groups"});
  model.more["scan_chunk"] = config.size_or({"chunk_size"}, 256);
  model.more["conv"] = config.size_or({"conv_kernel"}, 4);
  model.more["conv_bias"] = config.flag_or("use_conv_bias", true);
  model.more["tied"] = config.flag_or("tie_word_embeddings", false);
  model.factors["epsilon"] = config.positive_or("layer_norm_epsilon", 1e-5);
  return model;
}

}  // namespace

ModelConfig read_mamba2(const HfReader& config) {
  expect_activation(config, "hidden_act", "silu");
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
  expect_activation(config, "mamba_hidden_act", "silu");
  expect_activation(config, "mlp_hidden_act", "relu2");
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
  require(static_cast<std::int64_t>(kinds.size()) == model.layers,
          "{}: 'hybrid_override_pattern' has {} layers, expected {} ('num_hidden_layers').", config.place(),
          kinds.size(), model.layers);
  set_layer_kinds(model, kinds, config.place() + ": 'hybrid_override_pattern'");
  return model;
}

}  // namespace meshwright
