// SPDX-License-Identifier: Apache-2.0
#include "core/base/indexed_vector.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "core/base/ids.h"

namespace meshwright::indexed_vector_test {
namespace {

template <class Vector, class Index>
constexpr bool kIsIndexedBy =
    std::is_invocable_v<decltype([](auto& v, auto i) -> decltype(v[i]) { return v[i]; }), Vector&, Index>;

TEST(IndexedVector, IsIndexedByItsOwnIdAlone) {
  using ByDevice = IndexedVector<DeviceId, double>;
  EXPECT_TRUE((kIsIndexedBy<ByDevice, DeviceId>));
  EXPECT_FALSE((kIsIndexedBy<ByDevice, StageId>));
  EXPECT_FALSE((kIsIndexedBy<ByDevice, int>));
}

TEST(IndexedVector, HoldsItsValuesAtTheirPositions) {
  IndexedVector<DeviceId, int> peak(3, 10);
  peak[DeviceId(1)] = 20;
  peak.push_back(40);
  EXPECT_EQ(peak.values(), (std::vector<int>{10, 20, 10, 40}));
  EXPECT_EQ(peak.count(), 4);
  IndexedVector<int, bool> used(2);  // a vector of bits has references of its own kind
  used[1] = true;
  EXPECT_EQ(used.values(), (std::vector<bool>{false, true}));
}

TEST(IndexedVector, IsComparedAsItsValuesAre) {
  const IndexedVector<int, int> a{1, 2}, b{1, 3};
  EXPECT_LT(a, b);
  EXPECT_EQ(a, (IndexedVector<int, int>(std::vector<int>{1, 2})));
}

}  // namespace
}  // namespace meshwright::indexed_vector_test
