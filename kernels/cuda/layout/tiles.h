// SPDX-License-Identifier: Apache-2.0
// Moving and reducing tiles of n-dimensional arrays on the device: the twins of kernels/cpu/layout/tiles.h. T: float,
// double, Bf16, F16, std::int32_t.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/layout/tiles.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// Copies a box of `extent` elements; source and destination point at its first element and have their own strides (last
// stride 1). One read and one write of each element.
template <class T>
void copy_tile(Stream stream, std::span<const std::int64_t> extent, const T* source,
               std::span<const std::int64_t> source_strides, T* destination,
               std::span<const std::int64_t> destination_strides);
// The same, adding to the destination: in Wide<T>, rounded once.
template <class T>
void add_tile(Stream stream, std::span<const std::int64_t> extent, const T* source,
              std::span<const std::int64_t> source_strides, T* destination,
              std::span<const std::int64_t> destination_strides);

// out = parts[0] (+) parts[1] (+) ... in this order, whichever of them `out` is; sums are made in Wide<T> and rounded
// once. `parts`: on the device, as are the arrays. Reads each part once, writes once.
template <class T>
void reduce(Stream stream, const T* const* parts, int parts_count, T* out, std::int64_t n, Reduction reduction);

}  // namespace meshwright::kernels::cuda
