// SPDX-License-Identifier: Apache-2.0
// Plans with a framework's degrees, but without what the framework fixes besides.
#pragma once

#include <vector>

#include "core/planner/degrees/all_degrees.h"
#include "core/planner/plan_request.h"

namespace meshwright {

// As many stages on the same logical meshes, with the same schedule, micro-batches and recomputation; but each op is
// split as is fastest, and stages have as much work as each other, not as many blocks. In the order of `degrees`; those
// of which no plan fits are left out. The result does not depend on the number of threads.
[[nodiscard]] std::vector<PlanOfGraph> ease_degrees(const PlanRequest& request, const std::vector<Degrees>& degrees,
                                                    const CostModel& costs, PlanEvaluator& evaluator);

}  // namespace meshwright
