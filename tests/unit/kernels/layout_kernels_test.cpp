// SPDX-License-Identifier: Apache-2.0
// Strided copies and reductions against plain loops, on sizes that meet every path through them.
#include "kernels/cpu/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace meshwright::kernels::layout_kernels_test {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Calls visit(index) for every index of a shape, row-major.
template <class Visit>
void for_each_index(const Sizes& sizes, Visit visit) {
  Sizes index(sizes.size(), 0);
  for (;;) {
    visit(index);
    std::size_t d = sizes.size();
    for (; d > 0 && ++index[d - 1] == sizes[d - 1]; --d) index[d - 1] = 0;
    if (d == 0) return;
  }
}

// Whole numbers in -1000..1000, some of them equal.
template <class T>
std::vector<T> numbers(std::int64_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(static_cast<int>(random() % 2001) - 1000));
  return values;
}

template <class T>
void expect_every_permutation(const Sizes& sizes) {
  const std::vector<T> x = numbers<T>(product(sizes));
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    Sizes out, strides;
    for (const std::size_t d : order) {
      out.push_back(sizes[d]);
      strides.push_back(product({sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1, sizes.end()}));
    }
    std::vector<T> result(x.size());
    copy_strided<T>(x.data(), strides, result.data(), out);
    std::size_t i = 0;
    for_each_index(out, [&](const Sizes& index) {
      const std::int64_t offset = std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
      ASSERT_EQ(result[i++], x[static_cast<std::size_t>(offset)]);
    });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StridedCopy, IsExactInEveryPermutation) {
  expect_every_permutation<float>({17, 33});
  expect_every_permutation<double>({3, 1, 18, 5});
  expect_every_permutation<std::int32_t>({2, 19, 4, 3});
}

// Every second element of 10; the same three times over.
TEST(StridedCopy, SkipsAndRepeats) {
  const std::vector<double> x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<double> skipped(5), repeated(6);
  copy_strided<double>(x.data(), Sizes{2}, skipped.data(), Sizes{5});
  copy_strided<double>(x.data(), Sizes{0, 5}, repeated.data(), Sizes{3, 2});
  EXPECT_EQ(skipped, (std::vector<double>{0, 2, 4, 6, 8}));
  EXPECT_EQ(repeated, (std::vector<double>{0, 5, 0, 5, 0, 5}));
}

struct Reduced {
  std::vector<char> kept;
  std::vector<std::size_t> place;  // [element of x] where it goes
  std::vector<double> sum, largest;
};

template <class T>
Reduced by_plain_loops(const std::vector<T>& x, const Sizes& sizes, unsigned mask) {
  Reduced r;
  std::int64_t results = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    r.kept.push_back(static_cast<char>(mask >> d & 1u));
    if (r.kept[d] != 0) results *= sizes[d];
  }
  r.sum.assign(static_cast<std::size_t>(results), 0.0);
  r.largest.assign(r.sum.size(), -1e300);
  for_each_index(sizes, [&](const Sizes& index) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) place = r.kept[d] != 0 ? place * sizes[d] + index[d] : place;
    const auto value = static_cast<double>(x[r.place.size()]);
    r.place.push_back(static_cast<std::size_t>(place));
    r.sum[r.place.back()] += value;
    r.largest[r.place.back()] = std::max(r.largest[r.place.back()], value);
  });
  return r;
}

// Whole numbers: sums of up to 2200 of them below 1000 are exact in float too, halves included.
template <class T>
void expect_every_reduction(const Sizes& sizes) {
  const std::vector<T> x = numbers<T>(product(sizes));
  for (unsigned mask = 0; mask < 1u << sizes.size(); ++mask) {
    SCOPED_TRACE(mask);
    const Reduced expected = by_plain_loops(x, sizes, mask);
    const std::vector<T> gradient = numbers<T>(static_cast<std::int64_t>(expected.sum.size()));
    std::vector<T> sum(expected.sum.size()), largest(sum.size()), dx(x.size());
    reduce_sum<T>(x.data(), sum.data(), {sizes, expected.kept}, 0.5);
    reduce_max<T>(x.data(), largest.data(), {sizes, expected.kept});
    reduce_max_backward<T>(x.data(), largest.data(), gradient.data(), dx.data(), {sizes, expected.kept});
    for (std::size_t r = 0; r < sum.size(); ++r) {
      ASSERT_EQ(static_cast<double>(sum[r]), 0.5 * expected.sum[r]);
      ASSERT_EQ(static_cast<double>(largest[r]), expected.largest[r]);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t place = expected.place[i];
      ASSERT_EQ(dx[i], x[i] == largest[place] ? gradient[place] : T(0)) << i;
    }
  }
}

// Rows longer than a block, rows of one element, no dimension at all.
TEST(Reductions, AreExactOverEverySetOfDimensions) {
  expect_every_reduction<float>({3, 1, 5, 7});
  expect_every_reduction<float>({2, 1100});
  expect_every_reduction<double>({5, 4, 3, 2});
  expect_every_reduction<double>({});
}

// 2^24 + 1 + 1 + ...: a sum in float stays at 2^24. As a row, and as two columns.
TEST(Reductions, SumInDouble) {
  std::vector<float> x(202, 1.0f), sums(2);
  x[0] = x[1] = 16777216.0f;
  reduce_sum<float>(x.data() + 1, sums.data(), {Sizes{101}, std::vector<char>{0}}, 1.0);
  EXPECT_EQ(sums[0], 16777316.0f);
  reduce_sum<float>(x.data(), sums.data(), {Sizes{101, 2}, std::vector<char>{0, 1}}, 1.0);
  EXPECT_EQ(sums, (std::vector<float>{16777316.0f, 16777316.0f}));
}

}  // namespace
}  // namespace meshwright::kernels::layout_kernels_test
