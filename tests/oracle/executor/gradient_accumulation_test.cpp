// SPDX-License-Identifier: Apache-2.0
// A step cut into microbatches is the step: the accumulated gradients are those of the whole batch at once, for every
// reduction of the loss. A mean over each microbatch's own tokens, averaged, would not be: the microbatches' weights
// differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "executor/check/graph_interpreter.h"
#include "tests/refusal.h"

namespace meshwright::gradient_accumulation_test {
namespace {

using Values = std::vector<double>;

constexpr const char* kGpt = "gpt:layers=2,hidden=8,heads=2,seq=4,vocab=11";
constexpr const char* kMlp = "mlp:layers=2,hidden=3";
constexpr std::uint64_t kSeed = 3;
constexpr int kBatch = 4;

Graph training(const std::string& model, LossReduction loss, int microbatches) {
  return build_training_graph(find_model(model), {.batch = kBatch,
                                                  .microbatches = microbatches,
                                                  .dtype = DType::F64,
                                                  .optimizer = {.kind = Optimizer::Kind::Sgd, .learning_rate = 1.0},
                                                  .loss = loss});
}

struct Step {
  double loss = 0.0;
  std::map<std::string, Values> gradients;  // by parameter, all uses summed
};

Step run_step(const Graph& graph, GraphInterpreter& interpreter, bool backward = true) {
  Step step;
  interpreter.clear_accumulators();
  for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
    interpreter.load_inputs(0, m);
    interpreter.run(Phase::Forward);
    step.loss += interpreter.get(*graph.loss)[0];
    if (backward) interpreter.run(Phase::Backward);
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Accumulator) continue;
    Values& total = step.gradients[graph.tensor(*tensor.parameter).name];
    total.resize(static_cast<std::size_t>(tensor.elements()));
    const Values part = interpreter.get(tensor.id);
    std::transform(total.begin(), total.end(), part.begin(), total.begin(), std::plus<>());
  }
  return step;
}

Step step_of(const Graph& graph) {
  GraphInterpreter interpreter(graph, kSeed, DType::F64);
  return run_step(graph, interpreter);
}

double largest(const Values& values) {
  double found = 0.0;
  for (const double value : values) found = std::max(found, std::abs(value));
  return found;
}

struct Case {
  const char* model;
  LossReduction loss;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model << " " << name_of(c.loss); }

class Accumulation : public testing::TestWithParam<Case> {};

TEST_P(Accumulation, OverMicrobatchesIsTheGradientOfTheBatch) {
  const Step whole = step_of(training(GetParam().model, GetParam().loss, 1));
  ASSERT_FALSE(whole.gradients.empty());
  for (const int microbatches : {2, 4}) {
    const Step cut = step_of(training(GetParam().model, GetParam().loss, microbatches));
    EXPECT_NEAR(cut.loss, whole.loss, 1e-12 * whole.loss);
    ASSERT_EQ(cut.gradients.size(), whole.gradients.size());
    for (const auto& [name, gradient] : whole.gradients)
      for (std::size_t i = 0; i < gradient.size(); ++i)
        EXPECT_NEAR(cut.gradients.at(name)[i], gradient[i], 1e-12 * largest(gradient)) << name << " " << i;
  }
}

// L'(w) = (8 (L(w+h) - L(w-h)) - (L(w+2h) - L(w-2h))) / 12h of the step's loss, at two elements of each parameter.
TEST_P(Accumulation, IsWhatFiniteDifferencesOfTheStepSay) {
  constexpr double kH = 1e-4;
  const Graph graph = training(GetParam().model, GetParam().loss, 2);
  GraphInterpreter interpreter(graph, kSeed, DType::F64);
  const Step step = run_step(graph, interpreter);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    const Values& gradient = step.gradients.at(tensor.name);
    const Values values = interpreter.get(tensor.id);
    for (const std::size_t i : {std::size_t{0}, values.size() - 1}) {
      const auto loss_at = [&](double distance) {
        Values moved = values;
        moved[i] += distance * kH;
        interpreter.set(tensor.id, moved);
        return run_step(graph, interpreter, false).loss;
      };
      const double numeric = (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * kH);
      EXPECT_NEAR(gradient[i], numeric, 1e-8 * largest(gradient)) << tensor.name << " " << i;
    }
    interpreter.set(tensor.id, values);
  }
}

INSTANTIATE_TEST_SUITE_P(Reductions, Accumulation,
                         testing::Values(Case{kGpt, LossReduction::Mean}, Case{kGpt, LossReduction::Sum},
                                         Case{kGpt, LossReduction::TokenWeighted}, Case{kMlp, LossReduction::Mean},
                                         Case{kMlp, LossReduction::Sum}));

TEST(Reductions, DifferByTheNumberOfTerms) {
  const Step mean = step_of(training(kGpt, LossReduction::Mean, 2)),
             sum = step_of(training(kGpt, LossReduction::Sum, 2));
  EXPECT_NEAR(sum.loss, kBatch * 4 * mean.loss, 1e-12 * sum.loss);
}

TEST(Reductions, OfAnMlpHaveNoTokensToWeigh) {
  EXPECT_EQ(refusal([] { (void)training(kMlp, LossReduction::TokenWeighted, 1); }),
            "model 'mlp': its loss has no tokens that could be weighted; choose the mean or the sum.");
}

// The total is the same in every microbatch and belongs to all of them; the weights differ between them.
TEST(TokenWeights, AddUpToTheTotalOverTheStep) {
  for (const int microbatches : {1, 2, 4}) {
    const Graph graph = training(kGpt, LossReduction::TokenWeighted, microbatches);
    GraphInterpreter interpreter(graph, kSeed, DType::F64);
    for (const int step : {0, 1}) {
      double sum = 0.0;
      int zeros = 0;
      std::vector<double> totals, sums;
      for (int m = 0; m < microbatches; ++m) {
        interpreter.load_inputs(step, m);
        sums.push_back(0.0);
        for (const double weight : interpreter.get(graph.loss_weights->weights)) {
          EXPECT_EQ(std::round(2 * weight), 2 * weight);
          EXPECT_GE(weight, 0.0);
          zeros += weight == 0.0 ? 1 : 0;
          sums.back() += weight;
        }
        sum += sums.back();
        totals.push_back(interpreter.get(graph.loss_weights->total)[0]);
      }
      for (const double total : totals) EXPECT_EQ(total, sum);
      EXPECT_GT(zeros, 0);
      EXPECT_GT(sum, 0.0);
      if (microbatches > 1) {
        EXPECT_NE(*std::min_element(sums.begin(), sums.end()), *std::max_element(sums.begin(), sums.end()));
      }
    }
  }
}

TEST(TokenWeights, AreAPartOfTheGraphsFingerprint) {
  const auto text = [](LossReduction loss) { return canonical_text(training(kGpt, loss, 2)); };
  EXPECT_EQ(text(LossReduction::Mean).find("weights"), std::string::npos);
  EXPECT_NE(text(LossReduction::TokenWeighted).find(" weights "), std::string::npos);
  EXPECT_NE(text(LossReduction::Mean), text(LossReduction::Sum));
}

}  // namespace
}  // namespace meshwright::gradient_accumulation_test
