// SPDX-License-Identifier: Apache-2.0
// Layer's variance is a sum of deviations, which keeps its digits in T. Rms' squares and the gradients of its gamma are
// summed in double.
#include "kernels/cpu/norms/row_norms.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

template <class T>
struct Moments {
  T mean, inverse_deviation;
};

template <class T>
Moments<T> moments(const T* row, const NormShape& shape) {
  const std::int64_t width = shape.width;
  const T mean = lane_sum<T>(width, [=](std::int64_t i) { return row[i]; }) / T(width);
  const T variance = lane_sum<T>(width, [=](std::int64_t i) { return (row[i] - mean) * (row[i] - mean); }) / T(width);
  return {mean, T(1) / std::sqrt(variance + T(shape.epsilon))};
}

template <class T>
double inverse_rms(const T* row, const NormShape& shape) {
  const auto square = [=](std::int64_t i) { return static_cast<double>(row[i]) * static_cast<double>(row[i]); };
  return 1.0 / std::sqrt(lane_sum<double>(shape.width, square) / static_cast<double>(shape.width) + shape.epsilon);
}

}  // namespace

template <Norm norm, class T>
void row_norm(const T* x, const T* gamma, const T* beta, T* out, const NormShape& shape) {
  const std::int64_t width = shape.width;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = x + r * width;
    T* result = out + r * width;
    if constexpr (norm == Norm::Layer) {
      const auto [mean, scale] = moments(row, shape);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) result[i] = (row[i] - mean) * scale * gamma[i] + beta[i];
    } else {
      const T scale = static_cast<T>(inverse_rms(row, shape));
      const T* own = gamma + r % shape.groups * width;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) result[i] = row[i] * scale * own[i];
    }
  }
}

// With h = (x - mean) scale and g = dy gamma: dx = scale (g - avg(g) - h avg(g h)). Rms has a mean of 0 and no avg(g).
template <Norm norm, class T>
void row_norm_backward(const T* x, const T* gamma, const T* dy, T* dx, const NormShape& shape) {
  const std::int64_t width = shape.width;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = x + r * width;
    const T* gradient = dy + r * width;
    T* result = dx + r * width;
    if constexpr (norm == Norm::Layer) {
      const Moments<T> of = moments(row, shape);
      const T mean = of.mean, scale = of.inverse_deviation;
      const T average = lane_sum<T>(width, [=](std::int64_t i) { return gradient[i] * gamma[i]; }) / T(width);
      const T along = scale *
                      lane_sum<T>(width, [=](std::int64_t i) { return gradient[i] * gamma[i] * (row[i] - mean); }) /
                      T(width);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i)
        result[i] = scale * (gradient[i] * gamma[i] - average - (row[i] - mean) * scale * along);
    } else {
      const double scale = inverse_rms(row, shape);
      const T* of_group = gamma + r % shape.groups * width;
      const double along = lane_sum<double>(width, [=](std::int64_t i) {
        return static_cast<double>(gradient[i] * of_group[i]) * static_cast<double>(row[i]);
      });
      const T own = static_cast<T>(scale);
      const T shared = static_cast<T>(scale * scale * scale * along / static_cast<double>(width));
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) result[i] = own * gradient[i] * of_group[i] - shared * row[i];
    }
  }
}

template <Norm norm, class T>
void row_norm_parameter_backward(const T* x, const T* dy, T* dgamma, T* dbeta, const NormShape& shape) {
  const std::int64_t width = shape.width;
  std::vector<double> sums;
  if constexpr (norm == Norm::Layer) {
    std::fill_n(dgamma, width, T(0));
    std::fill_n(dbeta, width, T(0));
  } else {
    sums.assign(static_cast<std::size_t>(shape.groups * width), 0.0);
  }
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = x + r * width;
    const T* gradient = dy + r * width;
    if constexpr (norm == Norm::Layer) {
      const auto [mean, scale] = moments(row, shape);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) {
        dgamma[i] += gradient[i] * (row[i] - mean) * scale;
        dbeta[i] += gradient[i];
      }
    } else {
      const double scale = inverse_rms(row, shape);
      double* total = sums.data() + r % shape.groups * width;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i)
        total[i] += static_cast<double>(gradient[i]) * static_cast<double>(row[i]) * scale;
    }
  }
  if constexpr (norm == Norm::Rms)
    std::transform(sums.begin(), sums.end(), dgamma, [](double sum) { return static_cast<T>(sum); });
}

#define MW_INSTANTIATE(norm, T)                                                                 \
  template void row_norm<norm, T>(const T*, const T*, const T*, T*, const NormShape&);          \
  template void row_norm_backward<norm, T>(const T*, const T*, const T*, T*, const NormShape&); \
  template void row_norm_parameter_backward<norm, T>(const T*, const T*, T*, T*, const NormShape&);
MW_INSTANTIATE(Norm::Layer, float)
MW_INSTANTIATE(Norm::Layer, double)
MW_INSTANTIATE(Norm::Rms, float)
MW_INSTANTIATE(Norm::Rms, double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
