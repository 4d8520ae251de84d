// SPDX-License-Identifier: Apache-2.0
#include "executor/work_names.h"

#include <cmath>

#include "core/base/errors.h"
#include "core/sharding/op_ranges.h"

namespace meshwright {

namespace {

struct Moved {
  CollectiveKind kind;
  Bytes bytes;
};

// The whole tensor of the group, as CostModel::collective counts it.
std::optional<Moved> moved_by(const StageExecutable& executable, const LocalOp& op) {
  const auto bytes = [&](int slot) { return executable.slots[static_cast<std::size_t>(slot)].local.bytes(); };
  switch (op.step.value().kind) {
    case ReshardStep::Kind::AllReduce:
      return Moved{CollectiveKind::AllReduce, bytes(op.inputs[0])};
    case ReshardStep::Kind::ReduceScatter:
      return Moved{CollectiveKind::ReduceScatter, bytes(op.inputs[0])};
    case ReshardStep::Kind::AllGather:
      return Moved{CollectiveKind::AllGather, bytes(op.outputs[0])};
    case ReshardStep::Kind::AllToAll:
      return Moved{CollectiveKind::AllToAll, bytes(op.inputs[0])};
    case ReshardStep::Kind::Slice:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string work_name(const ProgramStage& stage, const StageExecutable& executable, const LocalOp& op) {
  if (op.kind == LocalOp::Kind::Compute) return range_text(op.work);
  const std::optional<Moved> moved = moved_by(executable, op);
  if (!moved) return "";
  const MeshAxis& axis = stage.mesh.axes[static_cast<std::size_t>(op.step->axis)];
  return range_text(CollectiveRange{moved->kind, axis.size(), axis.outer,
                                    static_cast<std::int64_t>(std::llround(moved->bytes.si()))});
}

}  // namespace meshwright
