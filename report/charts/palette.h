// SPDX-License-Identifier: Apache-2.0
// The colours of every picture: one hue per kind of work, in a light and a dark form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

enum class Hue : std::uint8_t {
  Forward,
  Backward,
  WeightGradient,
  Update,
  Message,
  Collective,
  Recompute,
  Idle,
};
inline constexpr int kHues = 8;

// A hue on a white (#ffffff) and on a dark (#14171a) background. Each has at least 3:1 contrast to its background, but
// Idle, which is meant to recede; no two are closer than 9 in OKLab (times 100) under the three kinds of colour
// blindness. Colour is never the only sign: the letter says the same.
struct Rgb {
  int red, green, blue;  // 0 to 255
  bool operator==(const Rgb&) const = default;
};
[[nodiscard]] Rgb rgb_of(std::string_view hex);  // "#1c5089"
[[nodiscard]] std::string hex_of(Rgb colour);
[[nodiscard]] Rgb mixed(Rgb colour, Rgb ground, double share);  // `share` of the colour
// Relative luminance of sRGB, 0 to 1, and the contrast of two colours, 1 to 21: both as of WCAG 2.
[[nodiscard]] double luminance(Rgb colour);
[[nodiscard]] double contrast(Rgb a, Rgb b);

enum class Ground : std::uint8_t { Light, Dark };
struct Shade {
  std::string_view light, dark;  // "#1c5089"
  char letter;                   // "F"; ' ': none
  [[nodiscard]] std::string_view on(Ground ground) const { return ground == Ground::Light ? light : dark; }
};
[[nodiscard]] Shade shade_of(Hue hue);

}  // namespace meshwright
