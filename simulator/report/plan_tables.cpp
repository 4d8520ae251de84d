// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/plan_tables.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/lowering/collective_op.h"
#include "core/planner/layers/cluster_layers.h"
#include "simulator/fold/fold_devices.h"
#include "simulator/program/executable_pieces.h"

namespace meshwright {

namespace {

int stage_of_layer(const Plan& plan, int layer) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) {
    return stage.first_layer <= layer && layer <= stage.last_layer;
  });
  MW_CHECK(found != plan.stages.end(), "layer {} is of no stage", layer);
  return static_cast<int>(found - plan.stages.begin());
}

Flops flops_of(const Graph& graph, const Op& op) {
  const IterationSpace space = iteration_space(graph, op);
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
  return contraction_flops(op.kind, space, sizes);
}

// The parameters and results of the layers: parameters belong to the first layer that reads them.
void add_tensors(const Graph& graph, const Layers& layers, std::vector<LayerRow>& rows) {
  std::vector<int> owner(graph.tensors().size(), -1), last_reader(graph.tensors().size(), -1);
  for (const OpId id : forward_ops(graph)) {
    const int layer = layers.layer_of_op[id.index()];
    for (const TensorId input : graph.op(id).inputs) {
      last_reader[input.index()] = std::max(last_reader[input.index()], layer);
      if (owner[input.index()] < 0) owner[input.index()] = layer;
    }
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Parameter && owner[tensor.id.index()] >= 0) {
      LayerRow& row = rows[static_cast<std::size_t>(owner[tensor.id.index()])];
      row.parameters += tensor.elements();
      row.parameter_bytes += tensor.bytes();
    }
    if (!tensor.producer || graph.op(*tensor.producer).phase != Phase::Forward) continue;
    const int maker = layers.layer_of_op[tensor.producer->index()];
    LayerRow& row = rows[static_cast<std::size_t>(maker)];
    row.result_bytes += tensor.bytes();
    if (last_reader[tensor.id.index()] > maker) row.boundary_bytes += tensor.bytes();
  }
}

}  // namespace

std::vector<LayerRow> layer_rows(const Plan& plan, const Graph& graph) {
  const Layers layers = assign_layers(graph, plan.layer_starts);
  std::vector<LayerRow> rows(static_cast<std::size_t>(layers.count));
  for (int layer = 0; layer < layers.count; ++layer) {
    LayerRow& row = rows[static_cast<std::size_t>(layer)];
    const std::vector<OpId>& ops = layers.forward[static_cast<std::size_t>(layer)];
    row.layer = layer;
    row.stage = stage_of_layer(plan, layer);
    row.ops = static_cast<int>(ops.size());
    row.first_op = graph.op(ops.front()).name;
    row.last_op = graph.op(ops.back()).name;
  }
  for (const Op& op : graph.ops()) {
    LayerRow& row = rows[static_cast<std::size_t>(layers.layer_of_op[op.id.index()])];
    if (op.phase == Phase::Forward) row.forward += flops_of(graph, op);
    if (op.phase == Phase::Backward) row.backward += flops_of(graph, op);
  }
  add_tensors(graph, layers, rows);
  return rows;
}

std::vector<CollectiveRow> collective_rows(const Program& program, const Graph& graph, const CostModel& costs) {
  std::map<std::tuple<int, Phase, StepTerm, CollectiveKind, int>, CollectiveRow> rows;
  for (const ProgramStage& stage : program.stages) {
    // All devices of a stage run the same.
    std::map<int, int> runs;  // by executable
    for (const Instruction& instruction : program.devices[stage.devices.front().index()])
      if (instruction.kind == Instruction::Kind::Run) ++runs[instruction.executable];
    for (const auto& [number, count] : runs) {
      const StageExecutable& executable = program.executables[static_cast<std::size_t>(number)];
      if (&program.stages[executable.stage.index()] != &stage) continue;  // another stage of the rank
      std::map<const CollectiveRow*, bool> met;
      for (const LocalOp& op : executable.ops) {
        if (op.kind != LocalOp::Kind::Reshard || op.step->kind == ReshardStep::Kind::Slice) continue;
        const CollectiveOp collective = collective_of(executable, op, stage.mesh);
        const StepTerm term = term_of(program, graph, executable, op);
        CollectiveRow& row = rows[{executable.stage.value, executable.phase, term, collective.kind, op.step->axis}];
        const MeshAxis& axis = stage.mesh.axes[static_cast<std::size_t>(op.step->axis)];
        row.stage = executable.stage.value, row.phase = name_of(executable.phase);
        row.term = term, row.kind = collective.kind, row.axis = op.step->axis;
        row.group = axis.size(), row.hosts = axis.outer;
        if (!met[&row]) row.runs += count;
        met[&row] = true;
        row.count += count;
        row.bytes += static_cast<double>(count) * collective.bytes;
        row.time += static_cast<double>(count) * op_cost(executable, op, stage.mesh, costs).time;
      }
    }
  }
  std::vector<CollectiveRow> sorted;
  for (const auto& [key, row] : rows) sorted.push_back(row);
  return sorted;
}

std::vector<ReshardingRow> resharding_rows(const Program& program, const Graph& graph) {
  std::map<std::tuple<int, int, BufferId, BufferId>, ReshardingRow> rows;
  for (const Transfer& transfer : program.transfers) {
    const Buffer &source = program.buffers[transfer.source_buffer.index()],
                 &destination = program.buffers[transfer.destination_buffer.index()];
    ReshardingRow& row = rows[{source.stage.value, destination.stage.value, source.id, destination.id}];
    row.tensor = graph.tensor(source.local.tensor).name;
    row.from = source.stage.value, row.to = destination.stage.value;
    row.form = transfer.form;
    row.from_sharding = source.local.spec.to_text(), row.to_sharding = destination.local.spec.to_text();
    if (transfer.source == transfer.destination) {
      ++row.copies;
      continue;
    }
    ++row.messages;
    if (transfer.hosts_apart) ++row.between_hosts;
    row.bytes += transfer.bytes;
  }
  std::vector<ReshardingRow> sorted;
  for (const auto& [key, row] : rows) sorted.push_back(row);
  return sorted;
}

std::vector<DeviceClass> device_classes(const Program& program, const ProgramTimes& times) {
  const FoldedDevices folded = fold_devices(program, times);
  std::map<DeviceId, std::vector<DeviceId>> members;
  for (std::size_t d = 0; d < program.devices.size(); ++d)
    members[folded.representative[d]].emplace_back(static_cast<int>(d));
  std::vector<DeviceClass> classes;
  for (auto& [first, devices] : members) classes.push_back({first, std::move(devices)});
  return classes;
}

std::string to_text(const std::vector<DeviceId>& devices) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i + 1;
    while (end < devices.size() && devices[end].value == devices[end - 1].value + 1) ++end;
    ranges.push_back(end == i + 1 ? fmt::format("{}", devices[i].value)
                                  : fmt::format("{}-{}", devices[i].value, devices[end - 1].value));
    i = end;
  }
  return join(ranges, " ");
}

namespace {

const char* kind_of(const Graph& graph, const MemoryPart& part) {
  if (part.kind == MemoryPart::Kind::Temporary) return "temporary";
  const Tensor& tensor = graph.tensor(part.tensor);
  switch (tensor.kind) {
    case TensorKind::Input:
      return "input";
    case TensorKind::Parameter:
      return "parameter";
    case TensorKind::OptimizerState:
      return "optimizer state";
    case TensorKind::Accumulator:
      return "gradient accumulator";
    case TensorKind::StepState:
      return "step state";
    case TensorKind::Intermediate:
      break;
  }
  return tensor.gradient_of ? "gradient" : "activation";
}

}  // namespace

std::vector<MemoryRow> memory_rows(const Program& program, const Graph& graph, DeviceId device) {
  const PeakMemory memory = peak_memory(program, device);
  std::vector<MemoryRow> rows;
  for (const MemoryPart& part : memory.parts) {
    MemoryRow row{part.name.empty() ? graph.tensor(part.tensor).name : part.name,
                  kind_of(graph, part),
                  part.stage.value,
                  part.bytes,
                  part.at_peak,
                  part.bytes_at_peak()};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const MemoryRow& other) {
      return other.buffer == row.buffer && other.kind == row.kind && other.stage == row.stage &&
             other.bytes == row.bytes;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    same->at_peak += row.at_peak;
    same->bytes_at_peak += row.bytes_at_peak;
  }
  return rows;
}

namespace {

class ProgramText {
 public:
  ProgramText(const Program& program, const ProgramTimes& times) : program_(program), times_(times) {}

  [[nodiscard]] std::string of(const Instruction& instruction) const {
    switch (instruction.kind) {
      case Instruction::Kind::Run:
        return run(instruction);
      case Instruction::Kind::Exchange:
        return (instruction.waits ? "exchange" : "exchange without waiting") + messages(instruction.sends, "send") +
               messages(instruction.receives, "receive");
      case Instruction::Kind::Await:
        return "await" + messages(instruction.receives, "receive");
      case Instruction::Kind::Free:
        break;
    }
    std::vector<std::string> names;
    for (const BufferId buffer : instruction.buffers) names.push_back(program_.buffers[buffer.index()].name);
    return fmt::format("free micro-batch {}: {}", instruction.microbatch.value, join(names, ", "));
  }

 private:
  [[nodiscard]] std::string run(const Instruction& instruction) const {
    const auto number = static_cast<std::size_t>(instruction.executable);
    const StageExecutable& executable = program_.executables[number];
    const char* part = executable.backward_part == Pass::BackwardInput    ? " (of the inputs)"
                       : executable.backward_part == Pass::BackwardWeight ? " (of the weights)"
                                                                          : "";
    return fmt::format("run {}{} of stage {}, micro-batch {}: executable {}, {:.6f} ms", name_of(executable.phase),
                       part, executable.stage.value, instruction.microbatch.value, number,
                       to_seconds(times_.executable[number]).si() * 1e3);
  }
  [[nodiscard]] std::string messages(const std::vector<int>& transfers, const char* verb) const {
    std::string text;
    for (const int t : transfers) {
      const Transfer& transfer = program_.transfers[static_cast<std::size_t>(t)];
      const bool sends = verb[0] == 's';
      const Buffer& buffer = program_.buffers[(sends ? transfer.source_buffer : transfer.destination_buffer).index()];
      text += fmt::format("\n    {} {} of micro-batch {} {} device {}: {:.0f} B{}", verb, buffer.name,
                          transfer.microbatch.value, sends ? "to" : "from",
                          (sends ? transfer.destination : transfer.source).value, transfer.bytes.si(),
                          transfer.accumulate ? ", added" : "");
    }
    return text;
  }

  const Program& program_;
  const ProgramTimes& times_;
};

}  // namespace

std::string program_text(const Program& program, const ProgramTimes& times, DeviceId device) {
  const ProgramText text(program, times);
  std::string lines;
  const std::vector<Instruction>& list = program.devices[device.index()];
  for (std::size_t i = 0; i < list.size(); ++i) lines += fmt::format("{} {}\n", i, text.of(list[i]));
  return lines;
}

}  // namespace meshwright
