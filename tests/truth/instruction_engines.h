// SPDX-License-Identifier: Apache-2.0
// Two plain engines that walk a Program instruction by instruction, each in its own way: what the simulator's task
// graphs are held against.
//
// Spans: every Run; every message, on its source, from its start to its arrival; a Wait wherever an Exchange, an Await
// or the start of a Run together with the stage's other devices keeps a device waiting.
#pragma once

#include <vector>

#include "core/plan/program/check_program.h"
#include "core/plan/program/timeline.h"
#include "simulator/program/program_costs.h"

namespace meshwright {

struct SimulationResult {
  Timeline timeline;
  std::int64_t events = 0;  // Runs that ended and messages that arrived
};

// Discrete-event engine: events ordered by (time, sequence). REQUIRES: the program is sound (throws InternalError on
// deadlock).
[[nodiscard]] SimulationResult simulate_by_events(const Program& program, const ProgramTimes& times);

// One pass over the canonical order; equal to the event engine to the picosecond.
[[nodiscard]] SimulationResult simulate_in_order(const Program& program, const std::vector<InstructionRef>& order,
                                                 const ProgramTimes& times);

}  // namespace meshwright
