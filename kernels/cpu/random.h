// SPDX-License-Identifier: Apache-2.0
// Numbers from counters: element i of the sequence `key` is a hash of (key, i), so that any part of it can be made
// anywhere and is the same everywhere.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

// out[i] = element first + i, uniform in [low, high) in steps of (high - low) / 2^24; float is double's value rounded.
template <class T>
void fill_uniform(T* out, std::int64_t n, std::uint64_t key, std::int64_t first, double low, double high);

// Uniform in 0..bound-1. REQUIRES: 1 <= bound < 2^31.
void fill_integers(std::int32_t* out, std::int64_t n, std::uint64_t key, std::int64_t first, std::int64_t bound);

}  // namespace meshwright::kernels
