// SPDX-License-Identifier: Apache-2.0
// What a run keeps of its last step besides what lives on: operands of some ops, read just before the ops run. Internal
// to the executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"

namespace meshwright {

// Which operand of an op is kept.
struct KeptOperand {
  std::size_t operand;
  std::string parameter;  // whose gradient it is; empty: the logits
};
[[nodiscard]] std::map<OpId, KeptOperand> kept_operands(const Graph& graph, const RunOptions& options);

// A device's tile of one, without padding.
struct KeptTile {
  OpId reader{0};
  DeviceId device{0};
  int microbatch = 0;
  std::vector<std::int64_t> offset, extent;
  std::vector<double> values;
};
// Replicas hold the same tile, of which any counts.
void place_kept(const Graph& graph, const std::map<OpId, KeptOperand>& operands, const KeptTile& tile,
                RunResult& result);

}  // namespace meshwright
