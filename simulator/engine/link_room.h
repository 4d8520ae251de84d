// SPDX-License-Identifier: Apache-2.0
// When flows on a link do not hold each other back.
#pragma once

#include <algorithm>

#include "simulator/engine/task_graph.h"

namespace meshwright {

// Rates whose sum is this much, relatively, above a capacity still fit it: what rounding leaves of a sum that is equal.
// The engine allows twice as much, so that it slows no flow that the certificate of the single pass lets through.
inline constexpr double kRateTolerance = 1e-12;

// The rate at which a flow alone uses its route.
[[nodiscard]] inline BytesPerSecond narrowest(const SharedLinks& links, int route) {
  const std::vector<LinkId>& own = links.routes[static_cast<std::size_t>(route)];
  BytesPerSecond min = links.capacity[own.front().index()];
  for (const LinkId link : own) min = std::min(min, links.capacity[link.index()]);
  return min;
}

}  // namespace meshwright
