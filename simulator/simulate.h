// SPDX-License-Identifier: Apache-2.0
// Predicts a Program: when each instruction of each device begins and ends.
//
// Meaning (both engines):
//  - A device runs its instructions in order. A Run occupies the device for its executable's duration. When the
//  executable has
//    collectives, all devices of the stage start that Run together.
//  - An Exchange posts its sends and receives at once. The message of a send starts when the sender has posted it and
//  the channel
//    (ordered pair of devices) is free, and arrives after its duration: sending does not occupy the device. The
//    Exchange ends on this device when all of its receives have arrived.
//  - Free takes no time.
// Spans: every Run; every message, on its source, from its start to its arrival; a Wait wherever an Exchange or the
// start of a Run together with the stage's other devices keeps a device waiting.
#pragma once

#include <vector>

#include "core/plan/check_program.h"
#include "core/plan/pipeline_times.h"
#include "core/plan/program.h"
#include "core/plan/timeline.h"

namespace meshwright {

struct ProgramTimes {
  std::vector<SimTime> executable;  // [executable]
  std::vector<SimTime> transfer;    // [transfer]
};

// Sums what the cost model says of every local op and transfer. `bases`: seconds by basis, for the report.
struct PricedProgram {
  ProgramTimes times;
  struct {
    Seconds measured{0.0}, interpolated{0.0}, modelled{0.0};
  } basis;  // of the executables' time, each executable counted as often as it runs on one device
};
[[nodiscard]] PricedProgram price_program(const Program& program, const CostModel& costs);

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

// The pipeline alone, for ranking thousands of candidates: stages as single devices with given times.
struct PipelineResult {
  SimTime step;                                // end of the last update
  std::vector<SimTime> first_begin, last_end;  // [stage] first forward's begin, last backward's end
};
// Same meaning as above, for a program that is lowered from stages of one device each. O((stages + edges) *
// microbatches), no allocation beyond a few vectors.
[[nodiscard]] PipelineResult simulate_pipeline(ScheduleKind schedule, int microbatches, const PipelineTimes& times);

}  // namespace meshwright
