// SPDX-License-Identifier: Apache-2.0
// The launch setup that stands for a plan.
#pragma once

#include "core/plan/plan.h"
#include "launch/setup/launch_setup.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

// What `target` has to be told to run the plan. Throws InputError, naming the stage and the property, where it cannot
// be told: stages of different degrees, operators split as no degrees do, parts of a block, a schedule or recomputation
// that it lacks, several kinds of hosts. A plan that was found for the target's framework can always be told.
// REQUIRES: check_plan(plan, graph) is empty; the plan trains.
[[nodiscard]] LaunchSetup setup_of(const Plan& plan, const Graph& graph, const LaunchTarget& target);

}  // namespace meshwright
