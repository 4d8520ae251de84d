// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise/elementwise.h"

#include <algorithm>

#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

// What activations.h asks for.
template <class T>
struct VectorMath {
  using W = T;
  static constexpr T kThreeCubic = T(3 * 0.044715);
  static T exponential(T x) { return exp_of(x); }
  static T quotient(T x, T y) { return x / y; }
  static T tanh(T x) { return tanh_of(x); }
  static T normal(T x, T bell) { return normal_of(x, bell); }
  static T times_sigmoid(T x) { return x * sigmoid_of<VectorMath>(x); }
};

// out[i] = f(x[i], ...): a vector loop once `f` is inlined. `out` may be one of the operands, which ivdep allows: an
// element depends on none before it.
template <class F, class Out, class... In>
void map(std::int64_t n, F f, Out* out, const In*... x) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = f(x[i]...);
}

}  // namespace

template <Arithmetic f, class T>
void combine(const T* x, const T* y, T* out, std::int64_t n) {
  map(
      n, [](T a, T b) { return combination_of<f>(a, b); }, out, x, y);
}

template <class T>
void scale(const T* x, T* out, std::int64_t n, double factor) {
  map(
      n, [by = static_cast<T>(factor)](T a) { return by * a; }, out, x);
}

template <class T>
void shift(const T* x, T* out, std::int64_t n, double by) {
  map(
      n, [more = static_cast<T>(by)](T a) { return a + more; }, out, x);
}

template <class T>
void clamp(const T* x, T* out, std::int64_t n, ClampBounds bounds) {
  map(
      n, [within = Within<T>(bounds)](T a) { return within(a); }, out, x);
}

template <class T>
void clamp_backward(const T* x, const T* dy, T* out, std::int64_t n, ClampBounds bounds) {
  map(
      n, [within = Within<T>(bounds)](T a, T da) { return within(a, da); }, out, x, dy);
}

template <class T>
void bias_add(const T* x, const T* bias, T* out, const BiasShape& shape) {
  const std::int64_t width = shape.width, bias_width = shape.bias_width;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = x + r * width;
    T* result = out + r * width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < bias_width; ++i) result[i] = row[i] + bias[i];
    if (result != row) std::copy(row + bias_width, row + width, result + bias_width);
  }
}

template <class T>
void bias_gradient(const T* dy, T* out, const BiasShape& shape) {
  const std::int64_t bias_width = shape.bias_width;
  std::fill_n(out, bias_width, T(0));
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = dy + r * shape.width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < bias_width; ++i) out[i] += row[i];
  }
}

template <Activation f, class T>
void activate(const T* x, T* out, std::int64_t n) {
  map(
      n, [](T a) { return activation_of<f, VectorMath<T>>(a); }, out, x);
}

template <Activation f, class T>
void activate_backward(const T* x, const T* dy, T* out, std::int64_t n) {
  map(
      n, [](T a, T da) { return activation_gradient<f, VectorMath<T>>(a, da); }, out, x, dy);
}

template <class From, class To>
void convert(const From* x, To* out, std::int64_t n) {
  map(
      n, [](From a) { return static_cast<To>(a); }, out, x);
}

template <Relation f, class T>
void compare(const T* x, const T* y, std::int32_t* out, std::int64_t n) {
  map(
      n, [](T a, T b) { return holds<f>(a, b) ? 1 : 0; }, out, x, y);
}

template <class T>
void select(const std::int32_t* p, const T* x, const T* y, T* out, std::int64_t n) {
  map(
      n, [](std::int32_t taken, T yes, T no) { return taken != 0 ? yes : no; }, out, p, x, y);
}

template <class T>
void select_backward(const std::int32_t* p, const T* dy, T* out, std::int64_t n, bool where_zero) {
  map(
      n, [=](std::int32_t taken, T gradient) { return (taken == 0) == where_zero ? gradient : T(0); }, out, p, dy);
}

#define MW_ACTIVATION(f, T)                                             \
  template void activate<Activation::f, T>(const T*, T*, std::int64_t); \
  template void activate_backward<Activation::f, T>(const T*, const T*, T*, std::int64_t);
#define MW_ARITHMETIC(f, T) template void combine<Arithmetic::f, T>(const T*, const T*, T*, std::int64_t);
#define MW_RELATION(f, T) template void compare<Relation::f, T>(const T*, const T*, std::int32_t*, std::int64_t);
#define MW_INSTANTIATE(T)                                                             \
  MW_KERNELS_OF_ELEMENTS(MW_ARITHMETIC, MW_ACTIVATION, MW_RELATION, T)                \
  template void scale<T>(const T*, T*, std::int64_t, double);                         \
  template void shift<T>(const T*, T*, std::int64_t, double);                         \
  template void clamp<T>(const T*, T*, std::int64_t, ClampBounds);                    \
  template void clamp_backward<T>(const T*, const T*, T*, std::int64_t, ClampBounds); \
  template void bias_add<T>(const T*, const T*, T*, const BiasShape&);                \
  template void bias_gradient<T>(const T*, T*, const BiasShape&);                     \
  template void convert<T, T>(const T*, T*, std::int64_t);                            \
  template void convert<std::int32_t, T>(const std::int32_t*, T*, std::int64_t);      \
  template void select<T>(const std::int32_t*, const T*, const T*, T*, std::int64_t); \
  template void select_backward<T>(const std::int32_t*, const T*, T*, std::int64_t, bool);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE
#undef MW_RELATION
#undef MW_ARITHMETIC
#undef MW_ACTIVATION

}  // namespace meshwright::kernels
