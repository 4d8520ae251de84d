// SPDX-License-Identifier: Apache-2.0
// The planner's PlanEvaluator, implemented with the simulator: the only link between the two.
#pragma once

#include "core/planner/make_plan.h"
#include "simulator/simulate_program.h"

namespace meshwright {

// price_program; throws InputError when a step could run past the end of the simulated clock (106 days), which only a
// cluster file with a wrong unit leads to.
[[nodiscard]] PricedProgram price_for_clock(const Program& program, const CostModel& costs);

class SimulatedEvaluator final : public PlanEvaluator {
 public:
  explicit SimulatedEvaluator(const CostModel& costs) : costs_(costs) {}

  [[nodiscard]] Seconds step_time(const Program& program, const ProgramCheck& /*check*/) override {
    return to_seconds(step_of_program(program, price_for_clock(program, costs_).times));
  }
  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times) override {
    return to_seconds(simulate_pipeline(schedule, microbatches, times).step);
  }

 private:
  const CostModel& costs_;
};

}  // namespace meshwright
