// SPDX-License-Identifier: Apache-2.0
// What calls of the CUDA runtime and of cuBLASLt return, as exceptions. For the files that call NVIDIA's libraries:
// nothing else includes it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <sstream>
#include <string>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// "device 1: copying 64 bytes to the device failed: invalid argument (cudaErrorInvalidValue)", or, where nothing on the
// device can succeed any more in this process, "device 1 is lost: ... ". Kernels fail while they run, so the second may
// name what was done when it showed.
[[noreturn]] void fail(cudaError_t error, const std::string& doing);
[[noreturn]] void fail(cublasStatus_t status, const std::string& doing);

// The sentence is made of its parts ("copying ", size, " bytes") only where it is needed.
template <class Status, class... Parts>
void check(Status status, const Parts&... parts) {
  if (static_cast<int>(status) == 0) return;
  std::ostringstream doing;
  (doing << ... << parts);
  fail(status, doing.str());
}

}  // namespace meshwright::kernels::cuda
