// SPDX-License-Identifier: Apache-2.0
// Moving and reducing tiles of n-dimensional arrays: what collectives and transfers are made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace meshwright::kernels {

// Row-major strides, in elements, of an array of this shape.
[[nodiscard]] std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);

// Copies a box of `extent` elements; source and destination point at its first element and have their own strides (last
// stride 1). T: float, double, std::int32_t.
template <class T>
void copy_tile(std::span<const std::int64_t> extent, const T* source, std::span<const std::int64_t> source_strides,
               T* destination, std::span<const std::int64_t> destination_strides);
// The same, adding to the destination.
template <class T>
void add_tile(std::span<const std::int64_t> extent, const T* source, std::span<const std::int64_t> source_strides,
              T* destination, std::span<const std::int64_t> destination_strides);

enum class Reduction { Sum, Max };
// out = parts[0] (+) parts[1] (+) ... in this order, whichever of them `out` is: the same bits on every rank and in
// every run.
template <class T>
void reduce(std::span<const T* const> parts, T* out, std::int64_t n, Reduction reduction);

}  // namespace meshwright::kernels
