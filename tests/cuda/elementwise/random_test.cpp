// SPDX-License-Identifier: Apache-2.0
// Numbers from counters on the device are the processor's, bit by bit.
#include "kernels/cuda/elementwise/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::random_test {
namespace {

constexpr std::uint64_t kKey = 0x123456789abcdef1ull;
constexpr double kLow = -0.0371, kHigh = 0.1129;

template <class T>
std::vector<T> on_device(std::int64_t n, std::int64_t first) {
  DeviceArray<T> out = DeviceArray<T>::of_size(n);
  fill_uniform<T>(kNoStream, out.data(), n, kKey, first, kLow, kHigh);
  return out.raw();
}
template <class T>
std::vector<T> on_host(std::int64_t n, std::int64_t first) {
  std::vector<T> out(static_cast<std::size_t>(n));
  kernels::fill_uniform<T>(out.data(), n, kKey, first, kLow, kHigh);
  return out;
}

// Of the processor's double only the whole number is taken, which 0..1 show exactly: whether low + step number is
// rounded once there follows from how it is compiled.
TEST(CudaRandom, UniformNumbersAreTheProcessorsBits) {
  constexpr std::int64_t kCount = 70001;
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{17}, std::int64_t{1} << 40}) {
    EXPECT_EQ(on_device<float>(kCount, first), on_host<float>(kCount, first));
    std::vector<double> expected(kCount);
    kernels::fill_uniform<double>(expected.data(), kCount, kKey, first, 0.0, 1.0);
    for (double& value : expected) value = std::fma((kHigh - kLow) * 0x1p-24, value * 0x1p24, kLow);
    EXPECT_EQ(on_device<double>(kCount, first), expected);
  }
}

// So that a training in 16 bits begins where one in float does, rounded.
template <class T>
void expect_rounded_floats() {
  const std::vector<T> found = on_device<T>(3001, 5);
  const std::vector<float> numbers = on_host<float>(3001, 5);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].bits, T(numbers[i]).bits) << i;
}
TEST(CudaRandom, SixteenBitsAreTheFloatsRounded) {
  expect_rounded_floats<Bf16>();
  expect_rounded_floats<F16>();
}

// A part is made as it is within the whole.
TEST(CudaRandom, PartsAreThoseOfTheWhole) {
  const std::vector<float> whole = on_device<float>(1000, 0), part = on_device<float>(300, 450);
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 450, whole.begin() + 750));
}

TEST(CudaRandom, IntegersAreTheProcessors) {
  for (const std::int64_t bound :
       {std::int64_t{1}, std::int64_t{7}, std::int64_t{50257}, (std::int64_t{1} << 31) - 1}) {
    DeviceArray<std::int32_t> out = DeviceArray<std::int32_t>::of_size(5001);
    fill_integers(kNoStream, out.data(), 5001, kKey, 3, bound);
    std::vector<std::int32_t> expected(5001);
    kernels::fill_integers(expected.data(), 5001, kKey, 3, bound);
    EXPECT_EQ(out.raw(), expected);
  }
}

// From any word of a block on, any number of them, beyond 2^32 blocks too; nothing behind them is written.
TEST(CudaRandom, PhiloxWordsAreTheProcessors) {
  const PhiloxStream stream{kKey, 0x89abcdefu, 7};
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{6}, (std::int64_t{1} << 35) + 3})
    for (const std::int64_t n : {1, 2, 3, 4, 5, 4099}) {
      DeviceArray<std::int32_t> out(std::vector<double>(static_cast<std::size_t>(n + 1), 42.0));
      philox_words(kNoStream, reinterpret_cast<std::uint32_t*>(out.data()), n, stream, first);
      std::vector<std::uint32_t> expected(static_cast<std::size_t>(n));
      kernels::philox_words(expected.data(), n, stream, first);
      std::vector<std::int32_t> as_integers(expected.begin(), expected.end());
      as_integers.push_back(42);
      EXPECT_EQ(out.raw(), as_integers) << n << " from " << first;
    }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::random_test
