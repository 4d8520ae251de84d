// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/prediction.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/errors.h"
#include "simulator/engine/shared_devices.h"
#include "simulator/fold/folded_program.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/program_tasks.h"
#include "simulator/report/step_report.h"

namespace meshwright {

std::vector<StageTimes> mean_stage_times(const Timeline& timeline, const Program& program, int steps,
                                         const std::vector<int>& counts) {
  struct Sums {
    std::int64_t forward = 0, backward = 0, update = 0;  // picoseconds
  };
  std::vector<Sums> sums(program.stages.size());
  for_each_work(timeline, [&](const WorkTime& work) {
    Sums& stage = sums[work.stage.index()];
    std::int64_t& sum = work.kind == Span::Kind::Forward  ? stage.forward
                        : work.kind == Span::Kind::Update ? stage.update
                                                          : stage.backward;
    sum += (counts.empty() ? 1 : counts[work.device.index()]) * (work.end - work.begin).ps;
  });
  std::vector<StageTimes> times;
  for (std::size_t s = 0; s < sums.size(); ++s) {
    // A forward or backward runs once for each device and microbatch, an update once for each device.
    const double once = static_cast<double>(program.stages[s].devices.size()) * steps;
    const double each = once * program.microbatches;
    times.push_back({to_seconds(SimTime{sums[s].forward}) / each, to_seconds(SimTime{sums[s].backward}) / each,
                     to_seconds(SimTime{sums[s].update}) / once});
  }
  return times;
}

// No instruction waits for anything but others of the program, so a step takes at most the sum of them all. A duration
// beyond the clock comes out of the conversion negative.
ProgramCosts program_costs_within_clock(const Program& program, const CostModel& model) {
  constexpr double kClock = 9e18;  // picoseconds
  ProgramCosts costs = program_costs(program, model);
  double total = 0.0;
  const auto add = [&](SimTime time) { total = time.ps < 0 ? kClock : total + static_cast<double>(time.ps); };
  for (const SimTime time : costs.times.transfer) add(time);
  for (const std::vector<Instruction>& device : program.devices)
    for (const Instruction& instruction : device)
      if (instruction.kind == Instruction::Kind::Run)
        add(costs.times.executable[static_cast<std::size_t>(instruction.executable)]);
  require(total < kClock,
          "a step would take longer than the simulated clock runs (106 days); check the units of the cluster's rates.");
  return costs;
}

namespace {

// Runs and messages. REQUIRES: no device is folded.
std::int64_t count_events(const Program& program) {
  auto events = static_cast<std::int64_t>(program.transfers.size());
  for (const std::vector<Instruction>& list : program.devices)
    events += std::count_if(list.begin(), list.end(),
                            [](const Instruction& instruction) { return instruction.kind == Instruction::Kind::Run; });
  return events;
}

// Each device's figures are those of the device that stands for it.
void unfold(TimelineSummary& summary, const FoldedDevices& folded) {
  for (std::size_t d = 0; d < summary.compute.size(); ++d)
    summary.compute[d] = summary.compute[folded.representative[d].index()];
}

StageWaits stage_waits_of_plain_step(const Program& program, const ProgramTimes& times) {
  const ProgramGraph plain = program_graph(program, times);
  return stage_waits(to_timeline(plain.graph, run_in_order(plain.graph)));
}

// Means over all devices; the bubble and what is idle are those of the breakdown, and the rest of the waiting is for
// messages.
WaitShares wait_shares(const StepSimulation& step, double waiting, const std::vector<int>& counts) {
  std::int64_t bubble = 0, idle = 0, all = 0;
  const std::vector<DeviceShares> devices = device_shares(step.tasks.graph, step.times);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::int64_t count = counts.empty() ? 1 : counts[d];
    bubble += count * devices[d].bubble.ps;
    idle += count * devices[d].idle.ps;
    all += count * step.times.step.ps;
  }
  if (all == 0) return {};
  const double whole = static_cast<double>(all);
  WaitShares shares{0.0, static_cast<double>(bubble) / whole, static_cast<double>(idle) / whole};
  shares.messages = std::max(0.0, waiting - shares.bubble - shares.idle);
  return shares;
}

}  // namespace

Prediction prediction_of(const Program& program, ProgramCosts costs, const StepSimulation& step,
                         const FoldedDevices* folded) {
  const std::vector<int> counts = folded == nullptr ? std::vector<int>{} : folded->counts();
  const int steps = step.steps();
  Prediction prediction;
  prediction.timeline = to_timeline(step.tasks.graph, step.times);
  prediction.summary = summarize(prediction.timeline, static_cast<int>(program.devices.size()), counts);
  if (folded != nullptr) unfold(prediction.summary, *folded);
  for (Seconds& compute : prediction.summary.compute) compute = compute / static_cast<double>(steps);
  prediction.summary.step = prediction.summary.step / static_cast<double>(steps);
  prediction.waiting = wait_shares(step, prediction.summary.waiting, counts);
  // Several steps run into one another: what stages wait is that of the plain step.
  prediction.stage_waits =
      steps == 1 ? stage_waits(prediction.timeline, counts) : stage_waits_of_plain_step(program, costs.times);
  prediction.stages = mean_stage_times(prediction.timeline, program, steps, counts);
  prediction.step = to_seconds(step.step);
  if (folded == nullptr) prediction.events = count_events(program);
  prediction.costs = std::move(costs);
  return prediction;
}

Seconds plain_step_time(const Program& program, const CostModel& costs, const FoldedDevices* folded) {
  return to_seconds(plain_step(program, program_costs_within_clock(program, costs).times, folded));
}

Prediction predict(const Program& program, const CostModel& model) {
  ProgramCosts costs = program_costs_within_clock(program, model);
  if (!worth_folding(program)) {
    const StepSimulation step = simulate_plain_step(program, costs.times);
    return prediction_of(program, std::move(costs), step);
  }
  const FoldedProgram small = fold_program(program, costs.times);
  const StepSimulation step = simulate_plain_step(small.program, small.times, &small.folded);
  Prediction prediction = prediction_of(program, std::move(costs), step, &small.folded);
  prediction.events = count_events(program);
  return prediction;
}

namespace {

// Programs of more devices times micro-batches are lowered in part, where that changes nothing.
constexpr std::int64_t kManyPassesOfPlan = 1 << 14;

void take_peaks(ProgramCheck& check, const std::vector<Bytes>& peaks) {
  for (std::size_t d = 0; d < peaks.size(); ++d) check.peak_memory[d] = std::max(check.peak_memory[d], peaks[d]);
}

}  // namespace

bool is_to_fold(const Plan& plan, const StepRequest& conditions) {
  if (!keeps_devices_alike(conditions)) return false;
  const std::int64_t passes = plan.cluster.devices() * plan.training.microbatches;
  return worth_folding(plan) ||
         (can_fold(plan) && conditions.network == NetworkModel::Static && passes >= kManyPassesOfPlan);
}

StepOfPlan predict(const PlanOfGraph& made, const CostModel& model, const StepRequest& conditions) {
  StepOfPlan predicted;
  if (!is_to_fold(made.plan, conditions)) {
    predicted.loaded = load_plan(made, model);
    const Program& program = predicted.loaded.program;
    if (conditions.plain()) {
      predicted.prediction = predict(program, model);
      return predicted;
    }
    ProgramCosts costs = program_costs_within_clock(program, model);
    const StepSimulation step = simulate_step(made.plan, *made.graph, program, costs.times, model, conditions, 1);
    predicted.prediction = prediction_of(program, std::move(costs), step);
    take_peaks(predicted.loaded.check, peak_memory(step, program, nullptr));
    return predicted;
  }
  FoldedPlan small = load_folded_plan(made, model, conditions);
  const Program& program = small.loaded.program;
  ProgramCosts costs = program_costs_within_clock(program, model);
  const StepSimulation step = conditions.plain() ? simulate_plain_step(program, costs.times, &small.folded)
                                                 : simulate_step(made.plan, small, costs.times, model, conditions);
  predicted.prediction = prediction_of(program, std::move(costs), step, &small.folded);
  predicted.prediction.events = small.events;
  if (!conditions.plain()) take_peaks(small.loaded.check, peak_memory(step, program, &small.folded));
  predicted.loaded = std::move(small.loaded);
  predicted.folded = std::move(small.folded);
  return predicted;
}

namespace {

// [executable] the mean over its time. What is no op of a kind that was measured keeps all of a device busy.
std::vector<double> occupancy_of_runs(const Program& program, const CostModel& model, const Occupancy& occupancy) {
  std::vector<double> found;
  for (const StageExecutable& executable : program.executables) {
    const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
    Seconds busy(0.0), all(0.0);
    for (const LocalOp& op : executable.ops) {
      const Seconds time = op_cost(executable, op, mesh, model).time;
      all += time;
      busy += (op.kind == LocalOp::Kind::Compute ? occupancy.of(op.work, time) : 1.0) * time;
    }
    found.push_back(all > Seconds(0.0) ? busy / all : 1.0);
  }
  return found;
}

// [class of the graph]
std::vector<double> occupancy_of_classes(const Program& program, const ProgramTimes& times,
                                         const std::vector<double>& of_runs, const TaskGraph& graph) {
  std::map<std::tuple<TaskKind, int, std::int64_t>, double> known;
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    double& most = known[{kind_of(executable), executable.stage.value, times.executable[e].ps}];
    most = std::max(most, of_runs[e]);
  }
  std::vector<double> found;
  for (const TaskClass& own : graph.classes) {
    const auto run = known.find({own.kind, own.stage.value, own.duration.ps});
    found.push_back(run == known.end() ? 1.0 : run->second);
  }
  return found;
}

}  // namespace

Prediction predict_shared(const Program& program, const CostModel& model, const std::vector<int>& physical,
                          const Occupancy* occupancy) {
  ProgramCosts costs = program_costs(program, model, physical);
  StepSimulation step;
  step.tasks = program_graph(program, costs.times);
  std::vector<double> parts;
  if (occupancy != nullptr)
    parts = occupancy_of_classes(program, costs.times, occupancy_of_runs(program, model, *occupancy), step.tasks.graph);
  step.tasks.graph = share_devices(step.tasks.graph, physical, parts);
  step.times = run_by_events(step.tasks.graph);
  step.step = step.times.step;
  step.by_events = true;
  return prediction_of(program, std::move(costs), step);
}

}  // namespace meshwright
