// SPDX-License-Identifier: Apache-2.0
// Numbers from counters on the device: the twins of kernels/cpu/elementwise/random.h, with the same bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/elementwise/random.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// out[i] = element first + i of the sequence `key`: low + (high - low) / 2^24 times a whole number below 2^24, in
// double with one rounding (a fused multiplication and addition), then rounded to T; Bf16 and F16 round the float.
template <class T>
void fill_uniform(Stream stream, T* out, std::int64_t n, std::uint64_t key, std::int64_t first, double low,
                  double high);

// Uniform in 0..bound-1. REQUIRES: 1 <= bound < 2^31.
void fill_integers(Stream stream, std::int32_t* out, std::int64_t n, std::uint64_t key, std::int64_t first,
                   std::int64_t bound);

// out[i] = word first + i of Philox4x32-10.
void philox_words(Stream stream, std::uint32_t* out, std::int64_t n, PhiloxStream words, std::int64_t first);

}  // namespace meshwright::kernels::cuda
