// SPDX-License-Identifier: Apache-2.0
// Integers modulo the prime p = 2^31 - 1, in which every order of summation gives the same result.
//
// Arrays hold them as doubles: the sum of fewer than 2^22 residues is below 2^53, so that what devices add without
// knowing of p (collectives, messages that accumulate) stays an exact integer, and is reduced where it is read next.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/errors.h"

namespace meshwright::exact {

using Residue = std::uint64_t;  // in [0, p)
constexpr Residue kPrime = (Residue{1} << 31) - 1;

// The residue of a number below 2^62.
[[nodiscard]] constexpr Residue reduced(std::uint64_t value) {
  value = (value & kPrime) + (value >> 31);
  value = (value & kPrime) + (value >> 31);
  return value >= kPrime ? value - kPrime : value;
}
[[nodiscard]] constexpr Residue plus(Residue a, Residue b) { return a + b >= kPrime ? a + b - kPrime : a + b; }
[[nodiscard]] constexpr Residue times(Residue a, Residue b) { return reduced(a * b); }
[[nodiscard]] constexpr Residue of_integer(std::int64_t value) {
  const std::int64_t rest = value % static_cast<std::int64_t>(kPrime);
  return static_cast<Residue>(rest < 0 ? rest + static_cast<std::int64_t>(kPrime) : rest);
}

// A number that depends on all bits of `value` (S. Vigna's splitmix64), never 0.
[[nodiscard]] constexpr Residue scrambled(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  value ^= value >> 31;
  return 1 + value % (kPrime - 1);
}
[[nodiscard]] constexpr Residue scrambled(std::uint64_t a, std::uint64_t b) {
  return scrambled((scrambled(a) << 32) ^ scrambled(b ^ 0x5851f42d4c957f2du));
}
[[nodiscard]] constexpr Residue scrambled(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return scrambled((scrambled(a, b) << 32) ^ scrambled(c));
}

// What stands for a real constant: an integer for itself, all else for a number that depends on all its bits.
[[nodiscard]] inline Residue of_constant(double value) {
  const auto whole = static_cast<double>(1 << 20);
  if (value > -whole && value < whole && value == static_cast<double>(static_cast<std::int64_t>(value)))
    return of_integer(static_cast<std::int64_t>(value));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return scrambled(bits);
}

// Whether an element of an array can be a sum of residues: a whole number below 2^53 in magnitude.
[[nodiscard]] inline bool is_stored(double value) {
  constexpr double kLimit = 9007199254740992.0;
  return value > -kLimit && value < kLimit && static_cast<double>(static_cast<std::int64_t>(value)) == value;
}
// The one nearest to 0, so that of both signs there are as many: the maximum of a number and 0 is not their sum.
[[nodiscard]] inline double stored(Residue value) {
  return value > kPrime / 2 ? static_cast<double>(value) - static_cast<double>(kPrime) : static_cast<double>(value);
}
[[nodiscard]] inline Residue of_stored(double value) {
  MW_CHECK(is_stored(value), "{} is read, which is no residue: memory that nothing was written to", value);
  return of_integer(static_cast<std::int64_t>(value));
}
[[nodiscard]] inline std::vector<Residue> read(const double* values, std::int64_t count) {
  std::vector<Residue> found(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = of_stored(values[i]);
  return found;
}
[[nodiscard]] inline std::vector<Residue> read(const std::int32_t* values, std::int64_t count) {
  std::vector<Residue> found(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = of_integer(values[i]);
  return found;
}

}  // namespace meshwright::exact
