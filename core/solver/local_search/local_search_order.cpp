// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_order.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr int kDrawn = 4;  // nodes among which the one of highest degree leaves

// Min-weight elimination with a lazily updated heap: an entry counts only while it is the node's work as of now. Each
// change of a neighbour pushes a new entry, so O(edges log nodes) without ever searching the heap. Work is kept as a
// logarithm: products of label counts would overflow, and sums of logarithms are cheap to update.
class Elimination {
 public:
  Elimination(const std::vector<std::vector<int>>& around, const std::vector<double>& sizes, Random& random)
      : around_(around.begin(), around.begin() + static_cast<std::ptrdiff_t>(sizes.size())),
        here_(sizes.size(), 1),
        degree_(sizes.size()),
        random_(random) {
    for (double size : sizes) bits_.push_back(std::log2(size));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      degree_[i] = static_cast<int>(around_[i].size());
      work_.push_back(bits_[i]);
      for (int j : around_[i]) work_[i] += bits_[j];
      left_.push_back(static_cast<int>(i));
    }
    result_.rank.assign(sizes.size(), -1);
  }

  // Nodes with one label have nothing to choose: they leave first.
  BlockOrder run(double bits) {
    for (int i = 0; i < static_cast<int>(here_.size()); ++i)
      if (bits_[i] == 0.0) take_out(i);
    for (int i = 0; i < static_cast<int>(here_.size()); ++i)
      if (here_[i]) push(i);
    while (!waiting_.empty()) {
      const auto [work, i] = waiting_.top();
      waiting_.pop();
      if (!here_[i] || work > work_[i] + kRounding || work < work_[i] - kRounding) continue;
      if (work <= bits + kRounding) {
        eliminate(i);
      } else {
        // The cheapest node is too dear: some node has to leave, and the search goes on with a smaller graph.
        take_out(draw());
        if (here_[i]) push(i);
      }
    }
    return std::move(result_);
  }

 private:
  static constexpr double kRounding = 1e-6;

  void push(int i) { waiting_.emplace(work_[i], i); }

  void take_out(int i) {
    here_[i] = 0;
    for (int j : around_[i]) {
      if (!here_[j]) continue;
      --degree_[j];
      work_[j] -= bits_[i];
      push(j);
    }
  }

  // The neighbours become a clique: they stand in one table from now on.
  void eliminate(int i) {
    std::vector<int> around;
    for (int j : around_[i])
      if (here_[j]) around.push_back(j);
    result_.rank[i] = static_cast<int>(result_.order.size());
    result_.order.push_back(i);
    take_out(i);
    for (std::size_t a = 0; a < around.size(); ++a)
      for (std::size_t b = a + 1; b < around.size(); ++b) join(around[a], around[b]);
    for (int j : around) push(j);
  }

  void join(int a, int b) {
    if (around_[a].size() > around_[b].size()) std::swap(a, b);
    if (std::find(around_[a].begin(), around_[a].end(), b) != around_[a].end()) return;
    around_[a].push_back(b);
    around_[b].push_back(a);
    ++degree_[a];
    ++degree_[b];
    work_[a] += bits_[b];
    work_[b] += bits_[a];
  }

  // A node of high degree makes many tables smaller at once. Drawing only a few at random keeps blocks different from
  // call to call, which the descent lives on. Nodes that are gone are swept off the list as they are drawn.
  int draw() {
    int best = -1;
    for (int tries = 0; tries < kDrawn && !left_.empty();) {
      const int place = random_.below(static_cast<int>(left_.size()));
      const int i = left_[place];
      if (!here_[i]) {
        left_[place] = left_.back();
        left_.pop_back();
        continue;
      }
      if (best < 0 || degree_[i] > degree_[best]) best = i;
      ++tries;
    }
    return best;
  }

  std::vector<std::vector<int>> around_;  // may still name nodes that are gone
  std::vector<char> here_;
  std::vector<int> degree_;
  std::vector<double> bits_, work_;  // log2 of the labels; of the entries looked at to eliminate the node now
  std::vector<int> left_;            // all that are here, among others
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> waiting_;
  Random& random_;
  BlockOrder result_;
};

}  // namespace

BlockOrder block_order(const std::vector<std::vector<int>>& around, const std::vector<double>& sizes, double largest,
                       Random& random) {
  return Elimination(around, sizes, random).run(std::log2(largest));
}

}  // namespace meshwright::portfolio
