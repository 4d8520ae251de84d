// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/failures.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/runtime/cublaslt.h"

namespace meshwright::kernels::cuda {

namespace {

// After these CUDA refuses everything until the process ends. By number: not every version's header has all the names.
bool loses_device(cudaError_t error) {
  constexpr std::array kLost{
      214,  // cudaErrorECCUncorrectable
      220,  // cudaErrorNvlinkUncorrectable
      226,  // cudaErrorContained
      700,  // cudaErrorIllegalAddress
      702,  // cudaErrorLaunchTimeout
      710,  // cudaErrorAssert
      714,  // cudaErrorHardwareStackError
      715,  // cudaErrorIllegalInstruction
      716,  // cudaErrorMisalignedAddress
      717,  // cudaErrorInvalidAddressSpace
      718,  // cudaErrorInvalidPc
      719,  // cudaErrorLaunchFailure
      721,  // cudaErrorTensorMemoryLeak
      810,  // cudaErrorMpsClientTerminated
      911,  // cudaErrorExternalDevice
      999,  // cudaErrorUnknown
  };
  return std::find(kLost.begin(), kLost.end(), static_cast<int>(error)) != kLost.end();
}

std::string name_of_device() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? "device " + std::to_string(device) : "a device";
}

std::string words_of(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

}  // namespace

void fail(cudaError_t error, const std::string& doing) {
  // Without any driver CUDA's own words are of one that is too old.
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice || error == cudaErrorStubLibrary)
    throw Failure(doing + " failed: " + why_none());
  const std::string device = name_of_device();
  // So that it is not found again behind the next kernel's launch.
  (void)cudaGetLastError();
  if (loses_device(error)) throw Failure(device + " is lost: " + words_of(error) + ", found when " + doing);
  std::string advice;
  if (error == cudaErrorNoKernelImageForDevice)
    advice = "; this program was built for other architectures (CMAKE_CUDA_ARCHITECTURES)";
  throw Failure(device + ": " + doing + " failed: " + words_of(error) + advice);
}

void fail(cublasStatus_t status, const std::string& doing) {
  // Behind a status of cuBLASLt there may be an error of CUDA, which says more.
  const cudaError_t error = cudaPeekAtLastError();
  if (error != cudaSuccess) fail(error, doing);
  throw Failure(name_of_device() + ": " + doing + " failed: " + cublas_lt().words_of(status) + " (" +
                cublas_lt().name_of(status) + ")");
}

}  // namespace meshwright::kernels::cuda
