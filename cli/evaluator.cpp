// SPDX-License-Identifier: Apache-2.0
#include "cli/evaluator.h"

namespace meshwright {

namespace {

constexpr double kClock = 9e18;  // picoseconds

}  // namespace

// No instruction waits for anything but others of the program, so a step takes at most the sum of them all. A duration
// beyond the clock comes out of the conversion negative.
PricedProgram price_for_clock(const Program& program, const CostModel& costs) {
  PricedProgram priced = price_program(program, costs);
  double total = 0.0;
  const auto add = [&](SimTime time) { total = time.ps < 0 ? kClock : total + static_cast<double>(time.ps); };
  for (const SimTime time : priced.times.transfer) add(time);
  for (const std::vector<Instruction>& device : program.devices)
    for (const Instruction& instruction : device)
      if (instruction.kind == Instruction::Kind::Run)
        add(priced.times.executable[static_cast<std::size_t>(instruction.executable)]);
  require(total < kClock,
          "a step would take longer than can be simulated (106 days); check the units of the cluster's rates.");
  return priced;
}

}  // namespace meshwright
