// SPDX-License-Identifier: Apache-2.0
// Which points are searched: numbers of micro-batches, then cuts into layers. At each point the schedules are searched
// in order of promise (point_search.h).
#pragma once

#include "core/planner/plan_request.h"
#include "core/planner/search/near_plans.h"

namespace meshwright {

// The best plan of all points. Throws as make_plan does. `near`: as PlanIncumbent's.
[[nodiscard]] PlanningResult search_plans(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                                          NearPlans* near = nullptr);

}  // namespace meshwright
