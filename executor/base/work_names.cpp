// SPDX-License-Identifier: Apache-2.0
#include "executor/base/work_names.h"

#include <cmath>

#include "core/plan/lowering/collective_op.h"
#include "core/sharding/op_ranges.h"

namespace meshwright {

std::string work_name(const ProgramStage& stage, const StageExecutable& executable, const LocalOp& op) {
  if (op.kind == LocalOp::Kind::Compute) return range_text(op.work);
  if (!op.is_collective()) return "";
  const CollectiveOp moved = collective_of(executable, op, stage.mesh);
  const MeshAxis& axis = stage.mesh.axes[static_cast<std::size_t>(op.step->axis)];
  return range_text(
      CollectiveRange{moved.kind, axis.size(), axis.outer, static_cast<std::int64_t>(std::llround(moved.bytes.si()))});
}

}  // namespace meshwright
