// SPDX-License-Identifier: Apache-2.0
// A random number generator with the same sequence on every machine, for reproducible searches.
#pragma once

#include <cstdint>

namespace meshwright {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32); }  // n >= 1
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }                              // [0, 1)

 private:
  std::uint64_t state_;
};

}  // namespace meshwright
