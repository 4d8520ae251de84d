// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tokens/loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

template <class T>
void row_max(const T* x, T* out, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) out[r] = lane_max(x + r * width, width);
}

template <class T>
void sum_exp(const T* x, const T* largest, T* out, std::int64_t rows, std::int64_t width) {
  // The exponentials go through a block in cache: a reduction with a long body is not vectorised, the two loops apart
  // are.
  constexpr std::int64_t kBlock = 512;
  T block[kBlock];
  for (std::int64_t r = 0; r < rows; ++r) {
    T total = 0;
    const T shift = largest[r];
    for (std::int64_t begin = 0; begin < width; begin += kBlock) {
      const T* row = x + r * width + begin;
      const std::int64_t n = std::min(kBlock, width - begin);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) block[i] = exp_of(row[i] - shift);
      const T* exponentials = block;
      total += lane_sum<T>(n, [=](std::int64_t i) { return exponentials[i]; });
    }
    out[r] = total;
  }
}

template <class T>
void pick_label(const T* x, const std::int32_t* labels, T* out, const ClassShape& shape) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t label = labels[r] - shape.first;
    out[r] = label >= 0 && label < shape.width ? x[r * shape.width + label] : T(0);
  }
}

template <class T>
T cross_entropy(const LossRows<T>& of_rows, std::int64_t rows, double scale) {
  double total = 0.0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double weight = of_rows.weights == nullptr ? 1.0 : static_cast<double>(of_rows.weights[r]);
    total += weight * static_cast<double>(of_rows.largest[r] + std::log(of_rows.sum[r]) - of_rows.picked[r]);
  }
  return static_cast<T>(scale * total);
}

template <class T>
void cross_entropy_backward(const T* x, const LossRows<T>& of_rows, T* dx, const ClassShape& shape, double scale) {
  const std::int64_t width = shape.width;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = x + r * width;
    T* result = dx + r * width;
    const T shift = of_rows.largest[r];
    const T weight = static_cast<T>(scale) * (of_rows.weights == nullptr ? T(1) : of_rows.weights[r]);
    const T factor = weight / of_rows.sum[r];
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] = factor * exp_of(row[i] - shift);
    const std::int64_t label = of_rows.labels[r] - shape.first;
    if (label >= 0 && label < width) result[label] -= weight;
  }
}

template <class T>
T squared_error(const T* x, const T* y, std::int64_t n, double scale) {
  return static_cast<T>(scale) * lane_sum<T>(n, [=](std::int64_t i) { return (x[i] - y[i]) * (x[i] - y[i]); });
}

template <class T>
void squared_error_backward(const T* x, const T* y, T* dx, std::int64_t n, double scale) {
  const T factor = static_cast<T>(2 * scale);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) dx[i] = factor * (x[i] - y[i]);
}

#define MW_INSTANTIATE(T)                                                                               \
  template void row_max<T>(const T*, T*, std::int64_t, std::int64_t);                                   \
  template void sum_exp<T>(const T*, const T*, T*, std::int64_t, std::int64_t);                         \
  template void pick_label<T>(const T*, const std::int32_t*, T*, const ClassShape&);                    \
  template T cross_entropy<T>(const LossRows<T>&, std::int64_t, double);                                \
  template void cross_entropy_backward<T>(const T*, const LossRows<T>&, T*, const ClassShape&, double); \
  template T squared_error<T>(const T*, const T*, std::int64_t, double);                                \
  template void squared_error_backward<T>(const T*, const T*, T*, std::int64_t, double);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
