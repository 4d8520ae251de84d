// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise.h"

#include <algorithm>

#include "kernels/cpu/vector_math.h"

namespace meshwright::kernels {

namespace {

// 2u and its derivative, u = sqrt(2/pi) (x + 0.044715 x^3).
constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
constexpr double kCubic = 0.044715;

}  // namespace

template <class T>
void add(const T* x, const T* y, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

template <class T>
void bias_add(const T* x, const T* bias, T* out, std::int64_t rows, std::int64_t width, std::int64_t bias_width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    T* result = out + r * width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < bias_width; ++i) result[i] = row[i] + bias[i];
    if (result != row) std::copy(row + bias_width, row + width, result + bias_width);
  }
}

template <class T>
void bias_gradient(const T* dy, T* out, std::int64_t rows, std::int64_t width, std::int64_t bias_width) {
  std::fill_n(out, bias_width, T(0));
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = dy + r * width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < bias_width; ++i) out[i] += row[i];
  }
}

template <class T>
void relu(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] > T(0) ? x[i] : T(0);
}

template <class T>
void relu_backward(const T* x, const T* dy, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] > T(0) ? dy[i] : T(0);
}

template <class T>
void gelu(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    const T two_u = T(kTwoRootTwoOverPi) * (v + T(kCubic) * v * v * v);
    out[i] = v / (T(1) + exp_of(-two_u));
  }
}

template <class T>
void gelu_backward(const T* x, const T* dy, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    const T two_u = T(kTwoRootTwoOverPi) * (v + T(kCubic) * v * v * v);
    const T slope = T(kTwoRootTwoOverPi) * (T(1) + T(3 * kCubic) * v * v);
    const T sigmoid = T(1) / (T(1) + exp_of(-two_u));
    out[i] = dy[i] * sigmoid * (T(1) + v * (T(1) - sigmoid) * slope);
  }
}

#define MW_INSTANTIATE(T)                                                                      \
  template void add<T>(const T*, const T*, T*, std::int64_t);                                  \
  template void bias_add<T>(const T*, const T*, T*, std::int64_t, std::int64_t, std::int64_t); \
  template void bias_gradient<T>(const T*, T*, std::int64_t, std::int64_t, std::int64_t);      \
  template void relu<T>(const T*, T*, std::int64_t);                                           \
  template void relu_backward<T>(const T*, const T*, T*, std::int64_t);                        \
  template void gelu<T>(const T*, T*, std::int64_t);                                           \
  template void gelu_backward<T>(const T*, const T*, T*, std::int64_t);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
