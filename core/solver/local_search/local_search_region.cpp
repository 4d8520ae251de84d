// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_region.h"

#include <algorithm>

namespace meshwright::portfolio {

namespace {
constexpr int kTries = 16;                // nodes drawn to find one that shares memory rows
constexpr std::size_t kMaxFollowed = 24;  // neighbours of one node, so that a hub does not fill the region
}  // namespace

Regions::Regions(const SearchModel& model)
    : model_(model), parent_(model.nodes(), -1), children_(model.nodes()), seen_(model.nodes(), 0) {
  for (int i = 0; i < model.nodes(); ++i)
    if (model.labels(i) > 1) free_.push_back(i);
  hang_trees();
}

// Leaves are taken off until none is left; each hangs from the neighbour it had then.
void Regions::hang_trees() {
  std::vector<int> degree(model_.nodes(), 0);
  for (int i : free_)
    for (const SearchModel::Neighbour& neighbour : model_.neighbours(i)) degree[i] += model_.labels(neighbour.node) > 1;
  std::vector<int> leaves;
  std::vector<char> gone(degree.size(), 0);
  for (int i : free_)
    if (degree[i] == 1) leaves.push_back(i);
  // The list grows while it is walked along: a node whose last child went becomes a leaf itself.
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    const int leaf = leaves[n];
    // The last two nodes of a tree are both leaves: when one is gone, the other is its root.
    if (degree[leaf] != 1) continue;
    gone[leaf] = 1;
    for (const SearchModel::Neighbour& neighbour : model_.neighbours(leaf)) {
      const int other = neighbour.node;
      if (gone[other] || model_.labels(other) == 1) continue;
      parent_[leaf] = other;
      children_[other].push_back(leaf);
      if (--degree[other] == 1) leaves.push_back(other);
    }
  }
}

void Regions::add(int node, std::vector<int>& result) {
  if (seen_[node] == call_) return;
  seen_[node] = call_;
  result.push_back(node);
}

void Regions::ball(int center, int size, Random& random, std::vector<int>& result) {
  ++call_;
  result.clear();
  grow(center, size, random, result);
}

void Regions::second_ball(int center, int size, Random& random, std::vector<int>& result) {
  for (int tries = 0; tries < kTries; ++tries) {
    const int other = free_[random.below(static_cast<int>(free_.size()))];
    if (!share_rows(center, other)) continue;
    grow(other, result.size() + size, random, result);
    return;
  }
}

bool Regions::share_rows(int a, int b) const {
  for (const SearchModel::Piece& first : model_.pieces(a))
    for (const SearchModel::Piece& second : model_.pieces(b))
      if (first.begin < second.end && second.begin < first.end) return true;
  return false;
}

// From the root of the tree that the center hangs in: the tree itself is added at the end with all others. A hub's
// neighbours are drawn at random instead of listed, so that the region does not end with the first hub.
void Regions::grow(int center, std::size_t size, Random& random, std::vector<int>& result) {
  while (parent_[center] >= 0) center = parent_[center];
  const std::size_t before = result.size();
  add(center, result);
  for (std::size_t n = before; n < result.size() && result.size() < size; ++n) {
    const auto neighbours = model_.neighbours(result[n]);
    const bool hub = neighbours.size() > kMaxFollowed;
    for (std::size_t k = 0; k < std::min(neighbours.size(), kMaxFollowed) && result.size() < size; ++k) {
      const int other = neighbours[hub ? (random.below(static_cast<int>(neighbours.size()))) : k].node;
      if (model_.labels(other) > 1 && parent_[other] < 0) add(other, result);
    }
  }
  // The list grows while it is walked along, so that grandchildren follow.
  for (std::size_t n = before; n < result.size(); ++n)
    for (int child : children_[result[n]]) add(child, result);
}

}  // namespace meshwright::portfolio
