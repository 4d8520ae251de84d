// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation, the size of gradients, and updates.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

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

void expect_norm(const OpCall& call, std::size_t i) {
  expect(call, is_float(dtype(call, i)) && dims(call, i).empty(), "norm must be a floating-point scalar");
}

// An update's operands are (w, [master], states, g), where gradients are clipped or scaled the scalar `norm`, and where
// they are scaled the state of the scaling.
std::vector<ResultShape> update(const OpCall& call) {
  const bool scaled = call.attributes.loss_scale > 0.0, measured = scaled || call.attributes.max_norm > 0.0;
  const std::size_t fewest = row_of(call.kind).operands.size() - 3, others = (measured ? 1u : 0u) + (scaled ? 1u : 0u),
                    alike = call.inputs.size() - others;
  expect(call, alike == fewest || alike == fewest + 1,
         scaled     ? "with loss_scale > 0 its last operands must be the norm and the scaling"
         : measured ? "with max_norm > 0 its last operand must be the norm"
                    : "a norm is read only with max_norm > 0");
  expect_alike(call, alike);
  if (measured) expect_norm(call, alike);
  if (scaled) expect_scaling(call, alike + 1);
  return {};
}

std::vector<ResultShape> scaling_update(const OpCall& call) {
  expect_scaling(call, 0);
  expect_norm(call, 1);
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
      {K::Accumulate, "accumulate", {"acc", "g"}, accumulate, any_axis, {.in_place = true}},
      {K::SumSquares, "sum_squares", {"g"}, sum_squares, any_axis},
      {K::SgdUpdate,
       "sgd_update",
       {"w", "master", "g", "norm", "scaling"},
       update,
       all_but_scaling,
       {.in_place = true, .optional_operands = 3}},
      {K::MomentumUpdate,
       "momentum_update",
       {"w", "master", "momentum", "g", "norm", "scaling"},
       update,
       all_but_scaling,
       {.in_place = true, .optional_operands = 3}},
      {K::AdamUpdate,
       "adam_update",
       {"w", "master", "m", "v", "g", "norm", "scaling"},
       update,
       all_but_scaling,
       {.in_place = true, .optional_operands = 3}},
      {K::ScalingUpdate, "scaling_update", {"scaling", "norm"}, scaling_update, no_axis, {.in_place = true}},
  };
}

}  // namespace meshwright::ops
