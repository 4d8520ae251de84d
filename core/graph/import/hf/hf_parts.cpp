// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/hf_parts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright::hf {

Act activation_from(const HfReader& config, const char* key, const std::string& name) {
  if (name == "relu") return Act::Relu;
  if (name == "relu2") return Act::ReluSquared;
  if (name == "silu" || name == "swish") return Act::Silu;
  if (name == "gelu" || name == "gelu_python") return Act::GeluErf;
  for (const char* gelu : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == gelu) return Act::Gelu;
  throw InputError(fmt::format("{}: '{}' is \"{}\", which is not supported; relu, relu2, gelu and silu are.",
                               config.place(), key, name));
}

Act one_of(const HfReader& config, const char* key, const char* otherwise, std::initializer_list<Act> supported) {
  const std::string name = config.text_or(key, otherwise);
  const Act act = activation_from(config, key, name);
  require(std::find(supported.begin(), supported.end(), act) != supported.end(),
          "{}: '{}' is \"{}\", which this family is not built with; it is with \"{}\".", config.place(), key, name,
          otherwise);
  return act;
}

ModelConfig made(const char* family, const Core& core) {
  return {.name = "",
          .family = family,
          .layers = core.layers,
          .hidden = core.hidden,
          .heads = core.heads,
          .seq = std::min(core.positions, kLongestSequence),
          .vocab = core.vocab};
}

ModelConfig made(const char* family, const HfReader& config) {
  return made(family, Core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}),
                           config.size({"num_attention_heads"}), config.size({"max_position_embeddings"}),
                           config.size({"vocab_size"})});
}

void set(ModelConfig& model, const char* key, std::int64_t value) { model.more[key] = value; }

Act set_activation(ModelConfig& model, const HfReader& config, const char* key, const char* otherwise,
                   std::initializer_list<Act> supported) {
  const Act act = one_of(config, key, otherwise, supported);
  set(model, "erf", act == Act::GeluErf);
  return act;
}

void expect_tied(const HfReader& config) {
  require(config.flag_or("tie_word_embeddings", true),
          "{}: 'tie_word_embeddings' is false, which is not supported; true is.", config.place());
}

void expect_text(const HfReader& config, const char* key, const char* only) {
  const std::string text = config.text_or(key, only);
  require(text == only, "{}: '{}' is \"{}\", which is not supported; \"{}\" is.", config.place(), key, text, only);
}

std::optional<HfReader> text_part(const HfReader& config, const std::string& family) {
  if (config.text_or("model_type", "") != family) return std::nullopt;
  require(config.has("text_config"), "{}: 'text_config' is missing; it describes the text model of the family {}.",
          config.place(), family);
  return config.part("text_config");
}

std::optional<ModelConfig> read_text_part(const HfReader& config, const std::string& family,
                                          ModelConfig (*read)(const HfReader&)) {
  const auto text = text_part(config, family);
  if (!text) return std::nullopt;
  ModelConfig model = read(*text);
  set_tied_by_whole(model, config);
  return model;
}

void set_tied_by_whole(ModelConfig& model, const HfReader& config) {
  constexpr const char* kKey = "tie_word_embeddings";
  constexpr std::array kOfEither = {
      "fast_vlm",        "glm4v",         "glm_ocr",      "hunyuan_vl", "llava",    "llava_next_video",
      "llava_onevision", "minimax_m3_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl", "shieldgemma2"};
  constexpr std::array kOfNone = {"audioflamingo3", "cosmos3_edge",  "musicflamingo", "omniasr",
                                  "qwen2_audio",    "vibevoice_asr", "voxtral"};
  const std::string type = config.text_or("model_type", "");
  const auto is_of = [&](const auto& types) { return std::find(types.begin(), types.end(), type) != types.end(); };
  const auto own = model.more.find("tied");
  const bool is_said = config.has(kKey);
  if (own != model.more.end() && is_of(kOfNone)) {
    own->second = 0;
  } else if (is_said) {
    const bool tied = config.flag_or(kKey, false);
    require(own != model.more.end() || tied, "{}: '{}' is false, which is not supported for this family; true is.",
            config.place(), kKey);
    if (own != model.more.end()) own->second = tied || (is_of(kOfEither) && own->second == 1);
  }
}

// Windows in which no token sees all others; `attention_window` counts the keys of both sides.
void read_attention_window(ModelConfig& model, const HfReader& config, const char* key) {
  std::int64_t both = 512;
  if (config.has("attention_window") && config.at("attention_window").is_array()) {
    const Json& windows = config.at("attention_window");
    const bool equal = !windows.empty() && std::all_of(windows.begin(), windows.end(), [&](const Json& window) {
      return window.is_number_integer() && window == windows.front() && window > 1 && window < 1'000'000;
    });
    require(equal && static_cast<std::int64_t>(windows.size()) == model.layers,
            "{}: 'attention_window' must be one number, or the same for each of the {} layers.", config.place(),
            model.layers);
    both = windows.front().get<std::int64_t>();
  } else {
    both = config.size_or({"attention_window"}, both, 2);
  }
  require(both % 2 == 0, "{}: 'attention_window' is {}, of which the two sides of a token would not have as many.",
          config.place(), both);
  set(model, key, both / 2 + 1);
  set(model, "unused_projections", 1);
}

std::int64_t head_of(const ModelConfig& model) {
  const auto given = model.more.find("head_dim");
  return given != model.more.end() ? given->second : model.hidden / model.heads;
}

void set_rotated_share(ModelConfig& model, const HfReader& config, const char* key, double otherwise) {
  double share = config.positive_or(key, otherwise);
  // Where transformers 5 writes it, whatever the family calls it.
  if (!config.has(key) && config.has("rope_parameters"))
    share = config.part("rope_parameters").positive_or("partial_rotary_factor", share);
  share = std::min(1.0, share);
  set(model, "rotary_dims", static_cast<std::int64_t>(share * static_cast<double>(head_of(model))));
}

void set_epsilon(ModelConfig& model, const HfReader& config, const char* key, double otherwise) {
  model.factors["epsilon"] = config.positive_or(key, otherwise);
}

void set_score_scale(ModelConfig& model, double scale) {
  model.factors["attention_scale"] = scale * std::sqrt(static_cast<double>(head_of(model)));
}

void set_granite_factors(ModelConfig& model, const HfReader& config) {
  model.factors["embed_scale"] = config.positive_or("embedding_multiplier", 1.0);
  model.factors["residual_scale"] = config.positive_or("residual_multiplier", 1.0);
  model.factors["logit_scale"] = 1.0 / config.positive_or("logits_scaling", 1.0);
  set_score_scale(model, config.positive_or("attention_multiplier", 1.0));
}

void set_rotary_base(ModelConfig& model, const HfReader& config, const char* key) {
  model.rotary_scaling = read_rotary_scaling(model, config);
  double base = config.positive_or(key, 10000.0);
  if (config.has(key) || !config.has("rope_parameters")) {
    model.factors["rotary_base"] = base;
    return;
  }
  const HfReader rotation = config.part("rope_parameters");
  base = rotation.positive_or("rope_theta", base);
  // Where layers with windows have a base of their own, all kinds of layers have an object each.
  const auto of_kind = [&](const char* kind, double otherwise) {
    return rotation.has(kind) ? rotation.part(kind).positive_or("rope_theta", otherwise) : otherwise;
  };
  const double full = of_kind("full_attention", base), windowed = of_kind("sliding_attention", full);
  model.factors["rotary_base"] = full;
  if (windowed == full) return;
  require(
      model.family == "decoder" || model.family == "decoder_moe",
      "{}: 'rope_parameters' rotate layers with windows by another base ({:g}) than the others ({:g}), which is not "
      "supported for this family.",
      config.place(), windowed, full);
  model.factors["window_rotary_base"] = windowed;
}

Rotation rotation_of(const HfReader* rotations, const char* kind, Rotation otherwise) {
  if (rotations == nullptr || !rotations->has(kind)) return otherwise;
  const HfReader rotation = rotations->part(kind);
  const std::string type = rotation.text_or("rope_type", otherwise.share < 1.0 ? "proportional" : "default");
  require(type == "default" || type == "proportional",
          "{}: 'rope_type' is \"{}\", which is not supported; \"default\" and \"proportional\" are.", rotation.place(),
          type);
  require(rotation.positive_or("factor", 1.0) == 1.0, "{}: 'factor' is not 1, which alone is supported.",
          rotation.place());
  const double share = rotation.positive_or("partial_rotary_factor", 1.0);
  return {rotation.positive_or("rope_theta", otherwise.base), type == "default" ? 1.0 : std::min(1.0, share)};
}

void read_rotation(ModelConfig& model, const HfReader& config, double epsilon) {
  set_rotary_base(model, config, "rope_theta");
  set_epsilon(model, config, "rms_norm_eps", epsilon);
}

ModelConfig made_with_groups(const char* family, const HfReader& config) {
  ModelConfig model = made(family, config);
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, model.heads));
  return model;
}

ModelConfig read_decoder(const char* family, const HfReader& config, double epsilon) {
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

namespace {

// Windows from layer `first` on, but in every period-th of these, as if `shift` more were in front of them.
struct WindowOrder {
  std::int64_t first, period, shift;
};
std::optional<WindowOrder> window_order(const std::vector<bool>& windowed) {
  const auto layers = static_cast<std::int64_t>(windowed.size());
  const auto first = std::find(windowed.begin(), windowed.end(), true) - windowed.begin();
  const auto full = std::find(windowed.begin() + first, windowed.end(), false) - windowed.begin();
  // As many layers lie from one without a window to the next as in front of the first, or more.
  const auto next = full < layers ? std::find(windowed.begin() + full + 1, windowed.end(), false) : windowed.end();
  const std::int64_t before = full - first + 1;
  const std::int64_t period = full >= layers ? 0 : next == windowed.end() ? before : next - windowed.begin() - full;
  const std::int64_t shift = std::max<std::int64_t>(0, period - before);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool expected = layer >= first && (period == 0 || (layer - first + 1 + shift) % period != 0);
    if (windowed[static_cast<std::size_t>(layer)] != expected) return std::nullopt;
  }
  return WindowOrder{first, period, shift};
}

}  // namespace

void set_windowed_layers(ModelConfig& model, const std::vector<bool>& windowed, const std::string& where) {
  std::optional<WindowOrder> order = window_order(windowed);
  if (!order && model.family == "decoder_moe" && !windowed.back()) {  // the last layer may follow no order
    std::vector<bool> others = windowed;
    others.back() = true;
    order = window_order(others);
    set(model, "full_last", order.has_value());
  }
  require(order.has_value(),
          "{} follow no order that is supported; windows from some layer on, in all of these or in all but every "
          "n-th, are.",
          where);
  const auto [first, period, shift] = *order;
  // Families of which no model needs it lack the key.
  require(shift == 0 || model.family == "decoder_moe",
          "{} follow no order that is supported for this family: the first layer without a window behind others comes "
          "sooner than the next ones.",
          where);
  if (shift > 0) set(model, "full_shift", shift);
  set(model, "first_window_layer", first);
  set(model, "full_every", period);
}

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
            config.place(), brief(type));
    windowed.push_back(type == "sliding_attention");
  }
  set_windowed_layers(model, windowed, config.place() + ": 'layer_types'");
}

void read_no_rotary(ModelConfig& model, const HfReader& config, std::int64_t otherwise) {
  std::int64_t every = config.size_or({"no_rope_layer_interval"}, otherwise, 0);
  if (config.has("no_rope_layers") &&
      !(config.at("no_rope_layers").is_array() && config.at("no_rope_layers").empty())) {
    const Json& rotated = config.at("no_rope_layers");  // 1: the layer has positions
    bool as_told = rotated.is_array() && rotated.size() == static_cast<std::size_t>(model.layers);
    std::int64_t first = 0;
    while (as_told && first < model.layers && rotated[static_cast<std::size_t>(first)] == 1) ++first;
    every = first < model.layers ? first + 1 : 0;
    for (std::int64_t layer = 0; as_told && layer < model.layers; ++layer)
      as_told = rotated[static_cast<std::size_t>(layer)] == (every == 0 || (layer + 1) % every != 0 ? 1 : 0);
    require(as_told,
            "{}: 'no_rope_layers' is no list of {} numbers of which each n-th is 0 and all others are 1, which alone "
            "is supported.",
            config.place(), model.layers);
  }
  set(model, "no_rotary_every", every);
}

void read_qwen_window(ModelConfig& model, const HfReader& config) {
  if (!config.flag_or("use_sliding_window", false)) {
    (void)config.has("sliding_window");
    expect_layers(config, "layer_types", model.layers, 0, "", "full_attention");
    return;
  }
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "first_window_layer", config.size_or({"max_window_layers"}, 0, 0));
  read_layer_types(model, config);
}

ModelConfig read_qwen3_decoder(const char* family, const HfReader& config) {
  ModelConfig model = read_decoder(family, config);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", 1);
  read_qwen_window(model, config);
  return model;
}

// --- layers of several kinds ---

void expect_layers(const HfReader& config, const char* key, std::int64_t layers, std::int64_t first,
                   const std::string& begin, const std::string& rest) {
  if (!config.has(key)) return;
  const Json& types = config.at(key);
  bool expected = types.is_array() && types.size() == static_cast<std::size_t>(layers);
  for (std::int64_t layer = 0; expected && layer < layers; ++layer)
    expected = types[static_cast<std::size_t>(layer)] == (layer < first ? begin : rest);
  require(expected, "{}: '{}' is another list than \"{}\" for each of the {} layers{}, which is not supported.",
          config.place(), key, rest, layers, first == 0 ? "" : fmt::format(" behind {} of \"{}\"", first, begin));
}

std::int64_t first_entries(const HfReader& config, const char* key, std::int64_t layers, const Json& first,
                           const Json& rest) {
  const Json& list = config.at(key);
  require(list.is_array() && list.size() == static_cast<std::size_t>(layers),
          "{}: '{}' must be a list with one entry for each of the {} layers.", config.place(), key, layers);
  const auto at = std::find_if(list.begin(), list.end(), [&](const Json& entry) { return entry != first; });
  require(std::all_of(at, list.end(), [&](const Json& entry) { return entry == rest; }),
          "{}: '{}' is another list than some entries {} and then {}, which is not supported.", config.place(), key,
          brief(first), brief(rest));
  return at - list.begin();
}

void read_dense_layers(ModelConfig& model, const HfReader& config, std::int64_t otherwise) {
  std::int64_t dense = config.size_or({"first_k_dense_replace"}, otherwise, 0);
  if (!config.has("first_k_dense_replace") && config.has("mlp_layer_types")) {
    const Json& types = config.at("mlp_layer_types");
    const auto is_dense = [](const Json& type) { return type == "dense"; };
    dense = types.is_array() ? std::find_if_not(types.begin(), types.end(), is_dense) - types.begin() : 0;
  }
  expect_layers(config, "mlp_layer_types", model.layers, std::min(model.layers, dense), "dense", "sparse");
  set(model, "dense_layers", dense);
}

void read_windows(ModelConfig& model, const HfReader& config, std::int64_t window, std::int64_t full_every) {
  set(model, "window", window);
  if (window == 0) return;
  set(model, "full_every", full_every);
  read_layer_types(model, config);
}

void set_qkv_bound(ModelConfig& model, const HfReader& config) {
  set(model, "bounded_qkv", config.has("clip_qkv"));
  if (config.has("clip_qkv")) model.factors["qkv_bound"] = config.positive_or("clip_qkv", 8.0);
}

void set_all_biases(ModelConfig& model, bool bias) {
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias"}) set(model, key, bias);
}

// --- experts ---

void set_experts(ModelConfig& model, std::int64_t experts, std::int64_t top_k, std::int64_t width) {
  set(model, "experts", experts);
  set(model, "top_k", top_k);
  set(model, "expert_intermediate", width);
}

void read_routed_experts(ModelConfig& model, const HfReader& config, std::int64_t usual) {
  set(model, "experts", config.size({"n_routed_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  const std::int64_t expert = config.size({"moe_intermediate_size"});
  set(model, "expert_intermediate", expert);
  set(model, "shared_intermediate", expert * config.size_or({"n_shared_experts"}, usual, 0));
  read_dense_layers(model, config, usual);
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
  set(model, "mtp", config.size_or({"num_nextn_predict_layers"}, 0, 0));
}

}  // namespace meshwright::hf
