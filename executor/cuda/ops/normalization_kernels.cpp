// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/norms/batch_norm.h"
#include "kernels/cuda/norms/row_norms.h"

namespace meshwright {

namespace {

using namespace kernels::cuda;

NormShape norm_shape(const CudaOperands& o) { return {o.rows(0), o.width(0), o.attributes().epsilon}; }

BatchNormShape batch_norm_shape(const CudaOperands& o) {
  return {o.rows(0), o.width(0), o.attributes().scale, o.attributes().epsilon};
}

// Calls action(T{}) with the type of x, which every op here has first.
template <class Action>
void with_type_of_x(const CudaOperands& o, Action action) {
  with_cuda_type(o.input_types[0], action);
}

void layer_norm_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    layer_norm(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), norm_shape(o));
  });
}

void layer_norm_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    layer_norm_backward(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), norm_shape(o));
  });
}

void layer_norm_parameter_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    void* workspace = o.workspace.take(layer_norm_parameter_backward_workspace<T>(norm_shape(o)));
    layer_norm_parameter_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.out<T>(1), norm_shape(o), workspace);
  });
}

void rms_norm_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    rms_norm(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), norm_shape(o));
  });
}

void rms_norm_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    rms_norm_backward(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), norm_shape(o));
  });
}

void rms_norm_parameter_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    void* workspace = o.workspace.take(rms_norm_parameter_backward_workspace<T>(norm_shape(o)));
    rms_norm_parameter_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), norm_shape(o), workspace);
  });
}

void softmax_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    softmax(o.stream, o.in<T>(0), o.out<T>(0), o.rows(0), o.width(0));
  });
}

void softmax_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    softmax_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.rows(0), o.width(0));
  });
}

void batch_sums_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    void* workspace = o.workspace.take(batch_sums_workspace<T>(o.rows(0), o.width(0)));
    batch_sums(o.stream, o.in<T>(0), o.out<Wide<T>>(0), o.rows(0), o.width(0), workspace);
  });
}

void batch_norm_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    batch_norm(o.stream, o.in<T>(0), o.in<Wide<T>>(1), o.in<T>(2), o.in<T>(3), o.out<T>(0), batch_norm_shape(o));
  });
}

void batch_norm_parameter_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    void* workspace = o.workspace.take(batch_sums_workspace<T>(o.rows(0), o.width(0)));
    batch_norm_parameter_backward(o.stream, o.in<T>(0), o.in<Wide<T>>(1), o.in<T>(2), o.out<T>(0), o.out<T>(1),
                                  batch_norm_shape(o), workspace);
  });
}

void batch_norm_backward_op(const CudaOperands& o) {
  with_type_of_x(o, [&](auto zero) {
    using T = decltype(zero);
    batch_norm_backward(o.stream, o.in<T>(0), o.in<Wide<T>>(1), o.in<T>(2), o.in<T>(3), o.in<T>(4), o.in<T>(5),
                        o.out<T>(0), batch_norm_shape(o));
  });
}

}  // namespace

CudaKernel cuda_normalization_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::LayerNorm:
      return layer_norm_op;
    case OpKind::LayerNormBackward:
      return layer_norm_backward_op;
    case OpKind::LayerNormParamBackward:
      return layer_norm_parameter_backward_op;
    case OpKind::RmsNorm:
      return rms_norm_op;
    case OpKind::RmsNormBackward:
      return rms_norm_backward_op;
    case OpKind::RmsNormParamBackward:
      return rms_norm_parameter_backward_op;
    case OpKind::Softmax:
      return softmax_op;
    case OpKind::SoftmaxBackward:
      return softmax_backward_op;
    case OpKind::BatchSums:
      return batch_sums_op;
    case OpKind::BatchNorm:
      return batch_norm_op;
    case OpKind::BatchNormParamBackward:
      return batch_norm_parameter_backward_op;
    case OpKind::BatchNormBackward:
      return batch_norm_backward_op;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
