// SPDX-License-Identifier: Apache-2.0
// Divisors come in ascending order, each once, and end at the largest that is asked for.
#include "core/base/divisors.h"

#include <gtest/gtest.h>

namespace meshwright::divisors_test {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(Divisors, AscendAndCountASquareRootOnce) {
  EXPECT_EQ(divisors(36), (Numbers{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors(12), (Numbers{1, 2, 3, 4, 6, 12}));
}

TEST(Divisors, OfAPrimeAreItselfAndOne) {
  EXPECT_EQ(divisors(1), Numbers{1});
  EXPECT_EQ(divisors(97), (Numbers{1, 97}));
}

TEST(Divisors, EndAtTheLargestAskedFor) {
  EXPECT_EQ(divisors(36, 9), (Numbers{1, 2, 3, 4, 6, 9}));
  EXPECT_EQ(divisors(36, 11), (Numbers{1, 2, 3, 4, 6, 9}));
  EXPECT_EQ(divisors(36, 0), Numbers{});
}

TEST(Divisors, OfZeroAreNone) { EXPECT_EQ(divisors(0), Numbers{}); }

}  // namespace
}  // namespace meshwright::divisors_test
