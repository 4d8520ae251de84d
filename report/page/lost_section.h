// SPDX-License-Identifier: Apache-2.0
// What else a search considered, and by how much it lost.
#pragma once

#include "core/planner/considered_plans.h"
#include "report/page/page.h"

namespace meshwright {

// The plans that came next, then the fastest of each other reason; counts of all; the lower bound, and how far the
// chosen plan is from it.
[[nodiscard]] PageSection lost_section(const ConsideredPlans& considered, const Plan& chosen_plan);

}  // namespace meshwright
