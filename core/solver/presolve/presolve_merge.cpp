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

double Work::growth_of_merging(int edge) const {
  const Edge& e = edges[at(edge)];
  const double pairs = possible_pairs(e);
  if (pairs > kMaxLabels) return kForbidden;
  double growth = -static_cast<double>(e.cost.size());
  for (const int end : {e.u, e.v})
    for (const int moved : nodes[at(end)].edges) {
      if (moved == edge) continue;
      const int w = other_end(moved, end);
      growth -= static_cast<double>(edges[at(moved)].cost.size());
      if (end == e.u || edge_between(e.u, w) < 0) growth += pairs * static_cast<double>(labels(w));
    }
  return growth;
}

void Work::merge(int edge) {
  const int u = edges[at(edge)].u, v = edges[at(edge)].v;
  const TableView view(*this, edge, u);
  Record record{u, u, -1, 1, {}, std::vector<int>(at(view.own_labels * view.other_labels), -1), v, view.other_labels};
  std::vector<int> second;
  for (int p = 0; p < view.own_labels; ++p)
    for (int q = 0; q < view.other_labels; ++q)
      if (view.cost(p, q) < kForbidden) {
        record.kept_as[at(p * view.other_labels + q)] = static_cast<int>(second.size());
        record.table.push_back(p);
        second.push_back(q);
      }
  const std::vector<int>& first = record.table;
  for (int index : std::vector<int>(nodes[at(u)].edges)) {
    const TableView from(*this, index, u);
    const int w = other_end(index, u);
    std::vector<double> cost;
    cost.reserve(first.size() * at(from.other_labels));
    for (std::size_t pair = 0; pair < first.size(); ++pair)
      for (int c = 0; c < from.other_labels; ++c)
        cost.push_back(w == v && c != second[pair] ? kForbidden : from.cost(first[pair], c));
    Edge& moved = edges[at(index)];
    entries += static_cast<double>(cost.size()) - static_cast<double>(moved.cost.size());
    moved.u = u;
    moved.v = w;
    moved.cost = std::move(cost);
    touch_edge(index);
  }
  const auto spread = [&](std::vector<double>& values) {
    std::vector<double> spread_values;
    for (int p : first) spread_values.push_back(values[at(p)]);
    values = std::move(spread_values);
  };
  spread(nodes[at(u)].cost);
  for (int piece : nodes[at(u)].pieces) spread(pieces[at(piece)].memory);
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
