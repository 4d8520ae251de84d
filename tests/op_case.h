// SPDX-License-Identifier: Apache-2.0
// A small graph made by hand, with values for everything it starts from, and its derivatives against finite
// differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/autodiff.h"
#include "core/graph/op_table.h"
#include "executor/check/graph_interpreter.h"
#include "tests/refusal.h"

namespace meshwright {

using Values = std::vector<double>;

// `count` numbers spread evenly over (low, high) in an order that follows from `key`. No two are equal, and a range
// around zero keeps a distance of 0.1 (high - low) / count from it: differences do not meet the kinks of maxima and
// rectifiers.
inline Values spread_values(const std::string& key, std::int64_t count, double low = -1.0, double high = 1.0) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> order;
  for (std::int64_t i = 0; i < count; ++i) order.emplace_back(stable_hash(fmt::format("{}/{}", key, i)), i);
  std::sort(order.begin(), order.end());
  const double shift = 0.6 + 0.3 * static_cast<double>(stable_hash(key) % 1000) / 1000;
  Values values;
  for (const auto& [hash, rank] : order)
    values.push_back(low + (high - low) * (static_cast<double>(rank) + shift) / static_cast<double>(count));
  return values;
}

// A graph in double with values for all its inputs, parameters and states. The op added last is the one under test.
struct OpCase {
  Graph graph;
  std::map<TensorId, Values> values;

  OpCase() { graph.dtype = DType::F64; }

  // A floating-point operand that is differentiated, and one that is not.
  TensorId parameter(const std::string& name, std::vector<Dim> dims, double low = -1.0, double high = 1.0) {
    return give(graph.add_tensor(name, TensorKind::Parameter, DType::F64, std::move(dims)), low, high);
  }
  TensorId input(const std::string& name, std::vector<Dim> dims, double low = -1.0, double high = 1.0) {
    return give(graph.add_tensor(name, TensorKind::Input, DType::F64, std::move(dims)), low, high);
  }
  TensorId state(const std::string& name, TensorId parameter, double low = -1.0, double high = 1.0) {
    const std::vector<Dim> dims = graph.tensor(parameter).dims;
    return give(graph.add_tensor(name, TensorKind::OptimizerState, DType::F64, dims, parameter), low, high);
  }
  // Integers in low..high-1, in an order that follows from the name; or those given.
  TensorId integers(const std::string& name, std::vector<Dim> dims, std::int64_t low, std::int64_t high) {
    const TensorId id = graph.add_tensor(name, TensorKind::Input, DType::I32, std::move(dims));
    for (std::int64_t i = 0; i < graph.tensor(id).elements(); ++i) {
      const std::uint64_t hash = stable_hash(fmt::format("{}/{}", name, i)) >> 7;
      values[id].push_back(
          static_cast<double>(low + static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(high - low))));
    }
    return id;
  }
  TensorId integers(const std::string& name, std::vector<Dim> dims, const Values& given) {
    const TensorId id = graph.add_tensor(name, TensorKind::Input, DType::I32, std::move(dims));
    MW_CHECK(static_cast<std::int64_t>(given.size()) == graph.tensor(id).elements(), "values of '{}'", name);
    values[id] = given;
    return id;
  }
  // Adds an op named after its kind (or `name`); its first result.
  TensorId add(OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {}, std::string name = "") {
    return graph.add_op(kind, unused(kind, std::move(name)), std::move(inputs), std::move(attributes))[0];
  }
  // The same for an op that overwrites its first `updates` operands.
  void add_in_place(OpKind kind, std::vector<TensorId> inputs, std::size_t updates, Attributes attributes = {}) {
    const std::vector<TensorId> overwritten(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(updates));
    graph.add_in_place_op(kind, unused(kind, ""), std::move(inputs), overwritten, std::move(attributes));
  }
  [[nodiscard]] TensorId result() const { return graph.ops().back().outputs[0]; }

 private:
  TensorId give(TensorId id, double low, double high) {
    values[id] = spread_values(graph.tensor(id).name, graph.tensor(id).elements(), low, high);
    return id;
  }
  [[nodiscard]] std::string unused(OpKind kind, std::string name) const {
    return name.empty() ? fmt::format("{}{}", name_of(kind), graph.ops().size()) : name;
  }
};

namespace op_bench {

inline void load(const OpCase& c, GraphInterpreter& interpreter) {
  for (const auto& [id, values] : c.values) interpreter.set(id, values);
}

// The case with the backward of its last result appended: from a fixed cotangent, or of the objective itself when a
// loss op made it.
inline OpCase with_backward(OpCase c) {
  const Op last = c.graph.ops().back();
  const TensorId result = last.outputs[0];
  std::optional<TensorId> seed;
  if (row_of(last.kind).loss_derivative == nullptr) seed = c.input("cotangent", c.graph.tensor(result).dims);
  append_backward(c.graph, result, seed, Recompute::None);
  return c;
}

inline double objective(const OpCase& c, TensorId result, GraphInterpreter& interpreter) {
  interpreter.run(Phase::Forward);
  const Values out = interpreter.get(result);
  for (const Tensor& tensor : c.graph.tensors())
    if (tensor.name == "cotangent")
      return std::inner_product(out.begin(), out.end(), c.values.at(tensor.id).begin(), 0.0);
  return out.at(0);
}

// Derivatives by four points, (8 (f(w+h) - f(w-h)) - (f(w+2h) - f(w-2h))) / 12h: truncated at h^4 = 1e-16, rounded to
// about 1e-16 / h = 1e-12 of the objective.
inline Values differences(const OpCase& c, TensorId result, TensorId parameter, GraphInterpreter& interpreter) {
  constexpr double kStep = 1e-4;
  Values moved = c.values.at(parameter), derivatives;
  for (double& value : moved) {
    const double kept = value;
    const auto at = [&](double distance) {
      value = kept + distance * kStep;
      interpreter.set(parameter, moved);
      return objective(c, result, interpreter);
    };
    derivatives.push_back((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep));
    value = kept;
  }
  interpreter.set(parameter, moved);
  return derivatives;
}

// Sum of the accumulators of a parameter: one for each of its uses.
inline Values gradient(const Graph& graph, TensorId parameter, const GraphInterpreter& interpreter) {
  Values total(static_cast<std::size_t>(graph.tensor(parameter).elements()), 0.0);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Accumulator || tensor.parameter != parameter) continue;
    const Values part = interpreter.get(tensor.id);
    std::transform(total.begin(), total.end(), part.begin(), total.begin(), std::plus<>());
  }
  return total;
}

inline double largest(const Values& values) {
  double found = 0.0;
  for (const double value : values) found = std::max(found, std::abs(value));
  return found;
}

}  // namespace op_bench

// What the ops compute, op after op, in `precision`: the values of one tensor. With Phase::Backward also the backward.
inline Values computed(const OpCase& c, TensorId tensor, DType precision = DType::F64) {
  GraphInterpreter interpreter(c.graph, 0, precision);
  op_bench::load(c, interpreter);
  for (const Phase phase : {Phase::Forward, Phase::Backward, Phase::Update}) interpreter.run(phase);
  return interpreter.get(tensor);
}
inline Values computed(const OpCase& c) { return computed(c, c.result()); }

// Autodiff's gradient of every parameter against finite differences of sum(r * result), r a fixed cotangent (of the
// result itself where a loss op made it): within `tolerance` of the parameter's largest derivative. A parameter
// without influence fails, for it proves nothing.
inline void expect_true_vjp(const OpCase& forward, double tolerance = 1e-6) {
  const TensorId result = forward.result();
  const OpCase c = op_bench::with_backward(forward);
  GraphInterpreter interpreter(c.graph, 0, DType::F64);
  op_bench::load(c, interpreter);
  interpreter.run(Phase::Forward);
  interpreter.run(Phase::Backward);
  for (const Tensor& tensor : forward.graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    const Values analytic = op_bench::gradient(c.graph, tensor.id, interpreter);
    const Values numeric = op_bench::differences(c, result, tensor.id, interpreter);
    const double scale = op_bench::largest(numeric);
    EXPECT_GT(scale, 1e-6) << tensor.name << " has no influence on the result";
    for (std::size_t i = 0; i < numeric.size(); ++i)
      EXPECT_NEAR(analytic[i], numeric[i], tolerance * scale) << "gradient of " << tensor.name << "[" << i << "]";
  }
}

}  // namespace meshwright
