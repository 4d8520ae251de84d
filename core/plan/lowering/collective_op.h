// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/program/program.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

// A collective as CostModel::collective takes it: `bytes` of the whole tensor of a group, which is the larger side of
// the step; of a gathered or scattered tensor with the padding of its tiles. REQUIRES: the op is one; `mesh` is that of
// the executable's stage.
struct CollectiveOp {
  CollectiveKind kind;
  Bytes bytes;
};
[[nodiscard]] CollectiveOp collective_of(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh);

}  // namespace meshwright
