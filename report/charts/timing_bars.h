// SPDX-License-Identifier: Apache-2.0
// Pairs of bars on one time axis: one timing above the other.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "report/charts/svg.h"

namespace meshwright {

struct TimingPart {
  std::string name;  // "forward"
  Hue hue = Hue::Idle;
  Seconds first{0.0}, second{0.0};
};
// Parts stand behind each other, in either bar.
struct TimingBars {
  std::string label;
  std::vector<TimingPart> parts;
};
// `names`: of the timings, in the tips.
[[nodiscard]] Svg timing_bars_svg(const std::vector<TimingBars>& pairs, std::string_view title,
                                  std::string_view description, const std::array<std::string, 2>& names);

}  // namespace meshwright
