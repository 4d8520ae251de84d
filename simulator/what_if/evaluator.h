// SPDX-License-Identifier: Apache-2.0
// The planner's PlanEvaluator, implemented with the simulator: the only link between the two. Pipelines are ranked by
// plain simulations; whole plans are judged as `simulate` predicts them under the same conditions.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/plan_request.h"
#include "costmodel/sheets/software_profile.h"
#include "simulator/pipeline/pipeline_shape.h"
#include "simulator/what_if/step_request.h"

namespace meshwright {

// PlanTrial::beside of a plan's program; `folded`: only the devices that stand for others have lists in it.
using MemoryBesideTensors =
    std::function<std::vector<Bytes>(const Plan&, const Graph&, const Program&, const FoldedDevices* folded)>;

class SimulatedEvaluator final : public PlanEvaluator {
 public:
  // `software`: whose costs these are, and whose memory decides whether a plan fits; nullptr: this program's own.
  // `conditions`: of the step that plans are judged by. `beside`: what the executor holds beside tensors; empty:
  // nothing that usable memory does not leave room for. REQUIRES: conditions.is_of_a_plan().
  explicit SimulatedEvaluator(const CostModel& costs, const SoftwareProfile* software = nullptr,
                              StepRequest conditions = {}, MemoryBesideTensors beside = {});

  // Any number of threads may ask at the same time.
  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override;
  // Of the folded or whole program. Its step throws InputError as program_costs_within_clock and simulate_step.
  [[nodiscard]] std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made) const override;
  [[nodiscard]] bool hides_communication() const override { return conditions_.overlap.has_value(); }
  [[nodiscard]] int gathers_ahead() const override { return conditions_.overlap ? conditions_.overlap->prefetch : 0; }
  [[nodiscard]] bool steps_run_into_each_other() const override { return conditions_.controller.has_value(); }
  [[nodiscard]] std::unique_ptr<PlanEvaluator> plain() const override;
  // nullopt also where the software's memory is not known (knows_memory).
  [[nodiscard]] std::optional<SoftwareMemory> software_memory(const Plan& plan, const Graph& graph) const override;

 private:
  [[nodiscard]] bool folds(const Plan& plan) const;  // under the conditions

  // Schedule, number of stages, of microbatches, of chunks, and the edges.
  using Shape = std::tuple<ScheduleKind, std::size_t, int, int, std::vector<std::pair<int, int>>>;

  const CostModel& costs_;
  const SoftwareProfile* software_;
  const StepRequest conditions_;
  const MemoryBesideTensors beside_;
  std::mutex mutex_;  // of the members below
  // The latest, of schedules whose shape takes longer to find than to use.
  std::map<Shape, std::shared_ptr<const PipelineShape>> shapes_;
  std::size_t operations_ = 0;  // of these shapes together
};

}  // namespace meshwright
