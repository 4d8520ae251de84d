// SPDX-License-Identifier: Apache-2.0
// A plan for thousands of devices, lowered for those alone that stand for all others.
//
// Which devices are alike is found in the Program of one microbatch (simulator/fold/fold_devices.h). It is the same for
// any number of them: the stages' devices exchange the same tiles for each microbatch, and an instruction list depends
// on the schedule and on these tiles alone. So the lists of the whole step are made of the representatives only, and
// the Program that would hold thousands of devices times thousands of microbatches never exists.
#pragma once

#include "core/planner/make_plan.h"
#include "simulator/fold/folded_program.h"

namespace meshwright {

struct FoldedPlan {
  LoadedPlan loaded;        // `program`: representatives have lists; `check`: the peak memory of all devices, no order
  FoldedDevices folded;     // of this program
  std::int64_t events = 0;  // Runs and messages of the whole program
};

// Whether the schedule lets a plan be lowered in part: it does not split backward passes, and is no custom schedule.
[[nodiscard]] bool can_fold(const Plan& plan);
// can_fold, and the plan has enough devices for it to pay off (kMinDevicesToFold).
[[nodiscard]] bool worth_folding(const Plan& plan);

// The same as fold_program of the whole Program, with the check that load_plan would make. Throws InputError as
// load_plan does. REQUIRES: can_fold(plan).
[[nodiscard]] FoldedPlan load_folded_plan(const Plan& plan, const CostModel& costs);
// The same of a plan just made, with the graph that it was made of. REQUIRES: can_fold(made.plan).
[[nodiscard]] FoldedPlan load_folded_plan(const PlanOfGraph& made, const CostModel& costs);

}  // namespace meshwright
