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

// Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, SC 2011): for streams that must not be shifts of each other.
// A stream is its key and the upper half of its counters; block b of four words has the lower half b.
struct PhiloxStream {
  std::uint64_t key;
  std::uint32_t high0, high1;
};
// out[i] = word first + i of the stream.
void philox_words(std::uint32_t* out, std::int64_t n, PhiloxStream stream, std::int64_t first);

}  // namespace meshwright::kernels
