// SPDX-License-Identifier: Apache-2.0
// Tokens to the slots of experts and back.
#include <bit>

#include "kernels/cuda/blocks/packs.h"
#include "kernels/cuda/layout/box.h"
#include "kernels/cuda/tokens/mixture.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

Size3 blocks_of_warps(std::int64_t rows) { return blocks_for(rows, kThreads / kWarp); }

// Bit l: what lane l says.
MW_DEVICE std::uint32_t lanes_that(bool mine) {
#ifdef __CUDA_ARCH__
  return __ballot_sync(kAllLanes, mine);
#else
  std::uint32_t all = mine ? 1U << (threadIdx.x % kWarp) : 0U;
  for (int distance = 1; distance < kWarp; distance *= 2) all |= __shfl_xor_sync(kAllLanes, all, distance);
  return all;
#endif
}
// REQUIRES: lanes != 0.
MW_DEVICE int first_of(std::uint32_t lanes) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(lanes)) - 1;
#else
  return std::countr_zero(lanes);
#endif
}

// The buffer is written by its rows, each once, rather than by the tokens: free slots get their zeros in the same pass.
// For that each slot must know its token.
//
// holders (expert, batch, capacity): 1 + the number in its batch row of the token whose slot it is, else 0. A block has
// the slots of an expert for a batch row.
constexpr int kHolderThreads = 1024;
__global__ void __launch_bounds__(kHolderThreads)
    find_holders(const std::int32_t* slots, std::int32_t* holders, MixtureShape shape) {
  const std::int64_t pairs = shape.experts * shape.batch;
  for (std::int64_t pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
    std::int32_t* const own = holders + pair * shape.capacity;
    const std::int32_t* const given = slots + pair % shape.batch * shape.seq * shape.experts + pair / shape.batch;
    for (std::int64_t slot = threadIdx.x; slot < shape.capacity; slot += kHolderThreads) own[slot] = 0;
    __syncthreads();
#ifdef __CUDACC__
#pragma unroll 4
#endif
    for (std::int64_t s = threadIdx.x; s < shape.seq; s += kHolderThreads) {
      const std::int64_t slot = given[s * shape.experts];
      if (slot >= 0 && slot < shape.capacity) own[slot] = static_cast<std::int32_t>(s + 1);
    }
  }
}

// Packs of a row that a lane has under way at once.
constexpr int kTurn = 4;

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(const T* tokens, const std::int32_t* holders, const T* weights, T* buffer, MixtureShape shape,
                   Divider capacity, Divider batch) {
  using W = Wide<T>;
  const RowsOfWarp own;
  const std::int64_t rows = shape.experts * shape.batch * shape.capacity;
  std::int64_t next = own.first < rows ? holders[own.first] : 0;
  for (std::int64_t row = own.first; row < rows; row += own.stride) {
    const std::int64_t holder = next;
    if (row + own.stride < rows) next = holders[row + own.stride];  // before it is waited for
    // `pair` is expert * batch + batch row, the outer dimensions of the buffer.
    const std::int64_t pair = capacity.quotient(row), expert = batch.quotient(pair);
    const std::int64_t token = (pair - expert * shape.batch) * shape.seq + holder - 1;
    W weight = W(1);
    if (holder > 0 && weights != nullptr) weight = widened(weights[token * shape.experts + expert]);
    for (std::int64_t column = own.lane * n; column < shape.embed; column += kTurn * kWarp * n) {
      // Stays 0 where the slot is free.
      T x[kTurn][n] = {};
      MW_UNROLL
      for (int k = 0; k < kTurn; ++k)
        if (holder > 0 && column + k * kWarp * n < shape.embed)
          load_pack<n>(tokens + token * shape.embed + column + k * kWarp * n, x[k]);
      MW_UNROLL
      for (int k = 0; k < kTurn; ++k) {
        if (column + k * kWarp * n >= shape.embed) continue;
        MW_UNROLL
        for (int i = 0; i < n; ++i)
          if (weights != nullptr) x[k][i] = T(weight * widened(x[k][i]));
        store_pack<n>(buffer + row * shape.embed + column + k * kWarp * n, x[k]);
      }
    }
  }
}

// Calls visit(expert, offset of the slot's row in the buffer) for the taken slots of a token, in the order of the
// experts; every lane of the warp comes to each.
template <class Visit>
MW_DEVICE void each_taken(const std::int32_t* slots, std::int64_t token, int lane, const MixtureShape& shape,
                          const Divider& seq, Visit visit) {
  const std::int64_t row = seq.quotient(token);
  for (std::int64_t begin = 0; begin < shape.experts; begin += kWarp) {
    const std::int32_t own = begin + lane < shape.experts ? slots[token * shape.experts + begin + lane] : -1;
    std::uint32_t taken = lanes_that(own >= 0 && own < shape.capacity);
    // Removes the lowest bit: experts come in ascending order, and with them the terms of the sums.
    for (; taken != 0; taken &= taken - 1) {
      const int source = first_of(taken);
      const std::int32_t slot = __shfl_sync(kAllLanes, own, source);
      const std::int64_t expert = begin + source;
      visit(expert, ((expert * shape.batch + row) * shape.capacity + slot) * shape.embed);
    }
  }
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads) gather_kernel(const T* buffer, const std::int32_t* slots, const T* weights,
                                                          T* tokens, MixtureShape shape, Divider seq) {
  using W = Wide<T>;
  const RowsOfWarp own;
  for (std::int64_t token = own.first; token < shape.batch * shape.seq; token += own.stride)
    // A lane sums kTurn packs of a row at once; the slots are read again for the next columns, from the caches.
    for (std::int64_t turn = 0; turn < shape.embed; turn += kTurn * kWarp * n) {
      const std::int64_t column = turn + own.lane * n;
      W sum[kTurn][n] = {};
      each_taken(slots, token, own.lane, shape, seq, [&](std::int64_t expert, std::int64_t offset) {
        const W weight = weights == nullptr ? W(1) : widened(weights[token * shape.experts + expert]);
        T x[kTurn][n] = {};
        MW_UNROLL
        for (int k = 0; k < kTurn; ++k)
          if (column + k * kWarp * n < shape.embed) load_pack<n>(buffer + offset + column + k * kWarp * n, x[k]);
        MW_UNROLL
        for (int k = 0; k < kTurn; ++k) MW_UNROLL
        for (int i = 0; i < n; ++i) sum[k][i] += weight * widened(x[k][i]);
      });
      MW_UNROLL
      for (int k = 0; k < kTurn; ++k) {
        if (column + k * kWarp * n >= shape.embed) continue;
        T rounded[n];
        MW_UNROLL
        for (int i = 0; i < n; ++i) rounded[i] = T(sum[k][i]);
        store_pack<n>(tokens + token * shape.embed + column + k * kWarp * n, rounded);
      }
    }
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    gather_weights_kernel(const T* buffer, const std::int32_t* slots, const T* dout, T* dweights, MixtureShape shape,
                          Divider seq) {
  using W = Wide<T>;
  const RowsOfWarp own;
  for (std::int64_t token = own.first; token < shape.batch * shape.seq; token += own.stride) {
    // Only what each_taken does not visit: no element has two writers.
    for (std::int64_t e = own.lane; e < shape.experts; e += kWarp) {
      const std::int32_t slot = slots[token * shape.experts + e];
      if (slot < 0 || slot >= shape.capacity) dweights[token * shape.experts + e] = T(W(0));
    }
    each_taken(slots, token, own.lane, shape, seq, [&](std::int64_t expert, std::int64_t offset) {
      W sum = W(0);
      for (std::int64_t column = own.lane * n; column < shape.embed; column += kTurn * kWarp * n) {
        T x[kTurn][n] = {}, y[kTurn][n] = {};
        MW_UNROLL
        for (int k = 0; k < kTurn; ++k) {
          if (column + k * kWarp * n >= shape.embed) continue;
          load_pack<n>(buffer + offset + column + k * kWarp * n, x[k]);
          load_pack<n>(dout + token * shape.embed + column + k * kWarp * n, y[k]);
        }
        MW_UNROLL
        for (int k = 0; k < kTurn; ++k) {
          MW_UNROLL
          for (int i = 0; i < n; ++i) sum += widened(x[k][i]) * widened(y[k][i]);
        }
      }
      sum = warp_sum(sum);
      if (own.lane == 0) dweights[token * shape.experts + expert] = T(sum);
    });
  }
}

}  // namespace

template <class T>
void scatter_tokens(Stream stream, const T* tokens, const std::int32_t* slots, const T* weights, T* buffer,
                    MixtureShape shape, std::int32_t* workspace) {
  const std::int64_t rows = shape.experts * shape.batch * shape.capacity;
  launch("find_holders", find_holders, blocks_for(shape.experts * shape.batch, 1), {kHolderThreads}, 0, stream, slots,
         workspace, shape);
  with_packs<T>(shape.embed, tokens, buffer, [&](auto n) {
    launch("scatter_tokens", scatter_kernel<T, decltype(n)::value>, blocks_of_warps(rows), {kThreads}, 0, stream,
           tokens, workspace, weights, buffer, shape, Divider(shape.capacity), Divider(shape.batch));
  });
}

template <class T>
void gather_tokens(Stream stream, const T* buffer, const std::int32_t* slots, const T* weights, T* tokens,
                   MixtureShape shape) {
  with_packs<T>(shape.embed, buffer, tokens, [&](auto n) {
    launch("gather_tokens", gather_kernel<T, decltype(n)::value>, blocks_of_warps(shape.batch * shape.seq), {kThreads},
           0, stream, buffer, slots, weights, tokens, shape, Divider(shape.seq));
  });
}

template <class T>
void gather_weights_backward(Stream stream, const T* buffer, const std::int32_t* slots, const T* dout, T* dweights,
                             MixtureShape shape) {
  with_packs<T>(shape.embed, buffer, dout, [&](auto n) {
    launch("gather_weights_backward", gather_weights_kernel<T, decltype(n)::value>,
           blocks_of_warps(shape.batch * shape.seq), {kThreads}, 0, stream, buffer, slots, dout, dweights, shape,
           Divider(shape.seq));
  });
}

#define MW_INSTANTIATE(T)                                                                                            \
  template void scatter_tokens<T>(Stream, const T*, const std::int32_t*, const T*, T*, MixtureShape, std::int32_t*); \
  template void gather_tokens<T>(Stream, const T*, const std::int32_t*, const T*, T*, MixtureShape);                 \
  template void gather_weights_backward<T>(Stream, const T*, const std::int32_t*, const T*, T*, MixtureShape);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
