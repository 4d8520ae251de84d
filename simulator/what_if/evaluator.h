// SPDX-License-Identifier: Apache-2.0
// The planner's PlanEvaluator, implemented with the simulator: the only link between the two.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/plan_request.h"
#include "costmodel/sheets/software_profile.h"
#include "simulator/pipeline/pipeline_shape.h"

namespace meshwright {

class SimulatedEvaluator final : public PlanEvaluator {
 public:
  // `software`: whose costs these are, and whose memory decides whether a plan fits; nullptr: this program's own.
  explicit SimulatedEvaluator(const CostModel& costs, const SoftwareProfile* software = nullptr)
      : costs_(costs), software_(software) {}

  // The plain step, simulated in order. Throws InputError as program_costs_within_clock.
  [[nodiscard]] Seconds step_time(const Program& program, const ProgramCheck& check) override;
  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override;
  // The plain step of the folded or whole program. Throws as step_time.
  [[nodiscard]] PlanOutcome outcome(const PlanOfGraph& made) const override;
  // nullopt also where the software's memory is not known (knows_memory).
  [[nodiscard]] std::optional<SoftwareMemory> software_memory(const Plan& plan, const Graph& graph) const override;

 private:
  // Schedule, number of stages, of microbatches, of chunks, and the edges.
  using Shape = std::tuple<ScheduleKind, std::size_t, int, int, std::vector<std::pair<int, int>>>;

  const CostModel& costs_;
  const SoftwareProfile* software_;
  std::map<Shape, PipelineShape> shapes_;  // the latest, of schedules whose shape takes longer to find than to use
  std::size_t operations_ = 0;             // of these shapes together
};

}  // namespace meshwright
