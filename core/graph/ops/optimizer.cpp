// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation, the size of gradients, and updates.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// The first `count` operands are alike. Types may differ: 16-bit weights and gradients meet F32 accumulators, moments
// and master copies.
void expect_alike(const OpCall& call, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    expect(call, is_float(dtype(call, i)), "its operands must be floating-point");
    expect(call, dims(call, i) == dims(call, 0), "its operands must have the same dimensions");
  }
}

std::vector<ResultShape> accumulate(const OpCall& call) {
  expect_alike(call, call.inputs.size());
  return {};
}

// An update's operands are (w, [master], states, g), and where gradients are clipped the scalar `norm`.
std::vector<ResultShape> update(const OpCall& call) {
  const bool clips = call.attributes.max_norm > 0.0;
  const std::size_t fewest = row_of(call.kind).operands.size() - 2, alike = call.inputs.size() - (clips ? 1 : 0);
  expect(call, alike == fewest || alike == fewest + 1,
         clips ? "with max_norm > 0 its last operand must be the norm" : "a norm is read only with max_norm > 0");
  expect_alike(call, alike);
  if (clips)
    expect(call, is_float(dtype(call, alike)) && dims(call, alike).empty(), "norm must be a floating-point scalar");
  return {};
}

std::vector<ResultShape> sum_squares(const OpCall& call) {
  expect_one_float_type(call, {0});
  return {{accumulation_dtype(dtype(call, 0)), {}}};
}

}  // namespace

std::vector<OpRow> optimizer_rows() {
  using K = OpKind;
  return {
      {.kind = K::Accumulate,
       .name = "accumulate",
       .operands = {"acc", "g"},
       .infer = accumulate,
       .splittable = any_axis,
       .in_place = true},
      {.kind = K::SumSquares, .name = "sum_squares", .operands = {"g"}, .infer = sum_squares, .splittable = any_axis},
      {.kind = K::SgdUpdate,
       .name = "sgd_update",
       .operands = {"w", "master", "g", "norm"},
       .infer = update,
       .splittable = any_axis,
       .in_place = true,
       .optional_operands = 2},
      {.kind = K::MomentumUpdate,
       .name = "momentum_update",
       .operands = {"w", "master", "momentum", "g", "norm"},
       .infer = update,
       .splittable = any_axis,
       .in_place = true,
       .optional_operands = 2},
      {.kind = K::AdamUpdate,
       .name = "adam_update",
       .operands = {"w", "master", "m", "v", "g", "norm"},
       .infer = update,
       .splittable = any_axis,
       .in_place = true,
       .optional_operands = 2},
  };
}

}  // namespace meshwright::ops
