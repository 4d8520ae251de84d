// SPDX-License-Identifier: Apache-2.0
// Adafactor (N. Shazeer, M. Stern, ICML 2018, arXiv:1804.04235): second moments kept as means over rows and columns,
// and the move that follows from them. Its formulas are shared with the device (kernels/cuda/optimizer/adafactor.cu).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/elementwise/on_device.h"
#include "kernels/cpu/layout/layout.h"

namespace meshwright::kernels {

// The share of a second moment that step `step` (1 for the first) keeps: 1 - step^-exponent (section 7.2).
MW_DEVICE double kept_share(std::int64_t step, double exponent) {
  return 1 - std::pow(static_cast<double>(step), -exponent);
}
// The step after clipping the move U of `elements` elements: rate / max(1, RMS(U) / limit) (section 6).
MW_DEVICE double limited_rate(double rate, double squares, std::int64_t elements, double limit) {
  const double over = std::sqrt(squares / static_cast<double>(elements)) / limit;
  return over > 1.0 ? rate / over : rate;
}
// An element of the move: g / sqrt(V), V = r c / mean or, unfactored, r. The roots are taken one by one, and those that
// belong to small moments first: no product of two moments of 1e-30 is ever made, which float does not hold.
template <class W>
MW_DEVICE W move_of(W gradient, W r) {
  return gradient / std::sqrt(r);
}
template <class W>
MW_DEVICE W move_of(W gradient, W r, W c, W mean) {
  return gradient / std::sqrt(r) * std::sqrt(mean) / std::sqrt(c);
}

// A dimension of a gradient, and its strides in r, c and mean: 0 where the moment lacks it.
struct MomentDim {
  std::int64_t extent;
  std::int64_t strides[3];
};

template <class T>
struct Moments {
  std::vector<MomentDim> dims;                // of the gradient, row-major
  const T *r, *c = nullptr, *mean = nullptr;  // c and mean: null where V is not factored
};

// out = scale * sum of g^2 over the dimensions that are not kept, added up in double.
template <class T>
void mean_squares(const T* gradient, T* out, const KeptDims& dims, double scale);

// mean = kept mean + (1 - kept) (factor now + epsilon), for n elements.
template <class T>
void decay_mean(T* mean, const T* now, std::int64_t n, double kept, double factor, double epsilon);

// The sum of the squares of the move for `factor` g, in double.
template <class T>
double move_squares(const T* gradient, const Moments<T>& moments, T factor);

struct AdafactorStep {
  double rate;  // after clipping
  double rest;  // of the weight, after its decay
};
// w = rest w - rate U.
template <class T>
void follow_move(T* weight, const T* gradient, const Moments<T>& moments, T factor, const AdafactorStep& step);

}  // namespace meshwright::kernels
