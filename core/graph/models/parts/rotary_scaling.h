// SPDX-License-Identifier: Apache-2.0
// How a model rotates queries and keys more slowly than it was first trained to, so that longer sequences bring no
// angles that it has never seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace meshwright {

// Without it, pair j of `dims` turned dimensions has the angle position * base^(-2 j / dims).
struct RotaryScaling {
  // Linear: all pairs turn `factor` times more slowly (S. Chen et al., Position Interpolation, 2023).
  // Dynamic: a larger base, where a sequence is longer than `original`.
  // Llama3: pairs that turn less than `low` times within `original` positions do, those that turn more than `high`
  //   times do not, and between them the share grows with the number of turns (Llama 3.1).
  // Yarn: the same, but that the share grows with the number of the pair (B. Peng et al., YaRN, 2023, section 3.2).
  // Longrope: each pair by a divisor of its own (Y. Ding et al., LongRoPE, 2024).
  enum class Kind { Linear, Dynamic, Llama3, Yarn, Longrope } kind = Kind::Linear;
  double factor = 1.0;
  double original = 1.0;  // positions that the model was first trained on
  double low = 1.0, high = 1.0;
  bool whole_pairs = true;         // Yarn: the first and the last pair of the ramp are rounded outwards
  std::vector<double> near = {};   // Longrope: the divisors of sequences up to `original`, ...
  std::vector<double> far = {};    // ... and of longer ones
  double amplitude = 1.0;          // of cosines and sines
  double score_scale = 1.0;        // of the attention scores, beside their usual scale
  bool in_windowed_layers = true;  // false: layers with windows rotate as if there were no scaling
  bool operator==(const RotaryScaling&) const = default;
};

// What the plain frequency of each pair is divided by, dims / 2 numbers above 0, for sequences of `seq` positions.
// REQUIRES: dims is even; Longrope has dims / 2 divisors.
[[nodiscard]] std::vector<double> rotary_divisors(const RotaryScaling& scaling, double base, std::int64_t dims,
                                                  std::int64_t seq);

[[nodiscard]] std::string name_of(RotaryScaling::Kind kind);      // "linear", "dynamic", "llama3", "yarn", "longrope"
[[nodiscard]] std::string text_of(const RotaryScaling& scaling);  // "llama3, factor 8"

// Throws InputError unless all numbers are positive and the divisors are as many as `dims` / 2 (0: of any number).
void check(const RotaryScaling& scaling, std::int64_t dims, const std::string& place);

[[nodiscard]] Json to_json(const RotaryScaling& scaling);
[[nodiscard]] RotaryScaling rotary_scaling_from_json(const Json& json, const std::string& place);

}  // namespace meshwright
