// SPDX-License-Identifier: Apache-2.0
// What nodes hold is computed from constants, or not known.
#include "core/graph/import/primitive/node_values.h"

#include <gtest/gtest.h>

namespace meshwright::node_values_test {
namespace {

using primitive::Builder;
using primitive::Kind;

// A table of (2, 40000) zeros and ones keeps its first 4096. What is made of the second row is not known, and asking
// for it once does not make it known.
TEST(NodeValues, OfNumbersThatAreNotKeptStayUnknown) {
  primitive::Module module;
  Builder b(module);
  std::vector<double> bits(80'000);
  for (std::size_t i = 0; i < bits.size(); i += 2) bits[i] = 1.0;
  const int row = b.slice(b.constant({2, 40'000}, true, bits), 0, 1, 2);
  const int more = b.binary(Kind::Add, row, b.integers({7}));
  std::int64_t budget = 1 << 24;
  primitive::NodeValues values(b, budget);
  EXPECT_FALSE(values.all(row).has_value());
  EXPECT_FALSE(values.all(more).has_value());
}

// Indices, which other numbers than 0 and 1 tell, are kept.
TEST(NodeValues, OfIndicesAreKnown) {
  primitive::Module module;
  Builder b(module);
  std::vector<double> counted(80'000);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<double>(i);
  const int row = b.slice(b.constant({2, 40'000}, true, counted), 0, 1, 2);
  std::int64_t budget = 1 << 24;
  const auto found = primitive::NodeValues(b, budget).all(row);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->front(), 40'000.0);
  EXPECT_EQ(found->back(), 79'999.0);
}

}  // namespace
}  // namespace meshwright::node_values_test
