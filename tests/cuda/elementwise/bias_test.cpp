// SPDX-License-Identifier: Apache-2.0
// Biases and their gradients on the device against the processor's in double.
#include "kernels/cuda/elementwise/bias.h"

#include <gtest/gtest.h>

#include "kernels/cpu/elementwise/elementwise.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda::bias_test {
namespace {

template <class T>
class CudaBias : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaBias, Types);

struct Rows {
  std::int64_t rows, width, bias_width;
};
// One element; odd widths; rows in groups; a bias of part of a row that ends within a group; more columns than threads;
// rows in several slices, whose last is short, by narrow and by wide rows.
const std::vector<Rows> kRows = {{1, 1, 1},       {3, 7, 7},     {5, 64, 64},  {4, 48, 16}, {6, 40, 13},
                                 {2, 3000, 3000}, {129, 24, 24}, {1003, 1, 1}, {700, 9, 4}, {333, 72, 72}};

TYPED_TEST(CudaBias, IsAddedToTheFirstColumns) {
  using T = TypeParam;
  for (const auto& [rows, width, bias_width] : kRows) {
    SCOPED_TRACE(testing::Message() << rows << " x " << width << ", " << bias_width);
    Values x = numbers<T>(rows * width, 1);
    x.back() = -0.0;
    const Values bias = numbers<T>(bias_width, 2);
    Values expected(x.size());
    kernels::bias_add(x.data(), bias.data(), expected.data(), {rows, width, bias_width});
    for (double& value : expected) value = static_cast<double>(T(static_cast<Wide<T>>(value)));
    DeviceArray<T> on_x(x);
    const DeviceArray<T> on_bias(bias);
    auto out = DeviceArray<T>::of_size(rows * width);
    bias_add(kNoStream, on_x.data(), on_bias.data(), out.data(), {rows, width, bias_width});
    EXPECT_EQ(out.values(), expected);
    EXPECT_EQ(std::signbit(out.values().back()), std::signbit(expected.back()));
    bias_add(kNoStream, on_x.data(), on_bias.data(), on_x.data(), {rows, width, bias_width});
    EXPECT_EQ(on_x.values(), expected);
  }
}

TYPED_TEST(CudaBias, GradientIsTheSumOverRows) {
  using T = TypeParam;
  for (const auto& [rows, width, bias_width] : kRows) {
    SCOPED_TRACE(testing::Message() << rows << " x " << width << ", " << bias_width);
    const Values dy = numbers<T>(rows * width, 3);
    Values expected(static_cast<std::size_t>(bias_width)), sizes(expected.size());
    kernels::bias_gradient(dy.data(), expected.data(), {rows, width, bias_width});
    for (std::size_t i = 0; i < dy.size(); ++i)
      if (i % static_cast<std::size_t>(width) < sizes.size())
        sizes[i % static_cast<std::size_t>(width)] += std::abs(dy[i]);
    const DeviceArray<T> on_dy(dy);
    auto out = DeviceArray<T>::of_size(bias_width);
    auto workspace = DeviceArray<std::int8_t>::of_size(
        static_cast<std::int64_t>(bias_gradient_workspace<T>({rows, width, bias_width})));
    bias_gradient(kNoStream, on_dy.data(), out.data(), {rows, width, bias_width}, workspace.data());
    const Values found = out.values();
    // As many roundings of Wide<T> as there are terms, at most.
    expect_rounded<T>(found, expected, static_cast<double>(rows) * kHalfPlace<Wide<T>>, sizes);
    bias_gradient(kNoStream, on_dy.data(), out.data(), {rows, width, bias_width}, workspace.data());
    EXPECT_EQ(out.values(), found);
  }
}

// A thread has several rows.
TEST(CudaBias_, NoRowIsLeftOutBeyondTheGrid) {
  const std::int64_t rows = 260, width = 8200;
  const Values x = numbers<double>(rows * width, 5), bias = numbers<double>(width, 6);
  Values expected(x.size());
  kernels::bias_add(x.data(), bias.data(), expected.data(), {rows, width, width});
  DeviceArray<double> on_x(x);
  const DeviceArray<double> on_bias(bias);
  bias_add(kNoStream, on_x.data(), on_bias.data(), on_x.data(), {rows, width, width});
  EXPECT_TRUE(on_x.values() == expected);
}

TYPED_TEST(CudaBias, RowsThatBeginBetweenGroupsAddUpToTheSameBits) {
  using T = TypeParam;
  const std::int64_t rows = 300, width = 16;
  Values dy = numbers<T>(rows * width + 1, 4);
  const DeviceArray<T> shifted(dy);
  dy.erase(dy.begin());
  const DeviceArray<T> well(dy);
  auto one = DeviceArray<T>::of_size(width), other = DeviceArray<T>::of_size(width);
  auto workspace =
      DeviceArray<std::int8_t>::of_size(static_cast<std::int64_t>(bias_gradient_workspace<T>({rows, width, width})));
  bias_gradient(kNoStream, well.data(), one.data(), {rows, width, width}, workspace.data());
  bias_gradient(kNoStream, shifted.data() + 1, other.data(), {rows, width, width}, workspace.data());
  EXPECT_EQ(one.values(), other.values());
}

}  // namespace
}  // namespace meshwright::kernels::cuda::bias_test
