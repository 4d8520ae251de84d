// SPDX-License-Identifier: Apache-2.0
// What a Program runs, in the words of schedules.
#pragma once

#include <string>
#include <vector>

#include "core/plan/program/program.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// [device] its Runs of forwards and backwards, as text_of writes them.
inline std::vector<std::vector<std::string>> runs_of(const Program& program) {
  std::vector<std::vector<std::string>> all;
  for (const auto& list : program.devices) {
    std::vector<std::string>& runs = all.emplace_back();
    for (const Instruction& instruction : list) {
      if (instruction.kind != Instruction::Kind::Run) continue;
      const StageExecutable& executable = program.executables[static_cast<std::size_t>(instruction.executable)];
      if (executable.phase == Phase::Update) continue;
      const Pass pass = executable.phase == Phase::Forward ? Pass::Forward : executable.backward_part;
      runs.push_back(text_of({pass, instruction.microbatch, executable.stage}));
    }
  }
  return all;
}

}  // namespace meshwright
