// SPDX-License-Identifier: Apache-2.0
// Upper bounds: decoding labels along a guide, repair of memory, iterated local search with restarts.
//
// Memory over liveness steps is kept in a segment tree (add on an interval, largest value of an interval), so that
// trying a move costs O(log steps) and a move's cost difference O(degree).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/planner/portfolio/presolve.h"

namespace meshwright::portfolio {

// What a relaxation knows of each label: lower is better (its min-marginals, or any reparametrised costs).
using Guide = std::vector<std::vector<double>>;  // [node][label]

class LocalSearch {
 public:
  // Keeps a reference. Memory: the rows and pieces of `reduced` (a node may have several pieces; every row has its own
  // limit), so that the search runs on what presolve left. `unreduced` (presolve.h) makes one from a plain field.
  LocalSearch(const Reduced& reduced, std::uint64_t seed);
  ~LocalSearch();

  // Labels decided node by node along the guide given the neighbours already decided, then repaired until they keep
  // the limit, then improved. Without a guide: from the node costs.
  void start_from(const Guide* guide);
  void start_from(const Labels& labels);

  // Improves until `stop` says so (asked at least every few milliseconds) or nothing is left to try.
  void run(const std::function<bool()>& stop);

  [[nodiscard]] const std::optional<Labels>& best() const;  // feasible
  [[nodiscard]] double best_cost() const;                   // infinity: none yet

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::portfolio
