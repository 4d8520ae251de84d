// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise/elementwise.h"

#include <cmath>

#include "kernels/cuda/blocks/groups.h"

namespace meshwright::kernels::cuda {

namespace {

// --- functions of one number, computed in Wide<T> ---

// With T of 16 bits, to what such a result needs: the hardware's exponential and quotient are right to 2^-16 of
// themselves and better (2^-21 near 0), and full ones would take longer than the memory.
template <class T>
constexpr bool kShort = sizeof(T) == 2;

template <class T>
MW_DEVICE Wide<T> exp_of(Wide<T> x) {
#ifdef __CUDA_ARCH__
  if constexpr (kShort<T>) return __expf(x);
#endif
  return std::exp(x);
}
// REQUIRES: y >= 1.
template <class T>
MW_DEVICE Wide<T> quotient(Wide<T> x, Wide<T> y) {
#ifdef __CUDA_ARCH__
  if constexpr (kShort<T>) return __fdividef(x, y);
#endif
  return x / y;
}

template <class T>
MW_DEVICE Wide<T> sigmoid_of(Wide<T> x) {
  return quotient<T>(1, 1 + exp_of<T>(-x));
}
// From e^-|x|, so that neither tail is a difference of near numbers.
template <class T>
MW_DEVICE Wide<T> sigmoid_slope_of(Wide<T> x) {
  const Wide<T> e = exp_of<T>(x < 0 ? x : -x);
  return quotient<T>(e, (1 + e) * (1 + e));
}

// The normal distribution's cumulative function, given e^(-x^2 / 2): kernels/cpu/elementwise/vector_math.h says how.
MW_DEVICE double normal_of(double x, double) { return 0.5 * std::erfc(x * -0.70710678118654752440); }
MW_DEVICE float tail_of(float bell, float t) {
  float p = 2.910702822e-2f;
  p = p * t - 1.272421199e-1f;
  p = p * t + 1.714446874e-1f;
  p = p * t - 7.121391704e-2f;
  p = p * t + 1.092772065e-1f;
  p = p * t + 7.140606254e-2f;
  p = p * t + 1.019803670e-1f;
  p = p * t + 1.075186033e-1f;
  p = p * t + 1.077220931e-1f;
  return bell * t * p;
}
template <class T>
MW_DEVICE Wide<T> normal(Wide<T> x, Wide<T> bell) {
  if constexpr (std::is_same_v<T, double>) {
    return normal_of(x, bell);
  } else {
    const float tail = tail_of(bell, quotient<T>(1.0f, 1.0f + 0.27f * (x < 0.0f ? -x : x)));
    return x < 0.0f ? tail : 1.0f - tail;
  }
}

// --- what is done to each element ---

struct Sum {
  template <class W>
  MW_DEVICE W operator()(W x, W y) const {
    return x + y;
  }
};
struct Difference {
  template <class W>
  MW_DEVICE W operator()(W x, W y) const {
    return x - y;
  }
};
struct Times {
  template <class W>
  MW_DEVICE W operator()(W x, W y) const {
    return x * y;
  }
};
template <class W>
struct TimesConstant {
  W by;
  MW_DEVICE W operator()(W x) const { return by * x; }
};
template <class W>
struct As {
  template <class From>
  MW_DEVICE W operator()(From x) const {
    return static_cast<W>(x);
  }
};

template <class T>
struct Relu {
  MW_DEVICE Wide<T> operator()(Wide<T> x) const { return x > 0 ? x : 0; }
  MW_DEVICE Wide<T> operator()(Wide<T> x, Wide<T> dy) const { return x > 0 ? dy : 0; }
};

template <class T>
struct Gelu {
  using W = Wide<T>;
  static constexpr W kTwoRootTwoOverPi = W(1.5957691216057308), kCubic = W(0.044715);
  MW_DEVICE static W two_u(W x) { return kTwoRootTwoOverPi * (x + kCubic * x * x * x); }
  MW_DEVICE W operator()(W x) const { return quotient<T>(x, 1 + exp_of<T>(-two_u(x))); }
  MW_DEVICE W operator()(W x, W dy) const {
    const W slope = kTwoRootTwoOverPi * (1 + 3 * kCubic * x * x), sigmoid = sigmoid_of<T>(two_u(x));
    return dy * sigmoid * (1 + x * (1 - sigmoid) * slope);
  }
};

template <class T>
struct GeluErf {
  using W = Wide<T>;
  MW_DEVICE W operator()(W x) const { return x * normal<T>(x, exp_of<T>(W(-0.5) * x * x)); }
  MW_DEVICE W operator()(W x, W dy) const {
    const W bell = exp_of<T>(W(-0.5) * x * x);
    return dy * (normal<T>(x, bell) + W(0.39894228040143267794) * x * bell);
  }
};

template <class T>
struct Silu {
  using W = Wide<T>;
  MW_DEVICE W operator()(W x) const { return quotient<T>(x, 1 + exp_of<T>(-x)); }
  MW_DEVICE W operator()(W x, W dy) const { return dy * (sigmoid_of<T>(x) + x * sigmoid_slope_of<T>(x)); }
};

template <class T>
struct Tanh {
  using W = Wide<T>;
  MW_DEVICE W operator()(W x) const { return std::tanh(x); }
  MW_DEVICE W operator()(W x, W dy) const { return dy * 4 * sigmoid_slope_of<T>(x + x); }
};

template <class T>
struct Sigmoid {
  using W = Wide<T>;
  MW_DEVICE W operator()(W x) const { return sigmoid_of<T>(x); }
  MW_DEVICE W operator()(W x, W dy) const { return dy * sigmoid_slope_of<T>(x); }
};

template <class Relation>
struct Holds {
  template <class W>
  MW_DEVICE std::int32_t operator()(W x, W y) const {
    return Relation()(x, y) ? 1 : 0;
  }
};

struct Choice {
  template <class W>
  MW_DEVICE W operator()(std::int32_t p, W x, W y) const {
    return p != 0 ? x : y;
  }
};
struct Passed {
  bool where_zero;
  template <class W>
  MW_DEVICE W operator()(std::int32_t p, W dy) const {
    return (p == 0) == where_zero ? dy : W(0);
  }
};

}  // namespace

template <class T>
void add(Stream stream, const T* x, const T* y, T* out, std::int64_t n) {
  map("add", stream, n, Sum{}, out, x, y);
}
template <class T>
void subtract(Stream stream, const T* x, const T* y, T* out, std::int64_t n) {
  map("subtract", stream, n, Difference{}, out, x, y);
}
template <class T>
void multiply(Stream stream, const T* x, const T* y, T* out, std::int64_t n) {
  map("multiply", stream, n, Times{}, out, x, y);
}
template <class T>
void scale(Stream stream, const T* x, T* out, std::int64_t n, double factor) {
  map("scale", stream, n, TimesConstant<Wide<T>>{static_cast<Wide<T>>(factor)}, out, x);
}

// An activation and its backward: one struct with the function of x and that of x and dy.
#define MW_ACTIVATION(name, Function)                                                    \
  template <class T>                                                                     \
  void name(Stream stream, const T* x, T* out, std::int64_t n) {                         \
    map(#name, stream, n, Function<T>{}, out, x);                                        \
  }                                                                                      \
  template <class T>                                                                     \
  void name##_backward(Stream stream, const T* x, const T* dy, T* out, std::int64_t n) { \
    map(#name "_backward", stream, n, Function<T>{}, out, x, dy);                        \
  }
MW_ACTIVATION(relu, Relu)
MW_ACTIVATION(gelu, Gelu)
MW_ACTIVATION(gelu_erf, GeluErf)
MW_ACTIVATION(silu, Silu)
MW_ACTIVATION(tanh, Tanh)
MW_ACTIVATION(sigmoid, Sigmoid)
#undef MW_ACTIVATION

template <class From, class To>
void convert(Stream stream, const From* x, To* out, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    if (x != out) copy(out, x, static_cast<std::size_t>(n) * sizeof(To), stream);
  } else {
    map("convert", stream, n, As<Wide<To>>{}, out, x);
  }
}

template <class T, class Relation>
void compare(Stream stream, const T* x, const T* y, std::int32_t* out, std::int64_t n) {
  map("compare", stream, n, Holds<Relation>{}, out, x, y);
}
template <class T>
void select(Stream stream, const std::int32_t* p, const T* x, const T* y, T* out, std::int64_t n) {
  map("select", stream, n, Choice{}, out, p, x, y);
}
template <class T>
void select_backward(Stream stream, const std::int32_t* p, const T* dy, T* out, std::int64_t n, bool where_zero) {
  map("select_backward", stream, n, Passed{where_zero}, out, p, dy);
}

#define MW_INSTANTIATE(T)                                                                                  \
  template void add<T>(Stream, const T*, const T*, T*, std::int64_t);                                      \
  template void subtract<T>(Stream, const T*, const T*, T*, std::int64_t);                                 \
  template void multiply<T>(Stream, const T*, const T*, T*, std::int64_t);                                 \
  template void scale<T>(Stream, const T*, T*, std::int64_t, double);                                      \
  template void relu<T>(Stream, const T*, T*, std::int64_t);                                               \
  template void relu_backward<T>(Stream, const T*, const T*, T*, std::int64_t);                            \
  template void gelu<T>(Stream, const T*, T*, std::int64_t);                                               \
  template void gelu_backward<T>(Stream, const T*, const T*, T*, std::int64_t);                            \
  template void gelu_erf<T>(Stream, const T*, T*, std::int64_t);                                           \
  template void gelu_erf_backward<T>(Stream, const T*, const T*, T*, std::int64_t);                        \
  template void silu<T>(Stream, const T*, T*, std::int64_t);                                               \
  template void silu_backward<T>(Stream, const T*, const T*, T*, std::int64_t);                            \
  template void tanh<T>(Stream, const T*, T*, std::int64_t);                                               \
  template void tanh_backward<T>(Stream, const T*, const T*, T*, std::int64_t);                            \
  template void sigmoid<T>(Stream, const T*, T*, std::int64_t);                                            \
  template void sigmoid_backward<T>(Stream, const T*, const T*, T*, std::int64_t);                         \
  template void convert<std::int32_t, T>(Stream, const std::int32_t*, T*, std::int64_t);                   \
  template void convert<float, T>(Stream, const float*, T*, std::int64_t);                                 \
  template void convert<double, T>(Stream, const double*, T*, std::int64_t);                               \
  template void convert<Bf16, T>(Stream, const Bf16*, T*, std::int64_t);                                   \
  template void convert<F16, T>(Stream, const F16*, T*, std::int64_t);                                     \
  template void compare<T, std::less<>>(Stream, const T*, const T*, std::int32_t*, std::int64_t);          \
  template void compare<T, std::less_equal<>>(Stream, const T*, const T*, std::int32_t*, std::int64_t);    \
  template void compare<T, std::equal_to<>>(Stream, const T*, const T*, std::int32_t*, std::int64_t);      \
  template void compare<T, std::not_equal_to<>>(Stream, const T*, const T*, std::int32_t*, std::int64_t);  \
  template void compare<T, std::greater_equal<>>(Stream, const T*, const T*, std::int32_t*, std::int64_t); \
  template void compare<T, std::greater<>>(Stream, const T*, const T*, std::int32_t*, std::int64_t);       \
  template void select<T>(Stream, const std::int32_t*, const T*, const T*, T*, std::int64_t);              \
  template void select_backward<T>(Stream, const std::int32_t*, const T*, T*, std::int64_t, bool);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
