// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a function of the element's place in the whole tensor, so that any part of the tensor can be
// masked anywhere.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct DropoutMask {
  double probability;  // of an element to be dropped, in [0, 1)
  std::uint64_t seed;
  std::int64_t step, microbatch;  // their lower 32 bits count
};

// Where a part lies in its tensor: sizes of the part and of the tensor, and the part's first index, per dimension.
struct Part {
  int rank;
  const std::int64_t *local, *whole, *begin;
};

// out = x / (1 - probability) where element i of the whole tensor (row-major) is kept, else 0: kept where word i of the
// Philox stream (seed; step, microbatch) is at least probability 2^32. Probability 0 copies.
template <class T>
void dropout(const T* x, T* out, Part part, DropoutMask mask);

}  // namespace meshwright::kernels
