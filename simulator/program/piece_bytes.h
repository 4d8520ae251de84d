// SPDX-License-Identifier: Apache-2.0
// The memory of an executable's pieces.
#pragma once

#include <vector>

#include "simulator/program/executable_pieces.h"

namespace meshwright {

// Sets memory_at_begin and memory_at_end, for the pieces one after the other: lifetimes as those of the executable
// (core/plan), with its ops in the order of the pieces. What the pieces leave together is what the Run defines.
// REQUIRES: at least one piece.
void set_bytes(const Program& program, const StageExecutable& executable, std::vector<Piece>& pieces);

}  // namespace meshwright
