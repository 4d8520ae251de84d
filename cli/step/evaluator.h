// SPDX-License-Identifier: Apache-2.0
// The planner's PlanEvaluator, implemented with the simulator: the only link between the two.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/make_plan.h"
#include "simulator/pipeline/pipeline_shape.h"
#include "simulator/report/simulate_program.h"

namespace meshwright {

// program_costs; throws InputError when a step could run past the end of the simulated clock (106 days), which only a
// cluster file with a wrong unit leads to.
[[nodiscard]] ProgramCosts program_costs_within_clock(const Program& program, const CostModel& costs);

class SimulatedEvaluator final : public PlanEvaluator {
 public:
  explicit SimulatedEvaluator(const CostModel& costs) : costs_(costs) {}

  [[nodiscard]] Seconds step_time(const Program& program, const ProgramCheck& /*check*/) override {
    return to_seconds(step_of_program(program, program_costs_within_clock(program, costs_).times));
  }
  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override;

 private:
  // Schedule, number of stages, of microbatches, of chunks, and the edges.
  using Shape = std::tuple<ScheduleKind, std::size_t, int, int, std::vector<std::pair<int, int>>>;

  const CostModel& costs_;
  std::map<Shape, PipelineShape> shapes_;  // where finding the shape takes longer than using it; the last ones
  std::size_t operations_ = 0;             // of these
};

}  // namespace meshwright
