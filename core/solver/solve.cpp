// SPDX-License-Identifier: Apache-2.0
#include "core/solver/solve.h"

#include <utility>

#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/portfolio/portfolio.h"

namespace meshwright {

std::optional<ShardingSolution> solve(const ShardingProblem& problem) {
  if (fits_elimination(problem)) {
    std::optional<ShardingSolution> unconstrained = solve_by_elimination(problem);
    if (!unconstrained || !problem.memory_limit) return unconstrained;
    // The least of all choices is also the least of those within the limit when it is one of them.
    if (evaluate(problem, unconstrained->choice).violations.empty()) return unconstrained;
  }
  portfolio::Result found = portfolio::solve(portfolio::make_field(problem), {});
  if (found.proven_infeasible) return std::nullopt;
  if (!found.labels) return solve_by_glpk(problem);
  return ShardingSolution{{std::move(*found.labels)}, Seconds(found.cost), Seconds(found.lower_bound), found.method};
}

}  // namespace meshwright
