// SPDX-License-Identifier: Apache-2.0
// The points of a page's what-ifs: the plan's step with other micro-batches, links and devices, each simulated.
#pragma once

#include <string>
#include <vector>

#include "cli/documents/step/simulated_plan.h"
#include "report/page/what_if.h"

namespace meshwright {

// Whose costs hold, as costs_for takes it.
struct CostChoice {
  ProfileSource profile;
  std::string software;
};

// Empty where a step is too long to simulate so often (kMaxWhatIfTasks), or steps are drawn or run into one another.
// `request`: of the simulated step, whose costs are `costs`.
[[nodiscard]] std::vector<WhatIfAxis> what_if_axes(const Plan& plan, const SimulatedPlan& simulated, const Costs& costs,
                                                   const StepRequest& request, const CostChoice& choice);

}  // namespace meshwright
