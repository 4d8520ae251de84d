// SPDX-License-Identifier: Apache-2.0
// Points by two numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/charts/svg.h"

namespace meshwright {

struct ScatterPoint {
  double x, y;
  std::string group;  // "": of no group; else what the legend says
  std::string tip;
  enum class Mark : std::uint8_t { Filled, Open } mark = Mark::Filled;
  std::size_t number = 0;  // for a script of the page
};

struct ScatterNames {
  std::string_view title, description;
  std::string_view x, y;  // with their units
};

// Both axes from 0; `front`: the points that no other beats in x and y are joined by a line.
enum class FrontLine : std::uint8_t { None, Drawn };
[[nodiscard]] Svg scatter_svg(const std::vector<ScatterPoint>& points, const ScatterNames& names, FrontLine front);

// Predicted (y) against true (x) on logarithmic axes of whole decades, with the diagonal and bands of 5, 10 and 20 %
// about it. REQUIRES: coordinates are positive.
[[nodiscard]] Svg agreement_svg(const std::vector<ScatterPoint>& points, const ScatterNames& names);

// Numbers of the points that no other is as low as in both and lower in one, by x; of equal ones the first.
[[nodiscard]] std::vector<std::size_t> front_of(const std::vector<ScatterPoint>& points);

}  // namespace meshwright
