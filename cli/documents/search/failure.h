// SPDX-License-Identifier: Apache-2.0
// Explains why a search found no plan, and which changes would let it find one.
#pragma once

#include <string>

#include "cli/options/options.h"
#include "core/planner/make_plan.h"

namespace meshwright {

// One sentence without its full stop, the same in every run; `request.stop` ends the search for changes. REQUIRES:
// `failed` has no plan.
[[nodiscard]] std::string explain_failure(const PlanRequest& request, const PlanningResult& failed, const Costs& costs);

}  // namespace meshwright
