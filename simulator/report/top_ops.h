// SPDX-License-Identifier: Apache-2.0
// The ops on which a step spends the most time, equal work taken together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/program/folded_devices.h"
#include "simulator/report/run_parts.h"

namespace meshwright {

struct TopOp {
  std::string name;  // of the first op that does this work
  int others = 0;    // further ops of its stage and the others that do the same
  TimePart part;
  OpWork work{OpKind::Add, DType::F32, Flops(0.0), Bytes(0.0), ""};  // of one
  Seconds time{0.0};                                                 // of one
  Basis basis = Basis::Modelled;                                     // of that time
  double roofline = 0.0;     // share of it that the FLOPs and bytes take at the device's peaks
  std::int64_t runs = 0;     // in a step, on all devices
  Seconds device_time{0.0};  // of all of these
};

// By device time, largest first; equal ones by signature. Computations alone, no collectives. `folded`: as the program
// was lowered.
[[nodiscard]] std::vector<TopOp> top_ops(const Program& program, const Graph& graph, const RunParts& parts,
                                         const CostModel& costs, const FoldedDevices* folded = nullptr);

}  // namespace meshwright
