// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/folded_devices.h"

namespace meshwright {

std::vector<int> FoldedDevices::counts() const {
  std::vector<int> counts(representative.size(), 0);
  for (const DeviceId device : representative) ++counts[device.index()];
  return counts;
}

}  // namespace meshwright
