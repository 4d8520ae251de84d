// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/elementwise/elementwise.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// The functions of one number and of two, of any type, by the kind of op.
#define MW_UNARY(run, function)                                         \
  void run(const CudaOperands& o) {                                     \
    with_cuda_type(o.input_types[0], [&](auto zero) {                   \
      using T = decltype(zero);                                         \
      cuda::function(o.stream, o.in<T>(0), o.out<T>(0), o.elements(0)); \
    });                                                                 \
  }
#define MW_BINARY(run, function)                                                    \
  void run(const CudaOperands& o) {                                                 \
    with_cuda_type(o.input_types[0], [&](auto zero) {                               \
      using T = decltype(zero);                                                     \
      cuda::function(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0)); \
    });                                                                             \
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

template <class Relation>
void compare_by(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
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
      return run_add;
    case OpKind::Subtract:
      return run_subtract;
    case OpKind::Multiply:
      return run_multiply;
    case OpKind::Scale:
      return run_scale;
    case OpKind::Relu:
      return run_relu;
    case OpKind::ReluBackward:
      return run_relu_backward;
    case OpKind::Gelu:
      return run_gelu;
    case OpKind::GeluBackward:
      return run_gelu_backward;
    case OpKind::GeluErf:
      return run_gelu_erf;
    case OpKind::GeluErfBackward:
      return run_gelu_erf_backward;
    case OpKind::Silu:
      return run_silu;
    case OpKind::SiluBackward:
      return run_silu_backward;
    case OpKind::Tanh:
      return run_tanh;
    case OpKind::TanhBackward:
      return run_tanh_backward;
    case OpKind::Sigmoid:
      return run_sigmoid;
    case OpKind::SigmoidBackward:
      return run_sigmoid_backward;
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
