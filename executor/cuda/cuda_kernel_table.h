// SPDX-License-Identifier: Apache-2.0
// Which kernels compute an op of each kind on a CUDA device: one file per family, as in executor/ops/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "executor/ops/shard_call.h"
#include "executor/ops/table_by_kind.h"
#include "kernels/cuda/attention/attention_cudnn.h"
#include "kernels/cuda/convolution/convolution_cudnn.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright {

// Device memory for the time of one op: valid until the next op on the same stream takes memory.
class CudaWorkspace {
 public:
  virtual ~CudaWorkspace() = default;
  // 256-byte aligned, contents undefined.
  [[nodiscard]] virtual void* take(std::size_t size) = 0;
  // Host data that the op's kernels read: copied to the device before they run.
  [[nodiscard]] virtual const void* put(const void* host, std::size_t size) = 0;

  template <class T>
  [[nodiscard]] T* take_array(std::int64_t elements) {
    return static_cast<T*>(take(static_cast<std::size_t>(elements) * sizeof(T)));
  }
};

// One call, with the stream it is queued on. Tensors lie as they are stored: each in its own type.
struct CudaOperands : ShardCall {
  std::span<const DType> input_types, output_types;  // as stored
  kernels::cuda::Stream stream;
  CudaWorkspace& workspace;
  kernels::cuda::Products& products;
  // The device's cuDNN, loaded when an op first needs it; null: cuDNN must not be used.
  std::optional<kernels::cuda::CudnnConvolutions>* convolutions = nullptr;
  std::optional<kernels::cuda::CudnnAttention>* attention = nullptr;
  bool tensor_float = true;
  // The number of the step in device memory, for replayed steps; null: it is moment.step.
  const std::int64_t* step_on_device = nullptr;

  template <class T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return static_cast<T*>(outputs[i]);
  }
  const std::int32_t* integers(std::size_t i) const { return in<std::int32_t>(i); }
  std::int32_t* integers_out(std::size_t i) const { return out<std::int32_t>(i); }
};

using CudaKernel = void (*)(const CudaOperands& o);

// Calls action(T{}) with the type that floating-point elements are stored in.
template <class Action>
decltype(auto) with_cuda_type(DType type, Action&& action) {
  switch (type) {
    case DType::F32:
      return action(float{});
    case DType::F64:
      return action(double{});
    case DType::BF16:
      return action(kernels::cuda::Bf16{});
    case DType::F16:
      return action(kernels::cuda::F16{});
    case DType::I32:
      break;
  }
  throw InternalError("integers have no floating-point kernels");
}

// Each family's kernel of a kind; null: the kind is not of this family.
CudaKernel cuda_contraction_kernel(OpKind kind);
CudaKernel cuda_elementwise_kernel(OpKind kind);
CudaKernel cuda_normalization_kernel(OpKind kind);
CudaKernel cuda_attention_kernel(OpKind kind);
CudaKernel cuda_embedding_kernel(OpKind kind);
CudaKernel cuda_loss_kernel(OpKind kind);
CudaKernel cuda_convolution_kernel(OpKind kind);
CudaKernel cuda_layout_kernel(OpKind kind);
CudaKernel cuda_mixture_kernel(OpKind kind);
CudaKernel cuda_optimizer_kernel(OpKind kind);

// Ops that take fewer launches, or fewer passes over memory, when they run together. A device that is given such ops
// one after the other holds them back until another kind of work comes.
struct CudaTogether {
  bool (*may_begin)(const CudaOperands& o);
  // REQUIRES: may_begin(held[0]), and each later op was allowed to follow those before it.
  bool (*may_follow)(std::span<const CudaOperands> held, const CudaOperands& next);
  // Same results as one after the other, except that intermediate values need not be rounded to the stored type. The
  // workspace is free.
  void (*run)(std::span<const CudaOperands> held);
  // The name of the whole in a recording, given the name of the first op (executor/base/work_names.h).
  std::string (*name)(std::span<const CudaOperands> held, const std::string& first);
  // Whether the first op's kernel computes the others, which a recording then names one by one.
  bool joined;
  // Whether `next`, which does not follow, may run before the held ops; null: nothing may. It neither writes what they
  // read or write, nor reads what they write.
  bool (*may_pass)(std::span<const CudaOperands> held, const CudaOperands& next) = nullptr;
};
// The whole is named as its first op.
[[nodiscard]] inline std::string name_of_first(std::span<const CudaOperands>, const std::string& first) {
  return first;
}
// The rule for sequences that begin with an op of this kind; null: there is none.
const CudaTogether* cuda_products_together(OpKind kind);
const CudaTogether* cuda_residuals_together(OpKind kind);
const CudaTogether* cuda_norms_together(OpKind kind);
const CudaTogether* cuda_losses_together(OpKind kind);
const CudaTogether* cuda_updates_together(OpKind kind);

}  // namespace meshwright
