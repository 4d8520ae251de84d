// SPDX-License-Identifier: Apache-2.0
// The driver of the solvers.
#pragma once

#include <optional>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// The optimum. Elimination where it applies: always when no memory limit is set, and with one when the unconstrained
// optimum keeps it (it is then the constrained optimum too). Else the portfolio (core/solver/portfolio/portfolio.h),
// whose work is limited: the optimum is proven where lower_bound equals cost, else it lies between the two. GLPK, with
// no limit, only where the portfolio has found no choice at all. nullopt: infeasible, proven.
[[nodiscard]] std::optional<ShardingSolution> solve(const ShardingProblem& problem);

}  // namespace meshwright
