// SPDX-License-Identifier: Apache-2.0
// How the tensors of a finished plan get from stage to stage: the form of every boundary, by simulations of the whole
// plan.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

struct PlanWithCrossMesh {
  Plan plan;  // with what is predicted of its step and memory, but for the lower bound
  std::int64_t simulations = 0;
};

// A boundary is what one stage sends to another in a micro-batch; only those matter that bring several devices the same
// tile. Each form is tried on all boundaries first, then, from the best of these on, on boundaries that are alike, as
// long as the step gets shorter and fits the memory; so no form on all boundaries that fits is faster. Plans of many
// boundaries or large programs get one form on all. nullopt: nothing is faster than to send.
// REQUIRES: check_plan finds nothing; the plan's schedule is not custom; the plan states no forms.
[[nodiscard]] std::optional<PlanWithCrossMesh> choose_cross_mesh(const PlanOfGraph& made, const CostModel& costs,
                                                                 const PlanEvaluator& evaluator);

}  // namespace meshwright
