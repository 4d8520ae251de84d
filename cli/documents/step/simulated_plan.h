// SPDX-License-Identifier: Apache-2.0
// A plan's step as simulate and the pages of --html predict it: lowered, folded where that is asked for, simulated
// under the circumstances of a request.
#pragma once

#include <optional>
#include <string>

#include "cli/documents/step/breakdown_text.h"
#include "cli/options/options.h"
#include "simulator/what_if/prediction.h"
#include "simulator/what_if/step_request.h"

namespace meshwright {

struct SimulatedPlan {
  LoadedPlan loaded;                    // its check has the memory of the simulated step
  std::optional<FoldedDevices> folded;  // where devices stand for others
  StepSimulation step;
  Prediction prediction;
  [[nodiscard]] const FoldedDevices* alike() const { return folded ? &*folded : nullptr; }
};

// Whether devices that do the same are simulated once, where the plan and the circumstances allow it.
enum class DeviceFolding { Never, WherePossible };

// `path`: of the plan, named in errors. `costs`: of cluster_of_step. `threads`: at the same time, where steps are
// drawn.
[[nodiscard]] SimulatedPlan simulated_plan(const Plan& plan, const std::string& path, const Costs& costs,
                                           const StepRequest& request, DeviceFolding folding, int threads = 1);

// REQUIRES: the request had name_tasks; `costs` as then.
[[nodiscard]] Breakdown find_breakdown(const SimulatedPlan& simulated, const Plan& plan, const Costs& costs);

}  // namespace meshwright
