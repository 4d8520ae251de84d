// SPDX-License-Identifier: Apache-2.0
// The exact end game on a reduced field: elimination along a tree decomposition, branch and bound on Lagrangian bounds
// by elimination and by messages, GLPK with memory rows added as they are violated.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

struct FinishOptions {
  Budget budget;
  double upper_bound = kForbidden;  // only labels that cost less are looked for
  bool allow_glpk = true;
  double max_table = 67108864.0;                         // entries of one elimination table
  double max_work = kForbidden;                          // of each branch and bound: additions, or what takes as long
  std::vector<std::pair<int, double>> multipliers = {};  // (step, value) of rows that are thought to bind
};

struct Finish {
  bool complete = false;  // the search is exhausted: `labels`, if any, are optimal; else none is below upper_bound
  std::optional<Labels> labels;  // of the reduced field; best found below upper_bound
  double cost = kForbidden;
  double lower_bound = -kForbidden;  // over all labels below upper_bound; at most upper_bound
  std::string method;                // "elimination", "branch and bound" or "glpk"
};

// Elimination settles fields without rows; with rows it gives the bounds of a branch and bound; where its tables would
// be too large, messages give them first. GLPK has the second half of a finite budget. Costs closer to each other than
// 1e-11 of themselves are taken as equal; whole costs up to 10^12 are told apart exactly. REQUIRES: `reduced` is not
// infeasible.
[[nodiscard]] Finish finish(const Reduced& reduced, const FinishOptions& options);

}  // namespace meshwright::portfolio
