// SPDX-License-Identifier: Apache-2.0
// A model's gradients against finite differences of its loss, for models of too many weights to move each.
#pragma once

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "tests/op_case.h"

namespace meshwright {

namespace op_bench {

inline double loss_of_step(const Graph& graph, GraphInterpreter& interpreter) {
  double loss = 0.0;
  for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
    interpreter.load_inputs(0, m);
    interpreter.run(Phase::Forward);
    loss += interpreter.get(*graph.loss)[0];
  }
  return loss;
}

// The derivative of the loss by one weight, by four points as in differences(), but nearer to each other: models have
// rectifiers and choices. Rounded to about 1e-16 / h = 1e-9 of the loss.
inline double derivative(const Graph& graph, TensorId parameter, std::size_t i, GraphInterpreter& interpreter) {
  constexpr double kStep = 1e-7;
  const Values values = interpreter.get(parameter);
  const auto at = [&](double distance) {
    Values moved = values;
    moved[i] += distance * kStep;
    interpreter.set(parameter, moved);
    return loss_of_step(graph, interpreter);
  };
  const double found = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
  interpreter.set(parameter, values);
  return found;
}

// Autodiff's gradients of the parameters, by name.
inline std::map<std::string, Values> model_gradients(const Graph& graph, GraphInterpreter& interpreter) {
  for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
    interpreter.load_inputs(0, m);
    for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  }
  std::map<std::string, Values> gradients;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) gradients[tensor.name] = gradient(graph, tensor.id, interpreter);
  return gradients;
}

}  // namespace op_bench

// Of every parameter, the element of the largest gradient and two others: within `tolerance` of the largest. A
// parameter without influence fails, for it proves nothing, unless its name holds `inert`: those must have none.
inline void expect_true_model_gradients(const std::string& model, TrainingOptions options,
                                        const std::string& inert = "none", double tolerance = 1e-5) {
  options.dtype = DType::F64;
  const Graph graph = build_training_graph(find_model(model), options);
  GraphInterpreter interpreter(graph, 3, DType::F64);
  const std::map<std::string, Values> gradients = op_bench::model_gradients(graph, interpreter);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    const Values& analytic = gradients.at(tensor.name);
    const double largest = op_bench::largest(analytic);
    if (tensor.name.find(inert) != std::string::npos) {
      EXPECT_LT(largest, 1e-15) << tensor.name;
      continue;
    }
    EXPECT_GT(largest, 1e-4) << tensor.name << " has no influence on the loss";
    std::size_t steepest = 0;
    while (std::abs(analytic[steepest]) < largest) ++steepest;
    for (const std::size_t i : {steepest, analytic.size() / 3, 2 * analytic.size() / 3})
      EXPECT_NEAR(op_bench::derivative(graph, tensor.id, i, interpreter), analytic[i], tolerance * largest)
          << tensor.name << "[" << i << "]";
  }
}

// Recomputation changes no gradient by a bit.
inline void expect_recomputation_keeps_gradients(const std::string& model, TrainingOptions options) {
  options.dtype = DType::F64;
  std::map<std::string, Values> kept;
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    options.recompute = recompute;
    const Graph graph = build_training_graph(find_model(model), options);
    GraphInterpreter interpreter(graph, 3, DType::F64);
    const std::map<std::string, Values> gradients = op_bench::model_gradients(graph, interpreter);
    if (recompute == Recompute::None) kept = gradients;
    EXPECT_EQ(gradients, kept) << name_of(recompute);
  }
}

}  // namespace meshwright
