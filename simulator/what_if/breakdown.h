// SPDX-License-Identifier: Apache-2.0
// Where the time of a simulated step goes.
#pragma once

#include "simulator/report/step_breakdown.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

// Where several steps run into one another (a controller issues the work): of the last ones, on average. The step is
// that without jitter.
// REQUIRES: the step was simulated with named tasks, of this program; `costs`: as then.
[[nodiscard]] StepBreakdown breakdown_of(const StepSimulation& step, const Program& program, const RunParts& parts,
                                         const FoldedDevices* folded = nullptr);

}  // namespace meshwright
