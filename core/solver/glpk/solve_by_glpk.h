// SPDX-License-Identifier: Apache-2.0
// The sharding problem as an integer program (core/solver/problem/sharding_problem.h, rows (a)..(d)), solved by GLPK:
// the general exact method, and the oracle of the others.
//
// Numbers within GLPK's tolerances (some 1e-7 of the largest cost) are not told apart; memory is, exactly. Both throw
// SystemError where GLPK was built without thread-local storage.
#pragma once

#include <optional>

#include "core/solver/presolve/presolve.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// The whole program, nothing reduced. nullopt: infeasible.
[[nodiscard]] std::optional<ShardingSolution> solve_by_glpk(const ShardingProblem& problem);

namespace portfolio {

struct GlpkResult {
  bool complete = false;             // `labels`, if any, are optimal; else none is below the cut
  std::optional<Labels> labels;      // that keep every row
  double lower_bound = -kForbidden;  // over all labels below the cut; infinity: there are none
};

// Looks for the cheapest labels that cost less than `cut`. Memory rows join the program only when a solution exceeds
// them.
[[nodiscard]] GlpkResult solve_by_lazy_glpk(const Reduced& reduced, double cut, const Budget& budget);

}  // namespace portfolio

}  // namespace meshwright
