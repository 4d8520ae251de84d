// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (J. Su et al., RoFormer, 2021): pair j of a head's elements is turned by the angle
// position * base^(-2 j / rotary_dims) / divisors[j] and multiplied by the amplitude; the head's elements from
// rotary_dims on are copied. Pair j is the elements j and j + rotary_dims / 2 ("rotate half", as in Llama) or, where
// interleaved, 2 j and 2 j + 1 (as in RoFormer and GPT-J). Angles are computed in double.
#pragma once

#include <cmath>
#include <cstdint>

namespace meshwright::kernels {

struct RotaryShape {
  std::int64_t batch, seq, heads, head_dim;
  std::int64_t rotary_dims;  // even, at most head_dim
  std::int64_t first;        // position of index 0 of seq
  double base;
  const double* divisors = nullptr;  // (rotary_dims / 2); nullptr: all are 1
  double amplitude = 1.0;
  bool interleaved = false;

  // The angle of pair j at position 1.
  [[nodiscard]] double frequency(std::int64_t j) const {
    const double plain = std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(rotary_dims));
    return divisors == nullptr ? plain : plain / divisors[j];
  }
};

// x, out (batch, seq, heads, head_dim); out may be x. `back` turns by the negative angles: the transposed map, which
// takes the gradient of out to the gradient of x.
template <class T>
void rotary(const T* x, T* out, RotaryShape shape, bool back);

}  // namespace meshwright::kernels
