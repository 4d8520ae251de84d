// SPDX-License-Identifier: Apache-2.0
// Devices that do the same at the same time, so that one of them stands for all.
//
// The partition is equitable: devices of a class have the same instruction lists up to the names of their peers,
// receive messages of the same classes in the same places, and meet in collectives with devices of the same classes. By
// induction over a step they are alike to the picosecond, as long as messages and Runs take fixed times: with shared
// links, or devices of different speed, nothing may be folded.
#pragma once

#include "core/plan/program/program.h"
#include "simulator/program/folded_devices.h"
#include "simulator/program/program_costs.h"

namespace meshwright {

// Colour refinement with 64-bit hashes, in O(rounds * (instructions + transfers)).
// REQUIRES: the program is sound; `times` is of this program.
[[nodiscard]] FoldedDevices fold_devices(const Program& program, const ProgramTimes& times);

}  // namespace meshwright
