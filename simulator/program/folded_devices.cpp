// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/folded_devices.h"

namespace meshwright {

FoldedDevices unfolded(const Program& program) {
  FoldedDevices made;
  made.classes = static_cast<int>(program.devices.size());
  for (int d = 0; d < made.classes; ++d) made.representative.emplace_back(d);
  for (std::size_t t = 0; t < program.transfers.size(); ++t) made.message.push_back(static_cast<int>(t));
  return made;
}

}  // namespace meshwright
