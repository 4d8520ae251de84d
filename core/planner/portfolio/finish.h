// SPDX-License-Identifier: Apache-2.0
// The exact end game on a reduced field: elimination along a tree decomposition, branch and bound, GLPK with memory
// rows added as they are violated.
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
};

struct Finish {
  bool complete = false;  // the search is exhausted: `labels`, if any, are optimal; else none is below upper_bound
  std::optional<Labels> labels;  // best found below upper_bound
  double cost = kForbidden;
  double lower_bound = -kForbidden;  // over all labels below upper_bound; at most upper_bound
  std::string method;
};

// Elimination when every table fits and no row binds; with rows, elimination on Lagrangian costs gives bounds and
// branch and bound closes the rest, or GLPK does. `reduced` is not infeasible.
[[nodiscard]] Finish finish(const Reduced& reduced, const FinishOptions& options);

}  // namespace meshwright::portfolio
