// SPDX-License-Identifier: Apache-2.0
// The sharding problem as an ILP for GLPK: the general exact method, and the oracle of the others.
#pragma once

#include <optional>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// The ILP of sharding_problem.h by GLPK (core/solver/glpk/solve_by_glpk.cpp, the only file that sees GLPK), rows named
// by their letter. nullopt: infeasible.
[[nodiscard]] std::optional<ShardingSolution> solve_by_glpk(const ShardingProblem& problem);

}  // namespace meshwright
