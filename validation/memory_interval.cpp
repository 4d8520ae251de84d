// SPDX-License-Identifier: Apache-2.0
#include "validation/memory_interval.h"

#include <cmath>

#include "validation/interval.h"

namespace meshwright {

MemoryInterval memory_interval(Bytes predicted, const SoftwareProfile& software) {
  const double width = kDeviationsOfInterval * software.memory_spread;
  return {std::exp(-width) * predicted, std::exp(width) * predicted};
}

double fit_probability(Bytes allocated, Bytes device, const SoftwareProfile& software) {
  if (software.memory_spread <= 0.0 || allocator_room(device) <= Bytes(0.0))
    return fits_on(allocated, device) ? 1.0 : 0.0;
  if (allocated <= Bytes(0.0)) return 1.0;
  return normal_probability(std::log(allocator_room(device) / allocated) / software.memory_spread);
}

std::optional<MemoryForecast> forecast_memory(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  if (!knows_memory(software, plan)) return std::nullopt;
  const Bytes allocated = framework_memory(plan, graph, software).allocated();
  const Bytes device = plan.cluster.only().device.memory;
  return MemoryForecast{allocated, memory_interval(allocated, software), device,
                        fit_probability(allocated, device, software)};
}

}  // namespace meshwright
