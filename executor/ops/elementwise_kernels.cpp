// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "executor/ops/call_shapes.h"
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise/dropout.h"
#include "kernels/cpu/elementwise/elementwise.h"

namespace meshwright {

namespace {

template <class T, void (*kernel)(const T*, T*, std::int64_t)>
void unary(const Operands<T>& o) {
  kernel(o.in(0), o.out(0), o.elements(0));
}

template <class T, void (*kernel)(const T*, const T*, T*, std::int64_t)>
void binary(const Operands<T>& o) {
  kernel(o.in(0), o.in(1), o.out(0), o.elements(0));
}

template <class T>
void run_scale(const Operands<T>& o) {
  kernels::scale(o.in(0), o.out(0), o.elements(0), o.attributes().scale);
}

// All floating-point types are T here: a cast between them copies.
template <class T>
void run_cast(const Operands<T>& o) {
  if (o.call.input_dtypes[0] == DType::I32)
    kernels::convert(o.integers(0), o.out(0), o.elements(0));
  else
    kernels::convert(o.in(0), o.out(0), o.elements(0));
}

template <class T, class Relation>
void compare_by(const Operands<T>& o) {
  kernels::compare<T, Relation>(o.in(0), o.in(1), o.integers_out(0), o.elements(0));
}

template <class T>
void run_compare(const Operands<T>& o) {
  switch (o.attributes().comparison) {
    case Comparison::Less:
      return compare_by<T, std::less<T>>(o);
    case Comparison::LessEqual:
      return compare_by<T, std::less_equal<T>>(o);
    case Comparison::Equal:
      return compare_by<T, std::equal_to<T>>(o);
    case Comparison::NotEqual:
      return compare_by<T, std::not_equal_to<T>>(o);
    case Comparison::GreaterEqual:
      return compare_by<T, std::greater_equal<T>>(o);
    case Comparison::Greater:
      return compare_by<T, std::greater<T>>(o);
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
      {K::Add, binary<T, kernels::add<T>>},
      {K::Subtract, binary<T, kernels::subtract<T>>},
      {K::Multiply, binary<T, kernels::multiply<T>>},
      {K::Scale, run_scale<T>},
      {K::Relu, unary<T, kernels::relu<T>>},
      {K::ReluBackward, binary<T, kernels::relu_backward<T>>},
      {K::Gelu, unary<T, kernels::gelu<T>>},
      {K::GeluBackward, binary<T, kernels::gelu_backward<T>>},
      {K::GeluErf, unary<T, kernels::gelu_erf<T>>},
      {K::GeluErfBackward, binary<T, kernels::gelu_erf_backward<T>>},
      {K::Silu, unary<T, kernels::silu<T>>},
      {K::SiluBackward, binary<T, kernels::silu_backward<T>>},
      {K::Tanh, unary<T, kernels::tanh<T>>},
      {K::TanhBackward, binary<T, kernels::tanh_backward<T>>},
      {K::Sigmoid, unary<T, kernels::sigmoid<T>>},
      {K::SigmoidBackward, binary<T, kernels::sigmoid_backward<T>>},
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
