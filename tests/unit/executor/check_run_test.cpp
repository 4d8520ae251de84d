// SPDX-License-Identifier: Apache-2.0
#include "executor/check/check_run.h"
#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/graph/import/find_model.h"
#include "tests/dropping_model.h"
#include "tests/refusal.h"
#include "tests/unit/checked_run.h"

namespace meshwright::check_run_test {
namespace {

constexpr double kU = 1.0 / (1 << 24);  // rounding of a float
const RunOptions kThreeSteps{.steps = 3, .seed = 7, .precision = DType::F32};

// --- the bound ---

// 2 d sqrt(K) u = 2 * 2 * 2^10 * 2^-24 = 2^-12
constexpr RoundingShape kShape{.longest_sum = 1 << 20, .depth = 2};
constexpr double kDelta = 1.0 / (1 << 12);

TEST(RoundingShape, TakesTheLongestSumAndTheLongestChainOfProducts) {
  TrainingOptions training;
  training.batch = 2;
  const RoundingShape shape = rounding_shape(build_training_graph(find_model("mlp:layers=1,hidden=8"), training));
  EXPECT_EQ(shape.longest_sum, 32);  // of the second product, over the inner dimension of 4 x 8
  EXPECT_EQ(shape.depth, 4);         // up, down, down backward, gradient of up's weight
}

// Three convolutions, one after the other.
TEST(RoundingShape, CountsConvolutionsAsProducts) {
  Graph graph;
  graph.dtype = DType::F32;
  TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 2}, {"h", 4}, {"w", 4}, {"c0", 3}});
  for (int layer = 1; layer <= 3; ++layer) {
    const Dim in{fmt::format("c{}", layer - 1), 3}, out{fmt::format("c{}", layer), 3};
    const TensorId weight =
        graph.add_tensor(fmt::format("w{}", layer), TensorKind::Parameter, DType::F32, {{"kh", 1}, {"kw", 1}, in, out});
    x = graph.add_op(OpKind::Convolution, fmt::format("y{}", layer), {x, weight},
                     {.result_dims = {{"h", 4}, {"w", 4}}})[0];
  }
  EXPECT_EQ(rounding_shape(graph).depth, 3);
}

TEST(GradientError, IsTwiceTheRoundingOfEachProductOnThePath) {
  EXPECT_EQ(gradient_error(kShape), kDelta);
  EXPECT_EQ(gradient_error({.longest_sum = 1 << 22, .depth = 2}), 2 * kDelta);  // with the root of the length
  EXPECT_EQ(gradient_error({.longest_sum = 1 << 20, .depth = 6}), 3 * kDelta);  // with the depth
}

TEST(Float32Bound, OfAdamGrowsWithStepsLearningRateAndLengthOfSums) {
  const auto bound = [](int steps, double rate, RoundingShape shape) {
    return float32_bound(shape, {{Optimizer::Kind::Adam, rate}, steps, /*elements=*/16, /*norm=*/4, /*distance=*/0});
  };
  // T lr sqrt(4 delta) sqrt(N) / |w| = lr sqrt(2^-10) * 4 / 4
  EXPECT_DOUBLE_EQ(bound(1, 1.0, kShape), 1.0 / 32 + kU);
  EXPECT_DOUBLE_EQ(bound(3, 1.0, kShape), 3.0 / 32 + 3 * kU);
  EXPECT_DOUBLE_EQ(bound(1, 0.5, kShape), 1.0 / 64 + kU);
  EXPECT_DOUBLE_EQ(bound(1, 1.0, {.longest_sum = 1 << 24, .depth = 2}), 2.0 / 32 + kU);  // delta is 4 times as large
}

TEST(Float32Bound, OfSgdGrowsWithStepsAndTheDistanceCovered) {
  const auto bound = [](int steps, double distance) {
    return float32_bound(kShape, {{Optimizer::Kind::Sgd, 1.0}, steps, /*elements=*/16, /*norm=*/2, distance});
  };
  // sqrt(T) |w - w0| delta / |w|
  EXPECT_DOUBLE_EQ(bound(1, 2), kDelta + kU);
  EXPECT_DOUBLE_EQ(bound(4, 2), 2 * kDelta + 4 * kU);
  EXPECT_DOUBLE_EQ(bound(1, 6), 3 * kDelta + kU);
}

// --- runs ---

CheckedWork work(const std::string& model, Optimizer optimizer) {
  CheckedWork work;
  work.model = find_model(model == "gpt" ? "gpt:layers=2,hidden=32,heads=4,seq=16,vocab=64" : "mlp:layers=2,hidden=32");
  work.training.batch = 8;
  work.training.optimizer = optimizer;
  return work;
}

RunResult on_one_device(CheckedWork work, const RunOptions& options, double rate_factor = 1.0) {
  work.training.optimizer.learning_rate *= rate_factor;
  return run_reference(build_training_graph(work.model, work.training), options);
}

// The fault that check_run finds, "" for none.
std::string fault(const CheckedWork& work, const RunOptions& options, const RunResult& run) {
  try {
    (void)check_run(work, options, run);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

const Optimizer kAdam{Optimizer::Kind::Adam, 1e-3}, kSgd{Optimizer::Kind::Sgd, 0.1};

TEST(CheckRun, PassesWhatEightDevicesComputeInFloat) {
  for (const char* model : {"gpt", "mlp"})
    for (const Optimizer& optimizer : {kAdam, kSgd}) {
      const CheckedWork checked = work(model, optimizer);
      double nearest = 0.0;
      for (const CheckedTensor& tensor : check_run(checked, kThreeSteps, on_eight_devices(checked, kThreeSteps))) {
        EXPECT_LE(tensor.difference, tensor.bound) << model << ": " << tensor.name;
        EXPECT_LT(tensor.bound, 0.05) << model << ": " << tensor.name;
        nearest = std::max(nearest, tensor.difference / tensor.bound);
      }
      EXPECT_GT(nearest, 0.0);  // in float the orders of summation do differ
    }
}

// A step drops other elements than the one before, and the reference the same.
TEST(CheckRun, PassesDropoutThatIsDrawnAnewInEveryStep) {
  CheckedWork checked = work("mlp", kSgd);
  checked.model = dropping_model();
  checked.training.batch = 8;
  checked.training.microbatches = 2;
  PlanRequest request = ask("mlp", "cpu:2", "data", 8, 2);
  request.model = checked.model;
  request.training.optimizer = kSgd;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan.has_value()) << result.reason;
  EXPECT_EQ(fault(checked, kThreeSteps, run_program(result.graph, result.program, result.check, kThreeSteps)), "");
}

TEST(CheckRun, NamesEveryLossAndEveryWeight) {
  const CheckedWork checked = work("mlp", kAdam);
  const auto tensors = check_run(checked, kThreeSteps, on_one_device(checked, kThreeSteps));
  ASSERT_EQ(tensors.size(), 3u + 8u);  // two pairs of Dense layers, each with a weight and a bias
  EXPECT_EQ(tensors[0].name, "loss of step 0");
  EXPECT_EQ(tensors[3].name, "blk0.down.bias");
  for (const CheckedTensor& tensor : tensors) EXPECT_EQ(tensor.difference, 0.0) << tensor.name;
}

TEST(CheckRun, FindsGradientsThatAreOnePercentTooLarge) {
  const CheckedWork checked = work("gpt", kSgd);
  EXPECT_NE(fault(checked, kThreeSteps, on_one_device(checked, kThreeSteps, 1.01)), "");
}

// Adam takes steps of the same length whatever the gradient's; their direction and number still count.
TEST(CheckRun, FindsStepsOfAdamThatAreTenPercentTooLong) {
  const CheckedWork checked = work("gpt", kAdam);
  EXPECT_NE(fault(checked, kThreeSteps, on_one_device(checked, kThreeSteps, 1.1)), "");
}

TEST(CheckRun, FindsOneWeightTenBoundsOffButNotATenthOfOne) {
  const CheckedWork checked = work("mlp", kAdam);
  const RunResult right = on_one_device(checked, kThreeSteps);
  const CheckedTensor tensor = check_run(checked, kThreeSteps, right).back();  // "blk1.up.weight"
  double norm = 0.0;
  for (const double value : right.weights.at(tensor.name)) norm += value * value;
  const auto off_by = [&](double bounds) {
    RunResult run = right;
    run.weights.at(tensor.name)[5] += bounds * tensor.bound * std::sqrt(norm);
    return fault(checked, kThreeSteps, run);
  };
  EXPECT_EQ(off_by(0.1), "");
  EXPECT_NE(off_by(10).find(tensor.name), std::string::npos) << off_by(10);
}

TEST(CheckRun, FindsWhatIsNoNumber) {
  const CheckedWork checked = work("mlp", kAdam);
  RunResult run = on_one_device(checked, kThreeSteps);
  run.losses[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(fault(checked, kThreeSteps, run).find("loss of step 1"), std::string::npos);
}

TEST(CheckRun, AllowsInDoubleOnlyAnotherOrderOfSums) {
  const CheckedWork checked = work("gpt", kAdam);
  RunOptions options = kThreeSteps;
  options.precision = DType::F64;
  EXPECT_EQ(fault(checked, options, on_eight_devices(checked, options)), "");
  EXPECT_NE(fault(checked, options, on_eight_devices(checked, kThreeSteps)), "");  // computed in float
}

TEST(CheckRun, AllowsNoChangeOfWeightsThatAreNotTrained) {
  CheckedWork checked = work("gpt", kAdam);
  checked.trains = false;
  RunResult run = run_reference(build_forward_graph(checked.model, checked.training), kThreeSteps);
  EXPECT_EQ(fault(checked, kThreeSteps, run), "");
  double& weight = run.weights.begin()->second[0];
  weight = std::nextafter(static_cast<float>(weight), 2.0f);
  EXPECT_NE(fault(checked, kThreeSteps, run), "");
}

// --- trainings that cannot be checked: the caller's learning rate is to blame, not the run ---

TEST(CheckRun, RefusesATrainingThatDiverges) {
  const CheckedWork checked = work("mlp", {Optimizer::Kind::Sgd, 1e30});
  const std::string says =
      refusal([&] { return check_run(checked, kThreeSteps, on_one_device(checked, kThreeSteps)); });
  EXPECT_NE(says.find("diverges on one device as well"), std::string::npos) << says;
  EXPECT_NE(says.find("--learning-rate"), std::string::npos) << says;
}

TEST(CheckRun, RefusesATrainingThatAmplifiesRounding) {
  const CheckedWork checked = work("gpt", {Optimizer::Kind::Adam, 100});
  const RunOptions options{.steps = 10, .seed = 7, .precision = DType::F64};
  const std::string says = refusal([&] { return check_run(checked, options, on_eight_devices(checked, options)); });
  EXPECT_NE(says.find("amplifies rounding"), std::string::npos) << says;
}

// Batch norm over the two samples of a microbatch, of one pixel each, makes signs of differences: in f32 no two orders
// of summation agree. What begins a last place off tells so, and tells a fault where norms are over more.
TEST(CheckRun, TellsRoundingOfBatchNormsFromFaultsInFloat) {
  CheckedWork checked;
  checked.training.batch = 8;
  checked.training.optimizer = kAdam;
  const RunOptions in_float{.steps = 1, .seed = 7, .precision = DType::F32};
  const RunOptions in_double{.steps = 1, .seed = 7, .precision = DType::F64};
  checked.model = find_model("wresnet:layers=50,channels=4,width=2,image=32,classes=8");
  checked.training.microbatches = 4;
  const std::string says = refusal([&] { return check_run(checked, in_float, on_one_device(checked, in_double)); });
  EXPECT_NE(says.find("amplifies rounding"), std::string::npos) << says;
  checked.model = find_model("wresnet:layers=14,channels=4,width=2,image=64,classes=8");
  checked.training.microbatches = 1;
  EXPECT_EQ(fault(checked, in_float, on_one_device(checked, in_double)), "");
  EXPECT_NE(fault(checked, in_float, on_one_device(checked, in_float, 2.0)), "");  // steps twice as long
}

TEST(MemoryOfReference, IsWhatTheReferenceAllocates) {
  const CheckedWork checked = work("gpt", kAdam);
  EXPECT_EQ(memory_of_reference(checked, DType::F32), on_one_device(checked, kThreeSteps).peak_memory[0]);
}

// Batch norm, scores of every pair of a batch's samples, and groups of tokens that are cut to the microbatch: another
// number of microbatches is another training.
TEST(CheckRun, ComparesWithTheSameMicrobatchesWhereTheLossDependsOnThem) {
  for (const char* model : {"wresnet:layers=14,channels=4,width=2,image=32,classes=8",
                            "two_tower:layers=1,hidden=16,heads=4,image=16,patch=4,text_layers=1,text_hidden=8,"
                            "text_heads=2,seq=8,vocab=32,embed=16",
                            "moe:layers=2,hidden=32,heads=4,experts=4,seq=16,vocab=64"}) {
    CheckedWork checked;
    checked.model = find_model(model);
    checked.training.batch = 8;
    checked.training.microbatches = 2;
    const RunOptions options{.steps = 2, .seed = 3, .precision = DType::F64};
    for (const Optimizer::Kind kind : {Optimizer::Kind::Sgd, Optimizer::Kind::Adam}) {
      checked.training.optimizer = {kind, 1e-3};
      EXPECT_NO_THROW((void)check_run(checked, options, on_one_device(checked, options))) << model;
    }
  }
}

}  // namespace
}  // namespace meshwright::check_run_test
