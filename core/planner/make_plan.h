// SPDX-License-Identifier: Apache-2.0
// The planner: from a model and a cluster to a Plan, its Program and what the search saw.
// search/plan_search.h, search/point.h and search/point_search.h list its steps in order.
#pragma once

#include <memory>

#include "core/planner/given_plan.h"
#include "core/planner/plan_request.h"

namespace meshwright {

// Throws InputError for impossible requests (batch not divisible, more layers than ops, method that does not fit the
// cluster).
[[nodiscard]] PlanningResult make_plan(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator);

// Graph, Program and check of an existing plan.
struct LoadedPlan {
  std::shared_ptr<const Graph> graph;
  Program program;
  ProgramCheck check;
};
// Throws InputError with the first of check_plan's sentences.
[[nodiscard]] LoadedPlan load_plan(const Plan& plan, const CostModel& costs);
// The same of a plan just made, with the graph that it was made of.
[[nodiscard]] LoadedPlan load_plan(const PlanOfGraph& made, const CostModel& costs);

}  // namespace meshwright
