// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation and updates.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// Types may differ: 16-bit weights and gradients meet F32 accumulators, moments and master copies.
std::vector<ResultShape> in_place(const OpCall& call) {
  for (const Tensor* operand : call.inputs) {
    expect(call, is_float(operand->dtype), "its operands must be floating-point");
    expect(call, operand->dims == dims(call, 0), "its operands must have the same dimensions");
  }
  return {};
}

}  // namespace

std::vector<OpRow> optimizer_rows() {
  using K = OpKind;
  return {
      {.kind = K::Accumulate,
       .name = "accumulate",
       .operands = {"acc", "g"},
       .infer = in_place,
       .splittable = any_axis,
       .in_place = true},
      {.kind = K::SgdUpdate,
       .name = "sgd_update",
       .operands = {"w", "master", "g"},
       .infer = in_place,
       .splittable = any_axis,
       .in_place = true,
       .optional_operands = 1},
      {.kind = K::AdamUpdate,
       .name = "adam_update",
       .operands = {"w", "master", "m", "v", "g"},
       .infer = in_place,
       .splittable = any_axis,
       .in_place = true,
       .optional_operands = 1},
  };
}

}  // namespace meshwright::ops
