// SPDX-License-Identifier: Apache-2.0
// What config.json says of slower rotations, with the defaults of Hugging Face's transformers 5.
#include <cmath>
#include <map>

#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

using Kind = RotaryScaling::Kind;

// Looked at without being read: what is beside a type that is not known is not named for itself.
std::string type_of(const Json& rotation) {
  for (const char* key : {"rope_type", "type"})
    if (const auto type = rotation.find(key); type != rotation.end() && type->is_string()) return *type;
  return "default";
}

std::optional<Kind> kind_of(const std::string& type, bool long_context) {
  // Files of Phi-3 that are older than the name "longrope" call it "su" or "yarn".
  if (long_context && (type == "su" || type == "yarn")) return Kind::Longrope;
  static const std::map<std::string, Kind> kinds = {{"linear", Kind::Linear},
                                                    {"dynamic", Kind::Dynamic},
                                                    {"llama3", Kind::Llama3},
                                                    {"yarn", Kind::Yarn},
                                                    {"longrope", Kind::Longrope}};
  const auto found = kinds.find(type);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

std::vector<double> numbers_at(const HfReader& rotation, const char* key) {
  require(rotation.has(key) && rotation.at(key).is_array(), "{}: '{}' must be a list of numbers.", rotation.place(),
          key);
  std::vector<double> numbers;
  for (const Json& number : rotation.at(key)) {
    require(number.is_number(), "{}: '{}' must be a list of numbers.", rotation.place(), key);
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

// How much larger cosines and sines are, so that the scores keep their spread (B. Peng et al., YaRN, 2023, equation
// 22).
double spread(double factor, double scale) { return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0; }

void read_yarn(RotaryScaling& scaling, const HfReader& rotation, bool latent) {
  scaling.high = rotation.positive_or("beta_fast", 32.0);
  scaling.low = rotation.positive_or("beta_slow", 1.0);
  scaling.whole_pairs = rotation.flag_or("truncate", true);
  const auto number = [&](const char* key) {
    return rotation.has(key) && rotation.at(key) != 0 ? rotation.positive_or(key, 1.0) : 0.0;
  };
  const double of_rotated = number("mscale"), of_all = number("mscale_all_dim");
  scaling.amplitude = of_rotated > 0.0 && of_all > 0.0
                          ? spread(scaling.factor, of_rotated) / spread(scaling.factor, of_all)
                          : spread(scaling.factor, 1.0);
  // Latent attention, of which a part alone is rotated, spreads all of its scores.
  if (latent && of_all > 0.0) scaling.score_scale = std::pow(spread(scaling.factor, of_all), 2.0);
}

void read_longrope(RotaryScaling& scaling, const HfReader& rotation) {
  scaling.near = numbers_at(rotation, "short_factor");
  scaling.far = numbers_at(rotation, "long_factor");
  if (scaling.factor > 1.0 && scaling.original > 1.0)
    scaling.amplitude = std::sqrt(1.0 + std::log(scaling.factor) / std::log(scaling.original));
}

const char* rotation_in(const HfReader& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.has(key) && config.at(key).is_object() && !config.at(key).empty()) return key;
  return nullptr;
}

}  // namespace

std::optional<RotaryScaling> read_rotary_scaling(const ModelConfig& model, const HfReader& config) {
  const char* key = rotation_in(config);
  if (key == nullptr) return std::nullopt;
  const Json& told = config.at(key);
  // Each kind of layer may have an object of its own, of which those with windows are plain.
  const auto has_part = [&](const char* part) { return told.contains(part) && told[part].is_object(); };
  const char* scaled_part = has_part("compress") ? "compress" : "full_attention";
  const char* plain_part = has_part("compress") ? "main" : "sliding_attention";
  const bool by_layers = has_part(scaled_part);
  const Json& full = by_layers ? told[scaled_part] : told;
  bool in_windowed_layers = true;
  if (by_layers && told.contains(plain_part) && told[plain_part] != full) {
    in_windowed_layers = false;
    if (type_of(told[plain_part]) != "default") return std::nullopt;
  }
  const std::optional<Kind> kind = kind_of(type_of(full), full.contains("long_factor"));
  // That one scales by a further rule of a family's own.
  if (!kind || full.contains("long_mscale")) return std::nullopt;
  const HfReader whole = config.part(key);
  const HfReader rotation = by_layers ? whole.part(scaled_part) : whole;
  for (const char* read_elsewhere : {"rope_type", "type", "rope_theta", "partial_rotary_factor"})
    (void)rotation.has(read_elsewhere);
  RotaryScaling scaling{.kind = *kind, .in_windowed_layers = in_windowed_layers};
  const double longest = config.positive_or("max_position_embeddings", static_cast<double>(model.seq));
  scaling.original = config.positive_or("original_max_position_embeddings",
                                        rotation.positive_or("original_max_position_embeddings", longest));
  if (*kind == Kind::Dynamic) scaling.original = longest;
  const bool measured = *kind == Kind::Yarn || *kind == Kind::Longrope;
  require(measured || rotation.has("factor"), "{}: '{}' scales the rotation but has no 'factor'.", rotation.place(),
          name_of(*kind));
  scaling.factor = rotation.positive_or("factor", longest / scaling.original);
  if (*kind == Kind::Llama3) {
    scaling.low = rotation.positive_or("low_freq_factor", 1.0);
    scaling.high = rotation.positive_or("high_freq_factor", 4.0);
  }
  if (*kind == Kind::Yarn) read_yarn(scaling, rotation, model.more.contains("rope_dim"));
  if (*kind == Kind::Longrope) read_longrope(scaling, rotation);
  if (measured) scaling.amplitude = rotation.positive_or("attention_factor", scaling.amplitude);
  return scaling;
}

void scale_full_attention_alone(ModelConfig& model, const HfReader& config) {
  if (model.rotary_scaling && config.has("rope_scaling")) model.rotary_scaling->in_windowed_layers = false;
}

}  // namespace meshwright::hf
