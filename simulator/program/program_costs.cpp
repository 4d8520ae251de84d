// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/parameter_moves.h"
#include "simulator/program/program_costs.h"

namespace meshwright {

namespace {

struct ExecutableCost {
  Seconds measured{0.0}, interpolated{0.0}, modelled{0.0};

  void add(const TimeEstimate& op) {
    switch (op.basis) {
      case Basis::Measured:
        measured += op.time;
        return;
      case Basis::Interpolated:
        interpolated += op.time;
        return;
      case Basis::Modelled:
        modelled += op.time;
        return;
    }
  }
  [[nodiscard]] Seconds total() const { return measured + interpolated + modelled; }
};

// Bytes that one member of a collective reads and writes where all members share one memory.
Bytes moved_by(const CollectiveOp& collective, int members) {
  switch (collective.kind) {
    case CollectiveKind::AllReduce:
      return 3.0 * collective.bytes;
    case CollectiveKind::ReduceScatter:
      return (1.0 + 1.0 / members) * collective.bytes;
    case CollectiveKind::AllGather:
    case CollectiveKind::AllToAll:
      break;
  }
  return 2.0 * collective.bytes;
}

// Every byte is read or written once.
TimeEstimate passes_cost(Bytes bytes, DType dtype, const CostModel& costs) {
  return costs.compute({OpKind::Transpose, dtype, Flops(0.0), bytes, ""});
}

TimeEstimate op_cost_in_one_memory(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh,
                                   const CostModel& all_costs) {
  if (!op.is_collective()) return op_cost(executable, op, mesh, all_costs);
  const DType dtype = executable.slots[static_cast<std::size_t>(op.inputs[0])].local.dtype;
  const int members = mesh.shape()[static_cast<std::size_t>(op.step->axis)];
  return passes_cost(moved_by(collective_of(executable, op, mesh), members), dtype, all_costs.on(mesh.of.group));
}

ExecutableCost executable_cost(const Program& program, const StageExecutable& executable, const LogicalMesh& mesh,
                               const CostModel& all_costs, bool one_memory) {
  ExecutableCost sum;
  std::vector<Seconds> times;
  for (const LocalOp& op : executable.ops) {
    const TimeEstimate cost =
        one_memory ? op_cost_in_one_memory(executable, op, mesh, all_costs) : op_cost(executable, op, mesh, all_costs);
    sum.add(cost);
    times.push_back(cost.time);
  }
  const CostModel& costs = all_costs.on(mesh.of.group);
  const Seconds overhead = one_memory ? costs.run_overhead() : run_overhead(program, executable, mesh, costs, times);
  sum.add({overhead, Basis::Modelled});
  return sum;
}

// How many devices of the source's host hold what a message sends.
int copies_of_source(const Program& program, const Transfer& transfer) {
  const Buffer& buffer = program.buffers[transfer.source_buffer.index()];
  return copies_in_host(buffer.local.spec, program.stages[buffer.stage.index()].mesh);
}

// A share of each message's time goes from the message to the Runs that send and receive it, on the first device of
// each stage. `stood_for`: the times of the program's messages of that name.
void block(const Program& program, double share, const std::vector<SimTime>& stood_for, ProgramTimes& times) {
  const auto none = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> makes(program.buffers.size(), none), reads(program.buffers.size(), none);
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    if (program.executables[e].phase == Phase::Update) continue;
    for (const StageExecutable::Slot& slot : program.executables[e].slots) {
      if (!slot.buffer) continue;
      if (slot.output && !slot.input && makes[slot.buffer->index()] == none) makes[slot.buffer->index()] = e;
      if (slot.input && reads[slot.buffer->index()] == none) reads[slot.buffer->index()] = e;
    }
  }
  const auto is_first = [&](StageId stage, DeviceId device) {
    return program.stages[stage.index()].devices.front() == device;
  };
  // Returns what is taken off the message's time.
  const auto charge = [&](const Transfer& transfer, SimTime time) -> std::int64_t {
    if (transfer.source == transfer.destination) return 0;
    const std::size_t from = makes[transfer.source_buffer.index()], to = reads[transfer.destination_buffer.index()];
    if (from == none || to == none) return 0;
    const std::int64_t blocked = std::llround(share * static_cast<double>(time.ps));
    // All micro-batches send alike.
    if (transfer.microbatch.value != 0) return blocked;
    if (is_first(program.executables[from].stage, transfer.source)) times.executable[from].ps += blocked;
    if (is_first(program.executables[to].stage, transfer.destination)) times.executable[to].ps += blocked;
    return blocked;
  };
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    times.transfer[t].ps -= charge(program.transfers[t], times.transfer[t]);
  for (std::size_t t = 0; t < stood_for.size(); ++t) charge(program.stood_for[t], stood_for[t]);
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

// What a Run saves where its software computes products as one: those that share an activation, and those whose results
// are only added up.
class FusedProducts {
 public:
  FusedProducts(const StageExecutable& executable, const CostModel& costs)
      : executable_(executable), costs_(costs), made_by_(executable.slots.size(), -1) {
    for (std::size_t o = 0; o < executable.ops.size(); ++o)
      for (const int slot : executable.ops[o].outputs) made_by_[static_cast<std::size_t>(slot)] = static_cast<int>(o);
  }

  [[nodiscard]] Seconds saved() {
    std::map<int, std::vector<const OpWork*>> sharing;  // by the slot that they read
    for (const LocalOp& op : executable_.ops)
      if (is_product(op)) sharing[op.inputs[0]].push_back(&op.work);
    Seconds saved(0.0);
    for (const auto& [slot, products] : sharing) saved += saving(products, false, Seconds(0.0));
    for (std::size_t o = executable_.ops.size(); o-- > 0;) {
      if (!is_sum(executable_.ops[o]) || seen_.contains(static_cast<int>(o))) continue;
      Summed sum;
      collect(static_cast<int>(o), sum);
      saved += saving(sum.products, true, sum.adding);
    }
    return saved;
  }

 private:
  struct Summed {
    std::vector<const OpWork*> products;
    Seconds adding{0.0};
  };
  [[nodiscard]] static bool is(const LocalOp& op, OpKind kind) {
    return op.kind == LocalOp::Kind::Compute && op.work.kind == kind;
  }
  [[nodiscard]] static bool is_product(const LocalOp& op) { return is(op, OpKind::Contract); }
  // Whether it adds products up; other sums, such as those of residuals, stay.
  [[nodiscard]] bool is_sum(const LocalOp& op) const {
    return is(op, OpKind::Add) && std::all_of(op.inputs.begin(), op.inputs.end(), [&](int slot) {
             const LocalOp* maker = maker_of(slot);
             return maker != nullptr && (is_product(*maker) || is_sum(*maker));
           });
  }
  [[nodiscard]] const LocalOp* maker_of(int slot) const {
    const int op = made_by_[static_cast<std::size_t>(slot)];
    return op < 0 ? nullptr : &executable_.ops[static_cast<std::size_t>(op)];
  }
  void collect(int op, Summed& sum) {
    seen_.insert(op);
    const LocalOp& add = executable_.ops[static_cast<std::size_t>(op)];
    sum.adding += costs_.compute(add.work).time;
    for (const int slot : add.inputs) {
      const LocalOp* maker = maker_of(slot);
      if (is_product(*maker))
        sum.products.push_back(&maker->work);
      else
        collect(made_by_[static_cast<std::size_t>(slot)], sum);
    }
  }
  [[nodiscard]] Seconds saving(const std::vector<const OpWork*>& products, bool summed, Seconds more) const {
    if (products.size() < 2) return Seconds(0.0);
    const auto together = costs_.as_one_product(products, summed);
    if (!together) return Seconds(0.0);
    Seconds apart = more;
    for (const OpWork* work : products) apart += costs_.compute(*work).time;
    return apart - *together;
  }

  const StageExecutable& executable_;
  const CostModel& costs_;
  std::vector<int> made_by_;  // [slot] the op; -1: none
  std::set<int> seen_;        // sums that are part of one
};

// `times`: of the executable's ops.
RunWork run_work(const Program& program, const StageExecutable& executable, const LogicalMesh& mesh,
                 const CostModel& costs, const std::vector<Seconds>& times) {
  RunWork work;
  work.phase = executable.phase;
  const ProgramStage& stage = program.stages[executable.stage.index()];
  work.once_per_step = executable.phase == Phase::Update && stage.update &&
                       &program.executables[static_cast<std::size_t>(*stage.update)] == &executable &&
                       program.first_of_rank(executable.stage) == executable.stage;
  const ParameterMoves moves(program, executable);
  for (std::size_t o = 0; o < executable.ops.size(); ++o) {
    const LocalOp& op = executable.ops[o];
    const Seconds time = times[o];
    if (!op.is_collective()) {
      work.ops += time;
      if (time > Seconds(0.0)) ++work.op_count;
      if (moves_tokens(op.work.kind)) ++work.token_moves;
      continue;
    }
    if (time == Seconds(0.0)) continue;
    ++work.collective_count;
    const MeshAxis& axis = mesh.axes[static_cast<std::size_t>(op.step->axis)];
    work.collective_peers += std::max(0, axis.size() - 2);
    const CollectiveOp collective = collective_of(executable, op, mesh);
    if (!moves.is_one(op)) {
      work.collectives += time;
      if (collective.kind == CollectiveKind::AllToAll) work.exchanges += time;
      continue;
    }
    auto same = std::find_if(work.parameters.begin(), work.parameters.end(), [&](const ParameterCollectives& other) {
      return other.kind == collective.kind && other.axis.inner == axis.inner && other.axis.outer == axis.outer;
    });
    if (same == work.parameters.end()) same = work.parameters.insert(same, {collective.kind, axis});
    same->bytes += collective.bytes;
    const DType dtype = executable.slots[static_cast<std::size_t>(op.inputs[0])].local.dtype;
    same->elements += collective.bytes.si() / static_cast<double>(size_of(dtype));
    same->time += time;
    ++same->count;
  }
  work.fused = FusedProducts(executable, costs).saved();
  return work;
}

// The share of the Runs of an executable beside which a pass of another micro-batch goes on: under `interleaved` all;
// under dualpipe-v and dualpipe the forwards right before a backward of the rank's other stage, and those backwards.
double paired_share(const Program& program, const StageExecutable& executable) {
  if (program.schedule == ScheduleKind::Interleaved) return 1.0;
  if (program.schedule != ScheduleKind::DualPipeV && program.schedule != ScheduleKind::DualPipe) return 0.0;
  const auto own = static_cast<int>(&executable - program.executables.data());
  std::vector<Instruction> runs;
  for (const Instruction& instruction :
       program.devices[program.stages[executable.stage.index()].devices.front().index()])
    if (instruction.kind == Instruction::Kind::Run) runs.push_back(instruction);
  const auto of = [&](std::size_t i) -> const StageExecutable& {
    return program.executables[static_cast<std::size_t>(runs[i].executable)];
  };
  int all = 0, paired = 0;
  std::size_t pair = 0;  // the end of the latest one
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (of(i).phase == Phase::Forward && i + 1 < runs.size() && of(i + 1).phase == Phase::Backward &&
        of(i).stage != of(i + 1).stage) {
      pair = i + 2;
      // Its second half follows, where it has two.
      if (pair < runs.size() && of(pair).phase == Phase::Backward && of(pair).stage == of(i + 1).stage &&
          runs[pair].microbatch == runs[i + 1].microbatch)
        ++pair;
    }
    if (runs[i].executable != own) continue;
    ++all;
    paired += i < pair ? 1 : 0;
  }
  return all == 0 ? 0.0 : static_cast<double>(paired) / all;
}

}  // namespace

Seconds run_overhead(const Program& program, const StageExecutable& executable, const LogicalMesh& mesh,
                     const CostModel& costs, const std::vector<Seconds>& times, ParameterTime parameters) {
  if (!costs.run_depends_on_work()) return costs.run_overhead();
  RunWork work = run_work(program, executable, mesh, costs, times);
  if (parameters == ParameterTime::Apart) work.parameters.clear();
  const Seconds alone = costs.run_overhead(work);
  const double paired = paired_share(program, executable);
  if (paired == 0.0) return alone;
  work.interleaved = true;
  const Seconds beside = costs.run_overhead(work);
  return paired == 1.0 ? beside : paired * beside + (1.0 - paired) * alone;
}

Seconds host_transfers(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh,
                       const CostModel& all_costs) {
  Seconds time(0.0);
  const CostModel& costs = all_costs.on(mesh.of.group);
  const auto slot_of = [&](int s) -> const StageExecutable::Slot& {
    return executable.slots[static_cast<std::size_t>(s)];
  };
  // A slice reads from the host no more than it keeps.
  const bool slices = op.kind == LocalOp::Kind::Reshard && !op.is_collective();
  for (const int s : op.inputs)
    if (slot_of(s).on_host) time += costs.host_transfer(slot_of(slices ? op.outputs[0] : s).local.bytes()).time;
  for (const int s : op.outputs)
    if (slot_of(s).on_host) time += costs.host_transfer(slot_of(s).local.bytes()).time;
  return time;
}

TimeEstimate op_cost(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh,
                     const CostModel& all_costs) {
  const CostModel& costs = all_costs.on(mesh.of.group);
  if (op.kind == LocalOp::Kind::Compute) {
    TimeEstimate time = costs.compute(op.work);
    time.time += host_transfers(executable, op, mesh, all_costs);
    return time;
  }
  const Seconds across = host_transfers(executable, op, mesh, all_costs);
  if (!op.is_collective()) return {across, Basis::Modelled};
  const CollectiveOp collective = collective_of(executable, op, mesh);
  if (op.step->ring)
    return {ring_time(collective.bytes, collective.kind == CollectiveKind::ReduceScatter, op.step->axis, mesh, costs),
            Basis::Modelled};
  TimeEstimate time =
      costs.collective(collective.kind, collective.bytes, mesh.axes[static_cast<std::size_t>(op.step->axis)]);
  time.time += across;
  return time;
}

ProgramCosts program_costs(const Program& program, const CostModel& costs) {
  // Every device is a physical device of its own.
  std::vector<int> apart;
  for (std::size_t d = 0; d < program.devices.size(); ++d) apart.push_back(static_cast<int>(d));
  return program_costs(program, costs, apart);
}

ProgramCosts program_costs(const Program& program, const CostModel& costs, const std::vector<int>& physical) {
  MW_CHECK(physical.size() == program.devices.size(), "{} places of {} devices", physical.size(),
           program.devices.size());
  const auto place_of = [&](DeviceId device) { return physical[device.index()]; };
  ProgramCosts result;
  const std::vector<int> runs = count_runs(program);
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    const ProgramStage& stage = program.stages[executable.stage.index()];
    // With all devices of the stage on one physical device, a collective is copies in its memory.
    const bool one_memory =
        stage.devices.size() > 1 && std::all_of(stage.devices.begin(), stage.devices.end(), [&](DeviceId device) {
          return place_of(device) == place_of(stage.devices.front());
        });
    const ExecutableCost sum = executable_cost(program, executable, stage.mesh, costs, one_memory);
    result.times.executable.push_back(to_sim_time(sum.total()));
    // An executable's share of the step's time counts as often as it runs.
    result.basis.measured += runs[e] * sum.measured;
    result.basis.interpolated += runs[e] * sum.interpolated;
    result.basis.modelled += runs[e] * sum.modelled;
  }
  const auto submesh_of = [&](DeviceId device) -> const Submesh& {
    return program.stages[program.stage_of_device[device.index()].index()].mesh.of;
  };
  const auto message_time = [&](const Transfer& transfer) {
    // On one physical device a message is copies in its memory, each of which reads and writes the bytes.
    if (place_of(transfer.source) == place_of(transfer.destination)) {
      const DType dtype = program.buffers[transfer.source_buffer.index()].local.dtype;
      const double copies = transfer.source == transfer.destination ? 1.0 : 2.0;  // packed, and unpacked
      return to_sim_time(
          passes_cost(copies * 2.0 * transfer.bytes, dtype, costs.on(submesh_of(transfer.source).group)).time);
    }
    const Submesh &source = submesh_of(transfer.source), &destination = submesh_of(transfer.destination);
    // All devices of a stage finish a Run together and then send: those of one host share its network.
    const int concurrent = std::max(1, source.devices_per_host);
    // Parts of a tile, which the plan's own form brings to each other, are not scattered once more.
    const bool scattered = transfer.hosts_apart && transfer.form == CrossMesh::Send && costs.messages().scattered;
    const double parts = scattered ? copies_of_source(program, transfer) : 1.0;
    const auto time_on = [&](int group) {
      return costs.on(group).transfer(transfer.bytes / parts, transfer.hosts_apart, concurrent).time;
    };
    Seconds time = time_on(source.group);
    if (destination.group != source.group) time = std::max(time, time_on(destination.group));  // the slower network
    return to_sim_time(time);
  };
  for (const Transfer& transfer : program.transfers) result.times.transfer.push_back(message_time(transfer));
  if (const double blocking = costs.messages().blocking; blocking > 0) {
    std::vector<SimTime> stood_for;
    for (const Transfer& transfer : program.stood_for) stood_for.push_back(message_time(transfer));
    block(program, blocking, stood_for, result.times);
  }
  return result;
}

}  // namespace meshwright
