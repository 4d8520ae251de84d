// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "core/solver/elimination/elimination.h"

namespace meshwright::portfolio {

namespace {

constexpr std::size_t kMostNodesForFill = 1500;  // counting fill looks at all pairs of neighbours
constexpr double kLittleWork = 20000.0;          // a pass below this is not worth a better order

std::size_t at(int i) { return static_cast<std::size_t>(i); }

enum class Prefer { SmallTable, LittleFill };

// The graph that is left while nodes are eliminated; the neighbours of an eliminated node have become a clique.
class Shrinking {
 public:
  Shrinking(const Field& field, Prefer prefer) : prefer_(prefer), around_(field.nodes.size()) {
    for (const Field::Node& node : field.nodes) labels_.push_back(static_cast<double>(node.cost.size()));
    for (const Field::Edge& edge : field.edges) {
      around_[at(edge.u)].push_back(edge.v);
      around_[at(edge.v)].push_back(edge.u);
    }
    for (auto& nodes : around_) {
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    }
    version_.assign(around_.size(), 0);
    for (int i = 0; i < static_cast<int>(around_.size()); ++i) wait(i);
  }

  // The best node that waits; false: none.
  bool next(int& node) {
    while (!waiting_.empty()) {
      const auto [first, second, candidate, version] = waiting_.top();
      if (version == version_[at(candidate)]) {
        node = candidate;
        return true;
      }
      waiting_.pop();
    }
    return false;
  }

  [[nodiscard]] double table(int node) const {
    double size = 1.0;
    for (int other : around_[at(node)]) size *= labels_[at(other)];
    return size;
  }
  [[nodiscard]] double work(int node) const {
    return table(node) * labels_[at(node)] * static_cast<double>(around_[at(node)].size() + 1);
  }

  void eliminate(int node) {
    version_[at(node)] = -1;
    const std::vector<int> clique = std::move(around_[at(node)]);
    for (int a : clique) {
      joined_.clear();
      std::set_union(around_[at(a)].begin(), around_[at(a)].end(), clique.begin(), clique.end(),
                     std::back_inserter(joined_));
      joined_.erase(std::remove_if(joined_.begin(), joined_.end(), [&](int b) { return b == a || b == node; }),
                    joined_.end());
      around_[at(a)] = joined_;
    }
    for (int a : clique) wait(a);
  }

 private:
  void wait(int node) {
    double fill = 0.0;
    if (prefer_ == Prefer::LittleFill)
      for (int a : around_[at(node)])
        for (int b : around_[at(node)])
          if (a < b && !std::binary_search(around_[at(a)].begin(), around_[at(a)].end(), b))
            fill += labels_[at(a)] * labels_[at(b)];
    const double size = table(node) * labels_[at(node)];
    waiting_.emplace(prefer_ == Prefer::LittleFill ? fill : table(node), size, node, ++version_[at(node)]);
  }

  using Entry = std::tuple<double, double, int, int>;  // preferred, tie, node, version
  Prefer prefer_;
  std::vector<double> labels_;
  std::vector<std::vector<int>> around_;
  std::vector<int> version_, joined_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting_;
};

std::optional<EliminationOrder> order_by(const Field& field, Prefer prefer, double largest_table) {
  Shrinking graph(field, prefer);
  EliminationOrder order;
  for (int node = 0; graph.next(node);) {
    order.largest = std::max(order.largest, graph.table(node));
    order.work += graph.work(node);
    if (order.largest > largest_table) return std::nullopt;
    order.nodes.push_back(node);
    graph.eliminate(node);
  }
  return order;
}

}  // namespace

std::optional<EliminationOrder> elimination_order(const Field& field, double largest_table) {
  std::optional<EliminationOrder> best = order_by(field, Prefer::SmallTable, largest_table);
  if (best && best->work < kLittleWork) return best;
  if (field.nodes.size() > kMostNodesForFill) return best;
  std::optional<EliminationOrder> other = order_by(field, Prefer::LittleFill, largest_table);
  return other && (!best || other->work < best->work) ? other : best;
}

std::vector<int> bounded_elimination_order(const Field& field, double largest_table) {
  Shrinking graph(field, Prefer::SmallTable);
  std::vector<int> order;
  std::vector<bool> done(field.nodes.size(), false);
  for (int node = 0; graph.next(node) && graph.table(node) <= largest_table; graph.eliminate(node)) {
    order.push_back(node);
    done[at(node)] = true;
  }
  std::vector<std::pair<double, int>> rest;
  for (int i = 0; i < static_cast<int>(field.nodes.size()); ++i)
    if (!done[at(i)]) rest.emplace_back(graph.table(i), i);
  std::sort(rest.begin(), rest.end());
  for (const auto& [size, node] : rest) order.push_back(node);
  return order;
}

}  // namespace meshwright::portfolio
