// SPDX-License-Identifier: Apache-2.0
// The part of CUDA C++ that the kernels use (kernels/cuda/launch.h lists it), on the processor: the blocks of a grid
// run one after the other, the threads of a block in turns, each up to its next barrier or shuffle. For tests: it shows
// what a kernel computes, and a barrier that not all threads of a block come to is refused, not how fast it is.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define MW_SHARED static thread_local
#define MW_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(::meshwright::kernels::cuda::on_cpu::dynamic_shared())
#define MW_UNROLL

namespace meshwright::kernels::cuda::on_cpu {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
struct GridSize {
  std::int64_t x, y, z;
};

// Throws Failure, naming the kernel, where a launch would be refused (sizes), or a barrier is not come to by all.
void run_grid(const char* name, GridSize grid, GridSize block, std::size_t shared_bytes,
              const std::function<void()>& thread);

// Set by tests of a device that does not answer: while it is, no event is done.
extern std::atomic<bool> is_stuck;

[[nodiscard]] unsigned char* dynamic_shared();
void block_barrier();
void warp_barrier();
// What the lane that is `value`'s source has of `size` bytes. Every lane of the warp calls it.
void shuffle(const void* mine, void* theirs, std::size_t size, int source_lane);
[[nodiscard]] int lane();

template <class T>
T from_lane(T value, int source) {
  T found;
  shuffle(&value, &found, sizeof(T), source);
  return found;
}

}  // namespace meshwright::kernels::cuda::on_cpu

namespace meshwright::kernels::cuda {

// Of the thread that runs.
extern thread_local on_cpu::Index3 threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() { on_cpu::block_barrier(); }
inline void __syncwarp() { on_cpu::warp_barrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  return on_cpu::from_lane(value, on_cpu::lane() ^ distance);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int distance) {
  const int from = on_cpu::lane() + distance;
  return on_cpu::from_lane(value, from < 32 ? from : on_cpu::lane());
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  const int from = on_cpu::lane() - distance;
  return on_cpu::from_lane(value, from >= 0 ? from : on_cpu::lane());
}
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return on_cpu::from_lane(value, source);
}

template <class T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}
inline std::int32_t atomicMax(std::int32_t* address, std::int32_t value) {
  const std::int32_t before = *address;
  *address = before > value ? before : value;
  return before;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

}  // namespace meshwright::kernels::cuda
