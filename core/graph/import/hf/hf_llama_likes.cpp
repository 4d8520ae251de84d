// SPDX-License-Identifier: Apache-2.0
// Decoders that differ from Llama's or from the mixtures' by a member or two: biases, norms, factors, windows, experts.
#include <cmath>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

// --- dense ---

ModelConfig read_granite(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_attention_bias(model, config, false);
  set_granite_factors(model, config);
  return model;
}

namespace {

// A base of the rotation for each layer; 0: it has no positions. Layers with windows have one, the others another.
void read_layer_bases(ModelConfig& model, const HfReader& config) {
  if (!config.has("layer_rope_theta")) return;
  const Json& bases = config.at("layer_rope_theta");
  require(bases.is_array() && bases.size() == static_cast<std::size_t>(model.layers),
          "{}: 'layer_rope_theta' must be a list of one number for each of the {} layers.", config.place(),
          model.layers);
  const std::int64_t first = model.more["first_window_layer"], every = model.more["full_every"];
  std::optional<double> windowed, full;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool window = model.more["window"] > 0 && layer >= first && (every == 0 || (layer - first + 1) % every != 0);
    const Json& base = bases[static_cast<std::size_t>(layer)];
    std::optional<double>& of_kind = window ? windowed : full;
    const bool fits = base.is_number() && base.get<double>() >= 0.0 && (!window || base.get<double>() > 0.0) &&
                      of_kind.value_or(base.get<double>()) == base.get<double>();
    require(fits,
            "{}: 'layer_rope_theta' has {} for layer {}, which is not supported; one base for all layers with windows "
            "and one, or 0, for all others are.",
            config.place(), brief(base), layer);
    of_kind = base.get<double>();
  }
  const double base = full.value_or(0.0) > 0.0 ? *full : windowed.value_or(0.0);
  require(base > 0.0, "{}: 'layer_rope_theta' is 0 for all layers, which is not supported; give some a base.",
          config.place());
  model.factors["rotary_base"] = base;
  if (windowed && *windowed != base) model.factors["window_rotary_base"] = *windowed;
  set(model, "rotary_windows_alone", full == 0.0);
}

}  // namespace

// Granite with sinks, and windows in all layers but every fourth, the first among these.
ModelConfig read_granite_swa(const HfReader& config) {
  const bool experts = config.text_or("model_type", "") == "granitemoe_swa";
  ModelConfig model = experts ? read_granitemoe(config) : read_granite(config);
  if (!experts && !config.has("rms_norm_eps")) model.factors["epsilon"] = 1e-5;
  set(model, "tied", config.flag_or("tie_word_embeddings", !experts));
  set(model, "sinks", 1);
  set(model, "window", config.size_or({"sliding_window"}, 128));
  set(model, "first_window_layer", 1);
  set(model, "full_every", 4);
  read_layer_types(model, config);
  read_layer_bases(model, config);
  return model;
}

// Layers with and without windows, as `layer_types` lists them.
ModelConfig read_ministral(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  read_windows(model, config, config.size_or({"sliding_window"}, 0), 0);
  return model;
}

namespace {

// Scores grow with the positions of queries.
ModelConfig read_growing_scores(const HfReader& config) {
  if (!config.has("rope_parameters")) return read_mistral(config);
  const HfReader rotation = config.part("rope_parameters");
  if (!rotation.has("llama_4_scaling_beta")) return read_mistral(config);
  ModelConfig model = read_decoder("decoder", config);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "temperature_every", rotation.size({"original_max_position_embeddings"}));
  set(model, "temperature_first", 0);
  set(model, "temper_rotated", 1);
  model.factors["temperature"] = rotation.positive_or("llama_4_scaling_beta", 0.1);
  return model;
}

}  // namespace

ModelConfig read_mistral3(const HfReader& config) {
  if (const auto text = text_part(config, "mistral3")) {
    const std::string kind = text->text_or("model_type", "mistral");
    require(kind == "mistral" || kind == "ministral3",
            "{}: 'text_config' is of the family {}, which is not supported; mistral and ministral3 are.",
            config.place(), kind);
    return *read_text_part(config, "mistral3", read_growing_scores);
  }
  return read_growing_scores(config);
}

// Three layers with windows, then one without.
ModelConfig read_olmo3(const HfReader& config) {
  ModelConfig model = read_olmo2(config);
  read_windows(model, config, config.size_or({"sliding_window"}, 4096), 4);
  scale_full_attention_alone(model, config);
  return model;
}

ModelConfig read_seed_oss(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set(model, "qkv_bias", config.flag_or("attention_bias", true));
  set(model, "out_bias", config.flag_or("attention_out_bias", false));
  return model;
}

ModelConfig read_ernie4_5(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config, 1e-5);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set_all_biases(model, config.flag_or("use_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// GLM-4 and, with norms of what attention and feed-forward make, GLM-4-0414. Half of each head is rotated.
ModelConfig read_glm(const HfReader& config) {
  const std::string type = config.text_or("model_type", "glm");
  const bool later = type != "glm";
  ModelConfig model = read_decoder("decoder", config, later ? 1e-5 : 1.5625e-7);
  if (!config.has("head_dim") && (type == "glm" || type == "glm4")) set(model, "head_dim", 128);
  set(model, "qkv_bias", type == "glm4v_text" || config.flag_or("attention_bias", false));
  set(model, "norms", later ? 1 : 0);
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  return model;
}

// Norms of what attention and feed-forward make, and of each query and key. Where layers have windows, the others have
// no positions.
ModelConfig read_exaone4(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set(model, "norms", 2);
  set(model, "qk_norm", 1);
  // A number n, or letters: "LLLG" is 4.
  const bool letters = config.has("sliding_window_pattern") && config.at("sliding_window_pattern").is_string();
  const std::int64_t pattern = letters ? static_cast<std::int64_t>(config.text_or("sliding_window_pattern", "").size())
                                       : config.size_or({"sliding_window_pattern"}, 4);
  read_windows(model, config, config.size_or({"sliding_window"}, 0), pattern);
  if (model.more["window"] > 0) set(model, "no_rotary_every", model.more["full_every"]);
  return model;
}

// InternLM 1 and 2 have one member for all biases of attention, as openPangu has, InternLM 3 one more for queries, keys
// and values.
ModelConfig read_internlm(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  const std::string type = config.text_or("model_type", "internlm2");
  // transformers 5 calls them as Llama does.
  const bool bias = config.flag_or(config.has("bias") ? "bias" : "mlp_bias", type == "internlm");
  for (const char* key : {"qkv_bias", "out_bias"}) set(model, key, bias);
  if (type != "internlm3") return model;
  set(model, "qkv_bias", config.flag_or(config.has("qkv_bias") ? "qkv_bias" : "attention_bias", bias));
  if (config.has("attention_bias")) set(model, "out_bias", config.flag_or("attention_bias", bias));
  set(model, "mlp_bias", bias);
  return model;
}

// The residual's factor is divided by the root of the layers; logits by the hidden size over `dim_model_base`.
ModelConfig read_minicpm(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-6);
  set_attention_bias(model, config, false);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  model.factors["embed_scale"] = config.positive_or("scale_emb", 1.0);
  model.factors["residual_scale"] =
      config.positive_or("scale_depth", 1.0) / std::sqrt(static_cast<double>(model.layers));
  model.factors["logit_scale"] =
      static_cast<double>(config.size_or({"dim_model_base"}, 1)) / static_cast<double>(model.hidden);
  return model;
}

// Norms of queries and keys behind their rotation.
ModelConfig read_hunyuan_dense(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", config.flag_or("use_qk_norm", true));
  set(model, "qk_norm_rotated", 1);
  return model;
}

// The first layer of four sees all keys.
ModelConfig read_cwm(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config, 1e-5);
  read_windows(model, config, config.size_or({"sliding_window"}, 8192), 4);
  if (model.more["window"] > 0 && !config.has("layer_types")) set(model, "first_window_layer", 1);
  return model;
}

ModelConfig read_helium(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config, 1e-8);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set(model, "qkv_bias", config.flag_or("attention_bias", false));
  require(model.heads * model.more["head_dim"] == model.hidden,
          "{}: {} heads of 'head_dim' {} are not as wide as 'hidden_size' {}, which is not supported for this family.",
          config.place(), model.heads, model.more["head_dim"], model.hidden);
  return model;
}

// EXAONE 3, whose publisher's files call some members otherwise.
ModelConfig read_exaone(const HfReader& config) {
  ModelConfig model = made("llama", Core{config.size({"num_hidden_layers", "num_layers"}), config.size({"hidden_size"}),
                                         config.size({"num_attention_heads"}), config.size({"max_position_embeddings"}),
                                         config.size({"vocab_size"})});
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, model.heads));
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  (void)one_of(config, config.has("activation_function") ? "activation_function" : "hidden_act", "silu", {Act::Silu});
  set_attention_bias(model, config, false);
  set(model, "mlp_bias", config.flag_or("mlp_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set_rotary_base(model, config, "rope_theta");
  set_epsilon(model, config, config.has("layer_norm_epsilon") ? "layer_norm_epsilon" : "rms_norm_eps", 1e-5);
  return model;
}

// Granite's factors, of which that of the logits multiplies, and norms of what attention and feed-forward make.
ModelConfig read_hyperclovax(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_attention_bias(model, config, false);
  set_granite_factors(model, config);
  if (!config.has("attention_multiplier")) model.factors["attention_scale"] = 1.0;
  model.factors["logit_scale"] = config.positive_or("logits_scaling", 1.0);
  set(model, "norms", config.flag_or("use_post_norm", false) ? 1 : 0);
  return model;
}

ModelConfig read_qwen3_vl(const HfReader& config) {
  if (auto text = read_text_part(config, "qwen3_vl", read_qwen3)) return *std::move(text);
  return read_qwen3(config);
}

// Qwen2-VL and Qwen2.5-VL: publishers' files have the text model's members among the others.
ModelConfig read_qwen2_vl(const HfReader& config) {
  if (config.has("text_config")) return *read_text_part(config, config.text_or("model_type", ""), read_qwen2);
  (void)config.has("vision_config");
  return read_qwen2(config);
}

// Llama where every query sees every key.
ModelConfig read_eurobert(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "head_bias", config.flag_or("mlp_bias", false));
  set(model, "causal", 0);
  return model;
}

// --- with experts ---

// A softmax over the chosen experts' scores alone is that over all, normalised.
ModelConfig read_granitemoe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  set_granite_factors(model, config);
  set_experts(model, config.size({"num_local_experts"}), config.size({"num_experts_per_tok"}),
              config.size({"intermediate_size"}));
  set(model, "shared_intermediate", config.size_or({"shared_intermediate_size"}, 0, 0));
  return model;
}

}  // namespace meshwright::hf
