// SPDX-License-Identifier: Apache-2.0
// A step of thousands of devices and thousands of micro-batches from a Program of a few micro-batches: devices that do
// the same are kept once (simulator/fold/fold_devices.h), and what each micro-batch does is repeated for those alone
// (simulator/fold/repeat_microbatches.h). What is simulated then grows with the stages and the micro-batches, not with
// the devices.
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

// REQUIRES: as repeat_microbatches, of the Program that was folded. What fold_program would make of the repeated
// Program, up to the numbers of transfers.
[[nodiscard]] FoldedProgram repeat_microbatches(const FoldedProgram& folded, int microbatches);

}  // namespace meshwright
