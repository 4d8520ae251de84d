// SPDX-License-Identifier: Apache-2.0
// A whole elimination as a list of steps: which tables each adds up, and which step takes its result.
#pragma once

#include <memory>
#include <vector>

#include "core/solver/elimination/combine_tables.h"

namespace meshwright::elimination {

// Tables are numbered: the given ones first, then the result of each step.
struct Step {
  std::vector<int> sources;  // tables, ascending
  Combination combination;
};
struct Steps {
  int given = 0;                                            // tables
  std::vector<Step> steps;                                  // nodes in the order of elimination
  IndexedVector<int, std::shared_ptr<const Shape>> shapes;  // [table]
  IndexedVector<int, int> taken_by;                         // [table] step; -1: none
  [[nodiscard]] int result_of(std::size_t step) const { return given + static_cast<int>(step); }
};

// Eliminates the nodes of `order` one by one; a table is taken by the first of its nodes. Where the result of a step
// would have more than `max_table` entries, its tables are parted over several steps that choose the node's strategy
// independently of one another, each with the given tables of the node alone, as far as single tables allow it
// (mini-buckets, Dechter and Rish 2003).
[[nodiscard]] Steps plan_steps(const Domain& domain, std::vector<std::shared_ptr<const Shape>> given,
                               const std::vector<int>& order, double max_table = kForbidden);

}  // namespace meshwright::elimination
