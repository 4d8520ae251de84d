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
#include "kernels/cuda/convolution/convolution_cudnn.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright {

// Device memory for the time of one op. What an op asks for stays its own until the op that runs after it on the same
// stream asks.
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
  // Of the device, started when an op first asks; null: cuDNN is not to be used.
  std::optional<kernels::cuda::CudnnConvolutions>* convolutions = nullptr;
  bool tensor_float = true;
  // Where it says on the device which step it is (moment.step); null: the moment alone says it.
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
  throw InternalError("integers where numbers are computed");
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

// Ops that take fewer launches, or fewer passes over memory, where they are done together. A device that is asked for
// them one right after the other holds them back until something comes that does not belong to them.
struct CudaTogether {
  bool (*may_begin)(const CudaOperands& o);
  // REQUIRES: `held` began with an op that may, and each of the others might follow.
  bool (*may_follow)(std::span<const CudaOperands> held, const CudaOperands& next);
  // As one after the other, but for the rounding of what is not written in between. Nothing lies in the workspace.
  void (*run)(std::span<const CudaOperands> held);
  // What a recording of them says, where the first is said to be `first` (executor/base/work_names.h).
  std::string (*name)(std::span<const CudaOperands> held, const std::string& first);
  // Whether the others are done in the kernel of the first, and a recording says so of each.
  bool joined;
};
// Of ops that begin with one of this kind; null: none do.
const CudaTogether* cuda_products_together(OpKind kind);
const CudaTogether* cuda_norms_together(OpKind kind);
const CudaTogether* cuda_updates_together(OpKind kind);

}  // namespace meshwright
