// SPDX-License-Identifier: Apache-2.0
// Other shardings of the stages of finished plans, by simulations of whole plans.
//
// The stage table counts what a sharding takes by itself, one piece after the other: a tensor that two ops read is
// resharded twice, what is done once per step has one weight, and what hides behind computation is an estimate.
// Programs differ in each of these. So the stages are sharded anew under costs that differ in them, and what makes a
// whole program faster stays.
#pragma once

#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// A plan that fits and knows its step, how many programs a search for it has simulated, and the share of its step to
// which it may be refined, as far as is looked for.
struct PlanToRefine {
  PlanOfGraph made;
  std::int64_t simulated;
  double least_share;
};

struct RefinedPlan {
  Plan plan;  // with what is predicted of its step and memory, but for the lower bound
  std::shared_ptr<const Graph> graph;
  std::size_t of = 0;  // the plan that it was made of
  std::int64_t simulations = 0;
};

// Whether their stages have the same layers, devices and shardings, and run in the same order. REQUIRES: both are of
// one cluster.
[[nodiscard]] bool same_plans(const Plan& a, const Plan& b);

// The costs by which stages are sharded anew: as they are and with collectives that take a part of their time; or with
// noise, several times over, which finds shardings that cost a little more.
enum class ShardingCosts { Likely, Noisy };
// How many of the latter: fewer for larger models, in the end none.
[[nodiscard]] std::int64_t noisy_costs(const Graph& graph);

// The fastest that is made of one of these plans: first other shardings of all stages and of one stage, of each plan,
// then of those that may be refined to less than the best of them all parts of it. The number of simulations of each is
// limited, also by how many its search made before. nullopt: nothing that fits is faster than the first plan, or
// programs of the request may be large (is_large of point.h). REQUIRES: check_plan finds nothing; the plans are of the
// request.
[[nodiscard]] std::optional<RefinedPlan> refine_shardings(const PlanRequest& request,
                                                          const std::vector<PlanToRefine>& plans, ShardingCosts kind,
                                                          const CostModel& costs, const PlanEvaluator& evaluator);

}  // namespace meshwright
