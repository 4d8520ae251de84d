// SPDX-License-Identifier: Apache-2.0
// One step of a Program as it stands: nothing shared, nothing disturbed (simulator/program/program_graph.h has the
// rest).
#pragma once

#include "core/plan/program/program.h"
#include "core/plan/program/timeline.h"
#include "simulator/program/program_costs.h"

namespace meshwright {

struct SimulatedProgram {
  Timeline timeline;
  std::int64_t events = 0;  // Runs and messages
};

// By both tiers; throws InternalError unless they agree to the picosecond. REQUIRES: the program is sound.
[[nodiscard]] SimulatedProgram simulate_program(const Program& program, const ProgramTimes& times);

// The end of the step alone, by the first.
[[nodiscard]] SimTime step_of_program(const Program& program, const ProgramTimes& times);

}  // namespace meshwright
