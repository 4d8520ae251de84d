// SPDX-License-Identifier: Apache-2.0
// The exact end game on a reduced field: elimination along a tree decomposition, branch and bound on Lagrangian bounds,
// GLPK with memory rows added as they are violated.
#pragma once

#include <optional>
#include <string>

#include "core/planner/portfolio/presolve.h"

namespace meshwright::portfolio {

struct FinishOptions {
  Budget budget;
  double upper_bound = kForbidden;  // only labels that cost less are looked for
  bool allow_glpk = true;
  double largest_table = 67108864.0;  // entries of one elimination table
  double most_work = kForbidden;      // of the branch and bound: additions of its eliminations, or what takes as long
};

struct Finish {
  bool complete = false;  // the search is exhausted: `labels`, if any, are optimal; else none is below upper_bound
  std::optional<Labels> labels;  // of the reduced field; best found below upper_bound
  double cost = kForbidden;
  double lower_bound = -kForbidden;  // over all labels below upper_bound; at most upper_bound
  std::string method;                // "elimination", "branch and bound" or "glpk"
};

// Elimination settles fields without rows; with rows, or where its tables must be split, it gives the bounds of a
// branch and bound, and GLPK has the second half of a finite budget. Costs closer to each other than 1e-11 of
// themselves are taken as equal; whole costs up to 10^12 are told apart exactly. REQUIRES: `reduced` is not infeasible.
[[nodiscard]] Finish finish(const Reduced& reduced, const FinishOptions& options);

}  // namespace meshwright::portfolio
