// SPDX-License-Identifier: Apache-2.0
// The plan of a method that leaves nothing to search: its stages are given, and each has its fastest sharding.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

// Memory is no limit: whether the plan fits is for the caller to see. The plan has no prediction.
// Throws InputError as make_plan, and when the request leaves the number of micro-batches, the schedule or the
// recomputation to the search. REQUIRES: the method gives its stages (megatron, manual), or has one and says its mesh.
[[nodiscard]] PlanOfGraph given_plan(const PlanRequest& request, const CostModel& costs);

}  // namespace meshwright
