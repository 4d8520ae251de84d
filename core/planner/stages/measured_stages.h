// SPDX-License-Identifier: Apache-2.0
// A plan's own stages as entries of a stage table, from a run of it.
#pragma once

#include <vector>

#include "core/plan/program/timeline.h"
#include "core/planner/stages/stage_profile.h"

namespace meshwright {

// One entry per stage, named by its sharding; its memory stays modelled. Forward and backward: the stage's slowest
// device in one microbatch, collectives and waiting for the stage's other devices included; median and spread over the
// microbatches of all steps. Step: the same of everything its devices do once per step, over the steps. `samples`
// counts microbatches. REQUIRES: `graph` is the plan's, `steps` are timelines of whole steps of its program, at least
// one.
[[nodiscard]] StageProfileTable measured_stages(const Plan& plan, const Graph& graph,
                                                const std::vector<Timeline>& steps);

}  // namespace meshwright
