// SPDX-License-Identifier: Apache-2.0
// Gradients that are zero but for rounding, which Adam makes whole steps of: found, left out of the comparison of
// weights, and compared themselves.
#include "executor/check/gradient_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "executor/check/check_run.h"
#include "executor/check/graph_interpreter.h"
#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/checked_run.h"

namespace meshwright::gradient_noise_test {
namespace {

const RunOptions kSteps{.steps = 3, .seed = 7, .precision = DType::F32};
const char* const kGpt2 = "gpt2:layers=2,hidden=32,heads=4,seq=16,vocab=64";

CheckedWork work(const std::string& model) {
  CheckedWork work;
  work.model = find_model(model);
  work.training.batch = 8;
  work.training.optimizer = {Optimizer::Kind::Adam, 1e-3};
  return work;
}

Graph graph_of(const CheckedWork& work) { return build_training_graph(work.model, work.training); }

std::map<std::string, GradientNoise> noise_of(const Graph& graph, const RunOptions& options) {
  GradientNoiseFinder finder(graph, gradient_error(rounding_shape(graph)));
  (void)run_reference(graph, options, [&](const GraphInterpreter& interpreter) { finder.note(interpreter); });
  return finder.found();
}

std::map<std::string, std::vector<std::size_t>> noise_of(const std::string& model) {
  const Graph graph = graph_of(work(model));
  std::map<std::string, std::vector<std::size_t>> elements;
  for (const auto& [name, noise] : noise_of(graph, kSteps)) elements[name] = noise.elements;
  return elements;
}

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

TEST(GradientNoise, IsThatOfTheBiasesOfKeysAndOfNoOther) {
  const std::map<std::string, std::vector<std::size_t>> expected = {{"blk0.attn.k.bias", first(32)},
                                                                    {"blk1.attn.k.bias", first(32)}};
  EXPECT_EQ(noise_of(kGpt2), expected);
}

// A rotated bias adds to a score by the distance of query and key. Of 16 dimensions of a head 4 are rotated.
TEST(GradientNoise, IsNotInTheDimensionsOfAKeyThatAreRotated) {
  std::vector<std::size_t> still;
  for (std::size_t i = 0; i < 32; ++i)
    if (i % 16 >= 4) still.push_back(i);
  const std::map<std::string, std::vector<std::size_t>> expected = {{"blk0.attn.k.bias", still}};
  EXPECT_EQ(noise_of("gpt_neox:layers=1,hidden=32,heads=2,seq=16,vocab=64,rotary_dims=4"), expected);
}

TEST(GradientNoise, IsNotInAModelWithoutSuchABias) {
  EXPECT_TRUE(noise_of("gpt:layers=2,hidden=32,heads=4,seq=16,vocab=64").empty());
  EXPECT_TRUE(noise_of("mlp:layers=2,hidden=32").empty());
}

// The sum of the squares is that of 8 x 16 terms in each step, of which Adam would keep (1 - beta2) beta2^(T - t).
TEST(GradientNoise, HasTheMomentsOfItsTerms) {
  const Graph graph = graph_of(work("gpt2:layers=1,hidden=32,heads=4,seq=16,vocab=64"));
  RunOptions one_step = kSteps;
  one_step.steps = 1;
  const GradientNoise noise = noise_of(graph, one_step).at("blk0.attn.k.bias");
  GraphInterpreter interpreter(graph, one_step.seed, one_step.precision);
  interpreter.load_inputs(0, 0);
  interpreter.run(Phase::Forward);
  interpreter.run(Phase::Backward);
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::BiasGradient || op.name.find(".attn.k.") == std::string::npos) continue;
    const std::vector<double> terms = interpreter.get(op.inputs[0]);
    ASSERT_EQ(terms.size(), 8u * 16 * 32);
    double squares = 0.0;
    for (std::size_t i = 5; i < terms.size(); i += 32) squares += terms[i] * terms[i];
    EXPECT_NEAR(noise.moments_of_terms[5], 0.001 * squares, 1e-12 * squares);
  }
}

// --- checks of runs ---

// On one device, in two microbatches; `spoil` may change the gradients before each update.
template <class Spoil>
RunResult trained(const CheckedWork& work, const RunOptions& options, Spoil spoil) {
  TrainingOptions training = work.training;
  training.microbatches = 2;
  const Graph graph = build_training_graph(work.model, training);
  RunResult run = run_reference(graph, options);
  GraphInterpreter interpreter(graph, options.seed, options.precision);
  for (int step = 0; step < options.steps; ++step) {
    interpreter.clear_accumulators();
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      interpreter.load_inputs(step, microbatch);
      interpreter.run(Phase::Forward);
      interpreter.run(Phase::Backward);
    }
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind != TensorKind::Accumulator) continue;
      std::vector<double> gradient = interpreter.get(tensor.id);
      spoil(graph.tensor(*tensor.parameter).name, step, gradient);
      interpreter.set(tensor.id, gradient);
    }
    interpreter.run(Phase::Update, step + 1);
  }
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::AdamUpdate) continue;
    const std::string& name = graph.tensor(op.inputs[0]).name;
    run.weights[name] = interpreter.get(op.inputs[0]);
    run.second_moments[name] = interpreter.get(op.inputs[op.inputs.size() - 2]);
  }
  return run;
}

std::string fault(const CheckedWork& work, const RunOptions& options, const RunResult& run) {
  try {
    (void)check_run(work, options, run);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

const auto kRight = [](const std::string&, int, std::vector<double>&) {};

TEST(CheckRun, PassesAModelWithBiasesOfKeysThatAdamTrains) {
  const CheckedWork checked = work(kGpt2);
  for (const DType precision : {DType::F32, DType::F64}) {
    RunOptions options = kSteps;
    options.precision = precision;
    const std::vector<CheckedTensor> tensors = check_run(checked, options, on_eight_devices(checked, options));
    int rows = 0;
    for (const CheckedTensor& tensor : tensors) {
      EXPECT_LE(tensor.difference, tensor.bound) << tensor.name;
      EXPECT_TRUE(tensor.noise == 0 || tensor.noise == 32) << tensor.name;
      rows += tensor.noise > 0 ? 1 : 0;
    }
    EXPECT_EQ(rows, 4) << name_of(precision);  // gradients and weights of the keys' biases of two layers
    const auto named = [](const CheckedTensor& tensor) {
      return tensor.name == "gradient of blk0.attn.k.bias, where its gradient is rounding (32 of 32 elements)";
    };
    EXPECT_EQ(std::count_if(tensors.begin(), tensors.end(), named), 1);
  }
}

TEST(CheckRun, PassesAModelWithBiasesOfKeysThatAdafactorTrains) {
  CheckedWork checked = work(kGpt2);
  checked.training.optimizer = {Optimizer::Kind::Adafactor, 1e-3};
  RunOptions options = kSteps;
  options.precision = DType::F64;
  RunResult run = on_eight_devices(checked, options);
  const std::vector<CheckedTensor> tensors = check_run(checked, options, run);
  EXPECT_EQ(
      std::count_if(tensors.begin(), tensors.end(), [](const CheckedTensor& tensor) { return tensor.noise == 32; }),
      2);  // the weights of the keys' biases of two layers
  // Three steps of at most the learning rate each way, in the root mean square of 32 elements: 0.034 at most.
  run.weights.at("blk0.attn.k.bias")[7] += 0.1;
  EXPECT_NE(fault(checked, options, run).find("blk0.attn.k.bias"), std::string::npos);
}

// The only expert of a token has the weight 1 whatever the router says: its gradient is what rounding leaves in each
// token, on several devices something else than on one, and Adafactor makes a step of it. Adam's step is small beside a
// fault.
TEST(CheckRun, SaysThatAdafactorAmplifiesTheRoundingOfARouterWithoutGradients) {
  RunOptions options = kSteps;
  options.steps = 1;
  options.precision = DType::F64;
  for (const Optimizer::Kind kind : {Optimizer::Kind::Adam, Optimizer::Kind::Adafactor}) {
    CheckedWork checked =
        work("mixtral:layers=1,hidden=40,heads=2,kv_heads=2,intermediate=64,seq=16,vocab=50,experts=2,top_k=1");
    checked.training.optimizer = {kind, 1e-3};
    RunResult run = run_reference(graph_of(checked), options);
    run.weights.at("blk0.moe.router.weight")[5] += 1e-6;
    const std::string said = fault(checked, options, run);
    const char* expected = kind == Optimizer::Kind::Adam ? "the run and one device disagree in 'blk0.moe.router.weight'"
                                                         : "this training cannot be checked: it amplifies rounding";
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
}

TEST(CheckRun, PassesWhatTwoMicrobatchesComputeOfBiasesOfKeys) {
  const CheckedWork checked = work(kGpt2);
  EXPECT_EQ(fault(checked, kSteps, trained(checked, kSteps, kRight)), "");
}

// Adam's steps are as long with the right gradient, so that the weights alone tell nothing.
TEST(CheckRun, FindsAWrongGradientWhereTheRightOneIsRounding) {
  const CheckedWork checked = work(kGpt2);
  for (const int wrong_step : {0, 1, 2}) {
    const RunResult run = trained(checked, kSteps, [&](const std::string& name, int step, std::vector<double>& g) {
      if (name == "blk1.attn.k.bias" && step == wrong_step) g[3] += 1e-4;
    });
    EXPECT_NE(fault(checked, kSteps, run).find("gradient of blk1.attn.k.bias"), std::string::npos)
        << fault(checked, kSteps, run);
  }
}

TEST(CheckRun, FindsAWrongGradientBesideThoseThatAreRounding) {
  const CheckedWork checked = work(kGpt2);
  const RunResult run = trained(checked, kSteps, [&](const std::string& name, int, std::vector<double>& g) {
    if (name == "blk1.attn.q.bias") g[3] = -g[3];
  });
  EXPECT_NE(fault(checked, kSteps, run).find("blk1.attn.q.bias"), std::string::npos) << fault(checked, kSteps, run);
}

TEST(CheckRun, FindsAWeightFartherThanAdamGoesWhereItsGradientIsRounding) {
  const CheckedWork checked = work(kGpt2);
  RunResult run = trained(checked, kSteps, kRight);
  run.weights.at("blk0.attn.k.bias")[7] += 1.0;
  EXPECT_NE(fault(checked, kSteps, run).find("blk0.attn.k.bias"), std::string::npos);
  run.weights.at("blk0.attn.k.bias")[7] = std::nan("");
  EXPECT_NE(fault(checked, kSteps, run).find("blk0.attn.k.bias"), std::string::npos);
}

TEST(ReachOfAdam, IsAStepEachButForTheFirstGradientAfterManyZeros) {
  EXPECT_DOUBLE_EQ(reach_of_adam(5, {.beta1 = 0.9, .beta2 = 0.9}), 5.0);
  EXPECT_DOUBLE_EQ(reach_of_adam(2, {.beta1 = 0.5, .beta2 = 0.9375}), 4.0);  // (1 - 1/2) / (1/4)
}

}  // namespace
}  // namespace meshwright::gradient_noise_test
