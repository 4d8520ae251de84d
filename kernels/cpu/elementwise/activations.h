// SPDX-License-Identifier: Apache-2.0
// The formulas of the activations, which the processor's kernels (elementwise.cpp) and the device's
// (kernels/cuda/elementwise/elementwise.cu) share. Internal to kernels.
//
// Math says how a machine computes in numbers of type Math::W:
//   exponential(x), tanh(x);
//   quotient(x, y)         x / y for y >= 1;
//   normal(x, bell)        F(x), the normal distribution's cumulative function, given bell = e^(-x^2 / 2);
//   times_sigmoid(x)       x / (1 + e^-x);
//   kThreeCubic            3 * 0.044715.
// The last two are rounded in different places on the two machines, whose recorded results keep their bits.
#pragma once

#include <cmath>

#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/on_device.h"

// The instantiations of both machines: arithmetic(f, T), activation(f, T) and relation(f, T) for every f.
#define MW_KERNELS_OF_ELEMENTS(arithmetic, activation, relation, T)                                                \
  arithmetic(Add, T) arithmetic(Subtract, T) arithmetic(Multiply, T) arithmetic(Divide, T) activation(Relu, T)     \
      activation(Gelu, T) activation(GeluErf, T) activation(Silu, T) activation(Tanh, T) activation(Sigmoid, T)    \
          activation(Exp, T) activation(Log, T) activation(Sqrt, T) activation(Rsqrt, T) activation(Reciprocal, T) \
              activation(Abs, T) activation(Sin, T) activation(Cos, T) activation(Erf, T) relation(Less, T)        \
                  relation(LessEqual, T) relation(Equal, T) relation(NotEqual, T) relation(GreaterEqual, T)        \
                      relation(Greater, T)

namespace meshwright::kernels {

// The normal distribution's left tail: F(-a) = e^(-a^2 / 2) t P(t) for a >= 0 with
// t = 1 / (1 + 0.27 a), where P interpolates at the Chebyshev points of 0 <= a <= 14 and is right to 3e-8 of itself.
// From the tail on the left, so that F keeps its last places there; on the right F(a) = 1 - F(-a).
MW_DEVICE float normal_tail(float bell, float t) {
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

template <class Math, class W = typename Math::W>
MW_DEVICE W sigmoid_of(W x) {
  return Math::quotient(1, 1 + Math::exponential(-x));
}
// The sigmoid's derivative from e^-|x|, so that neither tail is a difference of near numbers.
template <class Math, class W = typename Math::W>
MW_DEVICE W sigmoid_slope_of(W x) {
  const W e = Math::exponential(x < 0 ? x : -x);
  return Math::quotient(e, (1 + e) * (1 + e));
}

// gelu's 2u = 2 sqrt(2/pi) (x + 0.044715 x^3).
inline constexpr double kTwoRootTwoOverPi = 1.5957691216057308, kCubic = 0.044715,
                        kRootOneOverTwoPi = 0.39894228040143267794, kTwoOverRootPi = 1.12837916709551257390;
template <class W>
MW_DEVICE W two_u_of(W x) {
  return W(kTwoRootTwoOverPi) * (x + W(kCubic) * x * x * x);
}

template <Activation f, class Math, class W = typename Math::W>
MW_DEVICE W activation_of(W x) {
  if constexpr (f == Activation::Relu)
    return x > 0 ? x : 0;
  else if constexpr (f == Activation::Gelu)
    return Math::quotient(x, 1 + Math::exponential(-two_u_of(x)));
  else if constexpr (f == Activation::GeluErf)
    return x * Math::normal(x, Math::exponential(W(-0.5) * x * x));
  else if constexpr (f == Activation::Silu)
    return Math::times_sigmoid(x);
  else if constexpr (f == Activation::Tanh)
    return Math::tanh(x);
  else if constexpr (f == Activation::Sigmoid)
    return sigmoid_of<Math>(x);
  else if constexpr (f == Activation::Exp)
    return Math::exponential(x);
  else if constexpr (f == Activation::Log)
    return std::log(x);
  else if constexpr (f == Activation::Sqrt)
    return std::sqrt(x);
  else if constexpr (f == Activation::Rsqrt)
    return 1 / std::sqrt(x);
  else if constexpr (f == Activation::Reciprocal)
    return 1 / x;
  else if constexpr (f == Activation::Abs)
    return x < 0 ? -x : x;
  else if constexpr (f == Activation::Sin)
    return std::sin(x);
  else if constexpr (f == Activation::Cos)
    return std::cos(x);
  else
    return std::erf(x);
}

// dy f'(x).
template <Activation f, class Math, class W = typename Math::W>
MW_DEVICE W activation_gradient(W x, W dy) {
  if constexpr (f == Activation::Relu) {
    return x > 0 ? dy : 0;
  } else if constexpr (f == Activation::Gelu) {
    const W slope = W(kTwoRootTwoOverPi) * (1 + Math::kThreeCubic * x * x), sigmoid = sigmoid_of<Math>(two_u_of(x));
    return dy * sigmoid * (1 + x * (1 - sigmoid) * slope);
  } else if constexpr (f == Activation::GeluErf) {
    const W bell = Math::exponential(W(-0.5) * x * x);  // sqrt(2 pi) times the density F'
    return dy * (Math::normal(x, bell) + W(kRootOneOverTwoPi) * x * bell);
  } else if constexpr (f == Activation::Silu) {
    return dy * (sigmoid_of<Math>(x) + x * sigmoid_slope_of<Math>(x));
  } else if constexpr (f == Activation::Tanh) {
    return dy * 4 * sigmoid_slope_of<Math>(x + x);  // tanh'(x) = 4 sigmoid'(2x)
  } else if constexpr (f == Activation::Sigmoid) {
    return dy * sigmoid_slope_of<Math>(x);
  } else if constexpr (f == Activation::Exp) {
    return dy * Math::exponential(x);
  } else if constexpr (f == Activation::Log) {
    return dy / x;
  } else if constexpr (f == Activation::Sqrt) {
    return dy / (2 * std::sqrt(x));
  } else if constexpr (f == Activation::Rsqrt) {
    return -dy / (2 * x * std::sqrt(x));
  } else if constexpr (f == Activation::Reciprocal) {
    return -dy / (x * x);
  } else if constexpr (f == Activation::Abs) {
    return x < 0 ? -dy : x > 0 ? dy : 0;
  } else if constexpr (f == Activation::Sin) {
    return dy * std::cos(x);
  } else if constexpr (f == Activation::Cos) {
    return -dy * std::sin(x);
  } else {
    return dy * W(kTwoOverRootPi) * Math::exponential(-x * x);
  }
}

template <Arithmetic f, class W>
MW_DEVICE W combination_of(W x, W y) {
  if constexpr (f == Arithmetic::Add)
    return x + y;
  else if constexpr (f == Arithmetic::Subtract)
    return x - y;
  else if constexpr (f == Arithmetic::Multiply)
    return x * y;
  else
    return x / y;
}

template <Relation f, class W>
MW_DEVICE bool holds(W x, W y) {
  if constexpr (f == Relation::Less)
    return x < y;
  else if constexpr (f == Relation::LessEqual)
    return x <= y;
  else if constexpr (f == Relation::Equal)
    return x == y;
  else if constexpr (f == Relation::NotEqual)
    return x != y;
  else if constexpr (f == Relation::GreaterEqual)
    return x >= y;
  else
    return x > y;
}

// Holds x within the bounds; its gradient is dy where x lies there, else 0.
template <class W>
struct Within {
  explicit Within(ClampBounds bounds) : low(static_cast<W>(bounds.low)), high(static_cast<W>(bounds.high)) {}
  W low, high;
  MW_DEVICE W operator()(W x) const { return x < low ? low : x > high ? high : x; }
  MW_DEVICE W operator()(W x, W dy) const { return x < low || x > high ? W(0) : dy; }
};

}  // namespace meshwright::kernels
