// SPDX-License-Identifier: Apache-2.0
// Faults in the ops of a stage. Internal to mutant.h.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/exact/drawn_plan.h"
#include "tests/oracle/exact/mutant.h"
#include "tests/oracle/exact/slot_values.h"
#include "tests/oracle/exact/what_lasts.h"

namespace meshwright {

class ExecutableMutator {
 public:
  ExecutableMutator(const Graph& graph, const Program& program, Drawing& draw)
      : graph_(graph), program_(program), draw_(draw) {
    for (const auto& instructions : program.devices)
      for (const Instruction& instruction : instructions)
        if (instruction.kind == Instruction::Kind::Run) run_.insert(static_cast<std::size_t>(instruction.executable));
  }

  std::optional<Mutant> mutate(const std::string& kind) {
    Mutant mutant{kind, "", program_, ""};
    bool done = false;
    if (kind == "collective dropped") done = drop_collective(mutant);
    if (kind == "collective doubled") done = double_collective(mutant);
    if (kind == "reduction dropped") done = drop_reduction(mutant);
    if (kind == "other reduction") done = change_reduction(mutant);
    if (kind == "other group") done = change_group(mutant);
    if (kind == "other dimension") done = change_dimension(mutant);
    if (kind == "other operand") done = change_operand(mutant);
    if (kind == "other buffer of an op") done = change_buffer(mutant);
    if (kind == "other place of a tile") done = change_place(mutant);
    if (kind == "accumulation dropped" || kind == "accumulation doubled") done = change_accumulation(mutant);
    if (kind == "update dropped") done = drop_update(mutant);
    if (!done) return std::nullopt;
    if (mutant.equivalent.empty() && !reaches_what_lasts()) mutant.equivalent = "nothing that lasts depends on it";
    if (kind.starts_with("collective") || kind.starts_with("reduction")) maybe_on_one_device(mutant);
    mutant.what = fmt::format("op {} of executable {} ({} of stage {}): {}", op_, executable_,
                              name_of(executable().phase), executable().stage.value, mutant.what);
    return mutant;
  }

 private:
  using Step = ReshardStep::Kind;

  [[nodiscard]] const StageExecutable& executable() const {
    return program_.executables[static_cast<std::size_t>(executable_)];
  }
  [[nodiscard]] const LocalOp& op() const { return executable().ops[static_cast<std::size_t>(op_)]; }
  [[nodiscard]] StageExecutable& executable_in(Mutant& mutant) const {
    return mutant.program.executables[static_cast<std::size_t>(executable_)];
  }
  [[nodiscard]] LocalOp& op_in(Mutant& mutant) const {
    return executable_in(mutant).ops[static_cast<std::size_t>(op_)];
  }
  [[nodiscard]] std::string tensor_of(int slot) const {
    return graph_.tensor(executable().slots[static_cast<std::size_t>(slot)].local.tensor).name;
  }

  template <class Suits>
  bool choose(Suits suits) {
    std::vector<std::pair<int, int>> found;
    for (const std::size_t e : run_)
      for (std::size_t i = 0; i < program_.executables[e].ops.size(); ++i)
        if (suits(program_.executables[e], program_.executables[e].ops[i]))
          found.emplace_back(static_cast<int>(e), static_cast<int>(i));
    if (found.empty()) return false;
    std::tie(executable_, op_) = draw_.any(found);
    return true;
  }
  static bool is_step(const LocalOp& op, Step kind) { return op.step && op.step->kind == kind; }
  bool is_compute(const LocalOp& op, OpKind kind) const {
    return op.kind == LocalOp::Kind::Compute && graph_.op(op.op).kind == kind;
  }

  [[nodiscard]] bool reaches_what_lasts() const {
    for (const int slot : op().outputs)
      if (Reach(graph_, program_).of_slot(executable_, slot, static_cast<std::size_t>(op_) + 1)) return true;
    return executable().phase == Phase::Update;
  }

  void erase(Mutant& mutant) const {
    std::vector<LocalOp>& ops = executable_in(mutant).ops;
    ops.erase(ops.begin() + op_);
    for (StageExecutable::Slot& slot : executable_in(mutant).slots)
      if (slot.last_use >= op_ && slot.last_use > 0) --slot.last_use;
  }
  void insert_after(Mutant& mutant, const LocalOp& more) const {
    std::vector<LocalOp>& ops = executable_in(mutant).ops;
    ops.insert(ops.begin() + op_ + 1, more);
    for (StageExecutable::Slot& slot : executable_in(mutant).slots)
      if (slot.last_use >= op_) ++slot.last_use;
  }
  // A copy of what the device has itself.
  static void keep_own(LocalOp& op) {
    op.kind = LocalOp::Kind::HostCopy;
    op.step.reset();
    op.reduce.reset();
  }

  bool drop_collective(Mutant& mutant) {
    if (!choose([](const auto&, const LocalOp& op) { return op.is_collective(); })) return false;
    mutant.what = fmt::format("'{}' is not exchanged", tensor_of(op().outputs[0]));
    if (is_step(op(), Step::AllReduce) || is_step(op(), Step::AllToAll))
      keep_own(op_in(mutant));
    else
      erase(mutant);
    return true;
  }
  bool drop_reduction(Mutant& mutant) {
    const auto reduces = [](const auto&, const LocalOp& op) {
      return is_step(op, Step::AllReduce) || (is_step(op, Step::ReduceScatter) && !op.step->ring);
    };
    if (!choose(reduces)) return false;
    mutant.what = fmt::format("'{}' stays each device's own sum", tensor_of(op().outputs[0]));
    if (is_step(op(), Step::AllReduce))
      keep_own(op_in(mutant));
    else
      op_in(mutant).step->kind = Step::Slice;
    return true;
  }
  bool double_collective(Mutant& mutant) {
    const bool sums = draw_.below(8) != 0;
    const auto suits = [&](const auto&, const LocalOp& op) {
      return sums ? is_step(op, Step::AllReduce) : op.is_collective();
    };
    if (!choose(suits)) return false;
    LocalOp more = op();
    mutant.what = fmt::format("'{}' is exchanged once more", tensor_of(op().outputs[0]));
    if (!is_step(op(), Step::AllReduce))
      mutant.equivalent = "it reads once more what it has read, and writes the same";
    else if (op().reduce == IterationSpace::Reduce::Max)
      mutant.equivalent = "the largest of equal numbers is each of them";
    if (is_step(op(), Step::AllReduce)) more.inputs = more.outputs;
    insert_after(mutant, more);
    return true;
  }
  bool change_reduction(Mutant& mutant) {
    if (!choose([](const auto&, const LocalOp& op) {
          return is_step(op, Step::AllReduce) || (is_step(op, Step::ReduceScatter) && !op.step->ring);
        }))
      return false;
    using Reduce = IterationSpace::Reduce;
    const bool is_max = op().reduce == Reduce::Max;
    op_in(mutant).reduce = is_max ? Reduce::Sum : Reduce::Max;
    mutant.what = fmt::format("'{}' becomes a {}", tensor_of(op().outputs[0]), is_max ? "sum" : "maximum");
    return true;
  }
  bool change_group(Mutant& mutant) {
    const auto others = [&](const StageExecutable& of, const LocalOp& op) {
      std::vector<int> found;
      const LogicalMesh& mesh = program_.stages[of.stage.index()].mesh;
      for (int axis = 0; op.step && axis < static_cast<int>(mesh.axes.size()); ++axis)
        if (axis != op.step->axis && mesh.axes[static_cast<std::size_t>(axis)].size() ==
                                         mesh.axes[static_cast<std::size_t>(op.step->axis)].size())
          found.push_back(axis);
      return found;
    };
    if (!choose([&](const StageExecutable& of, const LocalOp& op) { return !others(of, op).empty(); })) return false;
    op_in(mutant).step->axis = draw_.any(others(executable(), op()));
    mutant.what = fmt::format("'{}' goes along axis {} instead of {}", tensor_of(op().outputs[0]),
                              op_in(mutant).step->axis, op().step->axis);
    return true;
  }
  // The other dimension must not have the same elements before it.
  bool change_dimension(Mutant& mutant) {
    const auto dim_of = [](LocalOp& op) -> int& {
      return is_step(op, Step::AllGather) ? op.step->from_dim : op.step->to_dim;
    };
    const auto others = [&](const StageExecutable& of, LocalOp op) {
      std::vector<int> found;
      if ((!is_step(op, Step::AllGather) && !is_step(op, Step::ReduceScatter)) || op.step->ring) return found;
      const std::vector<std::int64_t>& shape = of.slots[static_cast<std::size_t>(op.inputs[0])].local.shape;
      for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
        std::int64_t between = 1;
        for (int at = std::min(d, dim_of(op)); at < std::max(d, dim_of(op)); ++at)
          between *= shape[static_cast<std::size_t>(at)];
        if (d != dim_of(op) && between > 1) found.push_back(d);
      }
      return found;
    };
    if (!choose([&](const StageExecutable& of, const LocalOp& op) { return !others(of, op).empty(); })) return false;
    const int before = dim_of(op_in(mutant));
    dim_of(op_in(mutant)) = draw_.any(others(executable(), op()));
    mutant.what = fmt::format("'{}' goes along dimension {} instead of {}", tensor_of(op().outputs[0]),
                              dim_of(op_in(mutant)), before);
    return true;
  }

  // An op in place overwrites its operands whatever it reads; Accumulate reads only what it adds.
  bool change_operand(Mutant& mutant) {
    if (!choose([](const auto&, const LocalOp& op) { return !op.inputs.empty(); })) return false;
    const std::size_t first = is_compute(op(), OpKind::Accumulate) ? 1 : 0;
    const std::size_t operand = first + draw_.below(op().inputs.size() - first);
    const int slot = op().inputs[operand];
    const SlotValues values(graph_, executable(), static_cast<std::size_t>(op_));
    const auto local = [&](int s) -> const LocalTensor& {
      return executable().slots[static_cast<std::size_t>(s)].local;
    };
    std::vector<int> others;
    for (int s = 0; s < static_cast<int>(executable().slots.size()); ++s)
      if (values.exists(s) && values.root(s) != values.root(slot) && local(s).shape == local(slot).shape &&
          (local(s).dtype == DType::I32) == (local(slot).dtype == DType::I32))
        others.push_back(s);
    if (others.empty()) return false;
    const int other = draw_.any(others);
    op_in(mutant).inputs[operand] = other;
    // It stays until then: storage that is released may be given to the right operand.
    int& last_use = executable_in(mutant).slots[static_cast<std::size_t>(values.root(other))].last_use;
    last_use = std::max(last_use, op_);
    mutant.what = fmt::format("operand {} is '{}' instead of '{}'", operand, tensor_of(other), tensor_of(slot));
    if (values.equal(slot, other)) mutant.equivalent = "both operands are the same ops of the same buffers";
    const auto read = buffer_read(values.root(slot)), instead = buffer_read(values.root(other));
    if (read && instead && have_equal_sums(*read, *instead))
      mutant.equivalent = "both operands are sums of the same ops of the same buffers";
    return true;
  }
  // The buffer that the executable finds in the slot.
  [[nodiscard]] std::optional<BufferId> buffer_read(int slot) const {
    const StageExecutable::Slot& of = executable().slots[static_cast<std::size_t>(slot)];
    return of.input ? of.buffer : std::nullopt;
  }
  // Accumulators to which every executable that is run adds equal values, as the biases of two products that one
  // residual takes in.
  [[nodiscard]] bool have_equal_sums(BufferId a, BufferId b) const {
    for (const BufferId buffer : {a, b})
      if (graph_.tensor(program_.buffers[buffer.index()].local.tensor).kind != TensorKind::Accumulator) return false;
    return std::all_of(run_.begin(), run_.end(), [&](std::size_t e) {
      const StageExecutable& of = program_.executables[e];
      const auto added_to_a = additions(of, a), added_to_b = additions(of, b);
      if (!added_to_a || !added_to_b || added_to_a->size() != added_to_b->size()) return false;
      for (std::size_t i = 0; i < added_to_a->size(); ++i) {
        const auto [at_a, value_a] = (*added_to_a)[i];
        const auto [at_b, value_b] = (*added_to_b)[i];
        if (!SlotValues(graph_, of, std::max(at_a, at_b)).equal(value_a, value_b)) return false;
      }
      return true;
    });
  }
  // (op, slot) of what the executable adds to the buffer; nullopt: it is also written in another way.
  [[nodiscard]] std::optional<std::vector<std::pair<std::size_t, int>>> additions(const StageExecutable& of,
                                                                                  BufferId buffer) const {
    std::vector<std::pair<std::size_t, int>> found;
    const SlotValues names(graph_, of, 0);
    for (std::size_t i = 0; i < of.ops.size(); ++i) {
      const LocalOp& op = of.ops[i];
      const bool writes = std::any_of(op.outputs.begin(), op.outputs.end(), [&](int slot) {
        return of.slots[static_cast<std::size_t>(names.root(slot))].buffer == buffer;
      });
      if (!writes) continue;
      if (!is_compute(op, OpKind::Accumulate)) return std::nullopt;
      found.emplace_back(i, op.inputs[1]);
    }
    return found;
  }
  bool change_buffer(Mutant& mutant) {
    std::vector<std::pair<int, int>> found;
    for (const std::size_t e : run_)
      for (std::size_t s = 0; s < program_.executables[e].slots.size(); ++s)
        if (program_.executables[e].slots[s].buffer) found.emplace_back(static_cast<int>(e), static_cast<int>(s));
    int slot = 0;
    std::tie(executable_, slot) = draw_.any(found);
    const StageExecutable::Slot& bound = executable().slots[static_cast<std::size_t>(slot)];
    const Buffer& before = program_.buffers[bound.buffer->index()];
    std::vector<BufferId> others;
    for (const Buffer& buffer : program_.buffers)
      if (buffer.id != before.id && buffer.stage == before.stage && buffer.local.shape == before.local.shape &&
          buffer.local.dtype == before.local.dtype && buffer.persistent == before.persistent &&
          buffer.on_host == before.on_host)
        others.push_back(buffer.id);
    if (others.empty()) return false;
    const BufferId other = draw_.any(others);
    executable_in(mutant).slots[static_cast<std::size_t>(slot)].buffer = other;
    mutant.what =
        fmt::format("slot {} is buffer '{}' instead of '{}'", slot, program_.buffers[other.index()].name, before.name);
    op_ = 0;
    if (!bound.output && !Reach(graph_, program_).of_slot(executable_, slot, 0))
      mutant.equivalent = "nothing that lasts depends on it";
    if (bound.alias_of && is_bound(other))
      mutant.equivalent = "the slot shares the storage of another, whose buffer counts";
    return true;
  }

  // Whether the executable finds the buffer defined.
  [[nodiscard]] bool is_bound(BufferId buffer) const {
    return std::any_of(executable().slots.begin(), executable().slots.end(), [&](const StageExecutable::Slot& slot) {
      return slot.buffer == buffer && slot.input && !slot.alias_of;
    });
  }

  // Axes along which an op reads where its shard begins.
  [[nodiscard]] std::vector<int> placed_axes(const LocalOp& op) const {
    if (op.kind != LocalOp::Kind::Compute) return {};
    const Op& of = graph_.op(op.op);
    const IterationSpace space = iteration_space(graph_, of);
    if (space.position_axis) return {*space.position_axis};
    if (of.kind == OpKind::Rotary || of.kind == OpKind::RotaryBackward) return {space.inputs[0][1]};
    if (of.kind == OpKind::GroupedAttention || of.kind == OpKind::GroupedAttentionBackward)
      return of.attributes.extra == Attributes::Extra::Alibi
                 ? std::vector<int>{space.inputs[0][1], space.inputs[0][2], space.inputs[0][3]}
                 : std::vector<int>{space.inputs[0][1]};
    return {};
  }
  [[nodiscard]] std::vector<int> split_placed_axes(const LocalOp& op) const {
    std::vector<int> axes = placed_axes(op);
    std::erase_if(axes, [&](int axis) { return op.axis_masks[static_cast<std::size_t>(axis)] == 0; });
    return axes;
  }
  bool change_place(Mutant& mutant) {
    if (!choose([&](const auto&, const LocalOp& op) { return !split_placed_axes(op).empty(); })) return false;
    const int axis = draw_.any(split_placed_axes(op()));
    op_in(mutant).axis_masks[static_cast<std::size_t>(axis)] = 0;
    mutant.what = fmt::format("'{}' begins at 0 along axis {}", tensor_of(op().outputs[0]), axis);
    return true;
  }
  bool change_accumulation(Mutant& mutant) {
    if (!choose([&](const auto&, const LocalOp& op) { return is_compute(op, OpKind::Accumulate); })) return false;
    const bool drops = mutant.kind == "accumulation dropped";
    mutant.what = fmt::format("'{}' is {}", tensor_of(op().inputs[1]), drops ? "not added" : "added twice");
    if (drops)
      erase(mutant);
    else
      insert_after(mutant, op());
    return true;
  }
  bool drop_update(Mutant& mutant) {
    if (!choose([&](const auto&, const LocalOp& op) {
          return is_compute(op, OpKind::AdamUpdate) || is_compute(op, OpKind::SgdUpdate) ||
                 is_compute(op, OpKind::MomentumUpdate) || is_compute(op, OpKind::AdafactorUpdate) ||
                 is_compute(op, OpKind::DecayedMean);
        }))
      return false;
    mutant.what = fmt::format("'{}' stays as it is", tensor_of(op().outputs[0]));
    erase(mutant);
    return true;
  }

  // One device of the stage gets an executable of its own.
  void maybe_on_one_device(Mutant& mutant) {
    const std::vector<DeviceId>& devices = program_.stages[executable().stage.index()].devices;
    if (draw_.below(4) != 0) return;
    const DeviceId device = draw_.any(devices);
    const int own = static_cast<int>(mutant.program.executables.size());
    mutant.program.executables.push_back(executable_in(mutant));
    executable_in(mutant) = executable();
    for (Instruction& instruction : mutant.program.devices[device.index()])
      if (instruction.kind == Instruction::Kind::Run && instruction.executable == executable_)
        instruction.executable = own;
    mutant.what += fmt::format(" on device {} alone", device.value);
  }

  const Graph& graph_;
  const Program& program_;
  Drawing& draw_;
  std::set<std::size_t> run_;  // executables that some device runs: a schedule may leave whole backwards or halves out
  int executable_ = 0, op_ = 0;
};

}  // namespace meshwright
