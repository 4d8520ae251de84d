// SPDX-License-Identifier: Apache-2.0
// The planner's driver: from a model and a cluster to a Plan, its Program and what the search saw.
// Read layer_options.h, intra_op.h, stage_search.h, stage_dp.h and candidates.h for the steps it strings together.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

// Throws InputError for impossible requests (batch not divisible, more layers than ops, method that does not fit the
// cluster).
[[nodiscard]] PlanningResult make_plan(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator);

// Graph, Program and check of an existing plan. Throws InputError with the first of check_plan's sentences.
struct LoadedPlan {
  Graph graph;
  Program program;
  ProgramCheck check;
};
[[nodiscard]] LoadedPlan load_plan(const Plan& plan, const CostModel& costs);

}  // namespace meshwright
