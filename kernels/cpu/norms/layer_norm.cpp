// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norms/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

template <class T>
struct Moments {
  T mean, inverse_deviation;
};

template <class T>
Moments<T> moments(const T* row, std::int64_t width, double epsilon) {
  const T mean = lane_sum<T>(width, [=](std::int64_t i) { return row[i]; }) / T(width);
  const T variance = lane_sum<T>(width, [=](std::int64_t i) { return (row[i] - mean) * (row[i] - mean); }) / T(width);
  return {mean, T(1) / std::sqrt(variance + T(epsilon))};
}

}  // namespace

template <class T>
void layer_norm(const T* x, const T* gamma, const T* beta, T* out, std::int64_t rows, std::int64_t width,
                double epsilon) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    T* result = out + r * width;
    const auto [mean, scale] = moments(row, width, epsilon);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] = (row[i] - mean) * scale * gamma[i] + beta[i];
  }
}

// With h = (x - mean) scale and g = dy gamma: dx = scale (g - avg(g) - h avg(g h)).
template <class T>
void layer_norm_backward(const T* x, const T* gamma, const T* dy, T* dx, std::int64_t rows, std::int64_t width,
                         double epsilon) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    const T* gradient = dy + r * width;
    T* result = dx + r * width;
    const Moments<T> of = moments(row, width, epsilon);
    const T mean = of.mean, scale = of.inverse_deviation;
    const T average = lane_sum<T>(width, [=](std::int64_t i) { return gradient[i] * gamma[i]; }) / T(width);
    const T along =
        scale * lane_sum<T>(width, [=](std::int64_t i) { return gradient[i] * gamma[i] * (row[i] - mean); }) / T(width);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i)
      result[i] = scale * (gradient[i] * gamma[i] - average - (row[i] - mean) * scale * along);
  }
}

template <class T>
void layer_norm_parameter_backward(const T* x, const T* dy, T* dgamma, T* dbeta, std::int64_t rows, std::int64_t width,
                                   double epsilon) {
  std::fill_n(dgamma, width, T(0));
  std::fill_n(dbeta, width, T(0));
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    const T* gradient = dy + r * width;
    const auto [mean, scale] = moments(row, width, epsilon);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      dgamma[i] += gradient[i] * (row[i] - mean) * scale;
      dbeta[i] += gradient[i];
    }
  }
}

#define MW_INSTANTIATE(T)                                                                                     \
  template void layer_norm<T>(const T*, const T*, const T*, T*, std::int64_t, std::int64_t, double);          \
  template void layer_norm_backward<T>(const T*, const T*, const T*, T*, std::int64_t, std::int64_t, double); \
  template void layer_norm_parameter_backward<T>(const T*, const T*, T*, T*, std::int64_t, std::int64_t, double);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
