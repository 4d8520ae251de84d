// SPDX-License-Identifier: Apache-2.0
// Time from left to right, as all pictures of a step have it.
#pragma once

#include "core/base/units.h"
#include "report/charts/svg.h"

namespace meshwright {

struct TimeAxis {
  double left, width;  // of the drawing
  SimTime end{0};      // at its right edge
  [[nodiscard]] double at(SimTime time) const;
};

// Round numbers of seconds, milliseconds or microseconds below `bottom`, with lines up to `top`.
void add_time_axis(Svg& svg, const TimeAxis& axis, double top, double bottom);

// How wide a text of the charts' size is, about.
[[nodiscard]] double width_of_text(std::size_t letters);

}  // namespace meshwright
