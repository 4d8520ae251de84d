// SPDX-License-Identifier: Apache-2.0
// The borders between the stages of a finished plan, moved to places inside its layers.
//
// A search cuts a model into few layers, and the stages of many ranks are alike but for the embedding before the first
// and the loss after the last. So one rank often does more than the others, which wait for it. Where neighbouring
// stages have meshes of the same shape, ops can go from one to the other as they are split: whole simulations of the
// plan say whether its step gets shorter.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

struct PlanWithBorders {
  Plan plan;  // with what is predicted of its step and memory, but for the lower bound
  std::int64_t simulations = 0;
};

// nullopt: nothing that fits is faster than `to_beat`; the plan's stages are no line, or have copies; its schedule is
// custom or does not train. `form`: how tensors get from stage to stage; nullopt: they are sent. REQUIRES: check_plan
// finds nothing; the plan states no forms but this; `to_beat` is no more than the plan's step.
[[nodiscard]] std::optional<PlanWithBorders> move_borders(const PlanOfGraph& made, std::optional<CrossMesh> form,
                                                          Seconds to_beat, const CostModel& costs,
                                                          PlanEvaluator& evaluator);

}  // namespace meshwright
