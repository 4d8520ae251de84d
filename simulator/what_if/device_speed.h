// SPDX-License-Identifier: Apache-2.0
// A step on devices that compute faster or slower than theirs, all alike; links and launches stay what they are.
#pragma once

#include "simulator/report/run_parts.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

// The times of Runs whose computations proceed at `speed` times theirs: what a Run launches and communicates takes as
// long as before. REQUIRES: speed > 0; `times` and `parts` are of one program.
[[nodiscard]] ProgramTimes with_device_speed(ProgramTimes times, const RunParts& parts, double speed);

// The step again, where Runs are in pieces: computations proceed at `speed` times theirs, collectives as before.
// REQUIRES: one step (StepSimulation::steps), without samples.
[[nodiscard]] SimTime step_at_device_speed(const StepSimulation& step, double speed);

}  // namespace meshwright
