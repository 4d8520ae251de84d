// SPDX-License-Identifier: Apache-2.0
// Rows that are moved n elements at a time: as many as 16 bytes hold where the width and the addresses allow, else
// one. Internal to kernels/cuda.
#pragma once

#include <type_traits>

#include "kernels/cuda/blocks/groups.h"

namespace meshwright::kernels::cuda {

template <class T>
constexpr int kAtOnce = 16 / static_cast<int>(sizeof(T));

// One element needs no more than T's own alignment; n > 1 needs a multiple of 16 bytes, or of the pack where it is
// smaller.
template <int n, class T>
MW_DEVICE void load_pack(const T* from, T (&to)[n]) {
  if constexpr (n == 1)
    to[0] = *from;
  else
    load(from, to);
}
template <int n, class T>
MW_DEVICE void store_pack(T* to, const T (&from)[n]) {
  if constexpr (n == 1)
    *to = from[0];
  else
    store(to, from);
}

// Calls action(std::integral_constant<int, n>).
template <class T, class Action>
void with_packs(std::int64_t width, const T* a, const T* b, Action action) {
  if (width % kAtOnce<T> == 0 && lies_well<kAtOnce<T>>(a) && lies_well<kAtOnce<T>>(b))
    action(std::integral_constant<int, kAtOnce<T>>{});
  else
    action(std::integral_constant<int, 1>{});
}

// What a warp has of the rows when each is a warp's, in a block of one dimension.
struct RowsOfWarp {
  int lane;
  std::int64_t first, stride;

  MW_DEVICE RowsOfWarp() {
    const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / kWarp;
    lane = thread % kWarp;
    first = static_cast<std::int64_t>(blockIdx.x) * warps + thread / kWarp;
    stride = static_cast<std::int64_t>(gridDim.x) * warps;
  }
};

}  // namespace meshwright::kernels::cuda
