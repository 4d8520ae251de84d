// SPDX-License-Identifier: Apache-2.0
// What all callers of cuDNN share: its types of our elements, and failures as sentences. Internal to kernels/cuda.
#pragma once

#include <cudnn.h>

#include <string>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

template <class T>
inline constexpr cudnnDataType_t kCudnnType = CUDNN_DATA_FLOAT;
template <>
inline constexpr cudnnDataType_t kCudnnType<Bf16> = CUDNN_DATA_BFLOAT16;
template <>
inline constexpr cudnnDataType_t kCudnnType<F16> = CUDNN_DATA_HALF;

// Throws Failure, which names `what` failed, unless cuDNN did it.
inline void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Failure(std::string(what) + " by cuDNN failed: " + cudnnGetErrorString(status));
}

}  // namespace meshwright::kernels::cuda
