// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_kernel_table.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/elementwise/elementwise.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

using kernels::Activation, kernels::Arithmetic, kernels::Relation;

template <Arithmetic f>
void arithmetic(const CudaOperands& o) {
  with_cuda_type(o.input_types[0],
                 [&]<class T>(T) { cuda::combine<f>(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0)); });
}

template <Activation f>
void activation(const CudaOperands& o) {
  with_cuda_type(o.input_types[0],
                 [&]<class T>(T) { cuda::activate<f>(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0)); });
}

template <Activation f>
void activation_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::activate_backward<f>(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0));
  });
}

void run_scale(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::scale(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0), o.attributes().scale);
  });
}

void run_shift(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::shift(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0), o.attributes().value);
  });
}

void run_clamp(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::clamp(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0), {o.attributes().low, o.attributes().high});
  });
}

void run_clamp_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::clamp_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0),
                         {o.attributes().low, o.attributes().high});
  });
}

void run_cast(const CudaOperands& o) {
  with_cuda_type(o.output_types[0], [&]<class To>(To) {
    if (o.input_types[0] == DType::I32) return cuda::convert(o.stream, o.integers(0), o.out<To>(0), o.elements(0));
    with_cuda_type(o.input_types[0],
                   [&](auto from) { cuda::convert(o.stream, o.in<decltype(from)>(0), o.out<To>(0), o.elements(0)); });
  });
}

template <Relation f>
void compare_by(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
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
  with_cuda_type(o.input_types[1], [&]<class T>(T) {
    cuda::select(o.stream, o.integers(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), o.elements(0));
  });
}

void run_select_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[1], [&]<class T>(T) {
    cuda::select_backward(o.stream, o.integers(0), o.in<T>(1), o.out<T>(0), o.elements(0), o.attributes().bias_select);
  });
}

// The gradient of dropout is dropout of the gradient, by the same mask.
void run_dropout(const CudaOperands& o) {
  const auto [local, whole, begin] = part_shape(o);
  const kernels::Part part{static_cast<int>(local.size()), local.data(), whole.data(), begin.data()};
  const kernels::DropoutMask mask{o.attributes().probability, o.attributes().seed, o.moment.step, o.moment.microbatch};
  with_cuda_type(o.input_types[0],
                 [&]<class T>(T) { cuda::dropout(o.stream, o.in<T>(0), o.out<T>(0), part, mask, o.step_on_device); });
}

}  // namespace

CudaKernel cuda_elementwise_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Add, arithmetic<Arithmetic::Add>},
      {K::Subtract, arithmetic<Arithmetic::Subtract>},
      {K::Multiply, arithmetic<Arithmetic::Multiply>},
      {K::Divide, arithmetic<Arithmetic::Divide>},
      {K::Scale, run_scale},
      {K::Shift, run_shift},
      {K::Clamp, run_clamp},
      {K::ClampBackward, run_clamp_backward},
      {K::Relu, activation<Activation::Relu>},
      {K::ReluBackward, activation_backward<Activation::Relu>},
      {K::Gelu, activation<Activation::Gelu>},
      {K::GeluBackward, activation_backward<Activation::Gelu>},
      {K::GeluErf, activation<Activation::GeluErf>},
      {K::GeluErfBackward, activation_backward<Activation::GeluErf>},
      {K::Silu, activation<Activation::Silu>},
      {K::SiluBackward, activation_backward<Activation::Silu>},
      {K::Tanh, activation<Activation::Tanh>},
      {K::TanhBackward, activation_backward<Activation::Tanh>},
      {K::Sigmoid, activation<Activation::Sigmoid>},
      {K::SigmoidBackward, activation_backward<Activation::Sigmoid>},
      {K::Exp, activation<Activation::Exp>},
      {K::ExpBackward, activation_backward<Activation::Exp>},
      {K::Log, activation<Activation::Log>},
      {K::LogBackward, activation_backward<Activation::Log>},
      {K::Sqrt, activation<Activation::Sqrt>},
      {K::SqrtBackward, activation_backward<Activation::Sqrt>},
      {K::Rsqrt, activation<Activation::Rsqrt>},
      {K::RsqrtBackward, activation_backward<Activation::Rsqrt>},
      {K::Reciprocal, activation<Activation::Reciprocal>},
      {K::ReciprocalBackward, activation_backward<Activation::Reciprocal>},
      {K::Abs, activation<Activation::Abs>},
      {K::AbsBackward, activation_backward<Activation::Abs>},
      {K::Sin, activation<Activation::Sin>},
      {K::SinBackward, activation_backward<Activation::Sin>},
      {K::Cos, activation<Activation::Cos>},
      {K::CosBackward, activation_backward<Activation::Cos>},
      {K::Erf, activation<Activation::Erf>},
      {K::ErfBackward, activation_backward<Activation::Erf>},
      {K::Cast, run_cast},
      {K::Compare, run_compare},
      {K::Select, run_select},
      {K::SelectBackward, run_select_backward},
      {K::Dropout, run_dropout},
      {K::DropoutBackward, run_dropout},
  };
  return table.of(kind);
}

}  // namespace meshwright
