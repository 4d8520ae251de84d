// SPDX-License-Identifier: Apache-2.0
#include "report/charts/palette.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace meshwright::palette_test {
namespace {

// Relative luminance of "#rrggbb" (WCAG 2.2).
double luminance(std::string_view colour) {
  const auto channel = [&](std::size_t at) {
    const double value = std::stoi(std::string(colour.substr(at, 2)), nullptr, 16) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

double contrast(std::string_view a, std::string_view b) {
  const double one = luminance(a) + 0.05, other = luminance(b) + 0.05;
  return one > other ? one / other : other / one;
}

TEST(Palette, StandsOutFromBothBackgrounds) {
  for (int i = 0; i < kHues; ++i) {
    const Hue hue = static_cast<Hue>(i);
    if (hue == Hue::Idle) continue;
    EXPECT_GE(contrast(shade_of(hue).light, "#ffffff"), 2.95) << i;
    EXPECT_GE(contrast(shade_of(hue).dark, "#14171a"), 2.95) << i;
  }
}

}  // namespace
}  // namespace meshwright::palette_test
