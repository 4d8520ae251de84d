// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lowering/collective_op.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

CollectiveOp collective_of(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh) {
  MW_CHECK(op.kind == LocalOp::Kind::Reshard && op.step && op.inputs.size() == 1 && op.outputs.size() == 1,
           "a reshard with {} inputs and {} outputs", op.inputs.size(), op.outputs.size());
  const Bytes before = executable.slots[static_cast<std::size_t>(op.inputs[0])].local.bytes();
  const Bytes after = executable.slots[static_cast<std::size_t>(op.outputs[0])].local.bytes();
  const double members = mesh.axes[static_cast<std::size_t>(op.step->axis)].size();
  switch (op.step->kind) {
    case ReshardStep::Kind::AllReduce:
      return {CollectiveKind::AllReduce, before};
    case ReshardStep::Kind::ReduceScatter:
      return {CollectiveKind::ReduceScatter, members * after};
    case ReshardStep::Kind::AllGather:
      return {CollectiveKind::AllGather, members * before};
    case ReshardStep::Kind::AllToAll:
      // The busiest of the devices that share experts gets more than it gives.
      return {CollectiveKind::AllToAll, std::max(before, after)};
    case ReshardStep::Kind::Slice:
      break;
  }
  throw InternalError("a slice is not a collective");
}

}  // namespace meshwright
