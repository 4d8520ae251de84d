// SPDX-License-Identifier: Apache-2.0
// What the hosts keep, left to the search: each choice is planned by itself, and the best plan of all is the answer.
#pragma once

#include <functional>

#include "core/planner/plan_request.h"

namespace meshwright {

// Plans a request that says what the hosts keep.
using OffloadPlanner = std::function<PlanningResult(const PlanRequest& request)>;

// The best of the plans of every choice of optimizer state, activations and weights (with a framework: of optimizer
// state alone); of equal ones that which keeps the least on the hosts. Its lower bound holds for every choice. Where
// none has a plan: the answer of the choice that lacks the least memory, else of the first. A request that is stopped
// tries no further choice. REQUIRES: the request trains.
[[nodiscard]] PlanningResult search_offload(const PlanRequest& request, const OffloadPlanner& planner);

}  // namespace meshwright
