// SPDX-License-Identifier: Apache-2.0
// Which devices of a Program stand for others (simulator/fold/fold_devices.h finds them).
#pragma once

#include <vector>

#include "core/plan/program/program.h"

namespace meshwright {

struct FoldedDevices {
  std::vector<DeviceId> representative;  // [device] the first device of its class
  std::vector<int> message;              // [transfer] the transfer of a representative that is alike
  int classes = 0;

  // [device] how many devices it stands for; 0: another stands for it.
  [[nodiscard]] std::vector<int> counts() const;
};

}  // namespace meshwright
