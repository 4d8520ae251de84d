// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "simulator/executable_pieces.h"
#include "simulator/simulate.h"

namespace meshwright {

namespace {

struct PricedExecutable {
  Seconds measured{0.0}, interpolated{0.0}, modelled{0.0};

  void add(const Priced& priced) {
    switch (priced.basis) {
      case Basis::Measured:
        measured += priced.time;
        return;
      case Basis::Interpolated:
        interpolated += priced.time;
        return;
      case Basis::Modelled:
        modelled += priced.time;
        return;
    }
  }
  [[nodiscard]] Seconds total() const { return measured + interpolated + modelled; }
};

PricedExecutable price(const StageExecutable& executable, const LogicalMesh& mesh, const CostModel& all_costs) {
  PricedExecutable sum;
  for (const LocalOp& op : executable.ops) sum.add(price_op(executable, op, mesh, all_costs));
  sum.add({all_costs.on(mesh.of.group).run_overhead(), Basis::Modelled});
  return sum;
}

// How often each executable runs on the first device of its stage.
std::vector<int> count_runs(const Program& program) {
  std::vector<int> runs(program.executables.size(), 0);
  const auto stage_of = [&](const Instruction& run) -> const ProgramStage& {
    return program.stages[program.executables[static_cast<std::size_t>(run.executable)].stage.index()];
  };
  for (const ProgramStage& stage : program.stages)
    for (const Instruction& instruction : program.devices[stage.devices.front().index()])
      if (instruction.kind == Instruction::Kind::Run && &stage == &stage_of(instruction))
        ++runs[static_cast<std::size_t>(instruction.executable)];
  return runs;
}

}  // namespace

CollectiveOp collective_of(const StageExecutable& executable, const LocalOp& op) {
  MW_CHECK(op.kind == LocalOp::Kind::Reshard && op.step && op.inputs.size() == 1 && op.outputs.size() == 1,
           "a reshard with {} inputs and {} outputs", op.inputs.size(), op.outputs.size());
  const Bytes before = executable.slots[static_cast<std::size_t>(op.inputs[0])].local.bytes();
  const Bytes after = executable.slots[static_cast<std::size_t>(op.outputs[0])].local.bytes();
  switch (op.step->kind) {
    case ReshardStep::Kind::AllReduce:
      return {CollectiveKind::AllReduce, before};
    case ReshardStep::Kind::ReduceScatter:
      return {CollectiveKind::ReduceScatter, before};
    case ReshardStep::Kind::AllGather:
      return {CollectiveKind::AllGather, after};
    case ReshardStep::Kind::AllToAll:
      return {CollectiveKind::AllToAll, before};
    case ReshardStep::Kind::Slice:
      break;
  }
  throw InternalError("a slice is no collective");
}

Priced price_op(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh,
                const CostModel& all_costs) {
  const CostModel& costs = all_costs.on(mesh.of.group);
  if (op.kind == LocalOp::Kind::Compute) return costs.compute(op.work);
  if (op.step && op.step->kind == ReshardStep::Kind::Slice) return {Seconds(0.0), Basis::Modelled};
  const CollectiveOp collective = collective_of(executable, op);
  return costs.collective(collective.kind, collective.bytes, mesh.axes[static_cast<std::size_t>(op.step->axis)]);
}

PricedProgram price_program(const Program& program, const CostModel& costs) {
  PricedProgram priced;
  const std::vector<int> runs = count_runs(program);
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    const PricedExecutable sum = price(executable, program.stages[executable.stage.index()].mesh, costs);
    priced.times.executable.push_back(to_sim_time(sum.total()));
    priced.basis.measured += runs[e] * sum.measured;
    priced.basis.interpolated += runs[e] * sum.interpolated;
    priced.basis.modelled += runs[e] * sum.modelled;
  }
  const auto submesh_of = [&](DeviceId device) -> const Submesh& {
    return program.stages[program.stage_of_device[device.index()].index()].mesh.of;
  };
  for (const Transfer& transfer : program.transfers) {
    if (transfer.source == transfer.destination) {  // a copy: every byte is read and written
      const DType dtype = program.buffers[transfer.source_buffer.index()].local.dtype;
      const OpWork work{OpKind::Transpose, dtype, Flops(0.0), 2.0 * transfer.bytes, ""};
      priced.times.transfer.push_back(to_sim_time(costs.on(submesh_of(transfer.source).group).compute(work).time));
      continue;
    }
    const Submesh &source = submesh_of(transfer.source), &destination = submesh_of(transfer.destination);
    // All devices of a stage finish a Run together and then send: those of one host share its network.
    const int concurrent = std::max(1, source.devices_per_host);
    const auto time_on = [&](int group) {
      return costs.on(group).transfer(transfer.bytes, transfer.hosts_apart, concurrent).time;
    };
    Seconds time = time_on(source.group);
    if (destination.group != source.group) time = std::max(time, time_on(destination.group));  // the slower network
    priced.times.transfer.push_back(to_sim_time(time));
  }
  return priced;
}

}  // namespace meshwright
