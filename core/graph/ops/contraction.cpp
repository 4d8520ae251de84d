// SPDX-License-Identifier: Apache-2.0
// Contractions and biases.
#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// Every name is in at least two of (x, w, result), so that each gradient of a contraction is again a contraction.
std::vector<ResultShape> contract(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  const Dims &x = dims(call, 0), &w = dims(call, 1);
  const std::vector<std::string>& names = call.attributes.result_names;
  const std::set<std::string> in_result(names.begin(), names.end());
  if (in_result.size() != names.size())
    fail(call, fmt::format("its result names ({}) must differ", fmt::join(names, ", ")));
  ResultShape result{dtype(call, 0), {}};
  for (const std::string& name : names) {
    const Dim* dim = find(x, name) != nullptr ? find(x, name) : find(w, name);
    if (dim == nullptr) fail(call, fmt::format("its result's dimension '{}' must be in an operand", name));
    result.dims.push_back(*dim);
  }
  for (const Dims* one : {&x, &w}) {
    const Dims& other = one == &x ? w : x;
    for (const Dim& dim : *one) {
      const Dim* match = find(other, dim.name);
      if (match == nullptr && in_result.count(dim.name) == 0)
        fail(call, fmt::format("dimension '{}' is in one operand only, so its result ({}) must have it", dim.name,
                               fmt::join(names, ", ")));
      if (match != nullptr && match->size != dim.size)
        fail(call, fmt::format("dimension '{}' must have one size in both operands", dim.name));
    }
  }
  return {result};
}

void expect_trailing(const OpCall& call, std::size_t bias_rank, bool matches) {
  const std::size_t rank = dims(call, 0).size();
  expect(call, bias_rank >= 1 && matches, "the bias must have the trailing dimensions of the first operand");
  expect(call, !call.attributes.bias_select || bias_rank < rank,
         "a selecting bias needs a dimension before its own, whose index 0 it acts on");
}

std::vector<ResultShape> bias_add(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  const Dims &x = dims(call, 0), &bias = dims(call, 1);
  expect_trailing(call, bias.size(), bias.size() <= x.size() && std::equal(bias.rbegin(), bias.rend(), x.rbegin()));
  return {{dtype(call, 0), x}};
}

std::vector<ResultShape> bias_gradient(const OpCall& call) {
  expect_one_float_type(call, {0});
  const Dims& dy = dims(call, 0);
  const std::vector<std::string>& names = call.attributes.result_names;
  const bool trailing =
      names.size() <= dy.size() && std::equal(names.rbegin(), names.rend(), dy.rbegin(),
                                              [](const std::string& name, const Dim& dim) { return name == dim.name; });
  expect_trailing(call, names.size(), trailing);
  return {{dtype(call, 0), Dims(dy.end() - static_cast<std::ptrdiff_t>(names.size()), dy.end())}};
}

// A selecting bias acts on one index of the axis before its own: a shard without that index would have to do nothing.
bool all_but_selected(const Op& op, const IterationSpace& space, int axis) {
  if (!op.attributes.bias_select) return true;
  const std::size_t bias_rank = (op.kind == OpKind::BiasAdd ? space.inputs[1] : space.outputs[0]).size();
  return axis != space.inputs[0][space.inputs[0].size() - bias_rank - 1];
}

double contract_flops(const IterationSpace&, const std::vector<std::int64_t>& sizes) { return 2.0 * product(sizes); }

// y = sum over the names missing in y of x w: each gradient is again a sum of products over the missing names.
void contract_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId x = backward.read(op, 0), w = backward.read(op, 1);
  const auto like = [&](TensorId tensor) { return Attributes{.result_names = names_of(backward.tensor(tensor))}; };
  backward.derive_gradient(op, 0, OpKind::Contract, "grad_x", {dy, w}, like(x));
  backward.derive_gradient(op, 1, OpKind::Contract, "grad_w", {x, dy}, like(w));
}

void bias_add_derivative(Backward& backward, const Op& op, TensorId dy) {
  if (backward.wants(op, 0)) backward.contribute(op, 0, dy);
  const Attributes of_bias{.result_names = names_of(backward.tensor(op.inputs[1])),
                           .bias_select = op.attributes.bias_select};
  backward.derive_gradient(op, 1, OpKind::BiasGradient, "grad_bias", {dy}, of_bias);
}

}  // namespace

std::vector<OpRow> contraction_rows() {
  using K = OpKind;
  return {
      {K::Contract,
       "contract",
       {"x", "w"},
       contract,
       any_axis,
       {.flops = contract_flops, .derivative = contract_derivative}},
      {K::BiasAdd,
       "bias_add",
       {"x", "bias"},
       bias_add,
       all_but_selected,
       {.derivative = bias_add_derivative, .passes_gradient = 0b01}},
      {K::BiasGradient, "bias_gradient", {"dy"}, bias_gradient, all_but_selected},
  };
}

}  // namespace meshwright::ops
