// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise/elementwise.h"

#include <algorithm>
#include <functional>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

// 2u and its derivative, u = sqrt(2/pi) (x + 0.044715 x^3).
constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
constexpr double kCubic = 0.044715;
constexpr double kRootOneOverTwoPi = 0.39894228040143267794;

}  // namespace

template <class T>
void add(const T* x, const T* y, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

template <class T>
void subtract(const T* x, const T* y, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] - y[i];
}

template <class T>
void multiply(const T* x, const T* y, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * y[i];
}

template <class T>
void scale(const T* x, T* out, std::int64_t n, double factor) {
  const T by = static_cast<T>(factor);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = by * x[i];
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

template <class T>
void gelu_erf(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    out[i] = v * normal_of(v, exp_of(T(-0.5) * v * v));
  }
}

// F + x F', where F' is the density.
template <class T>
void gelu_erf_backward(const T* x, const T* dy, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    const T bell = exp_of(T(-0.5) * v * v);
    out[i] = dy[i] * (normal_of(v, bell) + T(kRootOneOverTwoPi) * v * bell);
  }
}

template <class T>
void silu(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * sigmoid_of(x[i]);
}

template <class T>
void silu_backward(const T* x, const T* dy, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = dy[i] * (sigmoid_of(x[i]) + x[i] * sigmoid_slope_of(x[i]));
}

template <class T>
void tanh(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = tanh_of(x[i]);
}

// tanh'(x) = 4 sigmoid'(2x).
template <class T>
void tanh_backward(const T* x, const T* dy, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = dy[i] * T(4) * sigmoid_slope_of(x[i] + x[i]);
}

template <class T>
void sigmoid(const T* x, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = sigmoid_of(x[i]);
}

template <class T>
void sigmoid_backward(const T* x, const T* dy, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = dy[i] * sigmoid_slope_of(x[i]);
}

template <class From, class To>
void convert(const From* x, To* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(x[i]);
}

template <class T, class Relation>
void compare(const T* x, const T* y, std::int32_t* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = Relation()(x[i], y[i]) ? 1 : 0;
}

template <class T>
void select(const std::int32_t* p, const T* x, const T* y, T* out, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T yes = x[i], no = y[i];
    out[i] = p[i] != 0 ? yes : no;
  }
}

template <class T>
void select_backward(const std::int32_t* p, const T* dy, T* out, std::int64_t n, bool where_zero) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T gradient = dy[i];
    out[i] = (p[i] == 0) == where_zero ? gradient : T(0);
  }
}

#define MW_INSTANTIATE(T)                                                                           \
  template void add<T>(const T*, const T*, T*, std::int64_t);                                       \
  template void subtract<T>(const T*, const T*, T*, std::int64_t);                                  \
  template void multiply<T>(const T*, const T*, T*, std::int64_t);                                  \
  template void scale<T>(const T*, T*, std::int64_t, double);                                       \
  template void bias_add<T>(const T*, const T*, T*, std::int64_t, std::int64_t, std::int64_t);      \
  template void bias_gradient<T>(const T*, T*, std::int64_t, std::int64_t, std::int64_t);           \
  template void relu<T>(const T*, T*, std::int64_t);                                                \
  template void relu_backward<T>(const T*, const T*, T*, std::int64_t);                             \
  template void gelu<T>(const T*, T*, std::int64_t);                                                \
  template void gelu_backward<T>(const T*, const T*, T*, std::int64_t);                             \
  template void gelu_erf<T>(const T*, T*, std::int64_t);                                            \
  template void gelu_erf_backward<T>(const T*, const T*, T*, std::int64_t);                         \
  template void silu<T>(const T*, T*, std::int64_t);                                                \
  template void silu_backward<T>(const T*, const T*, T*, std::int64_t);                             \
  template void tanh<T>(const T*, T*, std::int64_t);                                                \
  template void tanh_backward<T>(const T*, const T*, T*, std::int64_t);                             \
  template void sigmoid<T>(const T*, T*, std::int64_t);                                             \
  template void sigmoid_backward<T>(const T*, const T*, T*, std::int64_t);                          \
  template void convert<T, T>(const T*, T*, std::int64_t);                                          \
  template void convert<std::int32_t, T>(const std::int32_t*, T*, std::int64_t);                    \
  template void compare<T, std::less<T>>(const T*, const T*, std::int32_t*, std::int64_t);          \
  template void compare<T, std::less_equal<T>>(const T*, const T*, std::int32_t*, std::int64_t);    \
  template void compare<T, std::equal_to<T>>(const T*, const T*, std::int32_t*, std::int64_t);      \
  template void compare<T, std::not_equal_to<T>>(const T*, const T*, std::int32_t*, std::int64_t);  \
  template void compare<T, std::greater_equal<T>>(const T*, const T*, std::int32_t*, std::int64_t); \
  template void compare<T, std::greater<T>>(const T*, const T*, std::int32_t*, std::int64_t);       \
  template void select<T>(const std::int32_t*, const T*, const T*, T*, std::int64_t);               \
  template void select_backward<T>(const std::int32_t*, const T*, T*, std::int64_t, bool);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
