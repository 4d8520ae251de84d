// SPDX-License-Identifier: Apache-2.0
#include "core/solver/presolve/presolve_work.h"

#include <algorithm>
#include <utility>

namespace meshwright::portfolio {

namespace {

void erase(std::vector<int>& list, int value) { list.erase(std::find(list.begin(), list.end(), value)); }

bool is_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0.0; });
}

}  // namespace

Work::Work(const Reduced& from, const std::vector<std::vector<bool>>& dropped)
    : row_limit(from.row_limit),
      row_step(from.row_step),
      limit_change(from.row_limit.size() + 1, 0.0),
      constant(from.field.constant) {
  nodes.resize(from.field.nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].cost = from.field.nodes[i].cost;
    if (dropped.empty()) continue;
    for (std::size_t label = 0; label < nodes[i].cost.size(); ++label)
      if (dropped[i][label]) nodes[i].cost[label] = kForbidden;
  }
  edges.reserve(from.field.edges.size());
  for (const Field::Edge& edge : from.field.edges) {
    const int index = static_cast<int>(edges.size());
    edges.push_back({edge.u, edge.v, edge.cost});
    nodes[edge.u].edges.push_back(index);
    nodes[edge.v].edges.push_back(index);
    entries += static_cast<double>(edge.cost.size());
  }
  // Following and folding may let the tables grow by a quarter, and those of small fields by more.
  max_entries = 1.25 * entries + 65536.0;
  for (const MemoryPiece& piece : from.pieces) {
    nodes[piece.node].pieces.push_back(static_cast<int>(pieces.size()));
    pieces.push_back(piece);
  }
  for (std::size_t edge = 0; edge < edges.size(); ++edge) touch_edge(static_cast<int>(edge));
  for (std::size_t node = 0; node < nodes.size(); ++node) touch_node(static_cast<int>(node));
}

int Work::labels(int node) const { return static_cast<int>(nodes[node].cost.size()); }

int Work::other_end(int edge, int node) const {
  const Edge& e = edges[edge];
  return e.u == node ? e.v : e.u;
}

void Work::touch_node(int node) {
  Node& n = nodes[node];
  n.compare_labels = true;
  if (n.queued || n.gone) return;
  n.queued = true;
  node_queue.push_back(node);
}

void Work::touch_edge(int edge) {
  Edge& e = edges[edge];
  if (e.queued || e.gone) return;
  e.queued = true;
  edge_queue.push_back(edge);
}

// The node's labels are renumbered in its costs, its pieces and all its edge tables at once; the record says how, so
// that labels found later lead back, and known labels of the original field lead here (Reduced::project).
bool Work::keep_labels(int node, const std::vector<bool>& keep, const std::vector<int>& instead) {
  Record record{node, node, -1, 1, {}, std::vector<int>(keep.size(), -1), -1, 1};
  for (std::size_t label = 0; label < keep.size(); ++label)
    if (keep[label]) {
      record.kept_as[label] = static_cast<int>(record.table.size());
      record.table.push_back(static_cast<int>(label));
    }
  const std::vector<int>& kept = record.table;
  if (kept.empty()) return false;
  if (kept.size() == keep.size()) return true;
  // Labels that were dropped for a better one become that one: project() must not lose what it could improve.
  for (std::size_t label = 0; label < instead.size(); ++label)
    for (int stand_in = instead[label]; stand_in >= 0; stand_in = instead[stand_in])
      record.kept_as[label] = record.kept_as[stand_in];  // a stand-in may itself have one
  const auto pick = [&](std::vector<double>& values) {
    for (std::size_t i = 0; i < kept.size(); ++i) values[i] = values[kept[i]];
    values.resize(kept.size());
  };
  for (int edge : nodes[node].edges) {
    const TableView view(*this, edge, node);
    std::vector<double> cost(kept.size() * view.other_labels);
    const bool first = edges[edge].u == node;
    for (std::size_t i = 0; i < kept.size(); ++i)
      for (int other = 0; other < view.other_labels; ++other)
        cost[first ? i * view.other_labels + other : other * kept.size() + i] = view.cost(kept[i], other);
    entries += static_cast<double>(cost.size()) - static_cast<double>(edges[edge].cost.size());
    edges[edge].cost = std::move(cost);
    touch_edge(edge);
    touch_node(other_end(edge, node));
  }
  pick(nodes[node].cost);
  for (int piece : nodes[node].pieces) pick(pieces[piece].memory);
  // A copy: normalising a piece may take it off the list.
  for (int piece : std::vector<int>(nodes[node].pieces)) normalise_piece(piece);
  touch_node(node);
  records.push_back(std::move(record));
  return true;
}

bool Work::drop_forbidden(int node) {
  std::vector<bool> keep;
  for (double cost : nodes[node].cost) keep.push_back(cost < kForbidden);
  return keep_labels(node, keep, {});
}

// Whatever hangs on the ends may now be a leaf or alone: both are looked at again.
void Work::remove_edge(int edge) {
  Edge& e = edges[edge];
  erase(nodes[e.u].edges, edge);
  erase(nodes[e.v].edges, edge);
  entries -= static_cast<double>(e.cost.size());
  e.gone = true;
  std::vector<double>().swap(e.cost);
  touch_node(e.u);
  touch_node(e.v);
}

void Work::remove_node(int node) {
  Node& n = nodes[node];
  // A copy, as remove_edge changes the list.
  for (int edge : std::vector<int>(n.edges)) remove_edge(edge);
  for (int piece : n.pieces) pieces[piece].end = pieces[piece].begin;
  n = Node{};
  n.gone = true;
}

int Work::edge_between(int u, int v) const {
  if (nodes[u].edges.size() > nodes[v].edges.size()) std::swap(u, v);
  for (int edge : nodes[u].edges)
    if (other_end(edge, u) == v) return edge;
  return -1;
}

// At most one edge joins two nodes: a parallel one is added to the table that is there, in its orientation.
void Work::add_edge(int u, int v, std::vector<double> cost) {
  const int known = edge_between(u, v);
  if (known >= 0) {
    Edge& edge = edges[known];
    const int rows = labels(u), columns = labels(v);
    for (int p = 0; p < rows; ++p)
      for (int q = 0; q < columns; ++q)
        edge.cost[edge.u == u ? p * columns + q : q * rows + p] += cost[p * columns + q];
    touch_edge(known);
  } else {
    const int fresh = static_cast<int>(edges.size());
    entries += static_cast<double>(cost.size());
    edges.push_back({u, v, std::move(cost)});
    nodes[u].edges.push_back(fresh);
    nodes[v].edges.push_back(fresh);
    touch_edge(fresh);
  }
  touch_node(u);
  touch_node(v);
}

// Pieces of one node over the same rows are added up, so that dominance compares one memory instead of two.
void Work::add_piece(MemoryPiece piece) {
  for (int known : nodes[piece.node].pieces)
    if (pieces[known].begin == piece.begin && pieces[known].end == piece.end) {
      for (std::size_t i = 0; i < piece.memory.size(); ++i) pieces[known].memory[i] += piece.memory[i];
      normalise_piece(known);
      return;
    }
  const int fresh = static_cast<int>(pieces.size());
  nodes[piece.node].pieces.push_back(fresh);
  pieces.push_back(std::move(piece));
  normalise_piece(fresh);
}

// What every label takes is taken off the rows' limits instead. A piece that is then zero everywhere is gone: its node
// may be eliminated like one without memory.
void Work::normalise_piece(int index) {
  MemoryPiece& piece = pieces[index];
  const double least = *std::min_element(piece.memory.begin(), piece.memory.end());
  for (double& memory : piece.memory) memory -= least;
  limit_change[piece.begin] -= least;
  limit_change[piece.end] += least;
  if (!is_zero(piece.memory)) return;
  erase(nodes[piece.node].pieces, index);
  piece.end = piece.begin;
}

// Exact where v has one possible label for each label of u, or one that is best whatever else is chosen: v's costs,
// edges and memory become those of u's labels.
void Work::follow(int edge, int v, const std::vector<int>& of) {
  const int u = other_end(edge, v);
  const TableView view(*this, edge, u);
  for (int a = 0; a < labels(u); ++a) nodes[u].cost[a] += view.cost(a, of[a]) + nodes[v].cost[of[a]];
  remove_edge(edge);
  // A copy: remove_edge changes the list.
  for (int moved : std::vector<int>(nodes[v].edges)) {
    const int w = other_end(moved, v);
    const TableView from(*this, moved, v);
    std::vector<double> cost;
    cost.reserve(static_cast<std::size_t>(labels(u)) * labels(w));
    for (int a = 0; a < labels(u); ++a)
      for (int c = 0; c < labels(w); ++c) cost.push_back(from.cost(of[a], c));
    remove_edge(moved);
    add_edge(u, w, std::move(cost));
  }
  for (int index : std::vector<int>(nodes[v].pieces)) {
    MemoryPiece piece{u, pieces[index].begin, pieces[index].end, {}};
    for (int a = 0; a < labels(u); ++a) piece.memory.push_back(pieces[index].memory[of[a]]);
    add_piece(std::move(piece));
  }
  records.push_back({v, u, -1, 1, of, {}, -1, 1});
  remove_node(v);
  touch_node(u);
}

TableView::TableView(const Work& work, int edge, int node) {
  const Work::Edge& e = work.edges[edge];
  const bool first = e.u == node;
  base = e.cost.data();
  own_labels = work.labels(node);
  other_labels = work.labels(first ? e.v : e.u);
  own_stride = first ? other_labels : 1;
  other_stride = first ? 1 : own_labels;
}

}  // namespace meshwright::portfolio
