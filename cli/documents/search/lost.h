// SPDX-License-Identifier: Apache-2.0
// The candidates of a search that lost, and by how much.
#pragma once

#include "core/base/json.h"
#include "core/planner/considered_plans.h"

namespace meshwright {

// The ten best that were not chosen, those that were simulated first, and what became of all others. A candidate
// without "simulated_s" was not simulated: its "estimated_s" is of its stages alone, or a bound.
[[nodiscard]] Json lost_json(const ConsideredPlans& considered);

// How the plan's decisions differ from the chosen one's: "8 stages instead of 4", "stage 2: 1x4 as 4x1 instead of 2x2".
[[nodiscard]] std::vector<std::string> differences(const ConsideredPlan& plan, const ConsideredPlan& chosen);

}  // namespace meshwright
