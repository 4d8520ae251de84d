// SPDX-License-Identifier: Apache-2.0
// The segment tree over memory rows against a plain array.
#include "core/solver/problem/memory_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace meshwright::portfolio::memory_profile_test {
namespace {

TEST(MemoryProfile, StartsFromTheGivenSums) {
  const MemoryProfile profile({3, 1, 4, 1, 5});
  EXPECT_EQ(profile.largest(), 5);
  EXPECT_EQ(profile.largest(0, 2), 3);
  EXPECT_EQ(profile.sum(2), 4);
}

TEST(MemoryProfile, AddsToARangeOnly) {
  MemoryProfile profile({0, 0, 0, 0});
  profile.add(1, 3, 10);
  EXPECT_EQ(profile.sum(0), 0);
  EXPECT_EQ(profile.sum(1), 10);
  EXPECT_EQ(profile.sum(2), 10);
  EXPECT_EQ(profile.sum(3), 0);
}

TEST(MemoryProfile, WithoutRowsHasNoLargest) {
  MemoryProfile profile({});
  profile.add(0, 0, 7);
  EXPECT_EQ(profile.largest(), -std::numeric_limits<double>::infinity());
}

TEST(MemoryProfile, AgreesWithAPlainArray) {
  std::mt19937 random(1);
  for (int rows : {1, 2, 3, 7, 8, 9, 31, 100}) {
    std::vector<double> plain(static_cast<std::size_t>(rows));
    for (double& sum : plain) sum = static_cast<double>(random() % 50) - 25;
    MemoryProfile profile(plain);
    for (int step = 0; step < 400; ++step) {
      int begin = static_cast<int>(random() % static_cast<unsigned>(rows));
      int end = static_cast<int>(random() % static_cast<unsigned>(rows)) + 1;
      if (begin > end) std::swap(begin, end);
      const double amount = static_cast<double>(random() % 21) - 10;
      profile.add(begin, end, amount);
      for (int row = begin; row < end; ++row) plain[static_cast<std::size_t>(row)] += amount;
      ASSERT_EQ(profile.largest(), *std::max_element(plain.begin(), plain.end()));
      const int probe = static_cast<int>(random() % static_cast<unsigned>(rows));
      ASSERT_EQ(profile.sum(probe), plain[static_cast<std::size_t>(probe)]);
      if (begin == end) continue;
      ASSERT_EQ(profile.largest(begin, end), *std::max_element(plain.begin() + begin, plain.begin() + end));
    }
  }
}

// exp(x / 2) of x = 0, 2, 4 and, after 2 is added to the last two, of 0, 4, 6.
TEST(PressureProfile, WeighsRowsExponentially) {
  PressureProfile pressure({0, 2, 4}, 0.5);
  EXPECT_NEAR(pressure.total(), 1 + std::exp(1) + std::exp(2), 1e-12);
  pressure.add(1, 3, 2);
  EXPECT_NEAR(pressure.total(), 1 + std::exp(2) + std::exp(3), 1e-12);
  EXPECT_NEAR(pressure.total(1, 2), std::exp(2), 1e-12);
}

TEST(PressureProfile, AgreesWithAPlainArray) {
  std::mt19937 random(2);
  for (int rows : {1, 5, 8, 37}) {
    std::vector<double> plain(static_cast<std::size_t>(rows), -3.0);
    PressureProfile pressure(plain, 0.1);
    for (int step = 0; step < 300; ++step) {
      int begin = static_cast<int>(random() % static_cast<unsigned>(rows));
      int end = static_cast<int>(random() % static_cast<unsigned>(rows)) + 1;
      if (begin > end) std::swap(begin, end);
      const double amount = static_cast<double>(random() % 21) - 10;
      double total = 0.0, part = 0.0;
      pressure.add(begin, end, amount);
      for (int row = 0; row < rows; ++row) {
        const bool inside = begin <= row && row < end;
        if (inside) plain[static_cast<std::size_t>(row)] += amount;
        const double weight = std::exp(0.1 * plain[static_cast<std::size_t>(row)]);
        total += weight;
        if (inside) part += weight;
      }
      ASSERT_NEAR(pressure.total(), total, 1e-9 * total);
      ASSERT_NEAR(pressure.total(begin, end), part, 1e-9 * total);
    }
  }
}

}  // namespace
}  // namespace meshwright::portfolio::memory_profile_test
