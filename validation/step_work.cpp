// SPDX-License-Identifier: Apache-2.0
#include "validation/step_work.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/plan/lowering/collective_op.h"
#include "costmodel/terms/op_shapes.h"
#include "simulator/program/executable_pieces.h"

namespace meshwright {

namespace {

std::string product_text(const OpWork& work) {
  const auto signature = parse_signature(work.signature);
  const auto shape = signature ? product_of(*signature) : std::nullopt;
  if (!shape) return "products that are no matrices'";
  const std::string batch = shape->batch > 1 ? fmt::format("{} times ", shape->batch) : "";
  return fmt::format("products of {}{} x {} x {} (M x N x K)", batch, shape->m, shape->n, shape->k);
}

std::string attention_text(const OpWork& work) {
  const auto signature = parse_signature(work.signature);
  const auto shape = signature ? attention_of(*signature) : std::nullopt;
  if (!shape) return "attention";
  return fmt::format("attention of {} x {} heads of {}, {} queries and {} keys{}", shape->batch, shape->heads,
                     shape->key_width, shape->queries, shape->keys, shape->backward ? ", backward" : "");
}

std::pair<Term, std::string> compute_text(const OpWork& work) {
  switch (work.kind) {
    case OpKind::Contract:
      return {Term::Products, product_text(work)};
    case OpKind::Attention:
    case OpKind::AttentionBackward:
    case OpKind::GroupedAttention:
    case OpKind::GroupedAttentionBackward:
      return {Term::Attention, attention_text(work)};
    default:
      return {Term::Passes, fmt::format("{} of {}", name_of(work.kind), human_bytes(work.bytes))};
  }
}

std::string host_text(const StageExecutable& executable, const LocalOp& op) {
  const Bytes bytes = executable.slots[static_cast<std::size_t>(op.outputs[0])].local.bytes();
  return fmt::format("copies of {} between device and host", human_bytes(bytes));
}

std::pair<Term, std::string> collective_text(const StageExecutable& executable, const LocalOp& op,
                                             const LogicalMesh& mesh) {
  const CollectiveOp collective = collective_of(executable, op, mesh);
  const MeshAxis& axis = mesh.axes[static_cast<std::size_t>(op.step->axis)];
  const std::string what =
      fmt::format("{} of {} over {} devices", name_of(collective.kind), human_bytes(collective.bytes), axis.size());
  if (axis.outer == 1) return {Term::Collectives, what + " of a host"};
  return {Term::Network, fmt::format("{} on {} hosts", what, axis.outer)};
}

using Times = std::map<std::pair<Term, std::string>, Seconds>;

// How often a device of the stage runs each executable.
std::map<int, int> runs_of_stage(const Program& program, const ProgramStage& stage) {
  std::map<int, int> runs;
  for (const Instruction& instruction : program.devices[stage.devices.front().index()])
    if (instruction.kind == Instruction::Kind::Run) ++runs[instruction.executable];
  return runs;
}

void add_executable(const Program& program, int number, double weight, const CostModel& costs, Times& times) {
  const StageExecutable& executable = program.executables[static_cast<std::size_t>(number)];
  const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
  for (const LocalOp& op : executable.ops) {
    const Seconds time = op_cost(executable, op, mesh, costs).time;
    if (time <= Seconds(0.0)) continue;
    const auto key = op.kind == LocalOp::Kind::Compute ? compute_text(op.work)
                     : op.is_collective()              ? collective_text(executable, op, mesh)
                                                       : std::pair{Term::Passes, host_text(executable, op)};
    times.emplace(key, Seconds(0.0)).first->second += weight * time;
    if (op.kind == LocalOp::Kind::Compute)
      times.emplace(std::pair{Term::Host, "the host's dispatch of ops"}, Seconds(0.0)).first->second += weight * time;
  }
}

}  // namespace

std::vector<StepWork> work_of_step(const Program& program, const CostModel& costs) {
  Times times;
  const auto all = static_cast<double>(program.devices.size());
  std::set<int> seen;  // executables: stages of one rank are run from one list
  for (const ProgramStage& stage : program.stages)
    for (const auto& [executable, runs] : runs_of_stage(program, stage))
      if (seen.insert(executable).second)
        add_executable(program, executable, static_cast<double>(stage.devices.size()) / all * runs, costs, times);
  for (const Transfer& transfer : program.transfers) {
    if (!transfer.hosts_apart) continue;
    const int group = program.stages[program.stage_of_device[transfer.source.index()].index()].mesh.of.group;
    const std::string what = fmt::format("messages of {} between stages", human_bytes(transfer.bytes));
    times.emplace(std::pair{Term::Network, what}, Seconds(0.0)).first->second +=
        costs.on(group).transfer(transfer.bytes, true, 1).time / all;
  }
  std::vector<StepWork> work;
  for (const auto& [key, time] : times) work.push_back({key.first, key.second, time});
  std::stable_sort(work.begin(), work.end(), [](const StepWork& a, const StepWork& b) { return a.time > b.time; });
  return work;
}

std::vector<StepWork> longest_of_each_term(const std::vector<StepWork>& work, std::size_t count) {
  std::vector<StepWork> kept;
  std::array<std::size_t, kTerms> taken{};
  for (const StepWork& some : work)
    if (taken[static_cast<std::size_t>(some.term)]++ < count) kept.push_back(some);
  return kept;
}

}  // namespace meshwright
