// SPDX-License-Identifier: Apache-2.0
// Scalar building blocks that g++ turns into vector code without -ffast-math: reductions over explicit lanes and a
// branch-free exponential. Internal to kernels/cpu.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/elementwise/activations.h"

namespace meshwright::kernels {

// Sum of term(0..n-1). A plain loop may not be reordered by the compiler; fixed lanes may, and keep the result a
// function of n only.
template <class T, class Term>
inline T lane_sum(std::int64_t n, Term term) {
  constexpr int kLanes = 64 / sizeof(T);
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (; i < n; ++i) lanes[i % kLanes] += term(i);
  T total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  return total;
}

// REQUIRES: n >= 1.
template <class T>
inline T lane_max(const T* x, std::int64_t n) {
  constexpr int kLanes = 64 / sizeof(T);
  T lanes[kLanes];
  for (T& lane : lanes) lane = x[0];
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lanes[lane] < x[i + lane] ? x[i + lane] : lanes[lane];
  for (; i < n; ++i) lanes[0] = lanes[0] < x[i] ? x[i] : lanes[0];
  T largest = lanes[0];
  for (const T lane : lanes) largest = largest < lane ? lane : largest;
  return largest;
}

// to += from, rows of `width` elements: one after the other in `from`, `stride` apart in `to`.
template <class T>
inline void add_rows(const T* from, T* to, std::int64_t rows, std::int64_t width, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) to[i * stride + j] += from[i * width + j];
  }
}

// e^x to about 2 units in the last place on [-87, 88], saturated outside. Cody-Waite reduction by ln 2 in two pieces
// and a minimax polynomial on [-ln2/2, ln2/2] (coefficients: S. Moshier, Cephes expf).
inline float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low mantissa bits.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  return p * std::bit_cast<float>(exponent + 0x3f800000u);
}
inline double exp_of(double x) { return std::exp(x); }

// tanh x to about 2 units in the last place, both forms computed and one taken: an odd polynomial near 0 (S. Moshier,
// Cephes tanhf), where 1 - 2 / (e^2x + 1) would cancel.
inline float tanh_of(float x) {
  const float size = x < 0.0f ? -x : x, z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x;
  const float far = std::copysign(1.0f - 2.0f / (exp_of(2.0f * size) + 1.0f), x);
  return size < 0.625f ? near : far;
}
inline double tanh_of(double x) { return std::tanh(x); }

// The normal distribution's cumulative function F(x) = erfc(-x / sqrt 2) / 2, given e^(-x^2 / 2).
inline float normal_of(float x, float bell) {
  const float tail = normal_tail(bell, 1.0f / (1.0f + 0.27f * (x < 0.0f ? -x : x)));
  return x < 0.0f ? tail : 1.0f - tail;
}
inline double normal_of(double x, double) { return 0.5 * std::erfc(x * -0.70710678118654752440); }

}  // namespace meshwright::kernels
