// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/folded_program.h"

namespace meshwright {

namespace {

std::vector<int> renumbered(const std::vector<int>& transfers, const std::vector<int>& number) {
  std::vector<int> kept;
  for (const int t : transfers)
    if (number[static_cast<std::size_t>(t)] >= 0) kept.push_back(number[static_cast<std::size_t>(t)]);
  return kept;
}

}  // namespace

bool worth_folding(const Program& program) { return program.devices.size() >= kMinDevicesToFold; }

std::vector<bool> transfers_of_representatives(const Program& program, const FoldedDevices& folded) {
  std::vector<bool> kept(program.transfers.size(), false);
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    if (folded.representative[d].index() != d) continue;
    for (const Instruction& instruction : program.devices[d]) {
      for (const int t : instruction.receives) kept[static_cast<std::size_t>(t)] = true;
      for (const int t : instruction.sends) kept[static_cast<std::size_t>(t)] = true;
    }
  }
  return kept;
}

FoldedProgram fold_program(const Program& program, const ProgramTimes& times) {
  FoldedDevices all = fold_devices(program, times);
  const std::vector<bool> kept = transfers_of_representatives(program, all);
  std::vector<int> number(kept.size(), -1);  // [transfer] in the folded program
  for (int t = 0, next = 0; t < static_cast<int>(kept.size()); ++t)
    if (kept[static_cast<std::size_t>(t)]) number[static_cast<std::size_t>(t)] = next++;
  FoldedProgram result;
  Program& small = result.program;
  small.stages = program.stages;
  small.buffers = program.buffers;
  small.executables = program.executables;
  small.stage_of_device = program.stage_of_device;
  small.microbatches = program.microbatches;
  small.schedule = program.schedule;
  small.persistent_bytes = program.persistent_bytes;
  small.host_bytes = program.host_bytes;
  small.devices.resize(program.devices.size());
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    if (all.representative[d].index() != d) continue;
    for (const Instruction& instruction : program.devices[d])
      small.devices[d].push_back({instruction.kind, instruction.executable, instruction.microbatch,
                                  renumbered(instruction.sends, number), renumbered(instruction.receives, number),
                                  instruction.buffers, instruction.waits});
  }
  result.times.executable = times.executable;
  for (std::size_t t = 0; t < number.size(); ++t) {
    if (number[t] < 0) continue;
    small.transfers.push_back(program.transfers[t]);
    result.times.transfer.push_back(times.transfer[t]);
    result.folded.message.push_back(number[static_cast<std::size_t>(all.message[t])]);
  }
  result.folded.representative = std::move(all.representative);
  result.folded.classes = all.classes;
  return result;
}

}  // namespace meshwright
