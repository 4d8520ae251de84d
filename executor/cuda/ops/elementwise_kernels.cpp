// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/elementwise/elementwise.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

using kernels::Activation, kernels::Arithmetic, kernels::Relation;

template <Arithmetic f>
void arithmetic(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::combine<f>(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0));
  });
}

template <Activation f>
void activation(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::activate<f>(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0));
  });
}

template <Activation f>
void activation_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::activate_backward<f>(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0));
  });
}

void run_scale(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::scale(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0), o.attributes().scale);
  });
}

void run_cast(const CudaOperands& o) {
  with_cuda_type(o.output_types[0], [&](auto zero) {
    using To = decltype(zero);
    if (o.input_types[0] == DType::I32) return cuda::convert(o.stream, o.integers(0), o.out<To>(0), o.elements(0));
    with_cuda_type(o.input_types[0],
                   [&](auto from) { cuda::convert(o.stream, o.in<decltype(from)>(0), o.out<To>(0), o.elements(0)); });
  });
}

template <Relation f>
void compare_by(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::compare<f>(o.stream, o.in<T>(0), o.in<T>(1), o.integers_out(0), o.elements(0));
  });
}

void run_compare(const CudaOperands& o) {
  switch (o.attributes().comparison) {
    case Comparison::Less:
      return compare_by<Relation::Less>(o);
    case Comparison::LessEqual:
      return compare_by<Relation::LessEqual>(o);
    case Comparison::Equal:
      return compare_by<Relation::Equal>(o);
    case Comparison::NotEqual:
      return compare_by<Relation::NotEqual>(o);
    case Comparison::GreaterEqual:
      return compare_by<Relation::GreaterEqual>(o);
    case Comparison::Greater:
      return compare_by<Relation::Greater>(o);
  }
}

void run_select(const CudaOperands& o) {
  with_cuda_type(o.input_types[1], [&](auto zero) {
    using T = decltype(zero);
    cuda::select(o.stream, o.integers(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), o.elements(0));
  });
}

void run_select_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[1], [&](auto zero) {
    using T = decltype(zero);
    cuda::select_backward(o.stream, o.integers(0), o.in<T>(1), o.out<T>(0), o.elements(0), o.attributes().bias_select);
  });
}

// The gradient of dropout is dropout of the gradient, by the same mask.
void run_dropout(const CudaOperands& o) {
  const std::vector<int>& axes = o.call.space.inputs[0];
  std::vector<std::int64_t> local, whole, begin;
  for (const int axis : axes) {
    local.push_back(o.size(axis));
    whole.push_back(o.whole(axis));
    begin.push_back(o.begin(axis));
  }
  const kernels::Part part{static_cast<int>(axes.size()), local.data(), whole.data(), begin.data()};
  const kernels::DropoutMask mask{o.attributes().probability, o.attributes().seed, o.moment.step, o.moment.microbatch};
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::dropout(o.stream, o.in<T>(0), o.out<T>(0), part, mask, o.step_on_device);
  });
}

}  // namespace

CudaKernel cuda_elementwise_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Add:
      return arithmetic<Arithmetic::Add>;
    case OpKind::Subtract:
      return arithmetic<Arithmetic::Subtract>;
    case OpKind::Multiply:
      return arithmetic<Arithmetic::Multiply>;
    case OpKind::Scale:
      return run_scale;
    case OpKind::Relu:
      return activation<Activation::Relu>;
    case OpKind::ReluBackward:
      return activation_backward<Activation::Relu>;
    case OpKind::Gelu:
      return activation<Activation::Gelu>;
    case OpKind::GeluBackward:
      return activation_backward<Activation::Gelu>;
    case OpKind::GeluErf:
      return activation<Activation::GeluErf>;
    case OpKind::GeluErfBackward:
      return activation_backward<Activation::GeluErf>;
    case OpKind::Silu:
      return activation<Activation::Silu>;
    case OpKind::SiluBackward:
      return activation_backward<Activation::Silu>;
    case OpKind::Tanh:
      return activation<Activation::Tanh>;
    case OpKind::TanhBackward:
      return activation_backward<Activation::Tanh>;
    case OpKind::Sigmoid:
      return activation<Activation::Sigmoid>;
    case OpKind::SigmoidBackward:
      return activation_backward<Activation::Sigmoid>;
    case OpKind::Cast:
      return run_cast;
    case OpKind::Compare:
      return run_compare;
    case OpKind::Select:
      return run_select;
    case OpKind::SelectBackward:
      return run_select_backward;
    case OpKind::Dropout:
    case OpKind::DropoutBackward:
      return run_dropout;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
