// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/elimination_order.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include "core/base/random.h"

namespace meshwright::elimination {

namespace {

constexpr std::size_t kMaxNodesForFill = 1500;  // counting fill looks at all pairs of neighbours
constexpr double kLittleWork = 20000.0;         // below, least fill is not tried
constexpr double kLittleWorkNearGreedy = 1e7;   // below, no other order is tried
constexpr int kNearGreedyTries = 100;
constexpr int kEliminated = -1;

// Which node goes next: the least key, then the least tie, then the lowest index.
enum class Prefer { SmallTable, SmallTableSmallNode, SmallTableDistorted, LeastFill };

// The graph that is left while nodes are eliminated; the neighbours of an eliminated node have become a clique.
//
// A node's key changes only when one of its neighbours is eliminated. It then joins the queue once more under a new
// version, and entries of older versions are passed over.
class ShrinkingGraph {
 public:
  // `random`: for SmallTableDistorted; nullptr otherwise.
  ShrinkingGraph(const Structure& structure, Prefer prefer, const std::vector<int>& kept, Random* random)
      : prefer_(prefer),
        random_(random),
        domain_(structure.domain),
        around_(structure.domain.size()),
        version_(structure.domain.size(), 0) {
    for (const auto& [a, b] : structure.edges) {
      around_[a].push_back(b);
      around_[b].push_back(a);
    }
    for (std::vector<int>& nodes : around_) {
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    }
    for (const int node : kept) version_[node] = kEliminated;  // it never waits
    for (int node = 0; node < domain_.count(); ++node) enqueue(node);
  }

  [[nodiscard]] std::optional<int> next() {
    for (; !waiting_.empty(); waiting_.pop()) {
      const auto& [key, tie, node, version] = waiting_.top();
      if (version == version_[node]) return node;
    }
    return std::nullopt;
  }

  // Entries of the table that eliminating the node makes.
  [[nodiscard]] double table(int node) const {
    double size = 1.0;
    for (const int other : around_[node]) size *= static_cast<double>(domain_[other]);
    return size;
  }
  [[nodiscard]] double combinations(int node) const { return table(node) * static_cast<double>(domain_[node]); }
  // A table per neighbour and one of the node's own, as a rule.
  [[nodiscard]] double additions(int node) const {
    return combinations(node) * static_cast<double>(around_[node].size() + 1);
  }

  void eliminate(int node) {
    version_[node] = kEliminated;
    const std::vector<int> clique = std::move(around_[node]);
    for (const int a : clique) {
      joined_.clear();
      std::set_union(around_[a].begin(), around_[a].end(), clique.begin(), clique.end(), std::back_inserter(joined_));
      std::erase_if(joined_, [&](int b) { return b == a || b == node; });
      around_[a] = joined_;
    }
    for (const int a : clique) enqueue(a);
  }

 private:
  void enqueue(int node) {
    if (version_[node] == kEliminated) return;
    double key = table(node), tie = 0.0;
    if (prefer_ == Prefer::SmallTableDistorted) key *= std::exp2(4.0 * random_->unit() - 2.0);
    if (prefer_ == Prefer::SmallTableSmallNode || prefer_ == Prefer::LeastFill) tie = combinations(node);
    if (prefer_ == Prefer::LeastFill) key = fill(node);
    waiting_.emplace(key, tie, node, ++version_[node]);
  }

  // Entries of the edges that the node's elimination adds.
  [[nodiscard]] double fill(int node) const {
    double sum = 0.0;
    for (const int a : around_[node])
      for (const int b : around_[node])
        if (a < b && !std::binary_search(around_[a].begin(), around_[a].end(), b))
          sum += static_cast<double>(domain_[a]) * static_cast<double>(domain_[b]);
    return sum;
  }

  using Entry = std::tuple<double, double, int, int>;  // key, tie, node, version
  const Prefer prefer_;
  Random* const random_;
  const Domain& domain_;
  IndexedVector<int, std::vector<int>> around_;  // [node] ascending
  IndexedVector<int, int> version_;
  std::vector<int> joined_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting_;
};

std::optional<EliminationOrder> order_by(const Structure& structure, Prefer prefer, const OrderSearch& search,
                                         const std::vector<int>& kept, Random* random = nullptr) {
  // Near-greedy orders are compared by combinations: the tables of a model's graph are few per node, and by classes.
  const bool by_combinations = search.alternatives == OrderSearch::Alternatives::NearGreedy;
  ShrinkingGraph graph(structure, prefer, kept, random);
  EliminationOrder order;
  double total = 0.0;
  while (const std::optional<int> node = graph.next()) {
    const double size = graph.table(*node);
    order.largest = std::max(order.largest, size);
    order.work += by_combinations ? graph.combinations(*node) : graph.additions(*node);
    total += size;
    // Neither number ever falls, so a broken limit stays broken.
    if (size > search.max_table || total > search.max_tables) return std::nullopt;
    order.nodes.push_back(*node);
    graph.eliminate(*node);
  }
  return order;
}

}  // namespace

Structure structure_of(const portfolio::Field& field) {
  Structure structure;
  for (const portfolio::Field::Node& node : field.nodes) structure.domain.push_back(node.cost.size());
  for (const portfolio::Field::Edge& edge : field.edges) structure.edges.emplace_back(edge.u, edge.v);
  return structure;
}

OrderSearch search_for_models() { return {OrderSearch::Alternatives::NearGreedy, 67108864.0, 134217728.0}; }

std::optional<EliminationOrder> find_order(const Structure& structure, const OrderSearch& search,
                                           const std::vector<int>& kept) {
  const auto keep_better = [](std::optional<EliminationOrder>& best, std::optional<EliminationOrder> other) {
    if (other && (!best || other->work < best->work)) best = std::move(other);
  };
  if (search.alternatives == OrderSearch::Alternatives::LeastFill) {
    std::optional<EliminationOrder> best = order_by(structure, Prefer::SmallTableSmallNode, search, kept);
    if (best && best->work < kLittleWork) return best;
    if (structure.domain.size() > kMaxNodesForFill) return best;
    keep_better(best, order_by(structure, Prefer::LeastFill, search, kept));
    return best;
  }
  std::optional<EliminationOrder> best = order_by(structure, Prefer::SmallTable, search, kept);
  if (best && best->work < kLittleWorkNearGreedy) return best;
  // A fixed seed: every run takes the same order.
  Random random(1);
  for (int i = 0; i < kNearGreedyTries; ++i)
    keep_better(best, order_by(structure, Prefer::SmallTableDistorted, search, kept, &random));
  return best;
}

std::vector<int> bounded_order(const Structure& structure, double max_table) {
  ShrinkingGraph graph(structure, Prefer::SmallTableSmallNode, {}, nullptr);
  std::vector<int> order;
  IndexedVector<int, bool> done(structure.domain.size(), false);
  // The queue is sorted by table size: if this table is too large, so are those of all other nodes.
  for (auto node = graph.next(); node && graph.table(*node) <= max_table; node = graph.next()) {
    order.push_back(*node);
    done[*node] = true;
    graph.eliminate(*node);
  }
  std::vector<std::pair<double, int>> rest;
  for (int node = 0; node < done.count(); ++node)
    if (!done[node]) rest.emplace_back(graph.table(node), node);
  std::sort(rest.begin(), rest.end());
  for (const auto& [size, node] : rest) order.push_back(node);
  return order;
}

}  // namespace meshwright::elimination
