// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norms/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

template <class T>
double inverse_rms(const T* row, std::int64_t width, double epsilon) {
  const auto square = [=](std::int64_t i) { return static_cast<double>(row[i]) * static_cast<double>(row[i]); };
  return 1.0 / std::sqrt(lane_sum<double>(width, square) / static_cast<double>(width) + epsilon);
}

}  // namespace

template <class T>
void rms_norm(const T* x, const T* gamma, T* out, std::int64_t rows, std::int64_t width, double epsilon) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    T* result = out + r * width;
    const T scale = static_cast<T>(inverse_rms(row, width, epsilon));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] = row[i] * scale * gamma[i];
  }
}

// With s = 1 / rms and g = dy gamma: dx = s (g - x s^2 avg(g x)).
template <class T>
void rms_norm_backward(const T* x, const T* gamma, const T* dy, T* dx, std::int64_t rows, std::int64_t width,
                       double epsilon) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    const T* gradient = dy + r * width;
    T* result = dx + r * width;
    const double scale = inverse_rms(row, width, epsilon);
    const double along = lane_sum<double>(width, [=](std::int64_t i) {
      return static_cast<double>(gradient[i] * gamma[i]) * static_cast<double>(row[i]);
    });
    const T own = static_cast<T>(scale);
    const T shared = static_cast<T>(scale * scale * scale * along / static_cast<double>(width));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] = own * gradient[i] * gamma[i] - shared * row[i];
  }
}

template <class T>
void rms_norm_parameter_backward(const T* x, const T* dy, T* dgamma, std::int64_t rows, std::int64_t width,
                                 double epsilon) {
  std::vector<double> sums(static_cast<std::size_t>(width), 0.0);
  double* total = sums.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    const T* gradient = dy + r * width;
    const double scale = inverse_rms(row, width, epsilon);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i)
      total[i] += static_cast<double>(gradient[i]) * static_cast<double>(row[i]) * scale;
  }
  std::transform(sums.begin(), sums.end(), dgamma, [](double sum) { return static_cast<T>(sum); });
}

#define MW_INSTANTIATE(T)                                                                                   \
  template void rms_norm<T>(const T*, const T*, T*, std::int64_t, std::int64_t, double);                    \
  template void rms_norm_backward<T>(const T*, const T*, const T*, T*, std::int64_t, std::int64_t, double); \
  template void rms_norm_parameter_backward<T>(const T*, const T*, T*, std::int64_t, std::int64_t, double);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
