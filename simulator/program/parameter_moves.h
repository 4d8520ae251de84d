// SPDX-License-Identifier: Apache-2.0
// Tells the collectives of parameters and their gradients from those of activations.
#pragma once

#include <algorithm>

#include "core/plan/program/program.h"

namespace meshwright {

// Whether a collective moves a parameter or its gradient: it gathers what is there all the time, or sums what the Run
// only accumulates, or an update sums it.
class ParameterMoves {
 public:
  ParameterMoves(const Program& program, const StageExecutable& executable)
      : program_(program), executable_(executable) {}

  [[nodiscard]] bool is_one(const LocalOp& op) const {
    if (executable_.phase == Phase::Update) return true;
    return op.step->kind == ReshardStep::Kind::AllGather ? is_parameter(op.inputs[0]) : is_accumulated(op.outputs[0]);
  }

 private:
  [[nodiscard]] const StageExecutable::Slot& slot(int s) const {
    return executable_.slots[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] bool is_parameter(int s) const {
    for (const LocalOp& op : executable_.ops)
      if (op.kind != LocalOp::Kind::Compute && op.outputs[0] == s) return is_parameter(op.inputs[0]);
    return slot(s).input && slot(s).buffer && program_.buffers[slot(s).buffer->index()].persistent;
  }
  [[nodiscard]] bool is_accumulated(int s) const {
    bool read = false;
    for (const LocalOp& op : executable_.ops) {
      if (std::find(op.inputs.begin(), op.inputs.end(), s) == op.inputs.end()) continue;
      read = true;
      const bool summed =
          op.kind == LocalOp::Kind::Reshard ? is_accumulated(op.outputs[0]) : op.work.kind == OpKind::Accumulate;
      if (!summed) return false;
    }
    return read;
  }

  const Program& program_;
  const StageExecutable& executable_;
};

}  // namespace meshwright
