// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise/dropout.h"
#include "kernels/cpu/elementwise/elementwise.h"

namespace meshwright {

namespace {

using kernels::Activation, kernels::Arithmetic, kernels::Relation;

template <class T, Arithmetic f>
void arithmetic(const Operands<T>& o) {
  kernels::combine<f>(o.in(0), o.in(1), o.out(0), o.elements(0));
}

template <class T, Activation f>
void activation(const Operands<T>& o) {
  kernels::activate<f>(o.in(0), o.out(0), o.elements(0));
}

template <class T, Activation f>
void activation_backward(const Operands<T>& o) {
  kernels::activate_backward<f>(o.in(0), o.in(1), o.out(0), o.elements(0));
}

template <class T>
void run_scale(const Operands<T>& o) {
  kernels::scale(o.in(0), o.out(0), o.elements(0), o.attributes().scale);
}

template <class T>
void run_shift(const Operands<T>& o) {
  kernels::shift(o.in(0), o.out(0), o.elements(0), o.attributes().value);
}

template <class T>
void run_clamp(const Operands<T>& o) {
  kernels::clamp(o.in(0), o.out(0), o.elements(0), {o.attributes().low, o.attributes().high});
}

template <class T>
void run_clamp_backward(const Operands<T>& o) {
  kernels::clamp_backward(o.in(0), o.in(1), o.out(0), o.elements(0), {o.attributes().low, o.attributes().high});
}

// All floating-point types are T here: a cast between them copies.
template <class T>
void run_cast(const Operands<T>& o) {
  if (o.call.input_dtypes[0] == DType::I32)
    kernels::convert(o.integers(0), o.out(0), o.elements(0));
  else
    kernels::convert(o.in(0), o.out(0), o.elements(0));
}

template <class T, Relation f>
void compare_by(const Operands<T>& o) {
  kernels::compare<f>(o.in(0), o.in(1), o.integers_out(0), o.elements(0));
}

template <class T>
void run_compare(const Operands<T>& o) {
  switch (o.attributes().comparison) {
    case Comparison::Less:
      return compare_by<T, Relation::Less>(o);
    case Comparison::LessEqual:
      return compare_by<T, Relation::LessEqual>(o);
    case Comparison::Equal:
      return compare_by<T, Relation::Equal>(o);
    case Comparison::NotEqual:
      return compare_by<T, Relation::NotEqual>(o);
    case Comparison::GreaterEqual:
      return compare_by<T, Relation::GreaterEqual>(o);
    case Comparison::Greater:
      return compare_by<T, Relation::Greater>(o);
  }
}

template <class T>
void run_select(const Operands<T>& o) {
  kernels::select(o.integers(0), o.in(1), o.in(2), o.out(0), o.elements(0));
}

template <class T>
void run_select_backward(const Operands<T>& o) {
  kernels::select_backward(o.integers(0), o.in(1), o.out(0), o.elements(0), o.attributes().bias_select);
}

// The gradient of dropout is dropout of the gradient, by the same mask.
template <class T>
void run_dropout(const Operands<T>& o) {
  const auto [local, whole, begin] = part_shape(o);
  const kernels::Part part{static_cast<int>(local.size()), local.data(), whole.data(), begin.data()};
  kernels::dropout(o.in(0), o.out(0), part,
                   {o.attributes().probability, o.attributes().seed, o.moment.step, o.moment.microbatch});
}

}  // namespace

template <class T>
OpKernel<T> elementwise_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Add, arithmetic<T, Arithmetic::Add>},
      {K::Subtract, arithmetic<T, Arithmetic::Subtract>},
      {K::Multiply, arithmetic<T, Arithmetic::Multiply>},
      {K::Divide, arithmetic<T, Arithmetic::Divide>},
      {K::Scale, run_scale<T>},
      {K::Shift, run_shift<T>},
      {K::Clamp, run_clamp<T>},
      {K::ClampBackward, run_clamp_backward<T>},
      {K::Relu, activation<T, Activation::Relu>},
      {K::ReluBackward, activation_backward<T, Activation::Relu>},
      {K::Gelu, activation<T, Activation::Gelu>},
      {K::GeluBackward, activation_backward<T, Activation::Gelu>},
      {K::GeluErf, activation<T, Activation::GeluErf>},
      {K::GeluErfBackward, activation_backward<T, Activation::GeluErf>},
      {K::Silu, activation<T, Activation::Silu>},
      {K::SiluBackward, activation_backward<T, Activation::Silu>},
      {K::Tanh, activation<T, Activation::Tanh>},
      {K::TanhBackward, activation_backward<T, Activation::Tanh>},
      {K::Sigmoid, activation<T, Activation::Sigmoid>},
      {K::SigmoidBackward, activation_backward<T, Activation::Sigmoid>},
      {K::Exp, activation<T, Activation::Exp>},
      {K::ExpBackward, activation_backward<T, Activation::Exp>},
      {K::Log, activation<T, Activation::Log>},
      {K::LogBackward, activation_backward<T, Activation::Log>},
      {K::Sqrt, activation<T, Activation::Sqrt>},
      {K::SqrtBackward, activation_backward<T, Activation::Sqrt>},
      {K::Rsqrt, activation<T, Activation::Rsqrt>},
      {K::RsqrtBackward, activation_backward<T, Activation::Rsqrt>},
      {K::Reciprocal, activation<T, Activation::Reciprocal>},
      {K::ReciprocalBackward, activation_backward<T, Activation::Reciprocal>},
      {K::Abs, activation<T, Activation::Abs>},
      {K::AbsBackward, activation_backward<T, Activation::Abs>},
      {K::Sin, activation<T, Activation::Sin>},
      {K::SinBackward, activation_backward<T, Activation::Sin>},
      {K::Cos, activation<T, Activation::Cos>},
      {K::CosBackward, activation_backward<T, Activation::Cos>},
      {K::Erf, activation<T, Activation::Erf>},
      {K::ErfBackward, activation_backward<T, Activation::Erf>},
      {K::Cast, run_cast<T>},
      {K::Compare, run_compare<T>},
      {K::Select, run_select<T>},
      {K::SelectBackward, run_select_backward<T>},
      {K::Dropout, run_dropout<T>},
      {K::DropoutBackward, run_dropout<T>},
  };
  return table.of(kind);
}
template OpKernel<float> elementwise_kernel<float>(OpKind);
template OpKernel<double> elementwise_kernel<double>(OpKind);

}  // namespace meshwright
