// SPDX-License-Identifier: Apache-2.0
// Pictures of what --json of a verb says, so that neither can say something else than the other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "report/charts/svg.h"

namespace meshwright {

// A number that plans are compared by.
struct ChartQuantity {
  std::string_view name;    // of an option: "step", "memory", "devices", "price"
  std::string_view words;   // "step time (s)"
  std::string_view member;  // of a point
  double unit;              // of the member's numbers, in one of the words'
};
[[nodiscard]] const std::vector<ChartQuantity>& chart_quantities();
// Those that all feasible points have. `points`: "points" of sweep, or "front" of plan.
[[nodiscard]] std::vector<ChartQuantity> quantities_of(const Json& points);
// The two of "step,memory". Throws InputError, which names `place`, for others than quantities_of.
struct ChartAxes {
  ChartQuantity x, y;
};
[[nodiscard]] ChartAxes axes_from_text(std::string_view text, const Json& points, std::string_view place);

// A grid of layers and micro-batches per schedule, by step time. `document`: of sweep.
[[nodiscard]] Svg sweep_heat_map(const Json& document);
// Feasible points by two numbers, the front of them joined. Numbers of points are those in `points`.
[[nodiscard]] Svg front_chart(const Json& points, const ChartAxes& axes, std::string_view title);
// Predicted against published step times. `document`: of validate.
[[nodiscard]] Svg validation_chart(const Json& document);

}  // namespace meshwright
