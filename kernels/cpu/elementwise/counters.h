// SPDX-License-Identifier: Apache-2.0
// The functions of counters behind kernels/cpu/elementwise/random.h, for the processor and the device. Internal to
// kernels.
#pragma once

#include <cstdint>

#include "kernels/cpu/elementwise/on_device.h"

namespace meshwright::kernels {

// splitmix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014): the output function applied to key + counter * golden gamma.
MW_DEVICE std::uint64_t hash_at(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Philox4x32-10: ten rounds on a counter of four words, whose key moves on after each.
constexpr int kPhiloxRounds = 10;
struct PhiloxKey {
  std::uint32_t low, high;

  MW_DEVICE explicit PhiloxKey(std::uint64_t key)
      : low(static_cast<std::uint32_t>(key)), high(static_cast<std::uint32_t>(key >> 32)) {}
  MW_DEVICE void move_on() { low += 0x9e3779b9u, high += 0xbb67ae85u; }
};
// By the instruction for it: in an unrolled loop the GPU's compiler may keep factors of 64 bits, and add their upper
// halves, which are 0.
MW_DEVICE std::uint64_t product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  std::uint64_t both;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(both) : "r"(a), "r"(b));
  return both;
#else
  return std::uint64_t{a} * b;
#endif
}
MW_DEVICE void philox_round(std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2, std::uint32_t& c3, PhiloxKey key) {
  const std::uint64_t p0 = product(0xd2511f53u, c0), p1 = product(0xcd9e8d57u, c2);
  c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key.low, c1 = static_cast<std::uint32_t>(p1);
  c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ key.high, c3 = static_cast<std::uint32_t>(p0);
}

}  // namespace meshwright::kernels
