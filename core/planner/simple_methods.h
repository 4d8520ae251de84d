// SPDX-License-Identifier: Apache-2.0
// What a search under conditions is held against: the plan of the same request without conditions, and those of methods
// that leave little to a search. Its own ranking estimates what communication hides, so that one of these may be
// faster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// Data parallelism and its ZeRO levels, where all hosts are alike; then of every number of tensor-parallel devices
// within a host (of up to 16 devices in all: of any) and every number of stages that together divide the devices:
// Megatron's degrees with and without sequence parallelism, with every ZeRO level and with none asked for.
[[nodiscard]] std::vector<std::string> simple_methods(const Cluster& cluster);

// The request leaves every mesh and stage to the search, and asks for the fastest step.
[[nodiscard]] bool leaves_all_open(const PlanRequest& request);

// Plans a request; as make_plan, of which nothing but the lower bounds is left out.
using Planner = std::function<PlanningResult(const PlanRequest& request, PlanEvaluator& evaluator)>;

// `found`, or the fastest of the plans above that fits where it is faster. All are planned as without conditions and
// judged under them; data parallelism is also searched under them. Its bounds are then 0. Left out is what cannot be
// faster, as `bound`, of every plan of the request, and the fill of a pipeline tell, and what keeps more than a plan
// that was too large. The result does not depend on the number of threads. REQUIRES: the evaluator has conditions, and
// `found` is of this request under them.
[[nodiscard]] PlanningResult faster_of_simple_methods(const PlanRequest& request, PlanningResult found, Seconds bound,
                                                      const CostModel& costs, PlanEvaluator& evaluator,
                                                      const Planner& planner);

}  // namespace meshwright
