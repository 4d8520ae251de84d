// SPDX-License-Identifier: Apache-2.0
// Devices that do the same at the same time, so that one of them stands for all.
//
// The partition is equitable: devices of a class have the same instruction lists up to the names of their peers,
// receive messages of the same classes in the same places, and meet in collectives with devices of the same classes. By
// induction over a step they are alike to the picosecond, as long as messages and Runs take fixed times: with shared
// links, or devices of different speed, nothing may be folded.
#pragma once

#include <vector>

#include "core/plan/program.h"
#include "simulator/simulate.h"

namespace meshwright {

struct FoldedDevices {
  std::vector<DeviceId> representative;  // [device] the first device of its class
  std::vector<int> message;              // [transfer] the transfer of a representative that is alike
  int classes = 0;
};
// Colour refinement with 64-bit hashes, in O(rounds * (instructions + transfers)).
// REQUIRES: the program is sound; `times` is of this program.
[[nodiscard]] FoldedDevices fold_devices(const Program& program, const ProgramTimes& times);

// Every device and transfer for itself.
[[nodiscard]] FoldedDevices unfolded(const Program& program);

}  // namespace meshwright
