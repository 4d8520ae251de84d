// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/evaluator.h"

#include "costmodel/framework_memory.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/fold/folded_program.h"
#include "simulator/program/program_graph.h"
#include "simulator/what_if/prediction.h"

namespace meshwright {

namespace {

constexpr std::int64_t kManyPasses = 1024;         // devices times micro-batches that take longer to lower than to fold
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

PlanOutcome SimulatedEvaluator::outcome(const PlanOfGraph& made) const {
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
