// SPDX-License-Identifier: Apache-2.0
// A number over the steps of a training, such as its loss.
#pragma once

#include <string_view>
#include <vector>

#include "report/charts/svg.h"

namespace meshwright {

struct LineNames {
  std::string_view title, description;
  std::string_view x, y;  // of the axes
};

// Points at 0, 1, 2, ... on an axis that holds all finite values; what is no number leaves a gap. Beyond 1,000 values a
// column shows the range of its values. REQUIRES: a value that is finite.
[[nodiscard]] Svg line_svg(const std::vector<double>& values, const LineNames& names, Hue hue);

}  // namespace meshwright
