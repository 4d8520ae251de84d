// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "executor/cuda/cuda_kernel_table.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/elementwise/elementwise.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// The functions of one number and of two, of any type, by the kind of op.
#define MW_UNARY(run, function)                                                                            \
  void run(const CudaOperands& o) {                                                                        \
    with_cuda_type(o.input_types[0],                                                                       \
                   [&]<class T>(T) { cuda::function(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0)); }); \
  }
#define MW_BINARY(run, function)                                                                                       \
  void run(const CudaOperands& o) {                                                                                    \
    with_cuda_type(o.input_types[0],                                                                                   \
                   [&]<class T>(T) { cuda::function(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0)); }); \
  }
MW_BINARY(run_add, add)
MW_BINARY(run_subtract, subtract)
MW_BINARY(run_multiply, multiply)
MW_UNARY(run_relu, relu)
MW_BINARY(run_relu_backward, relu_backward)
MW_UNARY(run_gelu, gelu)
MW_BINARY(run_gelu_backward, gelu_backward)
MW_UNARY(run_gelu_erf, gelu_erf)
MW_BINARY(run_gelu_erf_backward, gelu_erf_backward)
MW_UNARY(run_silu, silu)
MW_BINARY(run_silu_backward, silu_backward)
MW_UNARY(run_tanh, tanh)
MW_BINARY(run_tanh_backward, tanh_backward)
MW_UNARY(run_sigmoid, sigmoid)
MW_BINARY(run_sigmoid_backward, sigmoid_backward)
#undef MW_UNARY
#undef MW_BINARY

void run_scale(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::scale(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0), o.attributes().scale);
  });
}

void run_cast(const CudaOperands& o) {
  with_cuda_type(o.output_types[0], [&]<class To>(To) {
    if (o.input_types[0] == DType::I32) return cuda::convert(o.stream, o.integers(0), o.out<To>(0), o.elements(0));
    with_cuda_type(o.input_types[0],
                   [&](auto from) { cuda::convert(o.stream, o.in<decltype(from)>(0), o.out<To>(0), o.elements(0)); });
  });
}

template <class Relation>
void compare_by(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::compare<T, Relation>(o.stream, o.in<T>(0), o.in<T>(1), o.integers_out(0), o.elements(0));
  });
}

void run_compare(const CudaOperands& o) {
  switch (o.attributes().comparison) {
    case Comparison::Less:
      return compare_by<std::less<>>(o);
    case Comparison::LessEqual:
      return compare_by<std::less_equal<>>(o);
    case Comparison::Equal:
      return compare_by<std::equal_to<>>(o);
    case Comparison::NotEqual:
      return compare_by<std::not_equal_to<>>(o);
    case Comparison::GreaterEqual:
      return compare_by<std::greater_equal<>>(o);
    case Comparison::Greater:
      return compare_by<std::greater<>>(o);
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
      {K::Add, run_add},           {K::Subtract, run_subtract},
      {K::Multiply, run_multiply}, {K::Scale, run_scale},
      {K::Relu, run_relu},         {K::ReluBackward, run_relu_backward},
      {K::Gelu, run_gelu},         {K::GeluBackward, run_gelu_backward},
      {K::GeluErf, run_gelu_erf},  {K::GeluErfBackward, run_gelu_erf_backward},
      {K::Silu, run_silu},         {K::SiluBackward, run_silu_backward},
      {K::Tanh, run_tanh},         {K::TanhBackward, run_tanh_backward},
      {K::Sigmoid, run_sigmoid},   {K::SigmoidBackward, run_sigmoid_backward},
      {K::Cast, run_cast},         {K::Compare, run_compare},
      {K::Select, run_select},     {K::SelectBackward, run_select_backward},
      {K::Dropout, run_dropout},   {K::DropoutBackward, run_dropout},
  };
  return table.of(kind);
}

}  // namespace meshwright
