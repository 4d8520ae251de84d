// SPDX-License-Identifier: Apache-2.0
// Which nodes the local search takes as one block: everything, or the nodes around one node.
#pragma once

#include <vector>

#include "core/solver/local_search/local_search_model.h"

namespace meshwright::portfolio {

class Regions {
 public:
  explicit Regions(const SearchModel& model);

  [[nodiscard]] const std::vector<int>& everything() const { return free_; }  // nodes with a choice
  // About `size` nodes around `center`, breadth first, and all trees that hang from them: those cost little to solve
  // and would hold the others in place if they stayed out.
  void ball(int center, int size, Random& random, std::vector<int>& result);
  // Another one besides, around some node that shares memory rows with `center`: what one ball saves the other may
  // take.
  void second_ball(int center, int size, Random& random, std::vector<int>& result);

 private:
  void grow(int center, std::size_t size, Random& random, std::vector<int>& result);
  [[nodiscard]] bool share_rows(int a, int b) const;
  void hang_trees();
  void add(int node, std::vector<int>& result);

  const SearchModel& model_;
  std::vector<int> free_;
  std::vector<int> parent_;                 // [node] in its tree; -1: a root, or not in a tree
  std::vector<std::vector<int>> children_;  // [node] with a choice
  std::vector<int> seen_;                   // [node] in which call
  int call_ = 0;
};

}  // namespace meshwright::portfolio
