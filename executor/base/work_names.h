// SPDX-License-Identifier: Apache-2.0
// What a recording of a run says of each piece of work (core/sharding/op_ranges.h): "mw:op ..." of a computation,
// "mw:collective ..." of a collective, and nothing of what moves no byte between devices.
#pragma once

#include <string>

#include "core/plan/program/program.h"

namespace meshwright {

[[nodiscard]] std::string work_name(const ProgramStage& stage, const StageExecutable& executable, const LocalOp& op);

}  // namespace meshwright
