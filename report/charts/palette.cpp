// SPDX-License-Identifier: Apache-2.0
#include "report/charts/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright {

Rgb rgb_of(std::string_view hex) {
  const auto byte = [&](std::size_t at) { return std::stoi(std::string(hex.substr(at, 2)), nullptr, 16); };
  return {byte(1), byte(3), byte(5)};
}

std::string hex_of(Rgb colour) { return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue); }

Rgb mixed(Rgb colour, Rgb ground, double share) {
  const auto part = [&](int own, int other) {
    return static_cast<int>(std::lround(share * own + (1.0 - share) * other));
  };
  return {part(colour.red, ground.red), part(colour.green, ground.green), part(colour.blue, ground.blue)};
}

double luminance(Rgb colour) {
  const auto linear = [](int value) {
    const double c = value / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

double contrast(Rgb a, Rgb b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

Shade shade_of(Hue hue) {
  switch (hue) {
    case Hue::Forward:
      return {"#1c5089", "#609fd9", 'F'};
    case Hue::Backward:
      return {"#36836b", "#92d289", 'B'};
    case Hue::WeightGradient:
      return {"#8d9a1f", "#cefd3c", 'W'};
    case Hue::Update:
      return {"#a64f00", "#bd8a0b", 'U'};
    case Hue::Message:
      return {"#914ec8", "#9049dd", ' '};
    case Hue::Collective:
      return {"#813c49", "#c0446a", ' '};
    case Hue::Recompute:
      return {"#14a3bc", "#71f5fc", 'R'};
    case Hue::Idle:
      return {"#e9edf1", "#23292f", ' '};
  }
  throw InternalError("a hue without a shade");
}

}  // namespace meshwright
