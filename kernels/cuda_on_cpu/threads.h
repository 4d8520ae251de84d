// SPDX-License-Identifier: Apache-2.0
// The part of CUDA C++ that the kernels use (kernels/cuda/blocks/launch.h lists it), on the processor: the blocks of a
// grid run one after the other, the threads of a block in turns, each up to its next barrier or shuffle. For tests: it
// shows what a kernel computes, not how fast it is. A barrier that not all threads of a block come to is refused, and
// an address that is not aligned as what is loaded there at once.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "kernels/cuda_on_cpu/capture.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __grid_constant__
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
// Lanes wait for each other on one line of the source: elsewhere a GPU would wait for ever.
void warp_barrier(int line = __builtin_LINE());
// What the lane that is `value`'s source has of `size` bytes. Every lane of the warp calls it.
void shuffle(const void* mine, void* theirs, std::size_t size, int source_lane, int line);
[[nodiscard]] int lane();
// A copy that is done when the thread that began it calls finish_copies; until then nothing sensible is there. From
// null: of zeros.
void begin_copy(void* to, const void* from, std::size_t size);
void finish_copies();
[[noreturn]] void refuse_address(const void* address, std::size_t alignment);
inline void require_aligned(const void* address, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) refuse_address(address, alignment);
}

template <class T>
T from_lane(T value, int source, int line) {
  T found;
  shuffle(&value, &found, sizeof(T), source, line);
  return found;
}

}  // namespace meshwright::kernels::cuda::on_cpu

namespace meshwright::kernels::cuda {

// Those of the thread that runs. constinit: they are read without a call that would first initialise them, which UBSan
// takes for a null pointer.
extern constinit thread_local on_cpu::Index3 threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() { on_cpu::block_barrier(); }
inline void __syncwarp(int line = __builtin_LINE()) { on_cpu::warp_barrier(line); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance, int line = __builtin_LINE()) {
  return on_cpu::from_lane(value, on_cpu::lane() ^ distance, line);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int distance, int line = __builtin_LINE()) {
  const int from = on_cpu::lane() + distance;
  return on_cpu::from_lane(value, from < 32 ? from : on_cpu::lane(), line);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance, int line = __builtin_LINE()) {
  const int from = on_cpu::lane() - distance;
  return on_cpu::from_lane(value, from >= 0 ? from : on_cpu::lane(), line);
}
template <class T>
T __shfl_sync(unsigned, T value, int source, int line = __builtin_LINE()) {
  return on_cpu::from_lane(value, source, line);
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
