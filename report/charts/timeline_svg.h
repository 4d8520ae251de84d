// SPDX-License-Identifier: Apache-2.0
// A timeline as a picture: a row for devices that are alike, to scale.
#pragma once

#include <string_view>

#include "report/charts/svg.h"
#include "report/charts/timeline_rows.h"

namespace meshwright {

inline constexpr int kMarkLimit = 5000;  // of a picture: beyond it a browser is slow

// Every block as it is, with what it is and how long it takes; a message is a thin bar at the foot of its row. Where
// that would be more than kMarkLimit marks, each pixel column shows its shares instead, and the picture says so.
// `title`: what was simulated or measured.
[[nodiscard]] Svg timeline_svg(const TimelineTracks& tracks, std::string_view title);

}  // namespace meshwright
