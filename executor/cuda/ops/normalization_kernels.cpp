// SPDX-License-Identifier: Apache-2.0
#include "core/base/errors.h"
#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/norms/batch_norm.h"
#include "kernels/cuda/norms/row_norms.h"

namespace meshwright {

namespace {

using namespace kernels::cuda;

kernels::NormShape norm_shape(const CudaOperands& o) { return {o.rows(0), o.width(0), o.attributes().epsilon}; }

kernels::BatchNormShape batch_norm_shape(const CudaOperands& o) {
  return {o.rows(0), o.width(0), o.attributes().scale, o.attributes().epsilon};
}

// Calls action(T{}) with the type of x, which every op here has first.
template <class Action>
void with_type_of_x(const CudaOperands& o, Action action) {
  with_cuda_type(o.input_types[0], action);
}

void expect_one_gamma(bool one) {
  require(one, "the CUDA backend has no norms of groups with a gamma each; run this model with --backend cpu.");
}

template <kernels::Norm norm>
void norm_op(const CudaOperands& o) {
  expect_one_gamma(o.elements(1) == o.width(0));
  with_type_of_x(o, [&]<class T>(T) {
    const T* beta = norm == kernels::Norm::Layer ? o.in<T>(2) : nullptr;
    row_norm<norm>(o.stream, o.in<T>(0), o.in<T>(1), beta, o.out<T>(0), norm_shape(o));
  });
}

template <kernels::Norm norm>
void norm_backward_op(const CudaOperands& o) {
  expect_one_gamma(o.elements(1) == o.width(0));
  with_type_of_x(o, [&]<class T>(T) {
    row_norm_backward<norm>(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), norm_shape(o));
  });
}

template <kernels::Norm norm>
void norm_parameter_backward_op(const CudaOperands& o) {
  expect_one_gamma(o.out_elements(0) == o.width(0));
  with_type_of_x(o, [&]<class T>(T) {
    void* workspace = o.workspace.take(row_norm_parameter_backward_workspace<T>(norm_shape(o)));
    T* dbeta = norm == kernels::Norm::Layer ? o.out<T>(1) : nullptr;
    row_norm_parameter_backward<norm>(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), dbeta, norm_shape(o), workspace);
  });
}

void softmax_op(const CudaOperands& o) {
  with_type_of_x(o, [&]<class T>(T) { softmax(o.stream, o.in<T>(0), o.out<T>(0), o.rows(0), o.width(0)); });
}

void softmax_backward_op(const CudaOperands& o) {
  with_type_of_x(
      o, [&]<class T>(T) { softmax_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.rows(0), o.width(0)); });
}

void batch_sums_op(const CudaOperands& o) {
  with_type_of_x(o, [&]<class T>(T) {
    void* workspace = o.workspace.take(batch_sums_workspace<T>(o.rows(0), o.width(0)));
    batch_sums(o.stream, o.in<T>(0), o.out<Wide<T>>(0), o.rows(0), o.width(0), workspace);
  });
}

void batch_norm_op(const CudaOperands& o) {
  with_type_of_x(o, [&]<class T>(T) {
    batch_norm(o.stream, {o.in<T>(0), o.in<Wide<T>>(1)}, o.in<T>(2), o.in<T>(3), o.out<T>(0), batch_norm_shape(o));
  });
}

void batch_norm_parameter_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&]<class T>(T) {
    void* workspace = o.workspace.take(batch_sums_workspace<T>(o.rows(0), o.width(0)));
    batch_norm_parameter_backward(o.stream, {o.in<T>(0), o.in<Wide<T>>(1)}, o.in<T>(2), o.out<T>(0), o.out<T>(1),
                                  batch_norm_shape(o), workspace);
  });
}

void batch_norm_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&]<class T>(T) {
    batch_norm_backward(o.stream, {o.in<T>(0), o.in<Wide<T>>(1)}, {o.in<T>(2), o.in<T>(3), o.in<T>(4)}, o.in<T>(5),
                        o.out<T>(0), batch_norm_shape(o));
  });
}

}  // namespace

CudaKernel cuda_normalization_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::LayerNorm, norm_op<kernels::Norm::Layer>},
      {K::LayerNormBackward, norm_backward_op<kernels::Norm::Layer>},
      {K::LayerNormParamBackward, norm_parameter_backward_op<kernels::Norm::Layer>},
      {K::RmsNorm, norm_op<kernels::Norm::Rms>},
      {K::RmsNormBackward, norm_backward_op<kernels::Norm::Rms>},
      {K::RmsNormParamBackward, norm_parameter_backward_op<kernels::Norm::Rms>},
      {K::Softmax, softmax_op},
      {K::SoftmaxBackward, softmax_backward_op},
      {K::BatchSums, batch_sums_op},
      {K::BatchNorm, batch_norm_op},
      {K::BatchNormParamBackward, batch_norm_parameter_backward_op},
      {K::BatchNormBackward, batch_norm_backward_op},
  };
  return table.of(kind);
}

}  // namespace meshwright
