// SPDX-License-Identifier: Apache-2.0
// Reductions that look at one edge, or at one node of degree 0, 1 or 2.
#include <algorithm>
#include <utility>

#include "core/solver/presolve/presolve_work.h"

namespace meshwright::portfolio {

namespace {

constexpr int kStepsBetweenLooks = 64;  // at the clock
constexpr double kMaxWork = 1e8;        // table entries touched by one elimination of a node of degree 2

// Per own label: how many partners are left, and the last of them.
struct Partners {
  std::vector<int> count, last;
  explicit Partners(const TableView& view) : count(view.own_labels, 0), last(view.own_labels, -1) {
    for (int own = 0; own < view.own_labels; ++own)
      for (int other = 0; other < view.other_labels; ++other)
        if (view.cost(own, other) < kForbidden) {
          ++count[own];
          last[own] = other;
        }
  }
  [[nodiscard]] bool are_unique() const {
    return std::all_of(count.begin(), count.end(), [](int c) { return c == 1; });
  }
};

}  // namespace

// Edges first: each label they drop saves work at the nodes. What a reduction touches is queued again. Each removes a
// label, an edge or a node, or replaces a leaf's table by its envelope, which stays as it is: the queue runs empty.
bool Work::settle(const Budget& budget) {
  for (int steps = 1; !idle(); ++steps) {
    if (steps % kStepsBetweenLooks == 0 && budget.over()) return true;
    if (!edge_queue.empty()) {
      const int edge = edge_queue.front();
      edge_queue.pop_front();
      edges[edge].queued = false;
      if (!edges[edge].gone && !examine_edge(edge)) return false;
      continue;
    }
    const int node = node_queue.front();
    node_queue.pop_front();
    nodes[node].queued = false;
    if (!nodes[node].gone && !examine_node(node)) return false;
  }
  return true;
}

bool Work::examine_edge(int edge) {
  const int u = edges[edge].u, v = edges[edge].v;
  const Partners of_u(TableView(*this, edge, u)), of_v(TableView(*this, edge, v));
  bool lost = false;
  for (const auto& [node, partners] : {std::pair(u, &of_u), std::pair(v, &of_v)})
    for (int label = 0; label < labels(node); ++label)
      if (partners->count[label] == 0) {
        nodes[node].cost[label] = kForbidden;
        lost = true;
      }
  if (lost) {
    touch_edge(edge);
    return drop_forbidden(u) && drop_forbidden(v);
  }
  if (dissolve_if_separable(edge)) return true;
  const bool v_follows = of_u.are_unique() && may_follow(edge, v);
  const bool u_follows = of_v.are_unique() && may_follow(edge, u);
  // Where both may follow, the one with fewer edges goes: fewer tables are rebuilt.
  if (v_follows && (!u_follows || nodes[v].edges.size() <= nodes[u].edges.size()))
    follow(edge, v, of_u.last);
  else if (u_follows)
    follow(edge, u, of_v.last);
  return true;
}

// A table that is the sum of a cost per row and a cost per column ties nothing together: both go to the ends. The test
// allows no rounding, so that the optimum's cost stays exact.
bool Work::dissolve_if_separable(int edge) {
  const int u = edges[edge].u, v = edges[edge].v;
  const TableView view(*this, edge, u);
  const double corner = view.cost(0, 0);
  if (corner == kForbidden) return false;
  for (int p = 0; p < view.own_labels; ++p)
    for (int q = 0; q < view.other_labels; ++q)
      if (view.cost(p, q) == kForbidden || view.cost(p, q) - view.cost(p, 0) != view.cost(0, q) - corner) return false;
  for (int p = 0; p < view.own_labels; ++p) nodes[u].cost[p] += view.cost(p, 0);
  for (int q = 0; q < view.other_labels; ++q) nodes[v].cost[q] += view.cost(0, q) - corner;
  remove_edge(edge);
  return true;
}

// Tables of v's other edges get a row per label of u: following may cost memory, which is limited for the whole field.
bool Work::may_follow(int edge, int v) {
  const int u = other_end(edge, v);
  double growth = -static_cast<double>(edges[edge].cost.size());
  for (int moved : nodes[v].edges) {
    if (moved == edge) continue;
    const int w = other_end(moved, v);
    growth -= static_cast<double>(edges[moved].cost.size());
    if (edge_between(u, w) < 0) growth += static_cast<double>(labels(u)) * static_cast<double>(labels(w));
  }
  return growth <= 0.0 || entries + growth <= max_entries;
}

bool Work::examine_node(int node) {
  const bool forbidden =
      std::any_of(nodes[node].cost.begin(), nodes[node].cost.end(), [](double cost) { return cost == kForbidden; });
  if (forbidden) return drop_forbidden(node);
  const std::size_t degree = nodes[node].edges.size();
  const bool takes_memory = !nodes[node].pieces.empty();
  if (degree == 1) {
    fold_leaf(node);
  } else if (degree == 0 && !takes_memory) {
    // Nothing else depends on the node: its cheapest label is part of an optimum.
    const auto& cost = nodes[node].cost;
    const auto best = std::min_element(cost.begin(), cost.end());
    constant += *best;
    records.push_back({node, -1, -1, 1, {static_cast<int>(best - cost.begin())}, {}, -1, 1});
    remove_node(node);
  } else if (degree == 2 && !takes_memory) {
    fold_between(node);
  }
  return true;
}

// A leaf whose best label, given its neighbour's, is also one of least memory follows its neighbour. Otherwise its
// table is replaced by its envelope: label x then stands for the cheapest label that takes no more memory than x, so
// that comparing labels (dominance) may let the leaf change its label, too.
void Work::fold_leaf(int node) {
  const int edge = nodes[node].edges.front(), parent = other_end(edge, node);
  const TableView view(*this, edge, parent);
  const int count = labels(node), parents = labels(parent);
  const std::vector<double>& cost = nodes[node].cost;
  std::vector<std::vector<int>> no_more(count);  // labels that take no more memory in any row; the label itself first
  for (int x = 0; x < count; ++x) {
    no_more[x].push_back(x);
    for (int y = 0; y < count; ++y)
      if (y != x && std::all_of(nodes[node].pieces.begin(), nodes[node].pieces.end(),
                                [&](int piece) { return pieces[piece].memory[y] <= pieces[piece].memory[x]; }))
        no_more[x].push_back(y);
  }
  std::vector<int> of(parents, -1), stands_for(parents * count);
  bool follows = true, changes = false;
  for (int a = 0; a < parents; ++a) {
    const auto total = [&](int x) { return view.cost(a, x) + cost[x]; };
    for (int x = 0; x < count; ++x) {
      int best = x;
      for (int y : no_more[x])
        if (total(y) < total(best)) best = y;
      stands_for[a * count + x] = best;
      changes = changes || best != x;
      // A label that is cheapest of all, and below every label that is possible at all in memory.
      const auto beats = [&](int y) {
        return total(y) == kForbidden ||
               (total(x) <= total(y) && std::find(no_more[y].begin(), no_more[y].end(), x) != no_more[y].end());
      };
      if (of[a] >= 0 || total(x) == kForbidden) continue;
      bool all = true;
      for (int y = 0; y < count && all; ++y) all = beats(y);
      if (all) of[a] = x;
    }
    follows = follows && of[a] >= 0;
  }
  if (follows) return follow(edge, node, of);
  if (!changes) return;
  std::vector<double> envelope(parents * count);
  for (int a = 0; a < parents; ++a)
    for (int x = 0; x < count; ++x) {
      const int y = stands_for[a * count + x];
      envelope[a * count + x] = view.cost(a, y) + cost[y];
    }
  records.push_back({node, parent, node, count, std::move(stands_for), {}, -1, 1});
  std::fill(nodes[node].cost.begin(), nodes[node].cost.end(), 0.0);
  remove_edge(edge);
  add_edge(parent, node, std::move(envelope));
}

// Min-sum elimination of a node between two others: their new edge has the minimum over its labels. The tables may grow
// within `max_entries` only.
void Work::fold_between(int node) {
  const int left_edge = nodes[node].edges[0], right_edge = nodes[node].edges[1];
  const int u = other_end(left_edge, node), w = other_end(right_edge, node);
  const int rows = labels(u), columns = labels(w), count = labels(node);
  const double size = static_cast<double>(rows) * static_cast<double>(columns);
  const double freed = static_cast<double>(edges[left_edge].cost.size() + edges[right_edge].cost.size());
  const double growth = (edge_between(u, w) < 0 ? size : 0.0) - freed;
  if (size * static_cast<double>(count) > kMaxWork || (growth > 0.0 && entries + growth > max_entries)) return;
  const TableView left(*this, left_edge, u), right(*this, right_edge, w);
  std::vector<double> cost(static_cast<std::size_t>(rows) * columns, kForbidden);
  std::vector<int> best(cost.size(), 0);
  for (int p = 0; p < rows; ++p)
    for (int x = 0; x < count; ++x) {
      const double so_far = left.cost(p, x) + nodes[node].cost[x];
      if (so_far == kForbidden) continue;
      for (int q = 0; q < columns; ++q)
        if (const double total = so_far + right.cost(q, x); total < cost[p * columns + q]) {
          cost[p * columns + q] = total;
          best[p * columns + q] = x;
        }
    }
  records.push_back({node, u, w, columns, std::move(best), {}, -1, 1});
  remove_node(node);
  add_edge(u, w, std::move(cost));
}

}  // namespace meshwright::portfolio
