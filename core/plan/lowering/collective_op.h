// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/program/program.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

// A collective as CostModel::collective takes it: `bytes` of the whole tensor of a group, which is the larger side of
// the step. REQUIRES: the op is one.
struct CollectiveOp {
  CollectiveKind kind;
  Bytes bytes;
};
[[nodiscard]] CollectiveOp collective_of(const StageExecutable& executable, const LocalOp& op);

}  // namespace meshwright
