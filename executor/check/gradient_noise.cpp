// SPDX-License-Identifier: Apache-2.0
#include "executor/check/gradient_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/errors.h"
#include "executor/ops/op_kernels.h"

namespace meshwright {

GradientNoiseFinder::GradientNoiseFinder(const Graph& graph, double delta) : graph_(graph), delta_(delta) {
  MW_CHECK(graph.microbatches == 1, "gradients of {} microbatches are not looked at together", graph.microbatches);
  std::set<TensorId> others;  // whose gradients are made otherwise
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Accumulate) continue;
    const TensorId parameter = graph.tensor(op.inputs[0]).parameter.value();
    const std::optional<OpId> maker = graph.tensor(op.inputs[1]).producer;
    if (maker && graph.op(*maker).kind == OpKind::BiasGradient)
      biases_[parameter].sums.push_back(*maker);
    else
      others.insert(parameter);
  }
  // Terms of another kind are not known one by one: such a parameter is left out.
  std::erase_if(biases_, [&](const auto& bias) { return others.contains(bias.first); });
  for (auto& [parameter, bias] : biases_) {
    const auto elements = static_cast<std::size_t>(graph.tensor(parameter).elements());
    bias.is_noise.assign(elements, true);
    bias.moments.assign(elements, 0.0);
  }
  for (const Op& op : graph.ops())
    if (const auto bias = biases_.find(op.inputs[0]); bias != biases_.end() && op.kind == OpKind::AdamUpdate)
      bias->second.beta2 = op.attributes.beta2;
}

void GradientNoiseFinder::note(const GraphInterpreter& interpreter) {
  double scale = 1.0;  // of the gradients, against those that Adam makes moments of
  if (const auto& scaling = graph_.loss_scaling) {
    if (is_left_out(interpreter)) return;
    scale = std::ldexp(scaling->first, static_cast<int>(interpreter.get(scaling->state)[0]));
  }
  for (auto& [parameter, bias] : biases_) note(interpreter, bias, scale);
  std::erase_if(biases_, [](const auto& one) {
    return std::find(one.second.is_noise.begin(), one.second.is_noise.end(), true) == one.second.is_noise.end();
  });
}

// As the updates will see it: the squares of all gradients together are no finite number.
bool GradientNoiseFinder::is_left_out(const GraphInterpreter& interpreter) const {
  std::map<TensorId, std::vector<double>> gradients;  // by parameter, over its uses
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind != TensorKind::Accumulator) continue;
    const std::vector<double> part = interpreter.get(tensor.id);
    std::vector<double>& gradient = gradients[*tensor.parameter];
    gradient.resize(part.size(), 0.0);
    for (std::size_t i = 0; i < part.size(); ++i) gradient[i] += part[i];
  }
  double squares = 0.0;
  for (const auto& [parameter, gradient] : gradients)
    for (const double g : gradient) squares += g * g;
  const bool in_float = interpreter.precision() == DType::F32;
  // A run in float adds the squares in float, where they overflow earlier.
  return !std::isfinite(squares) || (in_float && squares > std::numeric_limits<float>::max());
}

void GradientNoiseFinder::note(const GraphInterpreter& interpreter, Bias& bias, double scale) const {
  std::vector<double> gradient(bias.moments.size(), 0.0), squares = gradient;
  for (const OpId id : bias.sums) {
    const Op& op = graph_.op(id);
    const std::vector<double> sum = interpreter.get(op.outputs[0]);
    for (std::size_t i = 0; i < sum.size(); ++i) gradient[i] += sum[i];
    add_squares(interpreter, op, squares);
  }
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    // Noise has to be noise in every step: the sum is within the rounding of its terms.
    bias.is_noise[i] = bias.is_noise[i] && std::abs(gradient[i]) <= delta_ * std::sqrt(squares[i]);
    // The second moment that Adam would have if the terms did not cancel.
    bias.moments[i] = bias.beta2 * bias.moments[i] + (1.0 - bias.beta2) * squares[i] / scale / scale;
  }
}

// Adds the op's sums of the squares of its terms.
void GradientNoiseFinder::add_squares(const GraphInterpreter& interpreter, const Op& op,
                                      std::vector<double>& squares) const {
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : iteration_space(graph_, op).axes) sizes.push_back(axis.size);
  std::vector<double> terms = interpreter.get(op.inputs[0]), sums(squares.size());
  // The op itself, run on squares, adds them over the same axes as the terms.
  for (double& term : terms) term *= term;
  void* const in = terms.data();
  void* const out = sums.data();
  run_op<double>(plan_op(graph_, op, std::move(sizes)), {&in, 1}, {&out, 1}, {});
  for (std::size_t i = 0; i < sums.size(); ++i) squares[i] += sums[i];
}

std::map<std::string, GradientNoise> GradientNoiseFinder::found() const {
  std::map<std::string, GradientNoise> noise;
  for (const auto& [parameter, bias] : biases_)
    for (std::size_t i = 0; i < bias.moments.size(); ++i) {
      if (!bias.is_noise[i] || bias.moments[i] == 0.0) continue;  // without terms there is nothing to round
      GradientNoise& of = noise[graph_.tensor(parameter).name];
      of.elements.push_back(i);
      of.moments_of_terms.push_back(bias.moments[i]);
    }
  return noise;
}

}  // namespace meshwright
