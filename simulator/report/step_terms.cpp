// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/step_terms.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/recomputation.h"
#include "simulator/fold/folded_program.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/parameter_moves.h"
#include "simulator/program/program_graph.h"
#include "simulator/report/step_report.h"

namespace meshwright {

const char* name_of(StepTerm term) {
  switch (term) {
    case StepTerm::Compute:
      return "compute";
    case StepTerm::Recompute:
      return "recompute";
    case StepTerm::Collectives:
      return "tensor-parallel collectives";
    case StepTerm::GradientSync:
      return "gradient synchronisation";
    case StepTerm::WeightGathers:
      return "weight gathers";
    case StepTerm::Update:
      return "update";
    case StepTerm::HostTransfers:
      return "host transfers";
    case StepTerm::Overhead:
      return "overhead";
    case StepTerm::Messages:
      return "messages between stages";
    case StepTerm::Fill:
      return "waiting: fill";
    case StepTerm::Waiting:
      return "waiting: imbalance";
    case StepTerm::Drain:
      return "waiting: drain";
  }
  throw InternalError("unknown term of a step");
}

StepTerm term_of(const Program& program, const Graph& graph, const StageExecutable& executable, const LocalOp& op) {
  if (op.kind == LocalOp::Kind::Compute) {
    if (executable.phase == Phase::Update) return StepTerm::Update;
    return is_recomputation(graph, graph.op(op.op)) ? StepTerm::Recompute : StepTerm::Compute;
  }
  if (!op.is_collective()) return StepTerm::Compute;  // slices, and what host_transfers takes apart
  if (!ParameterMoves(program, executable).is_one(op)) return StepTerm::Collectives;
  return op.step->kind == ReshardStep::Kind::AllGather ? StepTerm::WeightGathers : StepTerm::GradientSync;
}

SimTime StepTerms::total() const {
  SimTime sum{0};
  for (const SimTime time : times) sum += time;
  return sum;
}

namespace {

StepTerms terms_of_run(const Program& program, const Graph& graph, const StageExecutable& executable,
                       const LogicalMesh& mesh, const CostModel& costs, SimTime whole) {
  StepTerms terms;
  std::vector<Seconds> times;
  Seconds end(0.0);
  SimTime before{0};
  const auto add = [&](StepTerm term, Seconds time) {
    end += time;
    const SimTime now = to_sim_time(end);
    terms[term] += now - before;
    before = now;
  };
  for (const LocalOp& op : executable.ops) {
    times.push_back(op_cost(executable, op, mesh, costs).time);
    const Seconds moved = host_transfers(executable, op, mesh, costs);
    add(term_of(program, graph, executable, op), times.back() - moved);
    if (moved > Seconds(0.0)) add(StepTerm::HostTransfers, moved);
  }
  const Seconds overhead = run_overhead(program, executable, mesh, costs.on(mesh.of.group), times);
  const SimTime ops = before;
  add(StepTerm::Overhead, overhead);
  // Sums in another order may differ in the last bits from what program_costs adds up.
  const SimTime left = whole - before;
  const std::int64_t rounding = 1 + ops.ps / 1'000'000'000'000;
  terms[std::abs(left.ps) <= rounding ? StepTerm::Overhead : StepTerm::Messages] += left;
  return terms;
}

}  // namespace

std::vector<StepTerms> executable_terms(const Program& program, const Graph& graph, const CostModel& costs,
                                        const ProgramTimes& times) {
  std::vector<StepTerms> terms;
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
    terms.push_back(terms_of_run(program, graph, executable, mesh, costs, times.executable[e]));
  }
  return terms;
}

namespace {

// The first and the last moment at which a device computes; nullopt: it does not.
struct Active {
  SimTime begin, end;
};
std::vector<std::optional<Active>> active_times(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<std::optional<Active>> active(static_cast<std::size_t>(graph.devices));
  for (std::size_t t = 0; t < graph.size(); ++t) {
    const TaskId task(static_cast<int>(t));
    if (!is_compute(graph.of(task).kind) || times.begin[t] == times.end[t]) continue;
    std::optional<Active>& own = active[graph.streams[graph.stream_of(task).index()].device.index()];
    if (!own) own = Active{times.begin[t], times.end[t]};
    own->begin = std::min(own->begin, times.begin[t]);
    own->end = std::max(own->end, times.end[t]);
  }
  return active;
}

// How much of the time before a device's first computation, and after its last, no message of its own fills.
struct Ends {
  SimTime fill{0}, drain{0};
};
class EndsOfDevices {
 public:
  EndsOfDevices(const TaskGraph& graph, const TaskTimes& times) : active_(active_times(graph, times)) {
    pieces_.resize(active_.size());
    for (std::size_t t = 0; t < graph.size(); ++t) {
      const TaskId task(static_cast<int>(t));
      if (!is_communication(graph.of(task).kind)) continue;
      const Stream& stream = graph.streams[graph.stream_of(task).index()];
      add(stream.device, times.begin[t], times.end[t]);
      if (stream.peer != stream.device) add(stream.peer, times.begin[t], times.end[t]);
    }
  }

  // REQUIRES: `idle` is what device_shares says of the device.
  [[nodiscard]] Ends of(std::size_t device, SimTime idle) {
    if (!active_[device]) return {idle, SimTime{0}};
    SimTime fill = active_[device]->begin, until{0};
    std::vector<std::pair<SimTime, SimTime>>& own = pieces_[device];
    std::sort(own.begin(), own.end());
    for (const auto& [begin, end] : own) {
      const SimTime from = std::max(begin, until), to = std::min(end, active_[device]->begin);
      if (from < to) fill = fill - (to - from);
      until = std::max(until, to);
    }
    return {fill, idle - fill};
  }

 private:
  // Adds the part that lies before the device's first computation.
  void add(DeviceId device, SimTime begin, SimTime end) {
    const std::optional<Active>& active = active_[device.index()];
    if (active && begin < active->begin && begin < end) pieces_[device.index()].emplace_back(begin, end);
  }

  std::vector<std::optional<Active>> active_;                     // [device]
  std::vector<std::vector<std::pair<SimTime, SimTime>>> pieces_;  // [device]
};

// Without what fills the gaps between Runs.
StepTerms work_of(const std::vector<Instruction>& list, const std::vector<StepTerms>& runs) {
  StepTerms work;
  for (const Instruction& instruction : list) {
    if (instruction.kind != Instruction::Kind::Run) continue;
    const StepTerms& run = runs[static_cast<std::size_t>(instruction.executable)];
    for (std::size_t t = 0; t < kStepTerms; ++t) work.times[t] += run.times[t];
  }
  return work;
}

TermsOfStep take_apart(const Program& program, const Graph& graph, const CostModel& costs, const ProgramTimes& times,
                       const FoldedDevices* folded) {
  ProgramGraphOptions options;
  options.folded = folded;
  const ProgramGraph tasks = program_graph(program, times, options);
  const TaskTimes simulated = run_in_order(tasks.graph);
  const std::vector<StepTerms> runs = executable_terms(program, graph, costs, times);
  const std::vector<DeviceShares> shares = device_shares(tasks.graph, simulated);
  EndsOfDevices ends(tasks.graph, simulated);
  TermsOfStep found;
  found.step = simulated.step;
  found.devices = static_cast<int>(program.devices.size());
  std::optional<SimTime> most;
  const std::vector<int> counts = folded == nullptr ? std::vector<int>{} : folded->counts();
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const int count = counts.empty() ? 1 : counts[d];
    if (count == 0) continue;
    StepTerms terms = work_of(program.devices[d], runs);
    const SimTime work = terms.total();
    MW_CHECK(work == shares[d].compute, "device {} works {} ps, its Runs take {} ps", d, shares[d].compute.ps, work.ps);
    const Ends own = ends.of(d, shares[d].idle);
    terms[StepTerm::Messages] += shares[d].communication;
    terms[StepTerm::Fill] = own.fill;
    terms[StepTerm::Waiting] = shares[d].bubble;
    terms[StepTerm::Drain] = own.drain;
    MW_CHECK(terms.total() == found.step, "the terms of device {} are {} ps of a step of {} ps", d, terms.total().ps,
             found.step.ps);
    for (std::size_t t = 0; t < kStepTerms; ++t) found.of_all.times[t].ps += count * terms.times[t].ps;
    if (most && work <= *most) continue;
    most = work;
    found.busiest = DeviceId(static_cast<int>(d));
    found.of_busiest = terms;
  }
  return found;
}

}  // namespace

TermsOfStep terms_of_step(const Program& program, const Graph& graph, const CostModel& costs) {
  const ProgramTimes times = program_costs(program, costs).times;
  if (!worth_folding(program)) return take_apart(program, graph, costs, times, nullptr);
  const FoldedProgram small = fold_program(program, times);
  return take_apart(small.program, graph, costs, small.times, &small.folded);
}

}  // namespace meshwright
