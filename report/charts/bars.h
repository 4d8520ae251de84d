// SPDX-License-Identifier: Apache-2.0
// Upright bars from 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/charts/svg.h"

namespace meshwright {

struct Bar {
  std::string name;
  double value;  // at least 0
  Hue hue;
  std::string tip;
};

struct BarNames {
  std::string_view title, description, value, bars;  // "Errors", .., "runs", "error (%)"
};

[[nodiscard]] Svg bars_svg(const std::vector<Bar>& bars, const BarNames& names);

}  // namespace meshwright
