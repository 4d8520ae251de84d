// SPDX-License-Identifier: Apache-2.0
// A whole elimination as a list of steps: which tables each adds up, and which step takes its result.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/solver/elimination/combine_tables.h"

namespace meshwright::elimination {

// Tables are numbered: the given ones first, then the result of each step.
struct Step {
  std::vector<int> sources;  // tables, ascending
  Combination combination;
  // Steps of one kind make the same of tables with the same costs, whatever their nodes are called. Steps of
  // plan_steps have none.
  int kind = -1;
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

// Orders and steps, found once: many problems of a search differ in their costs alone. Any number of threads may ask at
// the same time; what they get does not depend on what was asked before.
class KnownSteps {
 public:
  // plan_steps by the order of search_for_models(). nullptr: no order keeps its limits.
  // REQUIRES: `structure` is that of the tables `given`.
  [[nodiscard]] std::shared_ptr<const Steps> find(const Structure& structure,
                                                  const std::vector<std::shared_ptr<const Shape>>& given,
                                                  const std::vector<int>& kept = {});
  [[nodiscard]] std::size_t searched() const;  // structures for which an order was looked for

 private:
  using Key = std::pair<Structure, std::vector<int>>;  // (structure, kept)
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  struct Known {
    std::optional<EliminationOrder> order;
    // The steps of given tables that differ in their classes, by a hash of these.
    std::unordered_multimap<std::size_t, std::shared_ptr<const Steps>> steps;
  };
  static constexpr std::size_t kMaxSteps = 256;  // that are kept of one structure
  void number_kinds(Steps& steps);               // REQUIRES: the lock is held

  mutable std::mutex mutex_;
  std::map<std::vector<int>, int> classes_, kinds_;  // strategies' classes, and steps, by what tells them apart
  std::unordered_map<Key, Known, Hash> known_;
};

}  // namespace meshwright::elimination
