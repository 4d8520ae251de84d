// SPDX-License-Identifier: Apache-2.0
// Puts together what the processes of a run know (run_part.h). Internal to the executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/plan/program/program.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"
#include "executor/runner/run_part.h"

namespace meshwright {

// The names of the parameters; of Adam's second moments, by the parameter that each belongs to.
[[nodiscard]] std::map<TensorId, std::string> parameters_of(const Graph& graph);
[[nodiscard]] std::map<TensorId, std::string> second_moments_of(const Graph& graph);

// A tile that the result has, or that makes part of what it has: of each tensor every part once.
struct WantedTile {
  BufferId buffer;
  DeviceId device;
};
// The same in every process: each hands on those of its devices, in this order.
[[nodiscard]] std::vector<WantedTile> wanted_tiles(const Graph& graph, const Program& program,
                                                   const RunOptions& options);

// Every part of every parameter and state once: what training goes on from.
[[nodiscard]] std::vector<WantedTile> state_tiles(const Graph& graph, const Program& program);

// Adds the times of some devices to those of others.
void add_op_times(const OpTimes& part, OpTimes& all);

// `parts`: of all processes, in any order; their tiles are taken out.
[[nodiscard]] RunResult assemble(const Graph& graph, const Program& program, const RunOptions& options,
                                 std::vector<RunPart>& parts);

}  // namespace meshwright
