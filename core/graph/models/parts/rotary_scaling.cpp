// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/rotary_scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

using Kind = RotaryScaling::Kind;

constexpr std::array<std::pair<Kind, const char*>, 5> kScalings = {{{Kind::Linear, "linear"},
                                                                    {Kind::Dynamic, "dynamic"},
                                                                    {Kind::Llama3, "llama3"},
                                                                    {Kind::Yarn, "yarn"},
                                                                    {Kind::Longrope, "longrope"}}};

// The divisor of a pair of which `share` is left as it is.
double divisor_of(const RotaryScaling& scaling, double share) { return 1.0 / (share + (1.0 - share) / scaling.factor); }

// The pairs, as real numbers, that turn `high` and `low` times within the positions first trained on.
std::pair<double, double> ramp_of(const RotaryScaling& scaling, double base, double dims) {
  const auto pair_turning = [&](double times) {
    return dims * std::log(scaling.original / (times * 2.0 * std::numbers::pi)) / (2.0 * std::log(base));
  };
  double first = pair_turning(scaling.high), last = pair_turning(scaling.low);
  if (scaling.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dims - 1.0);
  // A ramp of no width is a step.
  return {first, first == last ? last + 0.001 : last};
}

std::vector<double> numbers_of(const Json& json, const char* key, const std::string& place) {
  return json.contains(key) ? get<std::vector<double>>(json, key, place) : std::vector<double>();
}

}  // namespace

std::vector<double> rotary_divisors(const RotaryScaling& scaling, double base, std::int64_t dims, std::int64_t seq) {
  const auto width = static_cast<double>(dims), length = static_cast<double>(seq);
  const auto pairs = static_cast<std::size_t>(dims / 2);
  std::vector<double> divisors(pairs, 1.0);
  const auto fill = [&](const auto& of) {
    for (std::size_t j = 0; j < pairs; ++j) divisors[j] = of(static_cast<double>(j));
  };
  switch (scaling.kind) {
    case Kind::Linear:
      fill([&](double) { return scaling.factor; });
      break;
    case Kind::Dynamic:
      if (length > scaling.original && dims > 2) {
        const double stretch = scaling.factor * length / scaling.original - (scaling.factor - 1.0);
        fill([&](double j) { return std::pow(stretch, width / (width - 2.0) * 2.0 * j / width); });
      }
      break;
    case Kind::Llama3:
      fill([&](double j) {
        const double turns = scaling.original * std::pow(base, -2.0 * j / width) / (2.0 * std::numbers::pi);
        // Equal limits make a step.
        const double share = turns <= scaling.low   ? 0.0
                             : turns > scaling.high ? 1.0
                                                    : (turns - scaling.low) / (scaling.high - scaling.low);
        return divisor_of(scaling, share);
      });
      break;
    case Kind::Yarn: {
      const auto [first, last] = ramp_of(scaling, base, width);
      fill([&, begin = first, end = last](double j) {
        return divisor_of(scaling, 1.0 - std::clamp((j - begin) / (end - begin), 0.0, 1.0));
      });
      break;
    }
    case Kind::Longrope:
      divisors = length > scaling.original ? scaling.far : scaling.near;
      MW_CHECK(divisors.size() == pairs, "there are {} divisors for {} pairs", divisors.size(), pairs);
      break;
  }
  return divisors;
}

std::string name_of(Kind kind) {
  const auto* const found =
      std::find_if(kScalings.begin(), kScalings.end(), [&](const auto& row) { return row.first == kind; });
  return found->second;
}

std::string text_of(const RotaryScaling& scaling) {
  return fmt::format("{}, factor {:g}", name_of(scaling.kind), scaling.factor);
}

void check(const RotaryScaling& scaling, std::int64_t dims, const std::string& place) {
  const auto positive = [](double number) { return std::isfinite(number) && number > 0.0; };
  for (const double number :
       {scaling.factor, scaling.original, scaling.low, scaling.high, scaling.amplitude, scaling.score_scale})
    require(positive(number), "{}: the scaling of the rotation ({}) has the number {:g}; each must be above 0.", place,
            name_of(scaling.kind), number);
  require(scaling.kind != Kind::Llama3 || scaling.low <= scaling.high,
          "{}: the scaling of the rotation ({}) begins at {:g} turns and ends at {:g}; give a low_freq_factor "
          "of at most the high_freq_factor.",
          place, name_of(scaling.kind), scaling.low, scaling.high);
  if (scaling.kind != Kind::Longrope) return;
  for (const std::vector<double>* divisors : {&scaling.near, &scaling.far}) {
    require(
        dims == 0 || static_cast<std::int64_t>(divisors->size()) == dims / 2,
        "{}: the scaling of the rotation (longrope) has {} factors; give one for each of the {} pairs of dimensions "
        "that turn.",
        place, divisors->size(), dims / 2);
    require(std::all_of(divisors->begin(), divisors->end(), positive),
            "{}: a factor of the scaling of the rotation (longrope) is not above 0.", place);
  }
}

Json to_json(const RotaryScaling& scaling) {
  Json json = {{"type", name_of(scaling.kind)},
               {"factor", scaling.factor},
               {"original", scaling.original},
               {"low", scaling.low},
               {"high", scaling.high},
               {"whole_pairs", scaling.whole_pairs},
               {"amplitude", scaling.amplitude},
               {"score_scale", scaling.score_scale},
               {"in_windowed_layers", scaling.in_windowed_layers}};
  if (!scaling.near.empty()) json["near"] = scaling.near;
  if (!scaling.far.empty()) json["far"] = scaling.far;
  return json;
}

RotaryScaling rotary_scaling_from_json(const Json& json, const std::string& place) {
  const auto type = get<std::string>(json, "type", place);
  const auto* const kind =
      std::find_if(kScalings.begin(), kScalings.end(), [&](const auto& row) { return row.second == type; });
  require(kind != kScalings.end(), "{}: there is no scaling of rotations of type '{}'.", place, printable(type));
  return {.kind = kind->first,
          .factor = get<double>(json, "factor", place),
          .original = get<double>(json, "original", place),
          .low = get<double>(json, "low", place),
          .high = get<double>(json, "high", place),
          .whole_pairs = get<bool>(json, "whole_pairs", place),
          .near = numbers_of(json, "near", place),
          .far = numbers_of(json, "far", place),
          .amplitude = get<double>(json, "amplitude", place),
          .score_scale = get<double>(json, "score_scale", place),
          .in_windowed_layers = get<bool>(json, "in_windowed_layers", place)};
}

}  // namespace meshwright
