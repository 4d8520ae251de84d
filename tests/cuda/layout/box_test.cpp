// SPDX-License-Identifier: Apache-2.0
// Divisions by a multiplication, and the offsets of a box's elements that are made of them.
#include "kernels/cuda/layout/box.h"

#include <gtest/gtest.h>

#include <random>

namespace meshwright::kernels::cuda::box_test {
namespace {

constexpr std::int64_t kHalfWord = std::int64_t{1} << 31;

// Around multiples of the divisor, where a quotient that is too large or too small shows; on both sides of 2^31.
TEST(CudaDivider, IsExact) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> divisors = {kHalfWord - 2, kHalfWord - 1, kHalfWord, kHalfWord + 1, std::int64_t{1} << 40};
  for (std::int64_t d = 1; d <= 1000; ++d) divisors.push_back(d);
  for (int i = 0; i < 1000; ++i) divisors.push_back(static_cast<std::int64_t>(random() >> (34 + random() % 29)) + 1);
  for (const std::int64_t divisor : divisors) {
    const Divider by(divisor);
    std::vector<std::int64_t> dividends = {0, 1, kHalfWord - 2, kHalfWord - 1, kHalfWord, kHalfWord + 1};
    for (int i = 0; i < 100; ++i) {
      const auto multiple = static_cast<std::int64_t>(random() % (2 * kHalfWord)) / divisor * divisor;
      for (const std::int64_t near : {multiple - 1, multiple, multiple + 1})
        if (near >= 0) dividends.push_back(near);
    }
    for (const std::int64_t n : dividends) ASSERT_EQ(by.quotient(n), n / divisor) << n << " / " << divisor;
  }
}

// Rows of 3 x 2^32 elements of which every second is taken in a, in b none of the first dimension is apart.
TEST(CudaBox, OffsetsGoBeyond32Bits) {
  const std::int64_t large = std::int64_t{1} << 32;
  const BoxDim dims[] = {{5, 6 * large, 0}, {3, 2 * large, large}, {large, 2, 1}};
  const Box box(dims);
  for (const std::int64_t index : {std::int64_t{0}, std::int64_t{7}, large + 1, 3 * large, 14 * large + 9}) {
    const std::int64_t i = index / (3 * large), j = index / large % 3, k = index % large;
    const Offsets at = offsets_of(box, index);
    EXPECT_EQ(at.a, i * 6 * large + j * 2 * large + 2 * k);
    EXPECT_EQ(at.b, j * large + k);
  }
}

TEST(CudaBox, MergesDimensionsThatAreOneInBoth) {
  const BoxDim whole[] = {{4, 30, 30}, {1, 99, 7}, {5, 6, 6}, {6, 1, 1}}, cut[] = {{4, 30, 60}, {5, 6, 6}, {6, 1, 1}};
  ASSERT_EQ(merged(whole).size(), 1u);
  EXPECT_EQ(merged(whole)[0].extent, 120);
  ASSERT_EQ(merged(cut).size(), 2u);
  EXPECT_EQ(merged(cut)[1].extent, 30);
  EXPECT_EQ(merged({}).size(), 1u);
}

TEST(CudaBox, RefusesAReductionOfTooManyGroups) { EXPECT_THROW((void)Box(std::vector<BoxDim>(7, {2, 1, 1})), Failure); }

}  // namespace
}  // namespace meshwright::kernels::cuda::box_test
