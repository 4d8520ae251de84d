// SPDX-License-Identifier: Apache-2.0
// What the document of `simulate` says of a simulated step beyond its length.
#pragma once

#include <optional>
#include <string>

#include "core/base/json.h"
#include "core/planner/make_plan.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

// Tables of the critical path, the fullest links and the memory. `folded`: as the step was simulated.
[[nodiscard]] std::string report_text(const StepSimulation& step, const LoadedPlan& loaded,
                                      const FoldedDevices* folded);
// What only some circumstances have: quantiles, goodput, what fetching the loss costs.
[[nodiscard]] std::string outcome_text(const StepSimulation& step, const StepRequest& request,
                                       const std::optional<Goodput>& goodput);
// `folded`: as the step was simulated; each device has the figures of the one that stands for it.
void add_step(Json& json, const StepSimulation& step, const LoadedPlan& loaded, const FoldedDevices* folded,
              const StepRequest& request, const std::optional<Goodput>& goodput);

// A trace with a track per stream and the memory of every device.
// Throws InputError, which names the size, when it would be larger than `limit`.
[[nodiscard]] std::string trace_text(const StepSimulation& step, const LoadedPlan& loaded, const std::string& title,
                                     Bytes limit);

}  // namespace meshwright
