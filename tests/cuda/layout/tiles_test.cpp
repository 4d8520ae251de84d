// SPDX-License-Identifier: Apache-2.0
// Tiles copied, added and reduced on the device against the processor's.
#include "kernels/cuda/layout/tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "kernels/cpu/layout/tiles.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::tiles_test {
namespace {

using Sizes = std::vector<std::int64_t>;
using Values = std::vector<double>;

// Whole numbers in -60..60: sums of two of them every type has.
Values whole_numbers(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  Values values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(static_cast<int>(random() % 121) - 60));
  return values;
}

// A box within two arrays: where it begins in each, and the shapes of both.
struct Tile {
  Sizes extent, source_shape, source_begin, destination_shape, destination_begin;
};
std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}
std::int64_t offset(const Sizes& shape, const Sizes& begin) {
  const Sizes strides = row_major_strides(shape);
  return std::inner_product(begin.begin(), begin.end(), strides.begin(), std::int64_t{0});
}

const std::vector<Tile> kTiles = {
    {{}, {}, {}, {}, {}},
    {{1000}, {1000}, {0}, {1000}, {0}},
    {{7}, {20}, {5}, {9}, {1}},
    {{4, 64}, {4, 128}, {0, 64}, {8, 64}, {2, 0}},  // a column half becomes rows, in words of 16 bytes
    {{4, 64}, {5, 130}, {1, 63}, {8, 65}, {2, 1}},  // the same at odd places
    {{3, 5, 6}, {3, 10, 6}, {0, 5, 0}, {3, 5, 6}, {0, 0, 0}},
    {{2, 3, 4, 5}, {4, 6, 8, 10}, {2, 3, 4, 5}, {3, 4, 5, 6}, {1, 1, 1, 1}},
    {{2, 6, 1}, {3, 7, 3}, {1, 1, 2}, {2, 6, 1}, {0, 0, 0}},
    {{2, 2, 2, 2, 2, 2, 2, 2, 8}, {3, 3, 3, 3, 3, 3, 3, 3, 9}, Sizes(9, 1), {2, 2, 2, 2, 2, 2, 2, 2, 8}, Sizes(9, 0)},
    {{70, 300}, {70, 304}, {0, 2}, {71, 301}, {1, 1}},
};

template <class T>
class CudaTiles : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16, std::int32_t>;
TYPED_TEST_SUITE(CudaTiles, Types);

// What lies around a tile in the destination stays as it is.
TYPED_TEST(CudaTiles, AreCopiedAndAddedLikeOnTheProcessor) {
  for (const Tile& tile : kTiles) {
    SCOPED_TRACE(testing::PrintToString(tile.extent));
    const Values source = whole_numbers(product(tile.source_shape), 1),
                 before = whole_numbers(product(tile.destination_shape), 2);
    const Sizes from = row_major_strides(tile.source_shape), to = row_major_strides(tile.destination_shape);
    const std::int64_t at = offset(tile.source_shape, tile.source_begin);
    const std::int64_t into = offset(tile.destination_shape, tile.destination_begin);
    const DeviceArray<TypeParam> x(source);
    DeviceArray<TypeParam> copied(before), added(before);
    Values expected_copied = before, expected_added = before;
    copy_tile<TypeParam>(kNoStream, tile.extent, x.data() + at, from, copied.data() + into, to);
    add_tile<TypeParam>(kNoStream, tile.extent, x.data() + at, from, added.data() + into, to);
    kernels::copy_tile<double>(tile.extent, source.data() + at, from, expected_copied.data() + into, to);
    kernels::add_tile<double>(tile.extent, source.data() + at, from, expected_added.data() + into, to);
    EXPECT_EQ(copied.values(), expected_copied);
    EXPECT_EQ(added.values(), expected_added);
  }
}

// parts as the device reads them: an array of pointers in its memory.
template <class T>
class Parts {
 public:
  explicit Parts(const std::vector<const T*>& parts)
      : data_(static_cast<const T**>(allocate(parts.size() * sizeof(const T*)))) {
    copy_to_device(data_, parts.data(), parts.size() * sizeof(const T*), kNoStream);
    synchronize(kNoStream);
  }
  ~Parts() { release(data_); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  [[nodiscard]] const T* const* data() const { return data_; }

 private:
  const T** data_;
};

template <class T>
T in_order(const std::vector<std::vector<T>>& parts, std::size_t i, Reduction reduction) {
  auto total = static_cast<Wide<T>>(parts[0][i]);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const auto next = static_cast<Wide<T>>(parts[p][i]);
    total = reduction == Reduction::Sum ? total + next : (total < next ? next : total);
  }
  return static_cast<T>(total);
}

// `out` is one of the parts; where they begin at any place, too. Fractions whose sums are rounded: exactly as they
// are when they are added in the order of the parts in Wide<T>.
TYPED_TEST(CudaTiles, AreReducedInTheOrderOfTheParts) {
  using T = TypeParam;
  for (const int count : {1, 2, 3, 8})
    for (const std::int64_t n : {1, 7, 64, 5003})
      for (const std::int64_t shift : {0, 1})
        for (const Reduction reduction : {Reduction::Sum, Reduction::Max}) {
          SCOPED_TRACE(testing::Message() << count << " of " << n << " from " << shift);
          std::vector<DeviceArray<T>> arrays;
          std::vector<std::vector<T>> on_host;
          std::vector<const T*> pointers;
          for (int p = 0; p < count; ++p) {
            Values values = whole_numbers(n + shift, static_cast<unsigned>(p + 3));
            if (!std::is_same_v<T, std::int32_t>)
              for (double& value : values) value *= 0.1 * (1 + p);
            arrays.emplace_back(values);
            on_host.push_back(arrays.back().raw());
          }
          for (const DeviceArray<T>& array : arrays) pointers.push_back(array.data() + shift);
          const Parts<T> parts(pointers);
          DeviceArray<T>& out = arrays[static_cast<std::size_t>(count) / 2];
          reduce<T>(kNoStream, parts.data(), count, out.data() + shift, n, reduction);
          const Values found = out.values();
          for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
            const std::size_t at = i + static_cast<std::size_t>(shift);
            ASSERT_EQ(found[at], static_cast<double>(in_order(on_host, at, reduction))) << i;
          }
        }
}

// 256 + 1 + 1 in Bf16 is 258 when rounded once, 256 when rounded at every part.
TEST(CudaTileSums, AreRoundedOnce) {
  const DeviceArray<Bf16> large(Values{256.0}), one(Values{1.0});
  DeviceArray<Bf16> out = DeviceArray<Bf16>::of_size(1);
  const Parts<Bf16> parts({large.data(), one.data(), one.data()});
  reduce<Bf16>(kNoStream, parts.data(), 3, out.data(), 1, Reduction::Sum);
  EXPECT_EQ(out.values()[0], 258.0);
}

// For types that the processor has, the bits are its bits.
TEST(CudaTileSums, AreTheProcessorsBitsInFloat) {
  Values a = whole_numbers(3000, 1), b = whole_numbers(3000, 2), c = whole_numbers(3000, 3);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] /= 7, b[i] /= 11, c[i] /= 13;
  const DeviceArray<float> x(a), y(b), z(c);
  DeviceArray<float> out = DeviceArray<float>::of_size(3000);
  const Parts<float> parts({x.data(), y.data(), z.data()});
  reduce<float>(kNoStream, parts.data(), 3, out.data(), 3000, Reduction::Sum);
  const std::vector<float> first = x.raw(), second = y.raw(), third = z.raw();
  const std::vector<const float*> on_host = {first.data(), second.data(), third.data()};
  std::vector<float> expected(3000);
  kernels::reduce<float>(on_host, expected.data(), 3000, Reduction::Sum);
  EXPECT_EQ(out.raw(), expected);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::tiles_test
