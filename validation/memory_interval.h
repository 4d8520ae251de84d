// SPDX-License-Identifier: Apache-2.0
// How far the predicted memory of a training software may be off, and how likely a plan fits.
//
// The logarithm of predicted over true bytes is taken as normal with the profile's memory_spread. A plan fits when what
// the allocator needs leaves 2 GiB of the device for the driver, libraries and communicators.
#pragma once

#include <optional>

#include "core/plan/plan.h"
#include "costmodel/framework_memory.h"

namespace meshwright {

struct MemoryInterval {
  Bytes low{0.0}, high{0.0};
};
// Holds the true bytes nine times in ten.
[[nodiscard]] MemoryInterval memory_interval(Bytes predicted, const SoftwareProfile& software);

// 0.5 where the prediction is all that the device has room for. With a memory_spread of 0 it is 0 or 1.
[[nodiscard]] double fit_probability(Bytes allocated, Bytes device, const SoftwareProfile& software);

// The memory of the fullest device of a plan.
struct MemoryForecast {
  Bytes allocated{0.0};
  MemoryInterval interval;
  Bytes device{0.0};  // its memory
  double fit_probability = 0.0;
};
// nullopt: knows_memory says no. REQUIRES: as framework_memory.
[[nodiscard]] std::optional<MemoryForecast> forecast_memory(const Plan& plan, const Graph& graph,
                                                            const SoftwareProfile& software);

}  // namespace meshwright
