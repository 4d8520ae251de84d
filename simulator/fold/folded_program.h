// SPDX-License-Identifier: Apache-2.0
// A Program of thousands of devices as one of few: devices that do the same are kept once (simulator/fold/
// fold_devices.h). What is simulated then grows with the stages and the micro-batches, not with the devices.
#pragma once

#include "simulator/fold/fold_devices.h"

namespace meshwright {

// A Program in which representatives alone have lists; `times` and `folded` are of it. All devices, stages and buffers
// keep their numbers; transfers are those that a representative sends or receives, in the same order.
struct FoldedProgram {
  Program program;
  ProgramTimes times;
  FoldedDevices folded;
};

// REQUIRES: as fold_devices. The graph of the result (options.folded = &result.folded) is that of the whole Program,
// folded.
[[nodiscard]] FoldedProgram fold_program(const Program& program, const ProgramTimes& times);

// From this number of devices on, finding the devices that are alike takes less time than simulating all of them.
inline constexpr std::size_t kMinDevicesToFold = 128;
[[nodiscard]] bool worth_folding(const Program& program);

// The transfers that a representative receives or sends, those among them that others stand for, too.
[[nodiscard]] std::vector<bool> transfers_of_representatives(const Program& program, const FoldedDevices& folded);

}  // namespace meshwright
