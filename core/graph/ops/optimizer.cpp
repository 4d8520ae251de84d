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

// How many of the last operands are `norm` and `scaling`, which are checked.
std::size_t step_operands(const OpCall& call) {
  const bool scaled = call.attributes.loss_scale > 0.0, measured = scaled || call.attributes.max_norm > 0.0;
  const std::size_t others = (measured ? 1u : 0u) + (scaled ? 1u : 0u);
  expect(call, call.inputs.size() > others, "its last operands must be those of the step");
  if (measured) expect_norm(call, call.inputs.size() - others);
  if (scaled) expect_scaling(call, call.inputs.size() - 1);
  return others;
}

// `g`'s dimensions that are named, in order.
std::vector<ResultShape> mean_squares(const OpCall& call) {
  expect_one_float_type(call, {0});
  const std::vector<std::string>& names = call.attributes.result_names;
  std::vector<Dim> result;
  for (const Dim& dim : dims(call, 0))
    if (result.size() < names.size() && dim.name == names[result.size()]) result.push_back(dim);
  expect(call, result.size() == names.size(), "its result's names must be names of g in their order");
  return {{accumulation_dtype(dtype(call, 0)), result}};
}

std::vector<ResultShape> decayed_mean(const OpCall& call) {
  expect(call, call.inputs.size() - step_operands(call) == 2, "its operands must be the mean and this step's");
  expect_alike(call, 2);
  return {};
}

// Operands from `first` on are g and its moments, and behind them `more`.
void expect_moments(const OpCall& call, std::size_t first, std::size_t more) {
  const bool factored = call.attributes.factored;
  const std::size_t count = call.inputs.size() - step_operands(call);
  expect(call, count == first + (factored ? 4 : 2) + more,
         factored ? "of factored moments it reads r, c and their mean" : "of moments that are not factored it reads r");
  const auto holds = [&](std::size_t i, const std::vector<Dim>& all) {
    std::size_t met = 0;
    for (const Dim& dim : all) met += met < dims(call, i).size() && dim == dims(call, i)[met] ? 1 : 0;
    return met == dims(call, i).size();
  };
  for (std::size_t i = first; i < count; ++i)
    expect(call, is_float(dtype(call, i)), "its operands must be floating-point");
  const std::vector<Dim>& all = dims(call, first);
  if (!factored) return expect(call, dims(call, first + 1) == all, "r must have g's dimensions");
  const std::size_t rank = all.size();
  expect(call,
         holds(first + 1, all) && holds(first + 2, all) && dims(call, first + 1).size() + 1 == rank &&
             dims(call, first + 2).size() + 1 == rank,
         "r and c must each have all but one of g's dimensions, in order");
  expect(call,
         holds(first + 3, dims(call, first + 1)) && holds(first + 3, dims(call, first + 2)) &&
             dims(call, first + 3).size() + 2 == rank,
         "mean must have the dimensions that r and c share");
}

std::vector<ResultShape> move_squares(const OpCall& call) {
  expect_moments(call, 0, 0);
  return {{accumulation_dtype(dtype(call, 1)), {}}};
}

std::vector<ResultShape> adafactor_update(const OpCall& call) {
  const std::size_t after = (call.attributes.factored ? 4 : 2) + 1 + step_operands(call);
  expect(call, call.inputs.size() == after + 1 || call.inputs.size() == after + 2,
         "its operands must be the weight, its master copy if it has one, g and its moments");
  const std::size_t weights = call.inputs.size() - after;
  expect_alike(call, weights + 1);
  expect_moments(call, weights, 1);
  expect_norm(call, weights + after - 1 - step_operands(call));
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
      {K::MeanSquares, "mean_squares", {"g"}, mean_squares, any_axis},
      {K::DecayedMean,
       "decayed_mean",
       {"v", "g", "norm", "scaling"},
       decayed_mean,
       all_but_scaling,
       {.in_place = true, .optional_operands = 2}},
      {K::MoveSquares,
       "move_squares",
       {"g", "r", "c", "mean", "norm", "scaling"},
       move_squares,
       all_but_scaling,
       {.optional_operands = 4}},
      {K::AdafactorUpdate,
       "adafactor_update",
       {"w", "master", "g", "r", "c", "mean", "squares", "norm", "scaling"},
       adafactor_update,
       all_but_scaling,
       {.in_place = true, .optional_operands = 5}},
      {K::ScalingUpdate, "scaling_update", {"scaling", "norm"}, scaling_update, no_axis, {.in_place = true}},
  };
}

}  // namespace meshwright::ops
