// SPDX-License-Identifier: Apache-2.0
// The time of a pass over memory (elementwise ops, norms, optimizer steps): a start, and the bytes it moves.
#pragma once

#include "core/base/units.h"

namespace meshwright {

struct PassConstants {
  Seconds start{3e-6};
  double passes = 2.0;  // over one operand, at the data sheet's bandwidth: 2 for reading and writing it at full rate

  friend bool operator==(const PassConstants&, const PassConstants&) = default;
};

// `operand`: the bytes of one operand.
[[nodiscard]] inline Seconds pass_time(Bytes operand, BytesPerSecond memory_bandwidth, const PassConstants& constants) {
  return constants.start + constants.passes * operand / memory_bandwidth;
}

}  // namespace meshwright
