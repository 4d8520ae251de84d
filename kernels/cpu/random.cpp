// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/random.h"

namespace meshwright::kernels {

namespace {

// splitmix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014): the output function applied to key + counter * golden gamma.
inline std::uint64_t hash_at(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
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

template void fill_uniform<float>(float*, std::int64_t, std::uint64_t, std::int64_t, double, double);
template void fill_uniform<double>(double*, std::int64_t, std::uint64_t, std::int64_t, double, double);

}  // namespace meshwright::kernels
