// SPDX-License-Identifier: Apache-2.0
// Gated convolutions beside attention with windows: LFM3.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// As transformers has it where a file says nothing: of four layers the first has a window, but in the first four, and
// the third sees all keys.
std::vector<std::string> lfm3_types(const HfReader& config, std::int64_t layers) {
  std::vector<std::string> types;
  if (!config.has("layer_types")) {
    for (std::int64_t layer = 0; layer < std::min<std::int64_t>(layers, 10'000); ++layer)
      types.emplace_back(layer % 4 == 2                ? "full_attention"
                         : layer % 4 == 0 && layer > 0 ? "sliding_attention"
                                                       : "conv");
    return types;
  }
  const Json& given = config.at("layer_types");
  require(given.is_array() && given.size() == static_cast<std::size_t>(layers),
          "{}: 'layer_types' must be a list of one type for each of the {} layers.", config.place(), layers);
  for (const Json& type : given) {
    require(type == "conv" || type == "full_attention" || type == "sliding_attention",
            "{}: 'layer_types' has {}, which is not supported; \"conv\", \"full_attention\" and \"sliding_attention\" "
            "are.",
            config.place(), brief(type));
    types.push_back(type.get<std::string>());
  }
  return types;
}

}  // namespace

// LFM2's convolutions, with windows in some layers that attend, gates of their heads, and norms of what layers make.
ModelConfig read_lfm3(const HfReader& config) {
  ModelConfig model = made("hybrid", config);
  model.more["kv_heads"] = config.size_or({"num_key_value_heads"}, 4);
  model.more["head_dim"] = config.size_or({"head_dim"}, 128);
  model.more["intermediate"] = config.size({"intermediate_size"});
  model.more["conv"] = config.size_or({"conv_L_cache"}, 7);
  for (const char* key : {"conv_bias", "scan_bias"}) model.more[key] = config.flag_or("conv_bias", false);
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
  for (const char* on : {"short_conv", "qk_norm", "rotary", "gated"}) model.more[on] = 1;
  model.more["result_norms"] = config.flag_or("use_sandwich_norm", true);
  model.more["head_gate"] = config.flag_or("use_attention_gate", true);
  model.more["tied"] = config.flag_or("tie_word_embeddings", true);
  set_epsilon(model, config, "norm_eps", 1e-5);
  std::string kinds;
  std::vector<bool> windowed;
  for (const std::string& type : lfm3_types(config, model.layers)) {
    kinds += type == "conv" ? "M-" : "*-";
    if (type != "conv") windowed.push_back(type == "sliding_attention");
  }
  model.layers = static_cast<std::int64_t>(kinds.size());  // each of theirs is two of ours
  set_layer_kinds(model, kinds, config.place());
  const bool any = std::find(windowed.begin(), windowed.end(), true) != windowed.end();
  require(!any || !config.has("sliding_window") || config.at("sliding_window") != 0,
          "{}: 'sliding_window' is 0, but some layers have windows; give their keys.", config.place());
  model.more["window"] = any ? config.size_or({"sliding_window"}, 256) : 0;
  (void)config.has("sliding_window");
  if (any) set_windowed_layers(model, windowed, config.place() + ": the attention layers of 'layer_types'");
  const std::optional<HfReader> rotations =
      config.has("rope_parameters") ? std::optional(config.part("rope_parameters")) : std::nullopt;
  const HfReader* by_kind = rotations ? &*rotations : nullptr;
  // Dimension j of those that turn has the angle base^(-2 j / width), as if these were a head of another base.
  const auto width = static_cast<double>(model.more["head_dim"]);
  const auto rotate = [&](const char* kind, Rotation otherwise, const char* base, const char* dims) {
    const Rotation rotation = rotation_of(by_kind, kind, otherwise);
    const std::int64_t turned = static_cast<std::int64_t>(rotation.share * width / 2) * 2;
    require(turned > 0, "{}: 'partial_rotary_factor' is {:g}, which turns no dimension of heads of {}; give more.",
            config.place(), rotation.share, width);
    model.more[dims] = rotation.share == 1.0 ? 0 : turned;
    model.factors[base] = std::pow(rotation.base, static_cast<double>(turned) / width);
  };
  rotate("full_attention", {1e6, 0.5}, "rotary_base", "rotary_dims");
  rotate("sliding_attention", {10000.0, 1.0}, "window_rotary_base", "window_rotary_dims");
  return model;
}

}  // namespace meshwright::hf
