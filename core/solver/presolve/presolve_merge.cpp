// SPDX-License-Identifier: Apache-2.0
// Merging two neighbours into a node of pairs: nothing is lost, and what is left has fewer cycles.
#include <algorithm>
#include <utility>

#include "core/solver/presolve/presolve_work.h"

namespace meshwright::portfolio {

namespace {

constexpr double kMaxLabels = 4000.0;

double possible_pairs(const Work::Edge& edge) {
  return static_cast<double>(
      std::count_if(edge.cost.begin(), edge.cost.end(), [](double cost) { return cost < kForbidden; }));
}

}  // namespace

// What the merge adds to all edge tables. An edge from v to a node that u knows too joins u's table: it adds nothing.
double Work::growth_of_merging(int edge) const {
  const Edge& e = edges[edge];
  const double pairs = possible_pairs(e);
  if (pairs > kMaxLabels) return kForbidden;
  double growth = -static_cast<double>(e.cost.size());
  for (const int end : {e.u, e.v})
    for (const int moved : nodes[end].edges) {
      if (moved == edge) continue;
      const int w = other_end(moved, end);
      growth -= static_cast<double>(edges[moved].cost.size());
      if (end == e.u || edge_between(e.u, w) < 0) growth += pairs * static_cast<double>(labels(w));
    }
  return growth;
}

// u's labels become the possible pairs (label of u, label of v). Edges of u repeat their rows for the pairs; v then has
// one label per pair and follows. Pairs are numbered in the order of the table, so that the result is always the same.
void Work::merge(int edge) {
  const int u = edges[edge].u, v = edges[edge].v;
  const TableView view(*this, edge, u);
  Record record{u, u, -1, 1, {}, std::vector<int>(view.own_labels * view.other_labels, -1), v, view.other_labels};
  std::vector<int> second;
  for (int p = 0; p < view.own_labels; ++p)
    for (int q = 0; q < view.other_labels; ++q)
      if (view.cost(p, q) < kForbidden) {
        record.kept_as[p * view.other_labels + q] = static_cast<int>(second.size());
        record.table.push_back(p);
        second.push_back(q);
      }
  const std::vector<int>& first = record.table;
  for (int index : std::vector<int>(nodes[u].edges)) {
    const TableView from(*this, index, u);
    const int w = other_end(index, u);
    std::vector<double> cost;
    cost.reserve(first.size() * from.other_labels);
    for (std::size_t pair = 0; pair < first.size(); ++pair)
      // Across the merged edge itself, only v's own label of the pair is possible.
      for (int c = 0; c < from.other_labels; ++c)
        cost.push_back(w == v && c != second[pair] ? kForbidden : from.cost(first[pair], c));
    Edge& moved = edges[index];
    entries += static_cast<double>(cost.size()) - static_cast<double>(moved.cost.size());
    moved.u = u;
    moved.v = w;
    moved.cost = std::move(cost);
    touch_edge(index);
  }
  const auto spread = [&](std::vector<double>& values) {
    std::vector<double> spread_values;
    for (int p : first) spread_values.push_back(values[p]);
    values = std::move(spread_values);
  };
  spread(nodes[u].cost);
  for (int piece : nodes[u].pieces) spread(pieces[piece].memory);
  records.push_back(std::move(record));
  follow(edge, v, second);
}

bool Work::merge_cheapest(double max_growth) {
  int cheapest = -1;
  double least = max_growth;
  for (std::size_t edge = 0; edge < edges.size(); ++edge) {
    if (edges[edge].gone) continue;
    const double growth = growth_of_merging(static_cast<int>(edge));
    if (growth >= least) continue;
    least = growth;
    cheapest = static_cast<int>(edge);
  }
  if (cheapest < 0) return false;
  merge(cheapest);
  return true;
}

}  // namespace meshwright::portfolio
