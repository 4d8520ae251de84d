// SPDX-License-Identifier: Apache-2.0
// Families with scans or convolutions beside attention: Mamba, Mamba-2, Nemotron-H, Jamba, Bamba, Granite 4, Falcon-H1,
// LFM2.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// Steps that are kept within bounds are another model; from 0 to Infinity (which a reader sees as no number), or to a
// number that no step of 32 bits reaches, is none.
void refuse_bounded_steps(const HfReader& config) {
  if (!config.has("time_step_limit")) return;
  const Json& limit = config.at("time_step_limit");
  const bool open = limit.is_array() && limit.size() == 2 && limit[0].is_number() && limit[0].get<double>() == 0.0 &&
                    (!limit[1].is_number() || limit[1].get<double>() > std::numeric_limits<float>::max());
  require(open, "{}: 'time_step_limit' bounds the steps, which is not supported; from 0.0 to Infinity is.",
          config.place());
}

// A list of layers by their numbers.
std::vector<std::size_t> layer_numbers(const HfReader& config, const char* key, std::size_t layers) {
  const Json& numbers = config.at(key);
  require(numbers.is_array(), "{}: '{}' must be a list of layers.", config.place(), key);
  std::vector<std::size_t> found;
  for (const Json& layer : numbers) {
    const bool known = layer.is_number_unsigned() && layer < layers;
    require(known, "{}: '{}' has {}, which is none of the {} layers.", config.place(), key, brief(layer), layers);
    found.push_back(layer.get<std::size_t>());
  }
  return found;
}

struct ScanNames {
  const char *heads, *head_dim, *state;
  const char *groups = "n_groups", *chunk = "chunk_size", *conv = "conv_kernel", *conv_bias = "use_conv_bias",
             *epsilon = "layer_norm_epsilon";
  std::int64_t layers = 0;  // where the file lists them; 0: it gives their number
};

ModelConfig read_scans(const HfReader& config, const ScanNames& names, std::int64_t attention_heads) {
  refuse_bounded_steps(config);
  ModelConfig model;
  model.family = "hybrid";
  model.layers =
      names.layers > 0 ? config.size_or({"num_hidden_layers"}, names.layers) : config.size({"num_hidden_layers"});
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

// Layers in each of which one of ours is followed by another.
void set_layer_pairs(ModelConfig& model, const std::string& kinds, const std::string& place) {
  model.layers = static_cast<std::int64_t>(kinds.size());
  set_layer_kinds(model, kinds, place);
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
  set_layer_pairs(model, kinds, config.place());
  return model;
}

constexpr std::int64_t kMaxListedLayers = 10'000;

// The channels of Mamba: each is a head of its own, whose state is a row.
void set_channels(ModelConfig& model, const HfReader& config, const char* rank, std::int64_t inner) {
  constexpr std::int64_t kChannelsOfRank = 16;
  const bool automatic = !config.has(rank) || config.at(rank) == "auto";
  model.more["scan_rank"] = automatic ? (model.hidden + kChannelsOfRank - 1) / kChannelsOfRank : config.size({rank});
  model.more["scan_heads"] = inner;
  model.more["scan_head_dim"] = 1;
}

// Factors by the places of their list.
void read_factors(ModelConfig& model, const HfReader& config, const char* key,
                  std::initializer_list<const char*> factors) {
  if (!config.has(key)) return;
  const Json& given = config.at(key);
  const bool fits = given.is_array() && given.size() == factors.size() &&
                    std::all_of(given.begin(), given.end(),
                                [](const Json& factor) { return factor.is_number() && factor.get<double>() > 0.0; });
  require(fits, "{}: '{}' is {}; a list of {} positive numbers was expected.", config.place(), key, brief(given),
          factors.size());
  std::size_t place = 0;
  for (const char* factor : factors) model.factors[factor] = given[place++].get<double>();
}

// Which of LFM2's layers attend: by their types, or by their numbers.
std::vector<bool> attending_layers(const HfReader& config, std::int64_t layers) {
  std::vector<bool> attends(static_cast<std::size_t>(std::min(layers, kMaxListedLayers)));
  if (config.has("layer_types")) {
    (void)config.has("full_attn_idxs");  // the same
    const Json& types = config.at("layer_types");
    require(types.is_array() && types.size() == attends.size(),
            "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
    for (std::size_t layer = 0; layer < attends.size(); ++layer) {
      attends[layer] = types[layer] == "full_attention";
      require(attends[layer] || types[layer] == "conv",
              "{}: 'layer_types' has {}, which is not supported; \"conv\" and \"full_attention\" are.", config.place(),
              brief(types[layer]));
    }
    return attends;
  }
  if (!config.has("full_attn_idxs")) return std::vector<bool>(attends.size(), true);
  for (const std::size_t layer : layer_numbers(config, "full_attn_idxs", attends.size())) attends[layer] = true;
  return attends;
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
  set_channels(model, config, "time_step_rank", inner);
  model.more["state"] = config.size_or({"state_size"}, 16);
  model.more["conv"] = config.size_or({"conv_kernel"}, 4);
  if (config.has("ssm_cfg")) {  // its publishers' own file
    const HfReader scan = config.part("ssm_cfg");
    expect_text(scan, "layer", "Mamba1");
    model.more["state"] = scan.size_or({"d_state"}, 16);
    model.more["conv"] = scan.size_or({"d_conv"}, 4);
    const std::int64_t multiple = config.size_or({"pad_vocab_size_multiple"}, 8);
    model.vocab = (model.vocab + multiple - 1) / multiple * multiple;
    for (const char* nothing : {"residual_in_fp32", "fused_add_norm"}) (void)config.has(nothing);
  }
  model.more["conv_bias"] = config.flag_or("use_conv_bias", true);
  model.more["scan_bias"] = config.flag_or("use_bias", false);
  model.more["tied"] = config.flag_or("tie_word_embeddings", true);
  model.factors["epsilon"] = config.positive_or("layer_norm_epsilon", 1e-5);
  if (config.text_or("model_type", "mamba") == "falcon_mamba") {
    model.more["operand_norms"] = 2;
    model.factors["operand_epsilon"] = config.positive_or("mixer_rms_eps", 1e-6);
  }
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

namespace {

// The kinds of Nemotron-H's layers: a letter each, or, as transformers 5 writes them, a name.
std::string nemotron_kinds(const HfReader& config, const char* list, const char* letters) {
  if (!config.has(list)) return config.text_or(letters, "");
  constexpr std::array<std::pair<const char*, char>, 6> kKinds = {{{"linear_attention", 'M'},
                                                                   {"mamba", 'M'},
                                                                   {"full_attention", '*'},
                                                                   {"attention", '*'},
                                                                   {"mlp", '-'},
                                                                   {"moe", 'E'}}};
  const Json& names = config.at(list);
  std::string kinds;
  for (const Json& name : names.is_array() ? names : Json::array()) {
    const auto kind =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& known) { return name == known.first; });
    require(kind != kKinds.end(),
            "{}: '{}' has {}, which is not supported; \"mamba\", \"attention\", \"mlp\" and \"moe\" are.",
            config.place(), list, brief(name));
    kinds += kind->second;
  }
  const std::string pattern = config.text_or(letters, kinds);
  require(!kinds.empty() && pattern == kinds, "{}: '{}' lists no layers, or others than '{}'; check them.",
          config.place(), list, letters);
  return kinds;
}

// Each module for a further token has attention and experts, where the file does not say which layers.
void read_nemotron_modules(ModelConfig& model, const HfReader& config) {
  const std::string kinds = nemotron_kinds(config, "mtp_layers_block_type", "mtp_hybrid_override_pattern");
  model.more["mtp"] = config.size_or({"num_nextn_predict_layers"}, 0, 0);
  if (model.more["mtp"] > 0) set_further_layers(model, kinds.empty() ? "*E" : kinds, config.place());
}

}  // namespace

ModelConfig read_nemotron_h(const HfReader& config) {
  expect_text(config, "mamba_hidden_act", "silu");
  expect_text(config, "mlp_hidden_act", "relu2");
  const std::string kinds = nemotron_kinds(config, "layers_block_type", "hybrid_override_pattern");
  ModelConfig model = read_scans(config,
                                 {.heads = "mamba_num_heads",
                                  .head_dim = "mamba_head_dim",
                                  .state = "ssm_state_size",
                                  .layers = static_cast<std::int64_t>(kinds.size())},
                                 config.size({"num_attention_heads"}));
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, model.heads);
  model.more["head_dim"] = config.size({"attention_head_dim", "head_dim"});
  model.more["intermediate"] = config.size({"intermediate_size"});
  model.more["group_norm"] = 1;
  // Other members say the same: the scans' width, and the epsilon of all norms.
  (void)config.size_or({"expand"}, 2);
  (void)config.positive_or("rms_norm_eps", 1e-5);
  model.more["scan_bias"] = config.flag_or("mamba_proj_bias", false);
  model.more["scan_out_bias"] = config.flag_or("use_bias", false);
  model.more["mlp_bias"] = config.flag_or("mlp_bias", false);
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
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
    model.more["expert_latent"] = config.size_or({"moe_latent_size"}, 0, 0);
  }
  require(static_cast<std::int64_t>(kinds.size()) == model.layers,
          "{}: 'hybrid_override_pattern' has {} layers, expected {} ('num_hidden_layers').", config.place(),
          kinds.size(), model.layers);
  set_layer_kinds(model, kinds, config.place() + ": 'hybrid_override_pattern'");
  read_nemotron_modules(model, config);
  return model;
}

// `attn_layer_indices` attend, half of each head rotated.
ModelConfig read_bamba(const HfReader& config) {
  std::vector<bool> attends(
      static_cast<std::size_t>(std::min<std::int64_t>(config.size({"num_hidden_layers"}), 10000)));
  if (config.has("attn_layer_indices"))
    for (const std::size_t layer : layer_numbers(config, "attn_layer_indices", attends.size())) attends[layer] = true;
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

// Mamba's scans with norms of the steps, b and c; each n-th layer from some layer on attends, each n-th has experts.
ModelConfig read_jamba(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  require(config.flag_or("mamba_inner_layernorms", true),
          "{}: 'mamba_inner_layernorms' is false, which is not supported; true is.", config.place());
  require(!config.has("sliding_window"), "{}: 'sliding_window' is given, which is not supported; null is.",
          config.place());
  ModelConfig model = made("hybrid", config);
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, model.heads);
  model.more["intermediate"] = config.size({"intermediate_size"});
  set_channels(model, config, "mamba_dt_rank", config.size_or({"mamba_expand"}, 2) * model.hidden);
  model.more["state"] = config.size_or({"mamba_d_state"}, 16);
  model.more["conv"] = config.size_or({"mamba_d_conv"}, 4);
  model.more["conv_bias"] = config.flag_or("mamba_conv_bias", true);
  model.more["scan_bias"] = config.flag_or("mamba_proj_bias", false);
  model.more["tied"] = config.flag_or("tie_word_embeddings", false);
  for (const char* on : {"operand_norms", "gated", "softmax_scores"}) model.more[on] = 1;
  model.more["normalized"] = 0;
  set_epsilon(model, config, "rms_norm_eps", 1e-6);
  const std::int64_t experts = config.size_or({"num_experts"}, 16);
  if (experts > 1) set_experts(model, experts, config.size_or({"num_experts_per_tok"}, 2), model.more["intermediate"]);
  const auto period = [&](const char* every, std::int64_t usual, const char* first, std::int64_t usual_first) {
    const std::pair found{config.size_or({every}, usual), config.size_or({first}, usual_first, 0)};
    require(found.second < found.first, "{}: '{}' is {}, which must be less than '{}' ({}).", config.place(), first,
            found.second, every, found.first);
    return found;
  };
  const auto [attention_every, first_attention] = period("attn_layer_period", 8, "attn_layer_offset", 4);
  const auto [experts_every, first_experts] = period("expert_layer_period", 2, "expert_layer_offset", 1);
  std::string kinds;
  for (std::int64_t layer = 0; layer < std::min(model.layers, kMaxListedLayers); ++layer) {
    kinds += layer % attention_every == first_attention ? '*' : 'M';
    kinds += experts > 1 && layer % experts_every == first_experts ? 'E' : '-';
  }
  set_layer_pairs(model, kinds, config.place());
  return model;
}

// Scans and attention side by side in every layer, and a factor of nearly everything.
ModelConfig read_falcon_h1(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  refuse_bounded_steps(config);
  ModelConfig model = made("hybrid", config);
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, model.heads);
  if (config.has("head_dim")) model.more["head_dim"] = config.size({"head_dim"});
  model.more["intermediate"] = config.size({"intermediate_size"});
  const std::int64_t inner = config.size_or({"mamba_d_ssm"}, config.size_or({"mamba_expand"}, 2) * model.hidden);
  const std::int64_t heads = config.size_or({"mamba_n_heads"}, 128);
  const bool automatic = !config.has("mamba_d_head") || config.at("mamba_d_head") == "auto";
  const std::int64_t width = automatic ? std::max<std::int64_t>(1, inner / heads) : config.size({"mamba_d_head"});
  require(heads * width == inner,
          "{}: 'mamba_n_heads' times 'mamba_d_head' is {}, but 'mamba_d_ssm' is {}; check the sizes.", config.place(),
          heads * width, inner);
  model.more["scan_heads"] = heads;
  model.more["scan_head_dim"] = width;
  model.more["scan_groups"] = config.size_or({"mamba_n_groups"}, 1);
  model.more["state"] = config.size_or({"mamba_d_state"}, 256);
  model.more["scan_chunk"] = config.size_or({"mamba_chunk_size"}, 256);
  model.more["conv"] = config.size_or({"mamba_d_conv"}, 4);
  model.more["conv_bias"] = config.flag_or("mamba_conv_bias", true);
  model.more["scan_bias"] = config.flag_or("mamba_proj_bias", false);
  model.more["scan_out_bias"] = config.flag_or("projectors_bias", false);
  const bool before = config.flag_or("mamba_norm_before_gate", true);
  model.more["scan_norm"] = !config.flag_or("mamba_rms_norm", false) ? 0 : before ? 2 : 1;
  for (const char* on : {"group_norm", "gated", "rotary", "beside"}) model.more[on] = 1;
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
  model.more["mlp_bias"] = config.flag_or("mlp_bias", false);
  model.more["tied"] = config.flag_or("tie_word_embeddings", false);
  read_rotation(model, config, 1e-5);
  const auto factor = [&](const char* ours, const char* theirs) {
    model.factors[ours] = config.positive_or(theirs, 1.0);
  };
  factor("embed_scale", "embedding_multiplier");
  factor("logit_scale", "lm_head_multiplier");
  factor("attention_scale", "key_multiplier");
  factor("attention_in_scale", "attention_in_multiplier");
  factor("attention_out_scale", "attention_out_multiplier");
  factor("scan_in_scale", "ssm_in_multiplier");
  factor("scan_out_scale", "ssm_out_multiplier");
  read_factors(model, config, "ssm_multipliers",
               {"scan_z_scale", "scan_x_scale", "scan_b_scale", "scan_c_scale", "scan_dt_scale"});
  read_factors(model, config, "mlp_multipliers", {"gate_scale", "mlp_out_scale"});
  std::string kinds;
  for (std::int64_t layer = 0; layer < std::min(model.layers, kMaxListedLayers); ++layer) kinds += "*-";
  set_layer_pairs(model, kinds, config.place());
  return model;
}

namespace {

// Widths of the feed-forward layers that are given before they are cut to a third of two and rounded.
std::int64_t adjusted_width(const HfReader& config) {
  const std::int64_t given = config.size({"block_ff_dim", "intermediate_size"});
  const double factor = config.positive_or("block_ffn_dim_multiplier", 1.0);
  const std::int64_t multiple = config.size_or({"block_multiple_of"}, 256);
  if (!config.flag_or("block_auto_adjust_ff_dim", true)) return given;
  const auto wanted = static_cast<std::int64_t>(factor * static_cast<double>(2 * given / 3));
  return (wanted + multiple - 1) / multiple * multiple;
}

}  // namespace

// Gated convolutions in all layers that do not attend; LFM2-MoE has experts behind its first layers.
ModelConfig read_lfm2(const HfReader& config) {
  const bool mixture = config.text_or("model_type", "lfm2") == "lfm2_moe";
  ModelConfig model = made("hybrid", config);
  for (const char* key : {"block_dim", "conv_dim", "conv_dim_out"})
    require(config.size_or({key}, model.hidden) == model.hidden,
            "{}: '{}' is {}, which is not supported; 'hidden_size' ({}) is.", config.place(), key,
            config.size_or({key}, model.hidden), model.hidden);
  for (const char* on : {"block_use_swiglu", "use_pos_enc"})
    require(config.flag_or(on, true), "{}: '{}' is false, which is not supported; true is.", config.place(), on);
  (void)config.size_or({"num_heads"}, model.heads);  // 'num_attention_heads' again
  (void)config.positive_or("block_norm_eps", 1e-5);  // 'norm_eps' again
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, 8);
  if (config.has("head_dim")) model.more["head_dim"] = config.size({"head_dim"});
  model.more["conv"] = config.size_or({"conv_L_cache"}, 3);
  for (const char* key : {"conv_bias", "scan_bias"}) model.more[key] = config.flag_or("conv_bias", false);
  for (const char* on : {"short_conv", "qk_norm", "rotary", "gated"}) model.more[on] = 1;
  model.more["tied"] = config.flag_or("tie_embedding", config.flag_or("tie_word_embeddings", true));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "norm_eps", 1e-5);
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 1e6;
  model.more["intermediate"] = mixture ? config.size({"intermediate_size"}) : adjusted_width(config);
  std::int64_t dense = model.layers;
  if (mixture) {
    dense = config.size_or({"num_dense_layers"}, 2, 0);
    set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok"}),
                config.size({"moe_intermediate_size"}));
    model.more["selection_bias"] = config.flag_or("use_expert_bias", true);
    model.more["normalized"] = config.flag_or("norm_topk_prob", true);
    model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
  }
  std::string kinds;
  for (const bool attends : attending_layers(config, model.layers)) {
    kinds += attends ? '*' : 'M';
    kinds += static_cast<std::int64_t>(kinds.size() / 2) < dense ? '-' : 'E';
  }
  set_layer_pairs(model, kinds, config.place());
  return model;
}

}  // namespace meshwright::hf
