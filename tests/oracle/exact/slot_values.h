// SPDX-License-Identifier: Apache-2.0
// Which slots of an executable hold the same value when an op runs? Two do for certain where they come from the same
// buffers by the same ops; nothing is said of others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/plan/program/program.h"

namespace meshwright {

class SlotValues {
 public:
  // Of the values just before op `at`.
  SlotValues(const Graph& graph, const StageExecutable& executable, std::size_t at) : executable_(executable) {
    for (std::size_t s = 0; s < executable.slots.size(); ++s) {
      const StageExecutable::Slot& slot = executable.slots[s];
      if (slot.buffer && slot.input)
        values_[root(static_cast<int>(s))] = fmt::format("buffer {}", slot.buffer->value);
      else if (graph.tensor(slot.local.tensor).kind == TensorKind::Input)
        values_[root(static_cast<int>(s))] = fmt::format("input {}", slot.local.tensor.value);
    }
    for (std::size_t i = 0; i < at; ++i) run(graph, executable.ops[i]);
  }

  [[nodiscard]] int root(int slot) const {
    while (executable_.slots[static_cast<std::size_t>(slot)].alias_of)
      slot = *executable_.slots[static_cast<std::size_t>(slot)].alias_of;
    return slot;
  }
  [[nodiscard]] bool exists(int slot) const { return values_.contains(root(slot)); }
  [[nodiscard]] bool equal(int a, int b) const {
    return root(a) == root(b) || (exists(a) && exists(b) && values_.at(root(a)) == values_.at(root(b)));
  }

 private:
  void run(const Graph& graph, const LocalOp& op) {
    std::string made;
    if (op.kind == LocalOp::Kind::HostCopy) {
      made = value(op.inputs[0]);
    } else if (op.kind == LocalOp::Kind::Reshard) {
      const ReshardStep& step = *op.step;
      made = fmt::format("{} {} {} {} {}({})", static_cast<int>(step.kind), step.axis, step.from_dim, step.to_dim,
                         op.reduce ? static_cast<int>(*op.reduce) : -1, value(op.inputs[0]));
    } else {
      const Op& of = graph.op(op.op);
      const Attributes& a = of.attributes;
      made = fmt::format("{} {} {} {} {} {} {}", name_of(of.kind), fmt::join(op.axis_sizes, ","), a.scale, a.epsilon,
                         a.value, a.start, a.seed);
      for (const Dim& dim : graph.tensor(of.outputs[0]).dims) made += " " + dim.name;
      for (const AxisMask mask : op.axis_masks) made += fmt::format(" {}", static_cast<int>(mask));
      for (const int slot : op.inputs) made += "(" + value(slot) + ")";
    }
    for (std::size_t r = 0; r < op.outputs.size(); ++r)
      values_[root(op.outputs[r])] = fmt::format("{:x}:{}", stable_hash(made), r);
    // A copy, and new names for the same elements in the same order, are the same value.
    const bool copies = op.kind == LocalOp::Kind::HostCopy ||
                        (op.kind == LocalOp::Kind::Compute && graph.op(op.op).kind == OpKind::Reshape);
    if (copies) values_[root(op.outputs[0])] = value(op.inputs[0]);
  }
  [[nodiscard]] std::string value(int slot) const {
    const auto found = values_.find(root(slot));
    return found == values_.end() ? "nothing" : found->second;
  }

  const StageExecutable& executable_;
  std::map<int, std::string> values_;  // [root]
};

}  // namespace meshwright
