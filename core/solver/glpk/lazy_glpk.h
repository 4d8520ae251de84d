// SPDX-License-Identifier: Apache-2.0
// The field as an integer program over its local polytope (core/solver/problem/sharding_problem.h, rows (a)..(d)),
// solved by GLPK. Memory rows join it only when a solution exceeds them.
#pragma once

#include <optional>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

struct LazyGlpk {
  bool complete = false;             // `labels`, if any, are optimal; else none is below the cut
  std::optional<Labels> labels;      // that keep every row
  double lower_bound = -kForbidden;  // over all labels below the cut; infinity: there are none
};

// Looks for the cheapest labels that cost less than `cut`. Numbers within GLPK's tolerances (some 1e-7 of the largest
// cost) are not told apart; memory is, exactly. Throws SystemError where GLPK was built without thread-local storage.
[[nodiscard]] LazyGlpk solve_by_lazy_glpk(const Reduced& reduced, double cut, const Budget& budget);

}  // namespace meshwright::portfolio
