// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_order.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr int kDrawn = 4;  // nodes among which the one of highest degree leaves

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
      for (int j : around_[i]) work_[i] += bits_[at(j)];
      left_.push_back(static_cast<int>(i));
    }
    result_.rank.assign(sizes.size(), -1);
  }

  BlockOrder run(double bits) {
    for (int i = 0; i < static_cast<int>(here_.size()); ++i)
      if (bits_[at(i)] == 0.0) take_out(i);
    for (int i = 0; i < static_cast<int>(here_.size()); ++i)
      if (here_[at(i)]) push(i);
    while (!waiting_.empty()) {
      const auto [work, i] = waiting_.top();
      waiting_.pop();
      if (!here_[at(i)] || work > work_[at(i)] + kRounding || work < work_[at(i)] - kRounding) continue;
      if (work <= bits + kRounding) {
        eliminate(i);
      } else {
        take_out(draw());
        if (here_[at(i)]) push(i);
      }
    }
    return std::move(result_);
  }

 private:
  static constexpr double kRounding = 1e-6;

  void push(int i) { waiting_.emplace(work_[at(i)], i); }

  void take_out(int i) {
    here_[at(i)] = 0;
    for (int j : around_[at(i)]) {
      if (!here_[at(j)]) continue;
      --degree_[at(j)];
      work_[at(j)] -= bits_[at(i)];
      push(j);
    }
  }

  void eliminate(int i) {
    std::vector<int> around;
    for (int j : around_[at(i)])
      if (here_[at(j)]) around.push_back(j);
    result_.rank[at(i)] = static_cast<int>(result_.order.size());
    result_.order.push_back(i);
    take_out(i);
    for (std::size_t a = 0; a < around.size(); ++a)
      for (std::size_t b = a + 1; b < around.size(); ++b) join(around[a], around[b]);
    for (int j : around) push(j);
  }

  void join(int a, int b) {
    if (around_[at(a)].size() > around_[at(b)].size()) std::swap(a, b);
    if (std::find(around_[at(a)].begin(), around_[at(a)].end(), b) != around_[at(a)].end()) return;
    around_[at(a)].push_back(b);
    around_[at(b)].push_back(a);
    ++degree_[at(a)];
    ++degree_[at(b)];
    work_[at(a)] += bits_[at(b)];
    work_[at(b)] += bits_[at(a)];
  }

  int draw() {
    int best = -1;
    for (int tries = 0; tries < kDrawn && !left_.empty();) {
      const int place = random_.below(static_cast<int>(left_.size()));
      const int i = left_[at(place)];
      if (!here_[at(i)]) {
        left_[at(place)] = left_.back();
        left_.pop_back();
        continue;
      }
      if (best < 0 || degree_[at(i)] > degree_[at(best)]) best = i;
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
