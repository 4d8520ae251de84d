// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layout/tiles.h"

#include <algorithm>

namespace meshwright::kernels {

namespace {

// Calls row(source offset, destination offset, length) for every contiguous run of the box. Trailing dimensions that
// are whole in both arrays are merged into one run.
template <class Row>
void for_each_run(std::span<const std::int64_t> extent, std::span<const std::int64_t> from,
                  std::span<const std::int64_t> to, Row row) {
  std::int64_t length = 1;
  std::size_t outer = extent.size();
  while (outer > 0 && (extent[outer - 1] == 1 || (from[outer - 1] == length && to[outer - 1] == length)))
    length *= extent[--outer];
  std::vector<std::int64_t> index(outer, 0);
  std::int64_t source = 0, destination = 0;
  for (;;) {
    row(source, destination, length);
    std::size_t d = outer;
    for (; d > 0; --d) {
      source += from[d - 1], destination += to[d - 1];
      if (++index[d - 1] < extent[d - 1]) break;
      source -= extent[d - 1] * from[d - 1], destination -= extent[d - 1] * to[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

template <class T>
T combine(T a, T b, Reduction reduction) {
  return reduction == Reduction::Sum ? a + b : (a < b ? b : a);
}

}  // namespace

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d > 1; --d) strides[d - 2] = strides[d - 1] * shape[d - 1];
  return strides;
}

template <class T>
void copy_tile(std::span<const std::int64_t> extent, const T* source, std::span<const std::int64_t> source_strides,
               T* destination, std::span<const std::int64_t> destination_strides) {
  for_each_run(extent, source_strides, destination_strides, [=](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(source + from, n, destination + to);
  });
}

template <class T>
void add_tile(std::span<const std::int64_t> extent, const T* source, std::span<const std::int64_t> source_strides,
              T* destination, std::span<const std::int64_t> destination_strides) {
  for_each_run(extent, source_strides, destination_strides, [=](std::int64_t from, std::int64_t to, std::int64_t n) {
    T* row = destination + to;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) row[i] += source[from + i];
  });
}

template <class T>
void reduce(std::span<const T* const> parts, T* out, std::int64_t n, Reduction reduction) {
  // Blocks stay in cache while the parts are added one by one; the sum is made beside `out`, which may be one of the
  // parts.
  constexpr std::int64_t kBlock = 1024;
  T block[kBlock];
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, n - begin);
    std::copy_n(parts[0] + begin, length, block);
    for (std::size_t r = 1; r < parts.size(); ++r) {
      const T* part = parts[r] + begin;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < length; ++i) block[i] = combine(block[i], part[i], reduction);
    }
    std::copy_n(block, length, out + begin);
  }
}

#define MW_INSTANTIATE(T)                                                                                \
  template void copy_tile<T>(std::span<const std::int64_t>, const T*, std::span<const std::int64_t>, T*, \
                             std::span<const std::int64_t>);                                             \
  template void add_tile<T>(std::span<const std::int64_t>, const T*, std::span<const std::int64_t>, T*,  \
                            std::span<const std::int64_t>);                                              \
  template void reduce<T>(std::span<const T* const>, T*, std::int64_t, Reduction);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(std::int32_t)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
