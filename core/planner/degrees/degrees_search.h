// SPDX-License-Identifier: Apache-2.0
// The fastest plan that a framework can launch: degrees of one set for the whole job, all of them compared.
#pragma once

#include <optional>
#include <vector>

#include "core/planner/degrees/all_degrees.h"
#include "core/planner/plan_request.h"

namespace meshwright {

// Best first by bounds on the step (degrees_bounds.h): the most promising degrees by the work of a micro-batch are
// planned, and the most promising plans by their stages' times are simulated whole, unless they hold more than the
// memory (as the software counts it, or at least). No bound of the rest is below the best step at the end. So more
// freedom never gives a slower plan. Where the framework can be told the blocks of its stages, the fastest are planned
// again with lighter_ends, in the end. The result does not depend on the number of threads.
// Throws InputError for models that are no transformers and clusters of several kinds of hosts.
// REQUIRES: request.search.launch_for, of a framework without own meshes; a schedule that trains.
// `to_beat`: only a plan whose step takes less is wanted.
struct FoundDegrees {
  PlanningResult result;
  // Of the plans that fit, as far as they were simulated, in the order of their steps, and not beyond `to_beat`.
  std::vector<Degrees> fastest;
};
[[nodiscard]] FoundDegrees find_degrees(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                                        std::optional<Seconds> to_beat = std::nullopt);
// The result alone.
[[nodiscard]] inline PlanningResult search_degrees(const PlanRequest& request, const CostModel& costs,
                                                   PlanEvaluator& evaluator) {
  return find_degrees(request, costs, evaluator).result;
}

}  // namespace meshwright
