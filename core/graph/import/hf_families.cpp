// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf_families.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf_config.h"

namespace meshwright {

namespace {

enum class Act { Relu, Gelu, GeluErf, Silu };  // Gelu: the tanh form

Act activation_from(const HfReader& config, const char* key, const std::string& name) {
  if (name == "relu") return Act::Relu;
  if (name == "silu" || name == "swish") return Act::Silu;
  if (name == "gelu" || name == "gelu_python") return Act::GeluErf;
  for (const char* gelu : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == gelu) return Act::Gelu;
  throw InputError(
      fmt::format("{}: '{}' is \"{}\", which is not supported; relu, gelu and silu are.", config.place(), key, name));
}

Act one_of(const HfReader& config, const char* key, const char* otherwise, std::initializer_list<Act> supported) {
  const std::string name = config.text_or(key, otherwise);
  const Act act = activation_from(config, key, name);
  require(std::find(supported.begin(), supported.end(), act) != supported.end(),
          "{}: '{}' is \"{}\", which this family is not built with; it is with \"{}\".", config.place(), key, name,
          otherwise);
  return act;
}

// Written in braces, so that the first of several missing members is the one that is named.
struct Core {
  std::int64_t layers, hidden, heads, positions, vocab;
};

ModelConfig made(const char* family, const Core& core) {
  return {.name = "",
          .family = family,
          .layers = core.layers,
          .hidden = core.hidden,
          .heads = core.heads,
          .seq = std::min(core.positions, kLongestSequence),
          .vocab = core.vocab};
}

// The names that most families use.
ModelConfig made(const char* family, const HfReader& config) {
  return made(family, Core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}),
                           config.size({"num_attention_heads"}), config.size({"max_position_embeddings"}),
                           config.size({"vocab_size"})});
}

void set(ModelConfig& model, const char* key, std::int64_t value) { model.more[key] = value; }

// The activation; notes which form of GELU it is.
Act set_activation(ModelConfig& model, const HfReader& config, const char* key, const char* otherwise,
                   std::initializer_list<Act> supported) {
  const Act act = one_of(config, key, otherwise, supported);
  set(model, "erf", act == Act::GeluErf);
  return act;
}

// Throws InputError unless the member is missing or has this value.
void expect_text(const HfReader& config, const char* key, const char* only) {
  const std::string text = config.text_or(key, only);
  require(text == only, "{}: '{}' is \"{}\", which is not supported; \"{}\" is.", config.place(), key, text, only);
}

std::int64_t head_of(const ModelConfig& model) {
  const auto given = model.more.find("head_dim");
  return given != model.more.end() ? given->second : model.hidden / model.heads;
}

// The dimensions of a head that are rotated, where the file gives their share.
void set_rotated_share(ModelConfig& model, const HfReader& config, const char* key, double otherwise) {
  const double share = std::min(1.0, config.positive_or(key, otherwise));
  set(model, "rotary_dims", static_cast<std::int64_t>(share * static_cast<double>(head_of(model))));
}

void set_epsilon(ModelConfig& model, const HfReader& config, const char* key, double otherwise) {
  model.factors["epsilon"] = config.positive_or(key, otherwise);
}

// --- learned positions, and their like ---

ModelConfig read_gpt2(const HfReader& config) {
  config.refuse("scale_attn_by_inverse_layer_idx");
  const std::int64_t positions = config.size({"n_positions", "n_ctx", "max_position_embeddings"});
  ModelConfig model =
      made("gpt2", Core{config.size({"n_layer", "num_hidden_layers"}), config.size({"n_embd", "hidden_size"}),
                        config.size({"n_head", "num_attention_heads"}), positions, config.size({"vocab_size"})});
  set(model, "positions", positions);
  set(model, "intermediate", config.size_or({"n_inner"}, 4 * model.hidden));
  const Act act =
      set_activation(model, config, "activation_function", "gelu_new", {Act::Gelu, Act::GeluErf, Act::Relu});
  set(model, "relu", act == Act::Relu);
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// Positions are counted from 2 (row 1 once stood for padding). The norms' epsilon is no member: it is always 1e-5.
ModelConfig read_opt(const HfReader& config) {
  ModelConfig model = made("gpt2", config);
  const bool before = config.flag_or("do_layer_norm_before", true);
  require(
      config.flag_or("layer_norm_elementwise_affine", true),
      "{}: 'layer_norm_elementwise_affine' is false, which is not supported; models with weights in their norms are.",
      config.place());
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "position_offset", 2);
  set(model, "intermediate", config.size({"ffn_dim"}));
  set(model, "word_embed", config.size_or({"word_embed_proj_dim"}, model.hidden));
  const Act act = set_activation(model, config, "activation_function", "relu", {Act::Relu, Act::Gelu, Act::GeluErf});
  set(model, "relu", act == Act::Relu);
  set(model, "bias", config.flag_or("enable_bias", true));
  set(model, "post_norm", !before);
  set(model, "final_norm", before && !config.flag_or("_remove_final_layer_norm", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// Its GELU is the tanh form.
ModelConfig read_bloom(const HfReader& config) {
  config.refuse("apply_residual_connection_post_layernorm");
  const std::int64_t positions = config.size_or({"seq_length", "max_position_embeddings"}, 2048);
  ModelConfig model =
      made("bloom", Core{config.size({"n_layer", "num_hidden_layers"}), config.size({"hidden_size", "n_embed"}),
                         config.size({"n_head", "num_attention_heads"}), positions, config.size({"vocab_size"})});
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_gpt_neox(const HfReader& config) {
  ModelConfig model = made("gpt_neox", config);
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  require(config.flag_or("attention_bias", true),
          "{}: 'attention_bias' is false, which is not supported for this family; true is.", config.place());
  set(model, "intermediate", config.size({"intermediate_size"}));
  set_rotated_share(model, config, "rotary_pct", 0.25);
  set(model, "parallel", config.flag_or("use_parallel_residual", true));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  model.factors["rotary_base"] = config.positive_or("rotary_emb_base", 10000.0);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  return model;
}

ModelConfig read_bert(const HfReader& config) {
  config.refuse("is_decoder");
  config.refuse("add_cross_attention");
  expect_text(config, "position_embedding_type", "absolute");
  ModelConfig model = made("bert", config);
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "token_types", config.size_or({"type_vocab_size"}, 2));
  return model;
}

// --- encoder and decoder ---

// "gated-gelu" is the tanh form, a plain "gelu" the exact one.

ModelConfig read_t5(const HfReader& config) {
  ModelConfig model = made("t5", Core{config.size({"num_layers"}), config.size({"d_model"}), config.size({"num_heads"}),
                                      config.size_or({"n_positions"}, 512), config.size({"vocab_size"})});
  const std::string forward = config.text_or("feed_forward_proj", "relu");
  constexpr std::string_view kGated = "gated-";
  const bool gated = forward.starts_with(kGated);
  const std::string name = gated ? forward.substr(kGated.size()) : forward;
  const Act act = activation_from(config, "feed_forward_proj", gated && name == "gelu" ? "gelu_new" : name);
  require(act != Act::Silu, "{}: 'feed_forward_proj' is \"{}\", which is not supported; relu and gated-gelu are.",
          config.place(), forward);
  const std::int64_t distance = config.size_or({"relative_attention_max_distance"}, 128);
  require(distance == 128, "{}: 'relative_attention_max_distance' is {}, which is not supported; 128 is.",
          config.place(), distance);
  set(model, "intermediate", config.size({"d_ff"}));
  set(model, "head_dim", config.size({"d_kv"}));
  set(model, "decoder_layers", config.size_or({"num_decoder_layers"}, model.layers));
  set(model, "buckets", config.size_or({"relative_attention_num_buckets"}, 32));
  set(model, "gated", gated);
  set(model, "relu", act == Act::Relu);
  set(model, "erf", act == Act::GeluErf);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-6);
  return model;
}

// --- rotated decoders ---

void read_rotation(ModelConfig& model, const HfReader& config, double epsilon) {
  double base = config.positive_or("rope_theta", 10000.0);
  if (!config.has("rope_theta") && config.has("rope_parameters"))
    base = config.part("rope_parameters").positive_or("rope_theta", base);
  model.factors["rotary_base"] = base;
  set_epsilon(model, config, "rms_norm_eps", epsilon);
}

ModelConfig made_with_groups(const char* family, const HfReader& config) {
  ModelConfig model = made(family, config);
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, model.heads));
  return model;
}

// `epsilon`: the family's own, where the file has none.
ModelConfig read_decoder(const char* family, const HfReader& config, double epsilon = 1e-6) {
  ModelConfig model = made_with_groups(family, config);
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  set(model, "gelu",
      set_activation(model, config, "hidden_act", "silu", {Act::Silu, Act::Gelu, Act::GeluErf}) != Act::Silu);
  set(model, "mlp_bias", config.flag_or("mlp_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, epsilon);
  return model;
}

void set_attention_bias(ModelConfig& model, const HfReader& config, bool otherwise) {
  for (const char* key : {"qkv_bias", "out_bias"}) set(model, key, config.flag_or("attention_bias", otherwise));
}

// Which layers `layer_types` says are windowed, as first_window_layer and full_every can say it.
void read_layer_types(ModelConfig& model, const HfReader& config) {
  if (!config.has("layer_types")) return;
  const Json& types = config.at("layer_types");
  std::vector<bool> windowed;
  require(types.is_array() && types.size() == static_cast<std::size_t>(model.layers),
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), model.layers);
  for (const Json& type : types) {
    const bool known = type == "full_attention" || type == "sliding_attention";
    require(known,
            "{}: 'layer_types' has {}, which is not supported; \"full_attention\" and \"sliding_attention\" are.",
            config.place(), type.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40));
    windowed.push_back(type == "sliding_attention");
  }
  const auto first = std::find(windowed.begin(), windowed.end(), true) - windowed.begin();
  const auto full = std::find(windowed.begin() + first, windowed.end(), false) - windowed.begin();
  const bool in_turns = first == 0 && full < model.layers;
  const std::int64_t period = in_turns ? full + 1 : 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool expected = layer >= first && (period == 0 || (layer + 1) % period != 0);
    require(
        windowed[static_cast<std::size_t>(layer)] == expected,
        "{}: 'layer_types' follow no order that is supported; windows from some layer on, or in all layers but every "
        "n-th, are.",
        config.place());
  }
  set(model, "first_window_layer", first);
  set(model, "full_every", period);
}

ModelConfig read_llama(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  set_attention_bias(model, config, false);
  return model;
}

ModelConfig read_mistral(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  return model;
}

// Windows are off unless `use_sliding_window`, and never in the first layers.
void read_qwen_window(ModelConfig& model, const HfReader& config) {
  if (!config.flag_or("use_sliding_window", false)) return;
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "first_window_layer", config.size_or({"max_window_layers"}, 0, 0));
  read_layer_types(model, config);
}

ModelConfig read_qwen2(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  set(model, "qkv_bias", 1);
  read_qwen_window(model, config);
  return model;
}

// What is the same with and without a mixture of experts.
ModelConfig read_qwen3_decoder(const char* family, const HfReader& config) {
  ModelConfig model = read_decoder(family, config);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", 1);
  read_qwen_window(model, config);
  return model;
}

ModelConfig read_qwen3(const HfReader& config) { return read_qwen3_decoder("llama", config); }

// --- mixtures of experts ---

ModelConfig read_mixtral(const HfReader& config) {
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  return model;
}

ModelConfig read_qwen3_moe(const HfReader& config) {
  ModelConfig model = read_qwen3_decoder("mixtral", config);
  set(model, "experts", config.size({"num_experts"}));
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
  for (const char* key : {"router_bias", "expert_bias", "sinks"}) set(model, key, 1);
  return model;
}

ModelConfig read_llama4(const HfReader& config) {
  if (config.text_or("model_type", "") == "llama4") {
    require(config.has("text_config"),
            "{}: 'text_config' is missing; it describes the text model of the family llama4.", config.place());
    return read_llama4(config.part("text_config"));
  }
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

// --- decoders with other norms, factors, and blocks side by side ---

// What a file calls a factor of the scores instead of 1 / sqrt(head_dim).
void set_score_scale(ModelConfig& model, double scale) {
  model.factors["attention_scale"] = scale * std::sqrt(static_cast<double>(head_of(model)));
}

// Gemma's norms weigh by 1 + w, which is as many weights and as much work.
ModelConfig read_gemma(const HfReader& config) {
  ModelConfig model = made_with_groups("decoder", config);
  set(model, "head_dim", config.size_or({"head_dim"}, 256));
  const char* act = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  set(model, "gelu", 1);
  set(model, "erf", one_of(config, act, "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf}) == Act::GeluErf);
  set_attention_bias(model, config, false);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  read_rotation(model, config, 1e-6);
  model.factors["embed_scale"] = std::sqrt(static_cast<double>(model.hidden));
  return model;
}

// Five layers of windows to one without: `layer_types`, or a pattern's length in older files.
ModelConfig read_gemma3(const HfReader& config) {
  if (config.text_or("model_type", "") == "gemma3") {
    require(config.has("text_config"),
            "{}: 'text_config' is missing; it describes the text model of the family gemma3.", config.place());
    return read_gemma3(config.part("text_config"));
  }
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    require(!config.has(cap), "{}: '{}' is given, which is not supported; models of this family without it are.",
            config.place(), cap);
  ModelConfig model = read_gemma(config);
  set(model, "norms", 1);
  set(model, "qk_norm", 1);
  set(model, "window", config.size_or({"sliding_window"}, 4096));
  set(model, "full_every", config.size_or({"sliding_window_pattern"}, 6));
  read_layer_types(model, config);
  set_score_scale(model, 1.0 / std::sqrt(config.positive_or("query_pre_attn_scalar", 256.0)));
  return model;
}

// Phi-1 to Phi-2: side by side behind one norm, biases everywhere.
ModelConfig read_phi(const HfReader& config) {
  config.refuse("qk_layernorm");
  ModelConfig model = made_with_groups("decoder", config);
  set(model, "gelu", 1);
  set_activation(model, config, "hidden_act", "gelu_new", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias", "head_bias", "layer_norm"}) set(model, key, 1);
  set(model, "gated", 0);
  set(model, "parallel", 2);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  return model;
}

ModelConfig read_phi3(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set_rotated_share(model, config, "partial_rotary_factor", 1.0);
  return model;
}

// Falcon-7B has one key and value head and one norm, the larger ones groups and two; side by side in both.
ModelConfig read_falcon(const HfReader& config) {
  config.refuse("alibi");
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 2048);
  ModelConfig model =
      made("decoder", Core{config.size({"num_hidden_layers", "n_layer"}), config.size({"hidden_size"}),
                           config.size({"num_attention_heads", "n_head"}), positions, config.size({"vocab_size"})});
  const bool groups = config.flag_or("new_decoder_architecture", false);
  const bool parallel = groups || config.flag_or("parallel_attn", true);
  const std::int64_t norms = config.size_or({"num_ln_in_parallel_attn"}, groups ? 2 : 1);
  set(model, "intermediate", config.size_or({"ffn_hidden_size"}, 4 * model.hidden));
  const std::int64_t heads = config.size_or({"num_kv_heads", "n_head_kv"}, model.heads);
  set(model, "kv_heads", groups ? heads : config.flag_or("multi_query", true) ? 1 : model.heads);
  set(model, "gelu", 1);
  set_activation(model, config, "activation", "gelu", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias"}) set(model, key, config.flag_or("bias", false));
  set(model, "layer_norm", 1);
  set(model, "gated", 0);
  set(model, "parallel", !parallel ? 0 : norms == 1 ? 2 : 1);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_gptj(const HfReader& config) {
  const std::int64_t positions = config.size({"n_positions", "n_ctx"});
  ModelConfig model = made("decoder", Core{config.size({"n_layer"}), config.size({"n_embd"}), config.size({"n_head"}),
                                           positions, config.size({"vocab_size"})});
  set(model, "intermediate", config.size_or({"n_inner"}, 4 * model.hidden));
  set(model, "gelu", 1);
  set_activation(model, config, "activation_function", "gelu_new", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"mlp_bias", "head_bias", "layer_norm"}) set(model, key, 1);
  set(model, "gated", 0);
  set(model, "parallel", 2);
  set(model, "rotary_dims", config.size_or({"rotary_dim"}, 64));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_granite(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_attention_bias(model, config, false);
  model.factors["embed_scale"] = config.positive_or("embedding_multiplier", 1.0);
  model.factors["residual_scale"] = config.positive_or("residual_multiplier", 1.0);
  model.factors["logit_scale"] = 1.0 / config.positive_or("logits_scaling", 1.0);
  set_score_scale(model, config.positive_or("attention_multiplier", 1.0));
  return model;
}

ModelConfig read_starcoder2(const HfReader& config) {
  ModelConfig model = made_with_groups("decoder", config);
  set(model, "gelu", 1);
  set_activation(model, config, "hidden_act", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias"}) set(model, key, config.flag_or("use_bias", true));
  set(model, "layer_norm", 1);
  set(model, "gated", 0);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_stablelm(const HfReader& config) {
  config.refuse("qk_layernorm");
  ModelConfig model = read_decoder("decoder", config);
  set(model, "qkv_bias", config.flag_or("use_qkv_bias", false));
  set(model, "layer_norm", 1);
  set(model, "parallel", config.flag_or("use_parallel_residual", false) ? 2 : 0);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  set_rotated_share(model, config, "partial_rotary_factor", 0.25);
  return model;
}

// Norms of what attention and feed-forward make, and of all queries and keys at once.
ModelConfig read_olmo2(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "norms", 2);
  set(model, "wide_qk_norm", 1);
  return model;
}

// Every fourth layer has no positions.
ModelConfig read_smollm3(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_attention_bias(model, config, false);
  read_qwen_window(model, config);
  const std::int64_t every = config.size_or({"no_rope_layer_interval"}, 4, 0);
  set(model, "no_rotary_every", every);
  if (!config.has("no_rope_layers")) return model;
  const Json& rotated = config.at("no_rope_layers");  // 1: the layer has positions
  bool as_told = rotated.is_array() && rotated.size() == static_cast<std::size_t>(model.layers);
  for (std::int64_t layer = 0; as_told && layer < model.layers; ++layer)
    as_told = rotated[static_cast<std::size_t>(layer)] == (every == 0 || (layer + 1) % every != 0 ? 1 : 0);
  require(as_told,
          "{}: 'no_rope_layers' are other layers than each 'no_rope_layer_interval'-th, which is not supported.",
          config.place());
  return model;
}

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
}

// GLM-4.5: without its layer for a second token.
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

ModelConfig read_deepseek_v3(const HfReader& config) {
  ModelConfig model = made("deepseek_v3", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  config.refuse("attention_bias");
  expect_text(config, "scoring_func", "sigmoid");
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
  return model;
}

}  // namespace

const std::vector<HfFamily>& hf_families() {
  static const std::vector<HfFamily> all = {
      {"bert", read_bert},
      {"bloom", read_bloom},
      {"deepseek_v3", read_deepseek_v3},
      {"falcon", read_falcon},
      {"gemma", read_gemma},
      {"gemma3", read_gemma3},
      {"gemma3_text", read_gemma3},
      {"glm4_moe", read_glm4_moe},
      {"gpt2", read_gpt2},
      {"gpt_neox", read_gpt_neox},
      {"gpt_oss", read_gpt_oss},
      {"gptj", read_gptj},
      {"granite", read_granite},
      {"kimi_k2", read_deepseek_v3},
      {"llama", read_llama},
      {"llama4", read_llama4},
      {"llama4_text", read_llama4},
      {"mamba2", read_mamba2},
      {"minimax_m2", read_minimax_m2},
      {"mistral", read_mistral},
      {"mixtral", read_mixtral},
      {"nemotron_h", read_nemotron_h},
      {"olmo2", read_olmo2},
      {"opt", read_opt},
      {"phi", read_phi},
      {"phi3", read_phi3},
      {"qwen2", read_qwen2},
      {"qwen3", read_qwen3},
      {"qwen3_5", read_qwen3_next},
      {"qwen3_5_moe", read_qwen3_next},
      {"qwen3_5_moe_text", read_qwen3_next},
      {"qwen3_5_text", read_qwen3_next},
      {"qwen3_moe", read_qwen3_moe},
      {"qwen3_next", read_qwen3_next},
      {"smollm3", read_smollm3},
      {"stablelm", read_stablelm},
      {"starcoder2", read_starcoder2},
      {"t5", read_t5},
  };
  return all;
}

}  // namespace meshwright
