// SPDX-License-Identifier: Apache-2.0
// The algorithm that is chosen is the one that computes: what stands in for the library has two, which round otherwise.
#include <gtest/gtest.h>

#include "kernels/cuda/products/products.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::product_choices_on_cpu_test {
namespace {

// 2^24 + 1 + 1 in float: from the beginning every 1 is lost, from the end they make a 2 first.
float sum_by(const ProductTuning& tuning) {
  const DeviceArray<float> a({0x1p24, 1.0, 1.0}), ones({1.0, 1.0, 1.0});
  DeviceArray<float> c = DeviceArray<float>::of_size(1);
  Products products(false, tuning);
  products.run(kNoStream, {.m = 1, .n = 1, .k = 3, .lda = 3}, a.data(), ones.data(), c.data());
  return c.raw()[0];
}

ProductTuning timed(double first, double second) {
  int calls = 0;
  return {.choices = std::make_shared<ProductChoices>(),
          .timed = true,
          .timer = [=](Stream, const std::function<void()>&) mutable { return calls++ % 2 == 0 ? first : second; }};
}

TEST(ProductsOnCpu, ComputeByTheAlgorithmThatWasTheFastest) {
  EXPECT_EQ(sum_by({}), 0x1p24f);
  EXPECT_EQ(sum_by(timed(1e-6, 2e-6)), 0x1p24f);
  EXPECT_EQ(sum_by(timed(2e-6, 1e-6)), 0x1p24f + 2.0f);
}

TEST(ProductsOnCpu, ComputeByTheAlgorithmThatIsGiven) {
  const ProductTuning chosen = timed(2e-6, 1e-6);
  (void)sum_by(chosen);
  EXPECT_EQ(chosen.choices->all(),
            (std::map<std::string, std::string>{{"f32 nn 1x1x3 ld 3 1 1 at 1 1 1", "from the end"}}));
  const auto given = std::make_shared<ProductChoices>();
  for (const auto& [product, algorithm] : chosen.choices->all()) given->keep(product, algorithm);
  EXPECT_EQ(sum_by({.choices = given}), 0x1p24f + 2.0f);
}

TEST(ProductsOnCpu, WithAnEndComputeByTheAlgorithmOfTheProductWithoutOne) {
  const auto given = std::make_shared<ProductChoices>();
  given->keep("f32 nn 1x1x3 ld 3 1 1 at 1 1 1", "from the end");
  const DeviceArray<float> a({0x1p24, 1.0, 1.0}), ones({1.0, 1.0, 1.0}), bias(std::vector<double>(1, 4.0));
  DeviceArray<float> c = DeviceArray<float>::of_size(1);
  Products products(false, {.choices = given});
  const ProductEnd<float> end{.bias = bias.data()};
  ASSERT_TRUE(products.run(kNoStream, {.m = 1, .n = 1, .k = 3, .lda = 3}, a.data(), ones.data(), c.data(), end));
  EXPECT_EQ(c.raw()[0], 0x1p24f + 6.0f);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::product_choices_on_cpu_test
