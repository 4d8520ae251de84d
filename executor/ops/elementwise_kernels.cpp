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
      return arithmetic<T, Arithmetic::Add>;
    case OpKind::Subtract:
      return arithmetic<T, Arithmetic::Subtract>;
    case OpKind::Multiply:
      return arithmetic<T, Arithmetic::Multiply>;
    case OpKind::Scale:
      return run_scale<T>;
    case OpKind::Relu:
      return activation<T, Activation::Relu>;
    case OpKind::ReluBackward:
      return activation_backward<T, Activation::Relu>;
    case OpKind::Gelu:
      return activation<T, Activation::Gelu>;
    case OpKind::GeluBackward:
      return activation_backward<T, Activation::Gelu>;
    case OpKind::GeluErf:
      return activation<T, Activation::GeluErf>;
    case OpKind::GeluErfBackward:
      return activation_backward<T, Activation::GeluErf>;
    case OpKind::Silu:
      return activation<T, Activation::Silu>;
    case OpKind::SiluBackward:
      return activation_backward<T, Activation::Silu>;
    case OpKind::Tanh:
      return activation<T, Activation::Tanh>;
    case OpKind::TanhBackward:
      return activation_backward<T, Activation::Tanh>;
    case OpKind::Sigmoid:
      return activation<T, Activation::Sigmoid>;
    case OpKind::SigmoidBackward:
      return activation_backward<T, Activation::Sigmoid>;
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
