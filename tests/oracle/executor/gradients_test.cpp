// SPDX-License-Identifier: Apache-2.0
// Every derivative against differences of the loss, in double. The four-point formula
//
//   L'(w) = (8 (L(w+h) - L(w-h)) - (L(w+2h) - L(w-2h))) / 12h
//
// with h = 1e-4 has a truncation error of about h^4 = 1e-16 times the fifth derivative (large under a layer norm of
// small numbers) and a rounding error of about 1e-16 / h = 1e-12.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/graph/autodiff.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "executor/check/graph_interpreter.h"
#include "tests/model_gradients.h"

namespace meshwright::gradients_test {
namespace {

constexpr double kStep = 1e-4;
constexpr double kTolerance = 1e-8;
constexpr std::uint64_t kSeed = 3;

Graph training_graph(const std::string& model, std::int64_t batch, std::int64_t microbatches, Recompute recompute) {
  const TrainingOptions options{.batch = batch,
                                .microbatches = microbatches,
                                .dtype = DType::F64,
                                .optimizer = {.kind = Optimizer::Kind::Sgd, .learning_rate = 1.0},
                                .recompute = recompute};
  return build_training_graph(find_model(model), options);
}

// With learning rate 1, plain gradient descent moves each weight by its gradient.
std::vector<double> analytic_gradient(const Graph& graph, GraphInterpreter& interpreter, TensorId parameter) {
  interpreter.clear_accumulators();
  const std::vector<double> before = interpreter.get(parameter);
  std::vector<std::pair<TensorId, std::vector<double>>> kept;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) kept.emplace_back(tensor.id, interpreter.get(tensor.id));
  for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
    interpreter.load_inputs(0, m);
    interpreter.run(Phase::Forward);
    interpreter.run(Phase::Backward);
  }
  interpreter.run(Phase::Update);
  std::vector<double> gradient = interpreter.get(parameter);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = before[i] - gradient[i];
  for (const auto& [id, values] : kept) interpreter.set(id, values);
  return gradient;
}

std::vector<double> numeric_gradient(const Graph& graph, GraphInterpreter& interpreter, TensorId parameter) {
  const std::vector<double> values = interpreter.get(parameter);
  std::vector<double> gradient;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto loss_at = [&](double distance) {
      std::vector<double> moved = values;
      moved[i] += distance * kStep;
      interpreter.set(parameter, moved);
      return op_bench::loss_of_step(graph, interpreter);
    };
    gradient.push_back((8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * kStep));
  }
  interpreter.set(parameter, values);
  return gradient;
}

// Largest deviation relative to the parameter's largest derivative.
double deviation(const std::vector<double>& analytic, const std::vector<double>& numeric) {
  double worst = 0.0, scale = 0.0;
  for (std::size_t i = 0; i < analytic.size(); ++i) {
    worst = std::max(worst, std::abs(analytic[i] - numeric[i]));
    scale = std::max(scale, std::abs(numeric[i]));
  }
  EXPECT_GT(scale, 1e-6) << "a parameter without influence proves nothing";
  return worst / scale;
}

void expect_true_gradients(const Graph& graph) {
  GraphInterpreter interpreter(graph, kSeed, DType::F64);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    const std::vector<double> analytic = analytic_gradient(graph, interpreter, tensor.id);
    EXPECT_LT(deviation(analytic, numeric_gradient(graph, interpreter, tensor.id)), kTolerance) << tensor.name;
  }
}

const char* const kTinyGpt = "gpt:layers=1,hidden=8,heads=2,seq=4,vocab=11";

TEST(Gradients, OfEveryGptParameterMatchFiniteDifferences) {
  expect_true_gradients(training_graph(kTinyGpt, 2, 1, Recompute::None));
}

TEST(Gradients, OfEveryMlpParameterMatchFiniteDifferences) {
  expect_true_gradients(training_graph("mlp:layers=2,hidden=3", 4, 1, Recompute::None));
}

TEST(Gradients, SumOverMicrobatches) { expect_true_gradients(training_graph(kTinyGpt, 4, 2, Recompute::None)); }

TEST(Gradients, SurviveRecomputation) {
  expect_true_gradients(training_graph("gpt:layers=2,hidden=8,heads=2,seq=3,vocab=7", 2, 1, Recompute::Full));
}

// The test would notice: each of these is wrong by less than a percent or in one element only.
TEST(Gradients, AWrongOneIsFarOutsideTheTolerance) {
  const Graph graph = training_graph(kTinyGpt, 2, 1, Recompute::None);
  GraphInterpreter interpreter(graph, kSeed, DType::F64);
  const auto weight = std::find_if(graph.tensors().begin(), graph.tensors().end(),
                                   [](const Tensor& tensor) { return tensor.name == "blk0.attn.qkv.weight"; });
  ASSERT_NE(weight, graph.tensors().end());
  const std::vector<double> numeric = numeric_gradient(graph, interpreter, weight->id);
  std::vector<double> scaled = analytic_gradient(graph, interpreter, weight->id), one_off = scaled;
  for (double& value : scaled) value *= 1.001;
  const auto largest = std::max_element(one_off.begin(), one_off.end());
  *largest *= 1.0001;
  EXPECT_GT(deviation(scaled, numeric), 10000 * kTolerance);
  EXPECT_GT(deviation(one_off, numeric), 1000 * kTolerance);
}

}  // namespace
}  // namespace meshwright::gradients_test
