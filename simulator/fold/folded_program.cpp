// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/folded_program.h"

namespace meshwright {

namespace {

// What of the lists is kept: of each transfer whether, and its new number.
std::vector<int> kept_transfers(const Program& program, const FoldedDevices& folded) {
  std::vector<int> number(program.transfers.size(), -1);
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    if (folded.representative[d].index() != d) continue;
    for (const Instruction& instruction : program.devices[d]) {
      for (const int t : instruction.receives) number[static_cast<std::size_t>(t)] = 0;
      for (const int t : instruction.sends)
        if (folded.message[static_cast<std::size_t>(t)] == t) number[static_cast<std::size_t>(t)] = 0;
    }
  }
  int next = 0;
  for (int& own : number)
    if (own == 0) own = next++;
  return number;
}

std::vector<int> renumbered(const std::vector<int>& transfers, const std::vector<int>& number) {
  std::vector<int> kept;
  for (const int t : transfers)
    if (number[static_cast<std::size_t>(t)] >= 0) kept.push_back(number[static_cast<std::size_t>(t)]);
  return kept;
}

}  // namespace

FoldedProgram fold_program(const Program& program, const ProgramTimes& times) {
  FoldedDevices all = fold_devices(program, times);
  const std::vector<int> number = kept_transfers(program, all);
  FoldedProgram made;
  Program& small = made.program;
  small.stages = program.stages;
  small.buffers = program.buffers;
  small.executables = program.executables;
  small.stage_of_device = program.stage_of_device;
  small.microbatches = program.microbatches;
  small.schedule = program.schedule;
  small.persistent_bytes = program.persistent_bytes;
  small.devices.resize(program.devices.size());
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    if (all.representative[d].index() != d) continue;
    for (const Instruction& instruction : program.devices[d])
      small.devices[d].push_back({instruction.kind, instruction.executable, instruction.microbatch,
                                  renumbered(instruction.sends, number), renumbered(instruction.receives, number),
                                  instruction.buffers, instruction.waits});
  }
  made.times.executable = times.executable;
  for (std::size_t t = 0; t < number.size(); ++t) {
    if (number[t] < 0) continue;
    small.transfers.push_back(program.transfers[t]);
    made.times.transfer.push_back(times.transfer[t]);
    made.folded.message.push_back(number[static_cast<std::size_t>(all.message[t])]);
  }
  made.folded.representative = std::move(all.representative);
  made.folded.classes = all.classes;
  return made;
}

}  // namespace meshwright
