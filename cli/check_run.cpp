// SPDX-License-Identifier: Apache-2.0
#include "cli/check_run.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr double kFloatRounding = 1.0 / (1 << 24);  // u

double depth_of(OpKind kind) {
  if (kind == OpKind::Contract) return 1.0;
  return kind == OpKind::Attention || kind == OpKind::AttentionBackward ? 2.0 : 0.0;
}

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double relative(double difference, double reference) { return reference > 0.0 ? difference / reference : difference; }

}  // namespace

RoundingShape rounding_shape(const Graph& graph) {
  RoundingShape shape;
  std::vector<double> depth(graph.tensors().size(), 0.0);
  for (const Op& op : graph.ops()) {
    double sum = 1.0;
    for (const IterationAxis& axis : iteration_space(graph, op).axes)
      if (axis.reduction) sum *= static_cast<double>(axis.size);
    shape.longest_sum = std::max(shape.longest_sum, sum);
    double deepest = 0.0;
    for (const TensorId input : op.inputs) deepest = std::max(deepest, depth[input.index()]);
    deepest += depth_of(op.kind);
    for (const TensorId output : op.outputs) depth[output.index()] = deepest;
    shape.depth = std::max(shape.depth, deepest);
  }
  return shape;
}

double gradient_error(const RoundingShape& shape) {
  return 2.0 * shape.depth * std::sqrt(shape.longest_sum) * kFloatRounding;
}

double float32_bound(const RoundingShape& shape, const WeightBoundInput& weight) {
  MW_CHECK(weight.norm > 0.0, "a relative bound of a tensor of norm {}", weight.norm);
  const double delta = gradient_error(shape);
  const double stored = weight.steps * kFloatRounding;
  if (weight.optimizer.kind == Optimizer::Kind::Sgd)
    return std::sqrt(weight.steps) * weight.distance * delta / weight.norm + stored;
  return weight.steps * weight.optimizer.learning_rate * std::sqrt(4.0 * delta) * std::sqrt(weight.elements) /
             weight.norm +
         stored;
}

std::vector<CheckedTensor> compare_runs(const CheckInput& input) {
  const auto& [graph, optimizer, options, run, reference, initial] = input;
  const bool exact = options.precision == DType::F64;
  const RoundingShape shape = rounding_shape(graph);
  MW_CHECK(run.weights.size() == reference.weights.size() && run.losses.size() == reference.losses.size(),
           "{} weights and {} losses against {} and {}", run.weights.size(), run.losses.size(),
           reference.weights.size(), reference.losses.size());

  std::vector<CheckedTensor> weights;
  double largest_bound = 0.0;
  for (const auto& [name, values] : run.weights) {
    const std::vector<double>& expected = reference.weights.at(name);
    MW_CHECK(values.size() == expected.size(), "'{}' has {} elements against {}", name, values.size(), expected.size());
    const double size = norm(expected);
    double bound = kBoundF64;
    if (!exact && size > 0.0) {
      const auto before = initial.find(name);
      bound = float32_bound(shape, {optimizer, options.steps, static_cast<double>(values.size()), size,
                                    before == initial.end() ? 0.0 : distance(expected, before->second)});
    }
    largest_bound = std::max(largest_bound, bound);
    weights.push_back({name, relative(distance(values, expected), size), bound});
  }

  const double loss_bound = exact ? kBoundF64 : gradient_error(shape) + shape.depth * largest_bound;
  std::vector<CheckedTensor> checked;
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    const double expected = reference.losses[step];
    checked.push_back({fmt::format("loss of step {}", step),
                       relative(std::abs(run.losses[step] - expected), std::abs(expected)), loss_bound});
  }
  checked.insert(checked.end(), weights.begin(), weights.end());
  return checked;
}

}  // namespace meshwright
