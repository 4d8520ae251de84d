// SPDX-License-Identifier: Apache-2.0
// Passes over elements and rows: sums, biases, activations. An output may be one of the inputs itself (same pointer),
// never a shifted overlap.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

enum class Arithmetic { Add, Subtract, Multiply, Divide };
template <Arithmetic f, class T>
void combine(const T* x, const T* y, T* out, std::int64_t n);
template <class T>
void scale(const T* x, T* out, std::int64_t n, double factor);
template <class T>
void shift(const T* x, T* out, std::int64_t n, double by);

// low <= high; either may be infinite.
struct ClampBounds {
  double low, high;
};
// out = x held within the bounds; what is no number stays none.
template <class T>
void clamp(const T* x, T* out, std::int64_t n, ClampBounds bounds);
// out = dy where x is within the bounds, both included, else 0.
template <class T>
void clamp_backward(const T* x, const T* dy, T* out, std::int64_t n, ClampBounds bounds);

// Rows of `width` elements with a bias on the first `bias_width` of each.
struct BiasShape {
  std::int64_t rows, width, bias_width;
};
// out (rows, width) = x, plus bias (bias_width) on the first elements of each row.
template <class T>
void bias_add(const T* x, const T* bias, T* out, const BiasShape& shape);
// out (bias_width) = sum over rows of the first elements of dy (rows, width).
template <class T>
void bias_gradient(const T* dy, T* out, const BiasShape& shape);

//   Relu      max(x, 0)
//   Gelu      x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the sigmoid has no cancellation
//   GeluErf   the exact form: x F(x), F the normal distribution's cumulative function, (1 + erf(x / sqrt 2)) / 2
//   Silu      x sigmoid(x)
// and functions by their names; Rsqrt is 1 / sqrt(x), Abs has the slope 0 at 0.
enum class Activation {
  Relu,
  Gelu,
  GeluErf,
  Silu,
  Tanh,
  Sigmoid,
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Reciprocal,
  Abs,
  Sin,
  Cos,
  Erf
};
template <Activation f, class T>
void activate(const T* x, T* out, std::int64_t n);
// out = dy f'(x).
template <Activation f, class T>
void activate_backward(const T* x, const T* dy, T* out, std::int64_t n);

// out = x as a number of type To. From, To: int32 or T.
template <class From, class To>
void convert(const From* x, To* out, std::int64_t n);
// out = 1 where x f y, else 0.
enum class Relation { Less, LessEqual, Equal, NotEqual, GreaterEqual, Greater };
template <Relation f, class T>
void compare(const T* x, const T* y, std::int32_t* out, std::int64_t n);
// out = x where p is not 0, else y.
template <class T>
void select(const std::int32_t* p, const T* x, const T* y, T* out, std::int64_t n);
// out = dy where p is not 0 (`where_zero`: where it is), else 0.
template <class T>
void select_backward(const std::int32_t* p, const T* dy, T* out, std::int64_t n, bool where_zero);

}  // namespace meshwright::kernels
