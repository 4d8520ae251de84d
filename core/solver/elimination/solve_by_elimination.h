// SPDX-License-Identifier: Apache-2.0
// The sharding problem without memory rows, exactly, by variable elimination.
#pragma once

#include <optional>
#include <vector>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// Whether the tables of the elimination below stay small enough to be made (2^26 entries each, 2^27 together).
[[nodiscard]] bool fits_elimination(const ShardingProblem& problem);

// Exact min-sum variable elimination (bucket elimination, smallest resulting table first) for problems whose memory
// rows cannot bind or are absent; cost grows with the width of the graph, which is small for model graphs. nullopt:
// infeasible. REQUIRES: fits_elimination; memory rows absent, or satisfied by every choice (they are not looked at, so
// that `solve` may try the unconstrained optimum first).
[[nodiscard]] std::optional<ShardingSolution> solve_by_elimination(const ShardingProblem& problem);

// For two nodes `a` != `b`: least total cost for every pair of their strategies, [p * strategies(b) + q]; memory rows
// ignored. nullopt entries: that pair is infeasible. One elimination serves all pairs (or, for graphs too wide for it,
// one ILP per pair).
[[nodiscard]] std::vector<std::optional<Seconds>> pairwise_costs(const ShardingProblem& problem, int a, int b);

}  // namespace meshwright
