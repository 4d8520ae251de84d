// SPDX-License-Identifier: Apache-2.0
// Boxes of elements that lie in two arrays at once, with strides of their own in each: what copies and reductions walk,
// on the processor and on the device.
#pragma once

#include <vector>

#include "kernels/cpu/layout/layout.h"

namespace meshwright::kernels {

// A dimension of a box, and its strides in the two arrays, in elements.
struct BoxDim {
  std::int64_t extent, a, b;
};

// The same elements in the same order by fewer dimensions: those that are one in both arrays are merged. Never empty.
[[nodiscard]] std::vector<BoxDim> merged(std::span<const BoxDim> dims);

// An array with strides beside a row-major one of the same sizes.
[[nodiscard]] std::vector<BoxDim> beside_dense(std::span<const std::int64_t> sizes,
                                               std::span<const std::int64_t> strides);

// x of shape `sizes`, row-major, beside an array of its kept dimensions: stride 0 along the others. Merged.
[[nodiscard]] std::vector<BoxDim> beside_kept(const KeptDims& dims);

}  // namespace meshwright::kernels
