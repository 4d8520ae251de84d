// SPDX-License-Identifier: Apache-2.0
// What the executables and transfers of a Program take.
#pragma once

#include <vector>

#include "core/plan/program/program.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

struct ProgramTimes {
  std::vector<SimTime> executable;  // [executable]
  std::vector<SimTime> transfer;    // [transfer]
};

// Sums what the cost model says of every local op and transfer. `basis`: seconds by basis, for the report.
struct ProgramCosts {
  ProgramTimes times;
  struct {
    Seconds measured{0.0}, interpolated{0.0}, modelled{0.0};
  } basis;  // of the executables' time, each executable counted as often as it runs on one device
};
[[nodiscard]] ProgramCosts program_costs(const Program& program, const CostModel& costs);
// The same where logical devices share physical ones, `physical` [device]: what passes between two on one is copied
// there, packed and unpacked, and the collectives of a stage that lies on one read and write its memory: an all-reduce
// of n bytes 3 n of each member, an all-gather or all-to-all 2 n, a reduce-scatter n and what is left of it.
[[nodiscard]] ProgramCosts program_costs(const Program& program, const CostModel& costs,
                                         const std::vector<int>& physical);

}  // namespace meshwright
