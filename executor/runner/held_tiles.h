// SPDX-License-Identifier: Apache-2.0
// What every device holds in the end, replicas and the copies of tied parameters included. Internal to the executor.
#pragma once

#include <map>
#include <vector>

#include "core/graph/graph.h"
#include "executor/base/run_result.h"
#include "executor/runner/device_runner.h"
#include "executor/runner/kept_tiles.h"
#include "executor/runner/run_part.h"

namespace meshwright {

// Of parameters and states. Waits for the device.
void add_held(const RunContext& context, const DeviceRunner& runner, std::vector<HeldTile>& held);

// Takes them out of the part, and adds the gradients among what it has kept.
void take_held(const Graph& graph, const std::map<OpId, KeptOperand>& operands, RunPart& part,
               std::vector<HeldTile>& held);

}  // namespace meshwright
