// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise/random.h"

#include <algorithm>

namespace meshwright::kernels {

namespace {

// splitmix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014): the output function applied to key + counter * golden gamma.
inline std::uint64_t hash_at(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

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
  std::uint32_t key0 = static_cast<std::uint32_t>(stream.key), key1 = static_cast<std::uint32_t>(stream.key >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9u, key1 += 0xbb67ae85u)
    for (std::int64_t i = 0; i < kPhiloxLanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xd2511f53u} * c0[i], p1 = std::uint64_t{0xcd9e8d57u} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ key0, c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ key1, c3[i] = static_cast<std::uint32_t>(p0);
    }
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
