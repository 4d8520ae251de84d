// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise/elementwise.h"

#include <cmath>

#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cuda/blocks/groups.h"

namespace meshwright::kernels::cuda {

namespace {

// --- functions of one number, computed in Wide<T> ---

// With T of 16 bits, to what such a result needs: the hardware's exponential and quotient are right to 2^-16 of
// themselves and better (2^-21 near 0), and full ones would take longer than the memory.
template <class T>
constexpr bool kShort = sizeof(T) == 2;

template <class T>
struct DeviceMath {
  using W = Wide<T>;
  static constexpr W kThreeCubic = 3 * W(kCubic);
  MW_DEVICE static W exponential(W x) {
#ifdef __CUDA_ARCH__
    if constexpr (kShort<T>) return __expf(x);
#endif
    return std::exp(x);
  }
  MW_DEVICE static W quotient(W x, W y) {
#ifdef __CUDA_ARCH__
    if constexpr (kShort<T>) return __fdividef(x, y);
#endif
    return x / y;
  }
  MW_DEVICE static W tanh(W x) { return std::tanh(x); }
  MW_DEVICE static W normal(W x, W bell) {
    if constexpr (std::is_same_v<T, double>) {
      return 0.5 * std::erfc(x * -0.70710678118654752440);
    } else {
      const float tail = normal_tail(bell, quotient(1.0f, 1.0f + 0.27f * (x < 0.0f ? -x : x)));
      return x < 0.0f ? tail : 1.0f - tail;
    }
  }
  MW_DEVICE static W times_sigmoid(W x) { return quotient(x, 1 + exponential(-x)); }
};

// --- what is done to each element ---

template <Arithmetic f>
struct Combination {
  template <class W>
  MW_DEVICE W operator()(W x, W y) const {
    return combination_of<f>(x, y);
  }
};
template <class W>
struct TimesConstant {
  W by;
  MW_DEVICE W operator()(W x) const { return by * x; }
};
template <class W>
struct PlusConstant {
  W more;
  MW_DEVICE W operator()(W x) const { return x + more; }
};
template <class W>
struct As {
  template <class From>
  MW_DEVICE W operator()(From x) const {
    return static_cast<W>(x);
  }
};

// The activation of x, or its gradient by x and dy.
template <Activation f, class T>
struct Activated {
  using W = Wide<T>;
  MW_DEVICE W operator()(W x) const { return activation_of<f, DeviceMath<T>>(x); }
  MW_DEVICE W operator()(W x, W dy) const { return activation_gradient<f, DeviceMath<T>>(x, dy); }
};

template <Relation f>
struct Holds {
  template <class W>
  MW_DEVICE std::int32_t operator()(W x, W y) const {
    return holds<f>(x, y) ? 1 : 0;
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

// Names of launches, in the order of the enumerators.
constexpr const char* kArithmeticNames[] = {"add", "subtract", "multiply", "divide"};
constexpr const char* kActivationNames[] = {"relu", "gelu",  "gelu_erf",   "silu", "tanh", "sigmoid", "exp", "log",
                                            "sqrt", "rsqrt", "reciprocal", "abs",  "sin",  "cos",     "erf"};
constexpr const char* kGradientNames[] = {"relu_backward", "gelu_backward",    "gelu_erf_backward",   "silu_backward",
                                          "tanh_backward", "sigmoid_backward", "exp_backward",        "log_backward",
                                          "sqrt_backward", "rsqrt_backward",   "reciprocal_backward", "abs_backward",
                                          "sin_backward",  "cos_backward",     "erf_backward"};

}  // namespace

template <Arithmetic f, class T>
void combine(Stream stream, const T* x, const T* y, T* out, std::int64_t n) {
  map(kArithmeticNames[static_cast<int>(f)], stream, n, Combination<f>{}, out, x, y);
}
template <class T>
void scale(Stream stream, const T* x, T* out, std::int64_t n, double factor) {
  map("scale", stream, n, TimesConstant<Wide<T>>{static_cast<Wide<T>>(factor)}, out, x);
}
template <class T>
void shift(Stream stream, const T* x, T* out, std::int64_t n, double by) {
  map("shift", stream, n, PlusConstant<Wide<T>>{static_cast<Wide<T>>(by)}, out, x);
}

template <class T>
void clamp(Stream stream, const T* x, T* out, std::int64_t n, ClampBounds bounds) {
  map("clamp", stream, n, Within<Wide<T>>(bounds), out, x);
}
template <class T>
void clamp_backward(Stream stream, const T* x, const T* dy, T* out, std::int64_t n, ClampBounds bounds) {
  map("clamp_backward", stream, n, Within<Wide<T>>(bounds), out, x, dy);
}

template <Activation f, class T>
void activate(Stream stream, const T* x, T* out, std::int64_t n) {
  map(kActivationNames[static_cast<int>(f)], stream, n, Activated<f, T>{}, out, x);
}
template <Activation f, class T>
void activate_backward(Stream stream, const T* x, const T* dy, T* out, std::int64_t n) {
  map(kGradientNames[static_cast<int>(f)], stream, n, Activated<f, T>{}, out, x, dy);
}

template <class From, class To>
void convert(Stream stream, const From* x, To* out, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    if (x != out) copy(out, x, static_cast<std::size_t>(n) * sizeof(To), stream);
  } else {
    map("convert", stream, n, As<Wide<To>>{}, out, x);
  }
}

template <Relation f, class T>
void compare(Stream stream, const T* x, const T* y, std::int32_t* out, std::int64_t n) {
  map("compare", stream, n, Holds<f>{}, out, x, y);
}
template <class T>
void select(Stream stream, const std::int32_t* p, const T* x, const T* y, T* out, std::int64_t n) {
  map("select", stream, n, Choice{}, out, p, x, y);
}
template <class T>
void select_backward(Stream stream, const std::int32_t* p, const T* dy, T* out, std::int64_t n, bool where_zero) {
  map("select_backward", stream, n, Passed{where_zero}, out, p, dy);
}

#define MW_ACTIVATION(f, T)                                                     \
  template void activate<Activation::f, T>(Stream, const T*, T*, std::int64_t); \
  template void activate_backward<Activation::f, T>(Stream, const T*, const T*, T*, std::int64_t);
#define MW_ARITHMETIC(f, T) template void combine<Arithmetic::f, T>(Stream, const T*, const T*, T*, std::int64_t);
#define MW_RELATION(f, T) \
  template void compare<Relation::f, T>(Stream, const T*, const T*, std::int32_t*, std::int64_t);
#define MW_INSTANTIATE(T)                                                                     \
  MW_KERNELS_OF_ELEMENTS(MW_ARITHMETIC, MW_ACTIVATION, MW_RELATION, T)                        \
  template void scale<T>(Stream, const T*, T*, std::int64_t, double);                         \
  template void shift<T>(Stream, const T*, T*, std::int64_t, double);                         \
  template void clamp<T>(Stream, const T*, T*, std::int64_t, ClampBounds);                    \
  template void clamp_backward<T>(Stream, const T*, const T*, T*, std::int64_t, ClampBounds); \
  template void convert<std::int32_t, T>(Stream, const std::int32_t*, T*, std::int64_t);      \
  template void convert<float, T>(Stream, const float*, T*, std::int64_t);                    \
  template void convert<double, T>(Stream, const double*, T*, std::int64_t);                  \
  template void convert<Bf16, T>(Stream, const Bf16*, T*, std::int64_t);                      \
  template void convert<F16, T>(Stream, const F16*, T*, std::int64_t);                        \
  template void select<T>(Stream, const std::int32_t*, const T*, const T*, T*, std::int64_t); \
  template void select_backward<T>(Stream, const std::int32_t*, const T*, T*, std::int64_t, bool);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE
#undef MW_RELATION
#undef MW_ARITHMETIC
#undef MW_ACTIVATION

}  // namespace meshwright::kernels::cuda
