// SPDX-License-Identifier: Apache-2.0
#include <functional>

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
  const std::vector<int>& axes = o.call.space.inputs[0];
  std::vector<std::int64_t> local, whole, begin;
  for (const int axis : axes) {
    local.push_back(o.size(axis));
    whole.push_back(o.whole(axis));
    begin.push_back(o.begin(axis));
  }
  const kernels::Part part{static_cast<int>(axes.size()), local.data(), whole.data(), begin.data()};
  kernels::dropout(o.in(0), o.out(0), part,
                   {o.attributes().probability, o.attributes().seed, o.moment.step, o.moment.microbatch});
}

}  // namespace

template <class T>
OpKernel<T> elementwise_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Add:
      return binary<T, kernels::add<T>>;
    case OpKind::Subtract:
      return binary<T, kernels::subtract<T>>;
    case OpKind::Multiply:
      return binary<T, kernels::multiply<T>>;
    case OpKind::Scale:
      return run_scale<T>;
    case OpKind::Relu:
      return unary<T, kernels::relu<T>>;
    case OpKind::ReluBackward:
      return binary<T, kernels::relu_backward<T>>;
    case OpKind::Gelu:
      return unary<T, kernels::gelu<T>>;
    case OpKind::GeluBackward:
      return binary<T, kernels::gelu_backward<T>>;
    case OpKind::GeluErf:
      return unary<T, kernels::gelu_erf<T>>;
    case OpKind::GeluErfBackward:
      return binary<T, kernels::gelu_erf_backward<T>>;
    case OpKind::Silu:
      return unary<T, kernels::silu<T>>;
    case OpKind::SiluBackward:
      return binary<T, kernels::silu_backward<T>>;
    case OpKind::Tanh:
      return unary<T, kernels::tanh<T>>;
    case OpKind::TanhBackward:
      return binary<T, kernels::tanh_backward<T>>;
    case OpKind::Sigmoid:
      return unary<T, kernels::sigmoid<T>>;
    case OpKind::SigmoidBackward:
      return binary<T, kernels::sigmoid_backward<T>>;
    case OpKind::Cast:
      return run_cast<T>;
    case OpKind::Compare:
      return run_compare<T>;
    case OpKind::Select:
      return run_select<T>;
    case OpKind::SelectBackward:
      return run_select_backward<T>;
    case OpKind::Dropout:
    case OpKind::DropoutBackward:
      return run_dropout<T>;
    default:
      return nullptr;
  }
}
template OpKernel<float> elementwise_kernel<float>(OpKind);
template OpKernel<double> elementwise_kernel<double>(OpKind);

}  // namespace meshwright
