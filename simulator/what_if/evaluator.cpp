// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/evaluator.h"

#include <algorithm>

#include "core/base/errors.h"
#include "costmodel/framework_memory.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/fold/folded_program.h"
#include "simulator/program/program_graph.h"
#include "simulator/what_if/prediction.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

namespace {

constexpr std::int64_t kManyPasses = 1024;         // devices times micro-batches that take longer to lower than to fold
constexpr std::int64_t kManyPassesInPieces = 64;   // the same under conditions, where a pass is many tasks
constexpr std::size_t kMaxOperations = 4'000'000;  // of shapes that are kept

}  // namespace

Seconds SimulatedEvaluator::step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times, int chunks) {
  // These schedules have loops of their own, which need no shape (simulate_pipeline.cpp).
  if (schedule == ScheduleKind::OneFOneB || schedule == ScheduleKind::GPipe || schedule == ScheduleKind::Inference)
    return to_seconds(simulate_pipeline(schedule, microbatches, times, chunks).step);
  std::vector<std::pair<int, int>> edges;
  for (const PipelineTimes::Edge& edge : times.edges) edges.emplace_back(edge.from, edge.to);
  Shape key{schedule, times.forward.size(), microbatches, chunks, std::move(edges)};
  std::shared_ptr<const PipelineShape> shape;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = shapes_.find(key); known != shapes_.end()) shape = known->second;
  }
  if (!shape) {
    // Without the lock: two threads that ask for the same make the same.
    shape = std::make_shared<const PipelineShape>(
        pipeline_shape(schedule, static_cast<int>(times.forward.size()), microbatches, times.edges, chunks));
    const std::lock_guard lock(mutex_);
    if (operations_ + shape->operations.size() > kMaxOperations) {
      // All at once: a search that comes back to a shape finds it again after one more construction.
      shapes_.clear();
      operations_ = 0;
    }
    if (shapes_.emplace(std::move(key), shape).second) operations_ += shape->operations.size();
  }
  return to_seconds(simulate_pipeline(*shape, times).step);
}

namespace {

// [stage] of its fullest device, of these numbers by device.
std::vector<Bytes> largest_of_stages(const Program& program, const std::vector<Bytes>& of_devices) {
  std::vector<Bytes> largest(of_devices.empty() ? 0 : program.stages.size(), Bytes(0.0));
  for (std::size_t d = 0; d < of_devices.size(); ++d) {
    Bytes& most = largest[program.stage_of_device[d].index()];
    most = std::max(most, of_devices[d]);
  }
  return largest;
}

// Programs that are not lowered in part may have many alike devices nevertheless.
Seconds whole_step(const Program& program, const CostModel& costs) {
  if (!worth_folding(program)) return plain_step_time(program, costs);
  const ProgramTimes times = program_costs_within_clock(program, costs).times;
  const FoldedProgram small = fold_program(program, times);
  ProgramGraphOptions options;
  options.folded = &small.folded;
  return to_seconds(run_in_order(program_graph(small.program, small.times, options).graph).step);
}

class SimulatedTrial final : public PlanTrial {
 public:
  SimulatedTrial(LoadedPlan loaded, const PlanOfGraph& made, const CostModel& costs, const StepRequest& conditions,
                 const MemoryBesideTensors& of_beside)
      : loaded_(std::move(loaded)), made_(made), costs_(costs), conditions_(conditions) {
    note_memory(loaded_, nullptr, of_beside);
  }
  SimulatedTrial(FoldedPlan folded, const PlanOfGraph& made, const CostModel& costs, const StepRequest& conditions,
                 const MemoryBesideTensors& of_beside)
      : folded_(std::move(folded)), made_(made), costs_(costs), conditions_(conditions) {
    note_memory(folded_->loaded, &folded_->folded, of_beside);
  }

  [[nodiscard]] StepOutcome step() override {
    const Program& program = folded_ ? folded_->loaded.program : loaded_.program;
    const FoldedDevices* const alike = folded_ ? &folded_->folded : nullptr;
    if (conditions_.plain()) return {folded_ ? plain_step_time(program, costs_, alike) : whole_step(program, costs_)};
    const ProgramTimes times = program_costs_within_clock(program, costs_).times;
    const StepSimulation step = folded_
                                    ? simulate_step(made_.plan, *folded_, times, costs_, conditions_)
                                    : simulate_step(made_.plan, *made_.graph, program, times, costs_, conditions_, 1);
    return {to_seconds(step.step), largest_of_stages(program, peak_memory(step, program, alike))};
  }

 private:
  void note_memory(const LoadedPlan& loaded, const FoldedDevices* folded, const MemoryBesideTensors& of_beside) {
    peaks = largest_of_stages(loaded.program, loaded.check.peak_memory);
    on_host = largest_of_stages(loaded.program, loaded.program.host_bytes);
    if (of_beside) beside = of_beside(made_.plan, *made_.graph, loaded.program, folded);
  }

  LoadedPlan loaded_;  // unless folded
  std::optional<FoldedPlan> folded_;
  const PlanOfGraph made_;
  const CostModel& costs_;
  const StepRequest& conditions_;
};

}  // namespace

SimulatedEvaluator::SimulatedEvaluator(const CostModel& costs, const SoftwareProfile* software, StepRequest conditions,
                                       MemoryBesideTensors beside)
    : costs_(costs), software_(software), conditions_(std::move(conditions)), beside_(std::move(beside)) {
  MW_CHECK(conditions_.is_of_a_plan(), "plans cannot be searched under such conditions");
}

// Where no links are shared the folded step is the same to the picosecond. Rates of flows are rounded: there a plan is
// folded where `simulate` folds it.
bool SimulatedEvaluator::folds(const Plan& plan) const {
  if (worth_folding(plan)) return keeps_devices_alike(conditions_);
  const bool exact = conditions_.network == NetworkModel::Static;
  const std::int64_t passes = plan.cluster.devices() * plan.training.microbatches;
  return keeps_devices_alike(conditions_) && exact && can_fold(plan) &&
         passes >= (conditions_.plain() ? kManyPasses : kManyPassesInPieces);
}

std::unique_ptr<PlanEvaluator> SimulatedEvaluator::plain() const {
  return conditions_.plain() ? nullptr
                             : std::make_unique<SimulatedEvaluator>(costs_, software_, StepRequest{}, beside_);
}

std::unique_ptr<PlanTrial> SimulatedEvaluator::trial(const PlanOfGraph& made) const {
  if (folds(made.plan))
    return std::make_unique<SimulatedTrial>(load_folded_plan(made, costs_, conditions_), made, costs_, conditions_,
                                            beside_);
  return std::make_unique<SimulatedTrial>(load_plan(made, costs_), made, costs_, conditions_, beside_);
}

std::optional<PlanEvaluator::SoftwareMemory> SimulatedEvaluator::software_memory(const Plan& plan,
                                                                                 const Graph& graph) const {
  if (software_ == nullptr || !knows_memory(*software_, plan)) return std::nullopt;
  return SoftwareMemory{framework_memory(plan, graph, *software_).allocated(),
                        safe_room(plan.cluster.only().device.memory, *software_)};
}

}  // namespace meshwright
