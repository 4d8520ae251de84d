// SPDX-License-Identifier: Apache-2.0
// Degrees in the order of what their steps take at least.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/planner/degrees/degrees_plans.h"

namespace meshwright {

// Legal degrees, and bounds on their step and memory.
struct OrderedDegrees {
  Degrees degrees;
  Seconds bound{0.0};
  Bytes needs{0.0};  // at least, of some device; 0: not known
};

struct DegreesOrder {
  std::vector<OrderedDegrees> by_bound;   // ascending
  std::vector<OrderedDegrees> too_large;  // nothing is known of their steps, as they need more than there is
  std::int64_t kinds = 0;                 // of work that were computed
};

// By the work of a micro-batch, which many degrees share. It is not computed where all of them keep too much already
// if what they keep grows with the samples of smaller micro-batches. `stop`: what is left then has no bound. Any number
// of threads gives the same order. Graphs that `plans` lacks are built.
[[nodiscard]] DegreesOrder order_of_degrees(const std::vector<Degrees>& all, const PlanRequest& request,
                                            DegreesPlans& plans, const std::function<bool()>& stop);

}  // namespace meshwright
