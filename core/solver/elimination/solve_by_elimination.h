// SPDX-License-Identifier: Apache-2.0
// The sharding problem without memory rows, exactly, by variable elimination: a node is eliminated by adding up all
// tables that contain it and keeping, for every combination of its neighbours' strategies, the minimum over its own. A
// chain of n nodes with s strategies costs n s^3; the cost grows with the width of the graph, which is small for
// models.
#pragma once

#include <optional>
#include <vector>

#include "core/solver/elimination/known_tables.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// Whether the tables stay within search_for_models() (elimination_order.h).
[[nodiscard]] bool fits_elimination(const ShardingProblem& problem);

// nullopt: infeasible. REQUIRES: fits_elimination; memory rows absent, or satisfied by every choice (they are not
// looked at, so that `solve` may try the unconstrained optimum first).
[[nodiscard]] std::optional<ShardingSolution> solve_by_elimination(const ShardingProblem& problem);

namespace elimination {

// For two nodes `a` != `b`: the least total cost for every pair of their strategies, [p * strategies(b) + q]; an
// infeasible pair is nullopt. One elimination serves all pairs. nullopt: the tables do not fit.
[[nodiscard]] std::optional<std::vector<std::optional<Seconds>>> pairwise_costs(const std::vector<Table>& given, int a,
                                                                                int b, KnownSteps& steps,
                                                                                KnownTables& tables);

}  // namespace elimination

}  // namespace meshwright
