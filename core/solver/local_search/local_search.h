// SPDX-License-Identifier: Apache-2.0
// Upper bounds: labels decoded along messages while memory has a price, large neighbourhood descent, and fusion of the
// labels found.
//
// A move chooses the labels of a whole block of nodes anew by min-sum elimination, so that forbidden pairs cannot hold
// a node in place. Memory over rows is kept in segment trees: trying a label change costs O(degree + log rows).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

// What a relaxation knows of each label: lower is better (its min-marginals, or any reparametrised costs).
using Guide = std::vector<std::vector<double>>;  // [node][label]

class LocalSearch {
 public:
  // Keeps a reference. Memory: the rows and pieces of `reduced` (a node may have several pieces; every row has its own
  // limit), so that the search runs on what presolve left. `unreduced` (presolve.h) makes one from a plain field.
  LocalSearch(const Reduced& reduced, std::uint64_t seed);
  ~LocalSearch();

  // Where `run` begins: labels decided node by node along the guide given the neighbours already decided. Without a
  // guide, or without a call: labels decoded along the search's own messages.
  void start_from(const Guide* guide);
  void start_from(const Labels& labels);  // they need not be feasible; kept if they are the best so far

  // Improves until `stop` says so (asked every few milliseconds on fields of some thousand nodes, at least once per
  // pass over the edges on larger ones) or until there is no node with a choice. May be called again to go on. The same
  // calls with the same answers of `stop` lead to the same labels.
  void run(const std::function<bool()>& stop);

  // Feasible, recomputed from nothing; may lag behind by some hundred moves while `run` goes on.
  [[nodiscard]] const std::optional<Labels>& best() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::portfolio
