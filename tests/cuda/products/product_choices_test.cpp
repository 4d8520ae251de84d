// SPDX-License-Identifier: Apache-2.0
// Algorithms of products that are chosen by timing once, and taken again. The clock is the test's.
#include "kernels/cuda/products/product_choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_measurer.h"
#include "kernels/cuda/products/product_timing.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::product_choices_test {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMax = 8;

const Product kProduct{.transpose_b = true, .m = 24, .n = 40, .k = 3000, .lda = 3000, .ldb = 3000, .ldc = 40};

// --- medians ---

TEST(ProductTiming, TakesTheMedianOfFiveRoundsAfterOneThatIsNotCounted) {
  const double rounds[] = {100.0, 3.0, 1.0, 5.0, 2.0, 4.0};
  std::size_t calls = 0;
  EXPECT_EQ(median_seconds(1, [&](std::size_t) { return 1e-6 * rounds[calls++]; }), std::vector<double>{1e-6 * 3.0});
  EXPECT_EQ(calls, std::size(rounds));
}

TEST(ProductTiming, MeasuresAllInTurns) {
  std::vector<std::size_t> order;
  (void)median_seconds(3, [&](std::size_t i) {
    order.push_back(i);
    return 1e-6;
  });
  ASSERT_EQ(order.size(), 18u);
  for (std::size_t call = 0; call < order.size(); ++call) EXPECT_EQ(order[call], call % 3);
}

TEST(ProductTiming, MeasuresWhatTakesLongLessOften) {
  std::size_t calls = 0;
  (void)median_seconds(2, [&](std::size_t) {
    ++calls;
    return 10.0;
  });
  EXPECT_EQ(calls, 2u * 4u);
}

TEST(ProductTiming, LeavesOutWhatDoesNotRun) {
  std::size_t calls_of_first = 0;
  const std::vector<double> medians = median_seconds(2, [&](std::size_t i) {
    calls_of_first += i == 0;
    return i == 0 ? kNever : 2e-6;
  });
  EXPECT_EQ(medians, (std::vector<double>{kNever, 2e-6}));
  EXPECT_EQ(calls_of_first, 1u);
  EXPECT_EQ(fastest(medians), 1u);
}

TEST(ProductTiming, PrefersTheEarlierWhereALaterIsHardlyFaster) {
  EXPECT_EQ(fastest({1.0}), 0u);
  EXPECT_EQ(fastest({1.0, 0.995}), 0u);
  EXPECT_EQ(fastest({1.0, 0.5, 0.7}), 1u);
  EXPECT_EQ(fastest({3.0, 2.0, 1.0}), 2u);
}

TEST(ProductTiming, WritesBytesAndReadsThemBack) {
  const unsigned char bytes[] = {0x00, 0x0f, 0xa0, 0xff};
  EXPECT_EQ(to_hex(bytes, sizeof bytes), "000fa0ff");
  unsigned char back[4] = {};
  ASSERT_TRUE(from_hex("000fa0ff", back, sizeof back));
  EXPECT_EQ(std::memcmp(back, bytes, sizeof bytes), 0);
  for (const char* const wrong : {"", "000fa0f", "000fa0ff00", "000fa0fg"})
    EXPECT_FALSE(from_hex(wrong, back, sizeof back)) << wrong;
}

TEST(ProductTiming, NamesAProductByAllThatItsAlgorithmDependsOn) {
  EXPECT_EQ(product_key(kProduct, "bf16", 256, 128, 2), "bf16 nt 24x40x3000 ld 3000 3000 40 at 256 128 2");
  const Product many{.transpose_a = true,
                     .m = 2,
                     .n = 3,
                     .k = 4,
                     .lda = 5,
                     .ldb = 6,
                     .ldc = 7,
                     .batch = 8,
                     .stride_a = 9,
                     .stride_b = 10,
                     .stride_c = 11};
  EXPECT_EQ(product_key(many, "tf32", 1, 1, 1), "tf32 tn 2x3x4 ld 5 6 7 batch 8 apart 9 10 11 at 1 1 1");
}

// --- choices ---

// Operands of kProduct whose sums are rounded otherwise in another order.
struct Operands {
  DeviceArray<float> a = numbers(24 * 3000, 1.0), b = numbers(40 * 3000, 0.37);

  static DeviceArray<float> numbers(std::int64_t n, double factor) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < n; ++i) values.push_back(factor * (0.1 + static_cast<double>(7919 * i % 1009) / 1009));
    return DeviceArray<float>(values);
  }
  std::vector<float> product_by(Products& products) {
    DeviceArray<float> c = DeviceArray<float>::of_size(24 * 40);
    products.run(kNoStream, kProduct, a.data(), b.data(), c.data());
    return c.raw();
  }
};

// Candidate number `favourite` takes 1 us, every other 2 us.
ProductTimer favouring(std::size_t favourite, std::size_t candidates, int& calls) {
  return [=, &calls](Stream, const std::function<void()>& start) {
    start();
    return static_cast<std::size_t>(calls++) % candidates == favourite ? 1e-6 : 2e-6;
  };
}
ProductTimer not_to_be_called() {
  return [](Stream, const std::function<void()>&) -> double {
    ADD_FAILURE() << "timed";
    return 1.0;
  };
}

std::size_t candidates_of_product(Operands& operands) {
  int calls = 0;
  Products products(false, {.timer = favouring(0, 1, calls)});
  DeviceArray<float> c = DeviceArray<float>::of_size(24 * 40);
  return products.time_algorithms(kNoStream, kProduct, operands.a.data(), operands.b.data(), c.data(), kMax).size();
}

// What timing keeps where candidate number `favourite` is the fastest.
std::map<std::string, std::string> kept(Operands& operands, std::size_t favourite, std::size_t candidates) {
  const auto choices = std::make_shared<ProductChoices>();
  int calls = 0;
  Products products(false, {.choices = choices, .timed = true, .timer = favouring(favourite, candidates, calls)});
  const std::vector<float> first = operands.product_by(products);
  const int timed = calls;
  EXPECT_GT(timed, 0);
  EXPECT_EQ(operands.product_by(products), first);
  EXPECT_EQ(calls, timed) << "timed again";
  return choices->all();
}

TEST(ProductChoices, TimingKeepsTheFastestOfThoseThatTheLibraryProposes) {
  Operands operands;
  const std::size_t candidates = candidates_of_product(operands);
  ASSERT_GE(candidates, 1u);
  std::set<std::string> algorithms;
  for (std::size_t favourite = 0; favourite < candidates; ++favourite) {
    const auto choices = kept(operands, favourite, candidates);
    ASSERT_EQ(choices.size(), 1u);
    algorithms.insert(choices.begin()->second);
  }
  // A library may propose one algorithm twice.
  EXPECT_LE(algorithms.size(), candidates);
  EXPECT_GE(algorithms.size(), std::min<std::size_t>(candidates, 2));
}

TEST(ProductChoices, ThatWereKeptAreTakenAgainWithoutTiming) {
  Operands operands;
  const std::size_t candidates = candidates_of_product(operands);
  const auto choices = std::make_shared<ProductChoices>();
  int calls = 0;
  Products first(false, {.choices = choices, .timed = true, .timer = favouring(candidates - 1, candidates, calls)});
  const std::vector<float> bits = operands.product_by(first);
  for (const bool timed : {false, true}) {
    const auto copied = std::make_shared<ProductChoices>();
    for (const auto& [product, algorithm] : choices->all()) copied->keep(product, algorithm);
    Products later(false, {.choices = copied, .timed = timed, .timer = not_to_be_called()});
    EXPECT_EQ(operands.product_by(later), bits);
    EXPECT_EQ(copied->all(), choices->all());
    EXPECT_TRUE(copied->refused().empty());
  }
}

TEST(ProductChoices, WithoutOneTheLibrarysFirstIsTakenAndNothingIsTimedOrKept) {
  Operands operands;
  Products plain(false);
  const auto choices = std::make_shared<ProductChoices>();
  Products given_none(false, {.choices = choices, .timer = not_to_be_called()});
  EXPECT_EQ(operands.product_by(given_none), operands.product_by(plain));
  EXPECT_TRUE(choices->all().empty());
}

TEST(ProductChoices, ThatTheLibraryDoesNotKnowAreLeftOut) {
  Operands operands;
  const std::string product = kept(operands, 0, candidates_of_product(operands)).begin()->first;
  const auto choices = std::make_shared<ProductChoices>();
  choices->keep(product, "ff");
  Products plain(false), misled(false, {.choices = choices});
  EXPECT_EQ(operands.product_by(misled), operands.product_by(plain));
  EXPECT_EQ(choices->refused(), std::set<std::string>{product});
  EXPECT_TRUE(choices->all().empty());
}

TEST(ProductChoices, TheFirstThatIsKeptStays) {
  ProductChoices choices;
  EXPECT_EQ(choices.keep("product", "one"), "one");
  EXPECT_EQ(choices.keep("product", "two"), "one");
  choices.refuse("product");
  EXPECT_EQ(choices.find("product"), std::nullopt);
  EXPECT_EQ(choices.keep("product", "two"), "two");
}

// --- through the measurer and the backend ---

TEST(ProductChoices, AreMadeWhereOpsAreMeasuredAndTakenByTheBackend) {
  TrainingOptions training;
  training.batch = 4;
  training.dtype = DType::F32;
  const Graph graph = build_training_graph(find_model("mlp:layers=1,hidden=96"), training);
  const auto contract =
      std::find_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Contract; });
  ASSERT_NE(contract, graph.ops().end());
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : iteration_space(graph, *contract).axes) sizes.push_back(axis.size);

  const auto choices = std::make_shared<ProductChoices>();
  CudaMeasurer measurer(1, 1, choices);
  ASSERT_TRUE(measurer.measure_op(graph, *contract, sizes, {.warmup = 1, .samples = 1, .min_sample = Seconds(0.0)}));
  ASSERT_EQ(choices->all().size(), 1u);

  const auto nonsense = std::make_shared<ProductChoices>();
  const std::string product = choices->all().begin()->first;
  nonsense->keep(product, "nonsense");
  CudaOptions options;
  options.product_choices = nonsense;
  CudaBackend backend(options, 1);
  const std::unique_ptr<Device> made = backend.make_device(DeviceId(0));
  auto& device = static_cast<CudaDevice&>(*made);
  device.use();
  const OpCallPlan call = plan_op(graph, *contract, sizes);
  CudaOperandMemory memory(device);
  const MeasuredOperands operands = make_operands(graph, *contract, call, 0, memory);
  device.run_op(call, operands.inputs, operands.outputs, {});
  device.finish();
  EXPECT_EQ(nonsense->refused(), std::set<std::string>{product});
}

}  // namespace
}  // namespace meshwright::kernels::cuda::product_choices_test
