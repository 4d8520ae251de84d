// SPDX-License-Identifier: Apache-2.0
// How fast a GPU's clock runs at this moment, and what it draws: what measured times depend on beside the GPU itself.
#pragma once

#include <optional>

namespace meshwright::kernels::cuda {

struct Clocks {
  int multiprocessors_mhz = 0;
  double watts = 0.0;
};

// From NVML, which comes with the driver and is loaded when this is first called. nullopt: it is not there, or does not
// tell.
[[nodiscard]] std::optional<Clocks> clocks_of(int device);

}  // namespace meshwright::kernels::cuda
