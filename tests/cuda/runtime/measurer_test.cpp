// SPDX-License-Identifier: Apache-2.0
// Whatever a plan may run on a GPU can be measured on one. How long it takes is not tested.
#include "executor/cuda/cuda_measurer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "executor/base/element_type.h"
#include "executor/cuda/cuda_device.h"
#include "tests/cuda/recorded_launches.h"

namespace meshwright::measurer_test {
namespace {

constexpr const char* kGpt = "gpt:layers=1,hidden=16,heads=4,seq=8,vocab=32";
constexpr const char* kMoe = "moe:layers=2,hidden=16,heads=4,experts=4,seq=8,vocab=32,group=16";
constexpr const char* kWideResnet = "wresnet:layers=14,channels=4,width=2,image=32,classes=8";
constexpr MeasureOptions kOnce{.warmup = 1, .samples = 1, .min_sample = Seconds(0.0)};
constexpr MeasureOptions kQuick{.warmup = 1, .samples = 3, .min_sample = Seconds(0.0)};

Graph training_graph(const char* model, DType dtype, std::int64_t batch) {
  TrainingOptions training;
  training.batch = batch;
  training.dtype = dtype;
  training.optimizer.kind = Optimizer::Kind::Adam;
  training.optimizer.max_norm = 1.0;
  return build_training_graph(find_model(model), training);
}

std::vector<std::int64_t> whole(const Graph& graph, const Op& op) {
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : iteration_space(graph, op).axes) sizes.push_back(axis.size);
  return sizes;
}

void expect_every_op_measured(const char* model, DType dtype, std::int64_t batch) {
  const Graph graph = training_graph(model, dtype, batch);
  CudaMeasurer measurer(1, 1);
  std::set<std::string> known;
  for (const Op& op : graph.ops()) {
    if (!known.insert(op_work(graph, op, whole(graph, op)).signature).second) continue;
    const std::optional<MeasuredTime> sampled = measurer.measure_op(graph, op, whole(graph, op), kOnce);
    ASSERT_TRUE(sampled.has_value()) << op.name;
    EXPECT_TRUE(sampled->median > Seconds(0.0) || (sampled->added && sampled->median == Seconds(0.0))) << op.name;
    EXPECT_EQ(sampled->samples, 1) << op.name;
  }
}

TEST(CudaMeasurer, MeasuresEveryOpOfAGptInItsOwnTypes) {
  for (const DType dtype : {DType::BF16, DType::F16, DType::F32}) expect_every_op_measured(kGpt, dtype, 2);
}
TEST(CudaMeasurer, MeasuresEveryOpOfAMixture) { expect_every_op_measured(kMoe, DType::BF16, 2); }
TEST(CudaMeasurer, MeasuresEveryOpOfAWideResnet) { expect_every_op_measured(kWideResnet, DType::BF16, 2); }

TEST(CudaMeasurer, MeasuresAShard) {
  const Graph graph = training_graph(kGpt, DType::BF16, 4);
  CudaMeasurer measurer(1, 1);
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Forward) continue;
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> half = whole(graph, op);
    for (std::size_t i = 0; i < half.size(); ++i)
      if (space.axes[i].splittable && half[i] % 2 == 0) {
        half[i] /= 2;
        break;
      }
    EXPECT_TRUE(measurer.measure_op(graph, op, half, kOnce).has_value()) << op.name;
  }
}

TEST(CudaMeasurer, RepeatsWhatIsShortUntilItsSamplesFillTheirTime) {
  const Graph graph = training_graph("mlp:layers=1,hidden=16", DType::F32, 4);
  CudaMeasurer measurer(1, 1);
  const Op& op = graph.ops().front();
  const MeasureOptions endless{.warmup = 1, .samples = 5, .min_sample = Seconds(1e3)};
  EXPECT_EQ(measurer.measure_op(graph, op, whole(graph, op), endless)->samples, 100);
  EXPECT_EQ(measurer.measure_op(graph, op, whole(graph, op), kQuick)->samples, 3);
}

// --- ops that are done together ---

// y = x w, z = y + bias, f = function(z), and what reads y or z once more, if anything.
enum class ReadAgain { Nothing, Product, Biased };
Graph chain(DType type, OpKind function = OpKind::Gelu, ReadAgain again = ReadAgain::Nothing, std::int64_t in = 8) {
  Graph graph;
  const Dim row{"row", 32}, column{"column", 16}, inner{"in", in};
  const TensorId x = graph.add_tensor("x", TensorKind::Input, type, {row, inner});
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, type, {inner, column});
  const TensorId bias = graph.add_tensor("bias", TensorKind::Parameter, type, {column});
  const TensorId y = graph.add_op(OpKind::Contract, "y", {x, w}, {.result_names = {"row", "column"}})[0];
  const TensorId z = graph.add_op(OpKind::BiasAdd, "z", {y, bias})[0];
  (void)graph.add_op(function, "f", {z});
  if (again != ReadAgain::Nothing) (void)graph.add_op(OpKind::Tanh, "again", {again == ReadAgain::Product ? y : z});
  return graph;
}

// Of op `number` of a graph, on a shard of one part of `parts` along every axis.
MeasuredTime measured(const Graph& graph, std::size_t number, std::int64_t parts = 1) {
  CudaMeasurer measurer(1, 1);
  const Op& op = graph.ops()[number];
  std::vector<std::int64_t> sizes = whole(graph, op);
  for (std::int64_t& size : sizes) size /= parts;
  const MeasuredTime sampled = measurer.measure_op(graph, op, sizes, kQuick).value();
  EXPECT_TRUE(std::isfinite(sampled.median.si()) && std::isfinite(sampled.spread.si())) << op.name;
  EXPECT_GE(sampled.median, Seconds(0.0)) << op.name;
  EXPECT_EQ(sampled.samples, 3) << op.name;
  return sampled;
}

TEST(CudaMeasurer, ABiasIsWhatItAddsToTheProductBeforeIt) {
  for (const DType type : {DType::BF16, DType::F16, DType::F32})
    for (const std::int64_t parts : {1, 2}) EXPECT_TRUE(measured(chain(type), 1, parts).added) << name_of(type);
  EXPECT_FALSE(measured(chain(DType::BF16), 0).added);
}

TEST(CudaMeasurer, AFunctionIsWhatItAddsWhereTheDeviceTakesItToo) {
  for (const std::int64_t parts : {1, 2}) EXPECT_TRUE(measured(chain(DType::BF16), 2, parts).added);
  EXPECT_TRUE(measured(chain(DType::BF16, OpKind::Gelu, ReadAgain::Biased), 2).added);
  EXPECT_TRUE(measured(chain(DType::F32, OpKind::Relu), 2).added);
  EXPECT_FALSE(measured(chain(DType::F32), 2).added);
  EXPECT_FALSE(measured(chain(DType::BF16, OpKind::Relu, ReadAgain::Biased), 2).added);
  EXPECT_FALSE(measured(chain(DType::BF16, OpKind::Tanh), 2).added);
}

TEST(CudaMeasurer, ABiasIsMeasuredAloneWhereItsProductHasAnotherReader) {
  const Graph read_again = chain(DType::BF16, OpKind::Gelu, ReadAgain::Product);
  EXPECT_FALSE(measured(read_again, 1).added);
  Graph alone;
  const TensorId x = alone.add_tensor("x", TensorKind::Input, DType::BF16, {{"row", 32}, {"column", 16}});
  const TensorId y = alone.add_op(OpKind::Gelu, "y", {x}).at(0);  // no product, but made just before
  const TensorId bias = alone.add_tensor("bias", TensorKind::Parameter, DType::BF16, {{"column", 16}});
  (void)alone.add_op(OpKind::BiasAdd, "z", {y, bias});
  EXPECT_FALSE(measured(alone, 1).added);
  if (!kernels::cuda::can_record()) return;
  const auto kernels_of = [](const Graph& graph, std::size_t number) {
    return kernels::cuda::launches_of([&] { (void)measured(graph, number); }).kernels;
  };
  EXPECT_EQ(kernels_of(read_again, 1), kernels_of(alone, 1));  // no product is computed
  EXPECT_GT(kernels_of(chain(DType::BF16), 1), kernels_of(alone, 1));
}

TEST(CudaMeasurer, ANormIsWhatItAddsToTheResidualSumBeforeIt) {
  for (const bool sums : {true, false}) {
    Graph graph;
    graph.dtype = DType::BF16;
    const std::vector<Dim> dims = {{"row", 32}, {"embed", 64}};
    const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::BF16, dims);
    const TensorId y = graph.add_tensor("y", TensorKind::Input, DType::BF16, dims);
    const TensorId gamma = graph.add_tensor("gamma", TensorKind::Parameter, DType::BF16, {{"embed", 64}});
    const TensorId s = graph.add_op(sums ? OpKind::Add : OpKind::Multiply, "s", {x, y})[0];
    (void)graph.add_op(OpKind::RmsNorm, "n", {s, gamma}, {.epsilon = 1e-5});
    EXPECT_EQ(measured(graph, 1).added, sums);
    EXPECT_FALSE(measured(graph, 0).added);
  }
}

TEST(CudaMeasurer, ASumIsWhatItAddsToTheNormsDerivativeThatItTakes) {
  for (const bool read_again : {false, true}) {
    Graph graph;
    graph.dtype = DType::BF16;
    const std::vector<Dim> dims = {{"row", 32}, {"embed", 64}};
    const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::BF16, dims);
    const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::BF16, dims);
    const TensorId r = graph.add_tensor("r", TensorKind::Input, DType::BF16, dims);
    const TensorId gamma = graph.add_tensor("gamma", TensorKind::Parameter, DType::BF16, {{"embed", 64}});
    const TensorId dn = graph.add_op(OpKind::RmsNormBackward, "dn", {x, gamma, dy}, {.epsilon = 1e-5})[0];
    (void)graph.add_op(OpKind::RmsNormParamBackward, "dgamma", {x, dy}, {.epsilon = 1e-5});
    (void)graph.add_op(OpKind::Add, "dx", {r, dn});
    if (read_again) (void)graph.add_op(OpKind::Tanh, "again", {dn});
    EXPECT_EQ(measured(graph, 2).added, !read_again);
    EXPECT_FALSE(measured(graph, 0).added);
  }
}

// A device has all classes, or half of them.
TEST(CudaMeasurer, SumsOfALossAreWhatTheyAddToTheMaximaOfAllClasses) {
  Graph graph;
  graph.dtype = DType::BF16;
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::BF16, {{"row", 32}, {"class", 64}});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {{"row", 32}});
  const TensorId max = graph.add_op(OpKind::RowMax, "max", {x})[0];
  (void)graph.add_op(OpKind::SumExp, "sum", {x, max});
  (void)graph.add_op(OpKind::PickLabel, "picked", {x, labels});
  for (const std::int64_t parts : {1, 2}) {
    EXPECT_FALSE(measured(graph, 0, parts).added);
    EXPECT_EQ(measured(graph, 1, parts).added, parts == 1);
    EXPECT_EQ(measured(graph, 2, parts).added, parts == 1);
  }
}

TEST(CudaMeasurer, WhatAnOpAddsIsNeverNegativeAndKnowsBothSpreads) {
  const auto sampled = [](double median, double spread) { return MeasuredTime{Seconds(median), Seconds(spread), 7}; };
  const MeasuredTime more = added_time(sampled(16.0, 3.0), sampled(6.0, 4.0));
  EXPECT_EQ(more.median, Seconds(10.0));
  EXPECT_EQ(more.spread, Seconds(5.0));
  EXPECT_EQ(more.samples, 7);
  EXPECT_TRUE(more.added);
  EXPECT_EQ(added_time(sampled(6.0, 3.0), sampled(16.0, 4.0)).median, Seconds(0.0));
}

// --- operands ---

std::vector<double> elements(CudaDevice& device, const void* data, DType type, std::int64_t count) {
  std::vector<std::byte> copied(static_cast<std::size_t>(count * size_of(type)));
  device.read(copied.data(), data, copied.size());
  return numbers(copied.data(), type, count);
}

TEST(CudaOperands, LieInTheTypesOfTheGraphAndAreWhatTrainingMeets) {
  const Graph graph = training_graph(kMoe, DType::F16, 4);
  CudaDevice device(0, true, [](DType type) { return type; });
  std::set<DType> met;
  for (const Op& op : graph.ops()) {
    const OpCallPlan call = plan_op(graph, op, whole(graph, op));
    CudaOperandMemory memory(device);
    const MeasuredOperands operands = make_operands(graph, op, call, 5, memory);
    ASSERT_EQ(operands.inputs.size(), op.inputs.size());
    ASSERT_EQ(operands.outputs.size(), op.outputs.size());
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const DType type = graph.tensor(op.inputs[i]).dtype;
      met.insert(type);
      const std::vector<double> values = elements(device, operands.inputs[i], type, call.input_elements(i));
      const auto [minimum, maximum] = std::minmax_element(values.begin(), values.end());
      if (type == DType::I32) {
        const std::vector<std::int32_t> integers = integers_of(call, i, 5 + i);
        EXPECT_EQ(values, std::vector<double>(integers.begin(), integers.end())) << op.name;
        continue;
      }
      // Factors of products are of both signs.
      const bool multiplies =
          op.kind == OpKind::Contract || op.kind == OpKind::Attention || op.kind == OpKind::AttentionBackward;
      const double least = multiplies ? -1.0 : 0.5;
      EXPECT_GE(*minimum, least) << op.name << " operand " << i;
      EXPECT_LE(*maximum, 1.0) << op.name << " operand " << i;
      if (values.size() > 100) {  // random, not all alike
        EXPECT_LT(*minimum, least + 0.1) << op.name << " operand " << i;
        EXPECT_GT(*maximum, 0.95) << op.name << " operand " << i;
      }
    }
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const auto overwritten = std::find(op.inputs.begin(), op.inputs.end(), op.outputs[o]);
      if (overwritten != op.inputs.end()) {
        EXPECT_EQ(operands.outputs[o], operands.inputs[static_cast<std::size_t>(overwritten - op.inputs.begin())]);
      }
    }
  }
  EXPECT_TRUE(met.contains(DType::F16) && met.contains(DType::F32) && met.contains(DType::I32));
}

// --- communication ---

TEST(CudaMeasurer, MeasuresMessagesBetweenDevicesThatShareAGpu) {
  CudaMeasurer measurer(1, 3);
  for (const CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
    for (const int ranks : {2, 3})
      EXPECT_GT(measurer.measure_collective(kind, 24 * 1024, ranks, kQuick).median, Seconds(0.0)) << name_of(kind);
  EXPECT_GT(measurer.measure_transfer(4096, kQuick).median, Seconds(0.0));
  EXPECT_GT(measurer.measure_transfer(1, kQuick).median, Seconds(0.0));
}

TEST(CudaMeasurer, MeasuresMessagesBetweenGpus) {
  if (kernels::cuda::device_count() < 2) GTEST_SKIP() << "fewer than two GPUs";
  CudaMeasurer measurer(2, 2);
  EXPECT_GT(measurer.measure_collective(CollectiveKind::AllReduce, 4096, 2, kQuick).median, Seconds(0.0));
  EXPECT_GT(measurer.measure_transfer(4096, kQuick).median, Seconds(0.0));
}

TEST(CudaMeasurer, MeasuresLaunchesCopiesAndEmptyRuns) {
  CudaMeasurer measurer(1, 1);
  EXPECT_GT(measurer.measure_run_overhead(kQuick).median, Seconds(0.0));
  const std::optional<MeasuredTime> launch = measurer.measure_launch(kQuick);
  ASSERT_TRUE(launch.has_value());
  EXPECT_GT(launch->median, Seconds(0.0));
  EXPECT_EQ(launch->samples, 3);
  EXPECT_GT(measurer.measure_copy(), BytesPerSecond(0.0));
  EXPECT_EQ(measurer.concurrency(), 1);
  EXPECT_GT(measurer.memory_for_operands(), Bytes(0.0));
  EXPECT_NE(measurer.describe_device().find(" multiprocessors"), std::string::npos);
  EXPECT_NE(measurer.describe_libraries().find("driver for "), std::string::npos);
}

// --- refusals ---

TEST(CudaMeasurer, SaysWhereMemoryDoesNotSufficeAndGoesOn) {
  Graph graph;
  constexpr std::int64_t kSide = 1 << 20;  // 2 TiB of bf16
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::BF16, {{"batch", kSide}, {"hidden", kSide}});
  graph.add_op(OpKind::Relu, "y", {x});
  const Op& op = graph.ops().front();
  CudaMeasurer measurer(1, 1);
  EXPECT_EQ(measurer.measure_op(graph, op, {kSide, kSide}, kQuick), std::nullopt);
  EXPECT_TRUE(measurer.measure_op(graph, op, {64, 64}, kQuick).has_value());
}

// The op's own operands would fit.
TEST(CudaMeasurer, SaysWhereMemoryDoesNotSufficeForTheProductBeforeAnOp) {
  constexpr std::int64_t kLong = std::int64_t{1} << 40;
  const Graph graph = chain(DType::BF16, OpKind::Gelu, ReadAgain::Nothing, kLong);
  CudaMeasurer measurer(1, 1);
  EXPECT_EQ(measurer.measure_op(graph, graph.ops()[1], {32, 16}, kQuick), std::nullopt);
  EXPECT_TRUE(measured(chain(DType::BF16), 1).added);
}

TEST(CudaMeasurer, RefusesRanksAndGpusThatAreNotThere) {
  CudaMeasurer measurer(1, 2);
  for (const int ranks : {0, 3})
    EXPECT_THROW((void)measurer.measure_collective(CollectiveKind::AllGather, 64, ranks, kQuick), InputError);
  CudaMeasurer alone(1, 1);
  EXPECT_THROW((void)alone.measure_transfer(64, kQuick), InputError);
  EXPECT_THROW(CudaMeasurer(1000, 1000), SystemError);
}

}  // namespace
}  // namespace meshwright::measurer_test
