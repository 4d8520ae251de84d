// SPDX-License-Identifier: Apache-2.0
// What plan, simulate, sweep and run have to say about a predicted step.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/program/folded_devices.h"
#include "core/plan/program/timeline.h"
#include "costmodel/occupancy.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

// Mean time that one device is at work (for_each_work of core/plan/program/timeline.h): for one microbatch's forward,
// for its backward, for everything the device does once per step.
struct StageTimes {
  Seconds forward{0.0}, backward{0.0}, update{0.0};
};
// `counts`: as of summarize (core/plan/program/timeline.h).
[[nodiscard]] std::vector<StageTimes> mean_stage_times(const Timeline& timeline, const Program& program, int steps,
                                                       const std::vector<int>& counts = {});

// What devices wait for, as shares of all devices' time: the parts of a step's breakdown
// (simulator/report/step_breakdown.h) that are neither computing, nor collectives, nor copies.
struct WaitShares {
  double messages = 0.0;  // a message from or to the device is on its way
  double bubble = 0.0;    // nothing is, between the device's first and last computation
  double idle = 0.0;      // before the first and after the last
  [[nodiscard]] double total() const { return messages + bubble + idle; }
};

struct Prediction {
  ProgramCosts costs;
  Timeline timeline;        // of all steps of the simulation; of folded devices those that stand for others
  TimelineSummary summary;  // of one step
  WaitShares waiting;       // sums to summary.waiting
  StageWaits stage_waits;   // of the plain step
  std::vector<StageTimes> stages;
  Seconds step{0.0};
  std::int64_t events = 0;  // Runs and messages of the whole program
};

// program_costs; throws InputError when a step could run past the end of the simulated clock (106 days), which only a
// cluster file with a wrong unit leads to.
[[nodiscard]] ProgramCosts program_costs_within_clock(const Program& program, const CostModel& costs);

// The plain step by one engine alone, with the times of these costs. `folded`: as for plain_step. Throws InputError as
// program_costs_within_clock.
[[nodiscard]] Seconds plain_step_time(const Program& program, const CostModel& costs,
                                      const FoldedDevices* folded = nullptr);

// The plain step; throws InternalError unless both engines agree to the picosecond. Large programs are folded, which
// changes nothing but the time it takes (simulator/fold/fold_devices.h). REQUIRES: the program is sound.
[[nodiscard]] Prediction predict(const Program& program, const CostModel& costs);

// A plan with what is predicted of it. Where it is folded, only some devices of the program have lists, and the check
// has the memory of all but no order.
struct StepOfPlan {
  LoadedPlan loaded;
  std::optional<FoldedDevices> folded;
  Prediction prediction;
  [[nodiscard]] const FoldedDevices* alike() const { return folded ? &*folded : nullptr; }
};
// Whether predict folds the plan: it has many devices, or many passes of micro-batches on few, and no condition makes
// devices differ.
[[nodiscard]] bool is_to_fold(const Plan& plan, const StepRequest& conditions);
// The step under conditions, the plain step where there are none; peaks of the memory are those of the plain step or of
// this one, whichever are higher. Throws InputError as load_plan and simulate_step. REQUIRES:
// conditions.is_of_a_plan().
[[nodiscard]] StepOfPlan predict(const PlanOfGraph& made, const CostModel& costs, const StepRequest& conditions);

// The same where logical devices share physical ones (simulator/engine/shared_devices.h); `physical` [device].
// `occupancy`: how much of one an op keeps busy; null: all of it.
[[nodiscard]] Prediction predict_shared(const Program& program, const CostModel& costs,
                                        const std::vector<int>& physical, const Occupancy* occupancy = nullptr);

// Read off a simulated step. `folded`: as the step was simulated. `costs`: of the plain step.
[[nodiscard]] Prediction prediction_of(const Program& program, ProgramCosts costs, const StepSimulation& step,
                                       const FoldedDevices* folded = nullptr);

}  // namespace meshwright
