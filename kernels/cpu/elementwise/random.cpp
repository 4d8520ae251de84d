// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise/random.h"

#include <algorithm>

#include "kernels/cpu/elementwise/counters.h"

namespace meshwright::kernels {

namespace {

// Blocks of Philox that are computed side by side.
constexpr std::int64_t kPhiloxLanes = 64;

// words[4 i ..] = block first + i, for i < kPhiloxLanes.
void philox_blocks(std::uint32_t* words, PhiloxStream stream, std::uint64_t first) {
  std::uint32_t c0[kPhiloxLanes], c1[kPhiloxLanes], c2[kPhiloxLanes], c3[kPhiloxLanes];
  for (std::int64_t i = 0; i < kPhiloxLanes; ++i) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(block), c1[i] = static_cast<std::uint32_t>(block >> 32);
    c2[i] = stream.high0, c3[i] = stream.high1;
  }
  PhiloxKey key(stream.key);
  for (int round = 0; round < kPhiloxRounds; ++round, key.move_on())
    for (std::int64_t i = 0; i < kPhiloxLanes; ++i) philox_round(c0[i], c1[i], c2[i], c3[i], key);
  for (std::int64_t i = 0; i < kPhiloxLanes; ++i)
    words[4 * i] = c0[i], words[4 * i + 1] = c1[i], words[4 * i + 2] = c2[i], words[4 * i + 3] = c3[i];
}

}  // namespace

template <class T>
void fill_uniform(T* out, std::int64_t n, std::uint64_t key, std::int64_t first, double low, double high) {
  const double step = (high - low) * 0x1p-24;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t bits = hash_at(key, static_cast<std::uint64_t>(first + i));
    out[i] = static_cast<T>(low + step * static_cast<double>(static_cast<std::int32_t>(bits >> 40)));
  }
}

void fill_integers(std::int32_t* out, std::int64_t n, std::uint64_t key, std::int64_t first, std::int64_t bound) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t bits = hash_at(key, static_cast<std::uint64_t>(first + i));
    out[i] = static_cast<std::int32_t>(((bits >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
  }
}

void philox_words(std::uint32_t* out, std::int64_t n, PhiloxStream stream, std::int64_t first) {
  std::uint32_t words[4 * kPhiloxLanes];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t skip = (first + done) % 4, taken = std::min(n - done, 4 * kPhiloxLanes - skip);
    philox_blocks(words, stream, static_cast<std::uint64_t>((first + done) / 4));
    std::copy_n(words + skip, taken, out + done);
    done += taken;
  }
}

template void fill_uniform<float>(float*, std::int64_t, std::uint64_t, std::int64_t, double, double);
template void fill_uniform<double>(double*, std::int64_t, std::uint64_t, std::int64_t, double, double);

}  // namespace meshwright::kernels
