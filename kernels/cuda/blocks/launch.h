// SPDX-License-Identifier: Apache-2.0
// What a .cu file of this folder includes instead of CUDA's own headers, so that g++ compiles the same source for the
// processor (kernels/cuda_on_cpu/threads.h has the few things of CUDA that kernels use). Internal to kernels/cuda.
//
// Kernels here use: threadIdx, blockIdx, blockDim, gridDim; MW_SHARED arrays and MW_DYNAMIC_SHARED; __syncthreads,
// __syncwarp; shuffles with the full mask (kAllLanes) by every lane of a warp; atomicAdd on float, double, int32,
// atomicMax on int32. A block has a multiple of 32 threads. No thread returns before a barrier that others of its block
// come to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/elementwise/on_device.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define MW_SHARED __shared__
// The start of the launch's shared bytes; once per kernel.
#define MW_DYNAMIC_SHARED(type, name)                        \
  extern __shared__ __align__(16) unsigned char mw_shared[]; \
  type* const name = reinterpret_cast<type*>(mw_shared)
#define MW_UNROLL _Pragma("unroll")

#else

#include "kernels/cuda_on_cpu/threads.h"

#endif

namespace meshwright::kernels::cuda {

constexpr unsigned kAllLanes = 0xffffffffU;
constexpr int kWarp = 32;

struct Size3 {
  std::int64_t x = 1, y = 1, z = 1;
};

// Throws Failure where the launch is refused.
#ifdef __CUDACC__
void check_launch(const char* kernel);

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Size3 grid, Size3 block, std::size_t shared_bytes,
            Stream stream, Arguments... arguments) {
  // More than 48 KiB has to be asked for (CUDA programming guide); where the device has less, the launch itself fails.
  if (shared_bytes > 48 * 1024)
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  const auto dim = [](Size3 size) {
    return dim3(static_cast<unsigned>(size.x), static_cast<unsigned>(size.y), static_cast<unsigned>(size.z));
  };
  kernel<<<dim(grid), dim(block), shared_bytes, static_cast<cudaStream_t>(stream.handle)>>>(
      static_cast<Parameters>(arguments)...);
  check_launch(name);
}
#else
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Size3 grid, Size3 block, std::size_t shared_bytes,
            Stream stream, Arguments... arguments) {
  // The arguments are copied, as CUDA does: the grid runs later, when the stream comes to it.
  on_cpu::queue(stream, [=] {
    on_cpu::run_grid(name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes,
                     [&] { kernel(static_cast<Parameters>(arguments)...); });
  });
}
#endif

MW_BOTH constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Blocks of `threads` for `count` items in a loop with a stride of the grid; enough to fill any GPU.
inline Size3 blocks_for(std::int64_t count, int threads) {
  const std::int64_t wanted = ceil_div(count, threads);
  return {wanted < 1 ? 1 : (wanted < 4096 ? wanted : 4096), 1, 1};
}

// This thread's number among those of the grid along x, and how many there are: where a loop over items begins, and its
// stride.
MW_DEVICE std::int64_t thread_of_grid() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
MW_DEVICE std::int64_t threads_of_grid() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// The address as one of a Whole, that is loaded or stored at once. REQUIRES: a multiple of its alignment.
template <class Whole, class T>
MW_DEVICE const Whole* at_once(const T* address) {
#ifndef __CUDACC__
  on_cpu::require_aligned(address, alignof(Whole));
#endif
  return reinterpret_cast<const Whole*>(address);
}
template <class Whole, class T>
MW_DEVICE Whole* at_once(T* address) {
#ifndef __CUDACC__
  on_cpu::require_aligned(address, alignof(Whole));
#endif
  return reinterpret_cast<Whole*>(address);
}

// --- sums and maxima of a warp and of a block, the same bits every time ---
//
// Lanes are folded as a butterfly: at distance d lane l takes the value of lane l xor d. Both compute a + b of the same
// two values, so after five steps all 32 lanes have the same bits, and no lane has to hand them on.

template <class T>
MW_DEVICE T warp_sum(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
template <class T>
MW_DEVICE T warp_max(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, distance);
    value = other > value ? other : value;
  }
  return value;
}
// Over a block of one dimension, for all its threads. `scratch`: shared, of 32 elements; free again when it returns.
template <class T>
MW_DEVICE T block_sum(T value, T* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = (static_cast<int>(blockDim.x) + kWarp - 1) / kWarp;
  value = warp_sum(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  // Every warp folds all warps' sums, so that all threads have the result without another exchange.
  value = warp_sum(lane < warps ? scratch[lane] : T(0));
  __syncthreads();
  return value;
}
template <class T>
MW_DEVICE T block_max(T value, T* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = (static_cast<int>(blockDim.x) + kWarp - 1) / kWarp;
  value = warp_max(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  // Lanes without a warp repeat the first one: a maximum may take a value twice, a sum may not.
  value = warp_max(scratch[lane < warps ? lane : 0]);
  __syncthreads();
  return value;
}

}  // namespace meshwright::kernels::cuda
