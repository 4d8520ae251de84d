// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes, device by device: to the picosecond the exposed parts of a device add up to the step.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/program/folded_devices.h"
#include "simulator/program/program_graph.h"
#include "simulator/report/run_parts.h"

namespace meshwright {

struct DeviceBreakdown {
  DeviceId device{0};
  int count = 1;     // devices that it stands for, itself among them
  StageId stage{0};  // the first that it has a part in
  TimeParts parts;
};

struct StepBreakdown {
  SimTime step{0};
  std::vector<DeviceBreakdown> devices;  // those that stand for themselves, in order
  // Device-seconds are counts; of the stages and of all: the sums over their devices.
  [[nodiscard]] TimeParts of_all() const;
  [[nodiscard]] int count() const;  // devices
};

// What runs when: a step that was simulated, with the names of its tasks (ProgramGraphOptions::name_tasks).
struct NamedStep {
  const ProgramGraph& tasks;
  const TaskTimes& times;
  const std::vector<std::vector<Piece>>* pieces = nullptr;  // [executable], where Runs are in pieces
  std::optional<LastSteps> among = {};                      // of several steps those that are taken apart
};

// Of a moment at which a device does not compute, the first of these that goes on has it: a collective, a copy to or
// from the host, a message; else it is bubble or idle. `whole` [executable]: what a Run takes that is in one piece.
// With several steps: what goes on between the begin and the end of the last ones, on average; bubble is what lies
// between the first and the last computation of all. REQUIRES: the program is what was simulated; `folded` as then;
// `among` of several steps.
[[nodiscard]] StepBreakdown step_breakdown(const Program& program, const RunParts& parts,
                                           const std::vector<SimTime>& whole, const NamedStep& step,
                                           const FoldedDevices* folded = nullptr);

}  // namespace meshwright
