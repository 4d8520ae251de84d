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

Seconds SimulatedEvaluator::step_time(const Program& program, const ProgramCheck& /*check*/) {
  const ProgramTimes times = program_costs_within_clock(program, costs_).times;
  if (!worth_folding(program)) return to_seconds(run_in_order(program_graph(program, times).graph).step);
  const FoldedProgram small = fold_program(program, times);
  ProgramGraphOptions options;
  options.folded = &small.folded;
  return to_seconds(run_in_order(program_graph(small.program, small.times, options).graph).step);
}

Seconds SimulatedEvaluator::step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times, int chunks) {
  // These schedules have loops of their own, which need no shape (simulate_pipeline.cpp).
  if (schedule == ScheduleKind::OneFOneB || schedule == ScheduleKind::GPipe || schedule == ScheduleKind::Inference)
    return to_seconds(simulate_pipeline(schedule, microbatches, times, chunks).step);
  std::vector<std::pair<int, int>> edges;
  for (const PipelineTimes::Edge& edge : times.edges) edges.emplace_back(edge.from, edge.to);
  Shape key{schedule, times.forward.size(), microbatches, chunks, std::move(edges)};
  auto known = shapes_.find(key);
  if (known == shapes_.end()) {
    PipelineShape shape =
        pipeline_shape(schedule, static_cast<int>(times.forward.size()), microbatches, times.edges, chunks);
    operations_ += shape.operations.size();
    if (operations_ > kMaxOperations) {
      // All at once: a search that comes back to a shape finds it again after one more construction.
      shapes_.clear();
      operations_ = shape.operations.size();
    }
    known = shapes_.emplace(std::move(key), std::move(shape)).first;
  }
  return to_seconds(simulate_pipeline(known->second, times).step);
}

namespace {

// The peaks are those of all devices, of folded ones too.
StepOutcome outcome_of(const StepSimulation& step, const Program& program, const FoldedDevices* folded) {
  return {to_seconds(step.step), peak_memory(step, program, folded)};
}

StepOutcome folded_outcome(const PlanOfGraph& made, const CostModel& costs, const StepRequest& conditions,
                           Bytes* plain_peak) {
  const FoldedPlan small = load_folded_plan(made, costs, conditions);
  const Program& program = small.loaded.program;
  const ProgramTimes times = program_costs_within_clock(program, costs).times;
  if (plain_peak != nullptr) *plain_peak = small.loaded.check.largest_peak();
  return outcome_of(simulate_step(made.plan, small, times, costs, conditions), program, &small.folded);
}

StepOutcome whole_outcome(const PlanOfGraph& made, const Program& program, const CostModel& costs,
                          const StepRequest& conditions) {
  const ProgramTimes times = program_costs_within_clock(program, costs).times;
  return outcome_of(simulate_step(made.plan, *made.graph, program, times, costs, conditions, 1), program, nullptr);
}

}  // namespace

SimulatedEvaluator::SimulatedEvaluator(const CostModel& costs, const SoftwareProfile* software, StepRequest conditions)
    : costs_(costs), software_(software), conditions_(std::move(conditions)) {
  MW_CHECK(conditions_.is_of_a_plan(), "plans cannot be searched under such conditions");
}

// Where no links are shared the folded step is the same to the picosecond. Rates of flows are rounded: there a plan is
// folded where `simulate` folds it.
bool SimulatedEvaluator::folds(const Plan& plan) const {
  const std::int64_t passes = plan.cluster.devices() * plan.training.microbatches;
  const bool exact = conditions_.network == NetworkModel::Static;
  return keeps_devices_alike(conditions_) &&
         (worth_folding(plan) || (exact && can_fold(plan) && passes >= kManyPassesInPieces));
}

std::unique_ptr<PlanEvaluator> SimulatedEvaluator::plain() const {
  return conditions_.plain() ? nullptr : std::make_unique<SimulatedEvaluator>(costs_, software_);
}

StepOutcome SimulatedEvaluator::step_of_plan(const PlanOfGraph& made, const Program& program,
                                             const ProgramCheck& check) {
  if (conditions_.plain()) return {step_time(program, check)};
  return folds(made.plan) ? folded_outcome(made, costs_, conditions_, nullptr)
                          : whole_outcome(made, program, costs_, conditions_);
}

PlanOutcome SimulatedEvaluator::outcome(const PlanOfGraph& made) const {
  if (conditions_.plain()) return plain_outcome(made);
  PlanOutcome found;
  StepOutcome step;
  if (folds(made.plan)) {
    step = folded_outcome(made, costs_, conditions_, &found.peak);
  } else {
    const LoadedPlan loaded = load_plan(made, costs_);
    found.peak = loaded.check.largest_peak();
    step = whole_outcome(made, loaded.program, costs_, conditions_);
  }
  found.step = step.step;
  for (const Bytes peak : step.peaks) found.peak = std::max(found.peak, peak);
  return found;
}

PlanOutcome SimulatedEvaluator::plain_outcome(const PlanOfGraph& made) const {
  const std::int64_t passes = made.plan.cluster.devices() * made.plan.training.microbatches;
  if (worth_folding(made.plan) || (can_fold(made.plan) && passes >= kManyPasses)) {
    const FoldedPlan small = load_folded_plan(made, costs_);
    return {plain_step_time(small.loaded.program, costs_, &small.folded), small.loaded.check.largest_peak()};
  }
  const LoadedPlan loaded = load_plan(made, costs_);
  return {plain_step_time(loaded.program, costs_), loaded.check.largest_peak()};
}

std::optional<PlanEvaluator::SoftwareMemory> SimulatedEvaluator::software_memory(const Plan& plan,
                                                                                 const Graph& graph) const {
  if (software_ == nullptr || !knows_memory(*software_, plan)) return std::nullopt;
  return SoftwareMemory{framework_memory(plan, graph, *software_).allocated(),
                        safe_room(plan.cluster.only().device.memory, *software_)};
}

}  // namespace meshwright
