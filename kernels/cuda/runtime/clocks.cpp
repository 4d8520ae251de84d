// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/clocks.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>

namespace meshwright::kernels::cuda {

namespace {

// What is used of NVML's interface; 0 is success everywhere. Its header is not part of every CUDA toolkit.
using NvmlDevice = struct NvmlDeviceOfNvml*;
constexpr unsigned kMultiprocessorClock = 1;

struct Nvml {
  int (*init)() = nullptr;
  int (*device_by_bus)(const char* bus, NvmlDevice* device) = nullptr;
  int (*clock)(NvmlDevice device, unsigned kind, unsigned* mhz) = nullptr;
  int (*power)(NvmlDevice device, unsigned* milliwatts) = nullptr;
  bool usable = false;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Never closed: the answer holds as long as the process.
const Nvml& nvml() {
  static const Nvml loaded = [] {
    Nvml found;
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    found.usable = library != nullptr && find(library, "nvmlInit_v2", found.init) &&
                   find(library, "nvmlDeviceGetHandleByPciBusId_v2", found.device_by_bus) &&
                   find(library, "nvmlDeviceGetClockInfo", found.clock) &&
                   find(library, "nvmlDeviceGetPowerUsage", found.power) && found.init() == 0;
    return found;
  }();
  return loaded;
}

}  // namespace

std::optional<Clocks> clocks_of(int device) {
  if (!nvml().usable) return std::nullopt;
  std::array<char, 64> bus{};  // devices are numbered otherwise where some are hidden
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess) {
    (void)cudaGetLastError();
    return std::nullopt;
  }
  NvmlDevice found = nullptr;
  unsigned mhz = 0, milliwatts = 0;
  if (nvml().device_by_bus(bus.data(), &found) != 0 || nvml().clock(found, kMultiprocessorClock, &mhz) != 0 ||
      nvml().power(found, &milliwatts) != 0)
    return std::nullopt;
  return Clocks{static_cast<int>(mhz), milliwatts / 1000.0};
}

}  // namespace meshwright::kernels::cuda
