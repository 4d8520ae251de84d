// SPDX-License-Identifier: Apache-2.0
// What a problem costs at the least with any one strategy of any one node, all by one elimination.
//
// Variable elimination (core/solver/elimination/elimination.h) passes a table from every node to its parent; a pass
// back from the roots tells every table what lies outside of its subtree. A strategy's cost plus the tables below and
// beside it is then its min-marginal. Both passes together cost about three eliminations, however many strategies there
// are.
#pragma once

#include <memory>
#include <optional>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

class MinMarginals {
 public:
  static constexpr double kMaxEntries = 67108864.0;  // 2^26: 512 MiB each pass

  // Exact, with memory rows ignored. nullopt: the tables of one pass would have more than `max_entries` entries, in
  // the best order that was found. Throws InputError as require_consistent does.
  [[nodiscard]] static std::optional<MinMarginals> of(const ShardingProblem& problem, double max_entries = kMaxEntries);
  ~MinMarginals();
  MinMarginals(MinMarginals&&) noexcept;

  // The least total cost of all choices in which `node` takes `strategy`; nullopt: there are none.
  [[nodiscard]] std::optional<Seconds> least(int node, int strategy) const;
  // One of those that cost this; nodes of which several strategies would do take that of `like`. REQUIRES: there is
  // one; `like` has a strategy of every node.
  [[nodiscard]] ShardingChoice choice(int node, int strategy, const ShardingChoice& like) const;

 private:
  struct Tables;
  explicit MinMarginals(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

}  // namespace meshwright
