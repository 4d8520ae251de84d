// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise/random.h"

#include <cmath>

#include "kernels/cpu/elementwise/counters.h"
#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_uniform_kernel(T* out, std::int64_t n, std::uint64_t key, std::uint64_t first, double low, double step) {
  for (std::int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const std::uint64_t bits = hash_at(key, first + static_cast<std::uint64_t>(i));
    out[i] = static_cast<T>(fma(step, static_cast<double>(static_cast<std::int32_t>(bits >> 40)), low));
  }
}

__global__ void __launch_bounds__(kThreads) fill_integers_kernel(std::int32_t* out, std::int64_t n, std::uint64_t key,
                                                                 std::uint64_t first, std::uint64_t bound) {
  for (std::int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const std::uint64_t bits = hash_at(key, first + static_cast<std::uint64_t>(i));
    out[i] = static_cast<std::int32_t>(((bits >> 32) * bound) >> 32);
  }
}

// A thread makes a block of four words, and keeps those of them that are wanted.
__global__ void __launch_bounds__(kThreads)
    philox_kernel(std::uint32_t* out, std::int64_t n, PhiloxStream stream, std::int64_t first) {
  const std::int64_t begin = first / 4, blocks = (first + n + 3) / 4 - begin;
  for (std::int64_t b = thread_of_grid(); b < blocks; b += threads_of_grid()) {
    const auto number = static_cast<std::uint64_t>(begin + b);
    std::uint32_t c[4] = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), stream.high0,
                          stream.high1};
    PhiloxKey key(stream.key);
    MW_UNROLL for (int round = 0; round < kPhiloxRounds; ++round, key.move_on())
        philox_round(c[0], c[1], c[2], c[3], key);
    MW_UNROLL for (int word = 0; word < 4; ++word) {
      const std::int64_t i = 4 * (begin + b) + word - first;
      if (i >= 0 && i < n) out[i] = c[word];
    }
  }
}

}  // namespace

template <class T>
void fill_uniform(Stream stream, T* out, std::int64_t n, std::uint64_t key, std::int64_t first, double low,
                  double high) {
  launch("fill_uniform", fill_uniform_kernel<T>, blocks_for(n, kThreads), {kThreads}, 0, stream, out, n, key, first,
         low, (high - low) * 0x1p-24);
}

void fill_integers(Stream stream, std::int32_t* out, std::int64_t n, std::uint64_t key, std::int64_t first,
                   std::int64_t bound) {
  launch("fill_integers", fill_integers_kernel, blocks_for(n, kThreads), {kThreads}, 0, stream, out, n, key, first,
         bound);
}

void philox_words(Stream stream, std::uint32_t* out, std::int64_t n, PhiloxStream words, std::int64_t first) {
  launch("philox", philox_kernel, blocks_for(n / 4 + 2, kThreads), {kThreads}, 0, stream, out, n, words, first);
}

template void fill_uniform<float>(Stream, float*, std::int64_t, std::uint64_t, std::int64_t, double, double);
template void fill_uniform<double>(Stream, double*, std::int64_t, std::uint64_t, std::int64_t, double, double);
template void fill_uniform<Bf16>(Stream, Bf16*, std::int64_t, std::uint64_t, std::int64_t, double, double);
template void fill_uniform<F16>(Stream, F16*, std::int64_t, std::uint64_t, std::int64_t, double, double);

}  // namespace meshwright::kernels::cuda
