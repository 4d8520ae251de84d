// SPDX-License-Identifier: Apache-2.0
// Gemma: a scaled embedding, norms of what attention and feed-forward make, windows in most layers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

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

// A window in every other layer, norms of what attention and feed-forward make, capped scores and logits.
ModelConfig read_gemma2(const HfReader& config) {
  ModelConfig model = read_gemma(config);
  set(model, "norms", config.text_or("model_type", "gemma2") == "gemma2" ? 1 : 0);  // VaultGemma has none of these
  read_windows(model, config, config.size_or({"sliding_window"}, 4096), 2);
  set_score_scale(model, 1.0 / std::sqrt(config.positive_or("query_pre_attn_scalar", 256.0)));
  set(model, "capped", config.has("final_logit_softcapping"));
  model.factors["logit_cap"] = config.positive_or("final_logit_softcapping", 30.0);
  set(model, "capped_scores", config.has("attn_logit_softcapping"));
  model.factors["score_cap"] = config.positive_or("attn_logit_softcapping", 50.0);
  return model;
}

// An encoder and a decoder of Gemma 2's layers, with a word table each, of which the decoder's is the head's. Both are
// of one size but for their numbers of layers.
ModelConfig read_t5gemma(const HfReader& config) {
  for (const char* part : {"encoder", "decoder"})
    require(config.has(part), "{}: '{}' is missing; it describes one of the two stacks of layers.", config.place(),
            part);
  const HfReader of_encoder = config.part("encoder"), of_decoder = config.part("decoder");
  ModelConfig encoder = read_gemma2(of_encoder), model = read_gemma2(of_decoder);
  for (const HfReader& part : {of_encoder, of_decoder}) (void)part.has("is_decoder");
  const std::int64_t layers = encoder.layers;
  require(of_decoder.size_or({"cross_attention_hidden_size"}, encoder.hidden) == encoder.hidden,
          "{}: 'cross_attention_hidden_size' of the decoder is not 'hidden_size' of the encoder; check them.",
          config.place());
  encoder.layers = model.layers;
  encoder.more["tied"] = model.more["tied"];  // it has no head
  require(
      encoder.hidden == model.hidden && encoder.heads == model.heads,
      "{}: the encoder is {} wide with {} heads, and the decoder {} with {}, which is not supported; equal ones are.",
      config.place(), encoder.hidden, encoder.heads, model.hidden, model.heads);
  encoder.factors["logit_cap"] = model.factors["logit_cap"];
  encoder.more["capped"] = model.more["capped"];
  for (const auto& [key, value] : model.more)
    require(encoder.more[key] == value,
            "{}: encoder and decoder differ ('{}' is {} and {}), which is not supported but for their layers.",
            config.place(), key, encoder.more[key], value);
  require(encoder == model,
          "{}: encoder and decoder differ in more than their numbers of layers, which is not supported.",
          config.place());
  require(config.size_or({"vocab_size"}, model.vocab) == model.vocab,
          "{}: 'vocab_size' is {}, but that of the decoder {}; check them.", config.place(),
          config.size_or({"vocab_size"}, 1), model.vocab);
  set(model, "norms", 1);
  set(model, "encoder_layers", layers);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// Five layers of windows to one without: `layer_types`, or a pattern's length in older files.
ModelConfig read_gemma3(const HfReader& config) {
  if (auto text = read_text_part(config, "gemma3", read_gemma3)) return *std::move(text);
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
  if (config.has("rope_local_base_freq"))
    model.factors["window_rotary_base"] = config.positive_or("rope_local_base_freq", 10000.0);
  scale_full_attention_alone(model, config);
  if (config.has("rope_theta") || config.has("rope_parameters")) return model;
  model.factors["rotary_base"] = 1e6;
  model.factors["window_rotary_base"] = config.positive_or("rope_local_base_freq", 10000.0);
  return model;
}

namespace {

struct FullHeads {
  std::int64_t kv_heads, head_dim;
};
// What the layers without windows have instead of the model's own, as transformers 5.24 writes it: an object of the
// members that differ for each of these layers, by its number.
FullHeads heads_by_layer(const ModelConfig& model, const HfReader& config) {
  const std::int64_t every = model.more.at("full_every");
  const HfReader layers = config.part("per_layer_config");
  FullHeads heads{model.more.at("kv_heads"), model.more.at("head_dim")};
  bool first = true;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    // transformers writes all numbers as wide as the last.
    const std::string plain = fmt::format("{}", layer);
    const std::string wide = fmt::format("{:0{}}", layer, fmt::format("{}", model.layers - 1).size());
    const std::string& key = layers.has(plain.c_str()) ? plain : wide;
    FullHeads own{model.more.at("kv_heads"), model.more.at("head_dim")};
    if (layers.has(key.c_str())) {
      const HfReader part = layers.part(key.c_str());
      own = {part.size_or({"num_key_value_heads"}, own.kv_heads), part.size_or({"head_dim"}, own.head_dim)};
      const std::vector<std::string> others = part.unread();
      require(others.empty(), "{}: '{}' is not supported; 'head_dim' and 'num_key_value_heads' are.", part.place(),
              others.empty() ? "" : others.front());
    }
    const bool full = every > 0 && (layer + 1) % every == 0;
    const FullHeads expected = full && !first ? heads
                               : full         ? own
                                              : FullHeads{model.more.at("kv_heads"), model.more.at("head_dim")};
    require(own.kv_heads == expected.kv_heads && own.head_dim == expected.head_dim,
            "{}: 'per_layer_config' gives layer {} other heads than the layers of its kind have, which is not "
            "supported.",
            config.place(), layer);
    if (full) {
      heads = own;
      first = false;
    }
  }
  return heads;
}

}  // namespace

// Layers without windows have wider heads, and may have keys that are values too.
ModelConfig read_gemma4(const HfReader& config) {
  for (const char* whole : {"gemma4", "gemma4_unified"})
    if (auto text = read_text_part(config, whole, read_gemma4)) return *std::move(text);
  const bool unified = config.text_or("model_type", "") == "gemma4_unified_text";
  const std::string both_ways = config.text_or("use_bidirectional_attention", "vision");
  require(both_ways == "vision",
          "{}: 'use_bidirectional_attention' is \"{}\", which is not supported; \"vision\" and null are.",
          config.place(), both_ways);
  ModelConfig model = made_with_groups("gemma4", config);
  set(model, "head_dim", config.size_or({"head_dim"}, 256));
  set(model, "erf",
      one_of(config, "hidden_activation", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf}) == Act::GeluErf);
  set_attention_bias(model, config, false);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set(model, "window", config.size_or({"sliding_window"}, unified ? 1024 : 512));
  set(model, "full_every", 6);
  if (config.has("layer_types")) {
    read_layer_types(model, config);
    const std::int64_t first = model.more["first_window_layer"];
    require(first == 0 || first == model.layers,
            "{}: 'layer_types' has no windows in its first layers, which is not supported for this family.",
            config.place());
    // Without any window, every layer sees all keys.
    if (first == model.layers) set(model, "full_every", 1);
    model.more.erase("first_window_layer");
  }
  require(model.layers % model.more["full_every"] == 0,
          "{}: the last of its {} layers has a window, which is not supported for this family; one without is.",
          config.place(), model.layers);
  const bool tied_keys = config.flag_or("attention_k_eq_v", false);
  const std::int64_t full_keys = config.size_or({"num_global_key_value_heads"}, model.more["kv_heads"]);
  set(model, "kv_tied", tied_keys);
  set(model, "full_kv_heads", tied_keys ? full_keys : model.more["kv_heads"]);
  set(model, "full_head_dim", config.size_or({"global_head_dim"}, 512));
  if (config.has("per_layer_config")) {
    const FullHeads full = heads_by_layer(model, config);
    set(model, "full_kv_heads", full.kv_heads);
    set(model, "full_head_dim", full.head_dim);
  }
  const std::optional<HfReader> rotations =
      config.has("rope_parameters") ? std::optional(config.part("rope_parameters")) : std::nullopt;
  const HfReader* by_kind = rotations ? &*rotations : nullptr;
  const Rotation windowed = rotation_of(by_kind, "sliding_attention", {10000.0, 1.0}),
                 full = rotation_of(by_kind, "full_attention", {1e6, 0.25});
  require(windowed.share == 1.0,
          "{}: 'rope_parameters' rotate a part of the heads with windows, which is not supported; all of each is.",
          config.place());
  model.factors["rotary_base"] = windowed.base;
  const auto width = static_cast<double>(model.more["full_head_dim"]);
  const std::int64_t turned = static_cast<std::int64_t>(full.share * width / 2) * 2;
  require(turned > 0, "{}: 'partial_rotary_factor' is {:g}, which turns no dimension of heads of {}; give more.",
          config.place(), full.share, width);
  set(model, "full_rotary_dims", turned);
  // Dimension j of those that turn has the angle base^(-2 j / width), as if these were a head of another base.
  model.factors["full_rotary_base"] = std::pow(full.base, static_cast<double>(turned) / width);
  set_epsilon(model, config, "rms_norm_eps", 1e-6);
  set(model, "capped", config.has("final_logit_softcapping"));
  model.factors["logit_cap"] = config.positive_or("final_logit_softcapping", 30.0);
  set(model, "layer_factor", 1);
  set(model, "shared_layers", config.size_or({"num_kv_shared_layers"}, 0, 0));
  set(model, "wide_shared", config.flag_or("use_double_wide_mlp", false));
  set(model, "layer_embed", config.size_or({"hidden_size_per_layer_input"}, unified ? 0 : 256, 0));
  set(model, "layer_vocab", config.size_or({"vocab_size_per_layer_input"}, 262144));
  if (config.flag_or("enable_moe_block", false)) {
    set(model, "experts", config.size({"num_experts"}));
    set(model, "top_k", config.size({"top_k_experts"}));
    set(model, "expert_intermediate", config.size({"moe_intermediate_size"}));
  }
  return model;
}

namespace {

// x of which the share `below` of a standard normal distribution is less.
double normal_quantile(double below) {
  double low = -40.0, high = 40.0;
  constexpr int kHalvings = 200;  // until the bounds are neighbours
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle * std::sqrt(0.5)) < below ? low : high) = middle;
  }
  return high;
}

// The first layers activate what sticks out of their gates; the share that does not is one number for all of them.
void read_activation_sparsity(ModelConfig& model, const HfReader& config) {
  constexpr std::int64_t kUsual = 10;
  constexpr double kUsualShare = 0.95;
  std::int64_t layers = model.layers > kUsual ? kUsual : 0;
  double share = kUsualShare;
  if (config.has("activation_sparsity_pattern")) {
    const Json& pattern = config.at("activation_sparsity_pattern");
    bool fits = pattern.is_array() && static_cast<std::int64_t>(pattern.size()) == model.layers;
    for (const Json& one : pattern) fits = fits && one.is_number() && one >= 0.0 && one < 1.0;
    layers = 0;
    for (std::int64_t layer = 0; fits && layer < model.layers; ++layer) {
      const double one = pattern[static_cast<std::size_t>(layer)].get<double>();
      if (layer == 0 && one > 0.0) share = one;
      if (one == 0.0) continue;
      fits = layer == layers++ && one == share;
    }
    require(fits,
            "{}: 'activation_sparsity_pattern' must be a list of {} numbers, one share of less than 1 in the first "
            "layers and 0 behind them.",
            config.place(), model.layers);
  }
  set(model, "sparse_layers", layers);
  if (layers == 0) return;
  require(share > 0.5,
          "{}: 'activation_sparsity_pattern' is {:g} in its first layers, which is not supported; more than a half is.",
          config.place(), share);
  model.factors["sparse_deviations"] = normal_quantile(share);
}

}  // namespace

// Several residual streams, a product of low rank beside attention, and a vector of each token for each layer. Bounds
// of the streams' weights (altup_coef_clip) are named as left out.
ModelConfig read_gemma3n(const HfReader& config) {
  if (auto text = read_text_part(config, "gemma3n", read_gemma3n)) return *std::move(text);
  Json widths = config.has("intermediate_size") ? config.at("intermediate_size") : Json(16384);
  if (widths.is_array()) {
    const bool equal = !widths.empty() && std::all_of(widths.begin(), widths.end(),
                                                      [&](const Json& width) { return width == widths.front(); });
    require(equal, "{}: 'intermediate_size' differs from layer to layer, which is not supported for this family.",
            config.place());
    const Json width = widths.front();
    widths = width;
  }
  require(widths.is_number_integer() && widths > 0 && widths < 1'000'000'000,
          "{}: 'intermediate_size' is {}; a positive whole number, or one for each layer, was expected.",
          config.place(), brief(widths));
  ModelConfig model = made("gemma4", config);
  set(model, "intermediate", widths.get<std::int64_t>());
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, 2));
  set(model, "head_dim", config.size_or({"head_dim"}, 256));
  set(model, "full_rotary_dims", model.more["head_dim"]);
  set(model, "erf",
      one_of(config, "hidden_activation", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf}) == Act::GeluErf);
  set_attention_bias(model, config, false);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set(model, "window", config.size_or({"sliding_window"}, 512));
  set(model, "full_every", 5);
  read_layer_types(model, config);
  require(!model.more.contains("first_window_layer") || model.more["first_window_layer"] == 0,
          "{}: 'layer_types' has no windows in its first layers, which is not supported for this family.",
          config.place());
  model.more.erase("first_window_layer");
  const std::optional<HfReader> rotations =
      config.has("rope_parameters") ? std::optional(config.part("rope_parameters")) : std::nullopt;
  const HfReader* by_kind = rotations ? &*rotations : nullptr;
  const Rotation windowed = rotation_of(by_kind, "sliding_attention",
                                        {config.positive_or("rope_local_base_freq", 10000.0), 1.0}),
                 full = rotation_of(by_kind, "full_attention", {config.positive_or("rope_theta", 1e6), 1.0});
  model.factors["rotary_base"] = windowed.base;
  model.factors["full_rotary_base"] = full.base;
  set_epsilon(model, config, "rms_norm_eps", 1e-6);
  set(model, "capped", config.has("final_logit_softcapping"));
  model.factors["logit_cap"] = config.positive_or("final_logit_softcapping", 30.0);
  const std::int64_t shared = config.size_or({"num_kv_shared_layers"}, 15, 0);
  require(shared == 0 || model.layers - shared >= model.more["full_every"],
          "{}: 'num_kv_shared_layers' is {}, which leaves no layer of each kind of the {} its own keys.",
          config.place(), shared, model.layers);
  set(model, "shared_layers", shared);
  set(model, "layer_embed", config.size_or({"hidden_size_per_layer_input"}, 256));
  set(model, "layer_vocab", config.size_or({"vocab_size_per_layer_input"}, 262144));
  set(model, "streams", config.size_or({"altup_num_inputs"}, 4, 2));
  set(model, "laurel_rank", config.size_or({"laurel_rank"}, 64));
  require(config.size_or({"altup_active_idx"}, 0, 0) == 0, "{}: 'altup_active_idx' is not 0, which alone is supported.",
          config.place());
  require(config.flag_or("altup_correct_scale", true),
          "{}: 'altup_correct_scale' is false, which is not supported; true is.", config.place());
  read_activation_sparsity(model, config);
  return model;
}

}  // namespace meshwright::hf
