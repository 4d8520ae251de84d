// SPDX-License-Identifier: Apache-2.0
#include "cli/step/evaluator.h"

namespace meshwright {

namespace {

constexpr double kClock = 9e18;                     // picoseconds
constexpr std::size_t kMostOperations = 4'000'000;  // of shapes that are kept

}  // namespace

// No instruction waits for anything but others of the program, so a step takes at most the sum of them all. A duration
// beyond the clock comes out of the conversion negative.
ProgramCosts program_costs_within_clock(const Program& program, const CostModel& costs) {
  ProgramCosts priced = program_costs(program, costs);
  double total = 0.0;
  const auto add = [&](SimTime time) { total = time.ps < 0 ? kClock : total + static_cast<double>(time.ps); };
  for (const SimTime time : priced.times.transfer) add(time);
  for (const std::vector<Instruction>& device : program.devices)
    for (const Instruction& instruction : device)
      if (instruction.kind == Instruction::Kind::Run)
        add(priced.times.executable[static_cast<std::size_t>(instruction.executable)]);
  require(total < kClock,
          "a step would take longer than the simulated clock runs (106 days); check the units of the cluster's rates.");
  return priced;
}

Seconds SimulatedEvaluator::step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times, int chunks) {
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
    if (operations_ > kMostOperations) {
      shapes_.clear();
      operations_ = shape.operations.size();
    }
    known = shapes_.emplace(std::move(key), std::move(shape)).first;
  }
  return to_seconds(simulate_pipeline(known->second, times).step);
}

}  // namespace meshwright
