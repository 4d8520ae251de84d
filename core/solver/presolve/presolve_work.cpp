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
    nodes[at(edge.u)].edges.push_back(index);
    nodes[at(edge.v)].edges.push_back(index);
    entries += static_cast<double>(edge.cost.size());
  }
  max_entries = 1.25 * entries + 65536.0;
  for (const MemoryPiece& piece : from.pieces) {
    nodes[at(piece.node)].pieces.push_back(static_cast<int>(pieces.size()));
    pieces.push_back(piece);
  }
  for (std::size_t edge = 0; edge < edges.size(); ++edge) touch_edge(static_cast<int>(edge));
  for (std::size_t node = 0; node < nodes.size(); ++node) touch_node(static_cast<int>(node));
}

int Work::labels(int node) const { return static_cast<int>(nodes[at(node)].cost.size()); }

int Work::other_end(int edge, int node) const {
  const Edge& e = edges[at(edge)];
  return e.u == node ? e.v : e.u;
}

void Work::touch_node(int node) {
  Node& n = nodes[at(node)];
  n.compare_labels = true;
  if (n.queued || n.gone) return;
  n.queued = true;
  node_queue.push_back(node);
}

void Work::touch_edge(int edge) {
  Edge& e = edges[at(edge)];
  if (e.queued || e.gone) return;
  e.queued = true;
  edge_queue.push_back(edge);
}

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
  for (std::size_t label = 0; label < instead.size(); ++label)
    for (int stand_in = instead[label]; stand_in >= 0; stand_in = instead[at(stand_in)])
      record.kept_as[label] = record.kept_as[at(stand_in)];  // a stand-in may itself have one
  const auto pick = [&](std::vector<double>& values) {
    for (std::size_t i = 0; i < kept.size(); ++i) values[i] = values[at(kept[i])];
    values.resize(kept.size());
  };
  for (int edge : nodes[at(node)].edges) {
    const TableView view(*this, edge, node);
    std::vector<double> cost(kept.size() * at(view.other_labels));
    const bool first = edges[at(edge)].u == node;
    for (std::size_t i = 0; i < kept.size(); ++i)
      for (int other = 0; other < view.other_labels; ++other)
        cost[first ? i * at(view.other_labels) + at(other) : at(other) * kept.size() + i] = view.cost(kept[i], other);
    entries += static_cast<double>(cost.size()) - static_cast<double>(edges[at(edge)].cost.size());
    edges[at(edge)].cost = std::move(cost);
    touch_edge(edge);
    touch_node(other_end(edge, node));
  }
  pick(nodes[at(node)].cost);
  for (int piece : nodes[at(node)].pieces) pick(pieces[at(piece)].memory);
  for (int piece : std::vector<int>(nodes[at(node)].pieces)) normalise_piece(piece);
  touch_node(node);
  records.push_back(std::move(record));
  return true;
}

bool Work::drop_forbidden(int node) {
  std::vector<bool> keep;
  for (double cost : nodes[at(node)].cost) keep.push_back(cost < kForbidden);
  return keep_labels(node, keep, {});
}

void Work::remove_edge(int edge) {
  Edge& e = edges[at(edge)];
  erase(nodes[at(e.u)].edges, edge);
  erase(nodes[at(e.v)].edges, edge);
  entries -= static_cast<double>(e.cost.size());
  e.gone = true;
  std::vector<double>().swap(e.cost);
  touch_node(e.u);
  touch_node(e.v);
}

void Work::remove_node(int node) {
  Node& n = nodes[at(node)];
  for (int edge : std::vector<int>(n.edges)) remove_edge(edge);
  for (int piece : n.pieces) pieces[at(piece)].end = pieces[at(piece)].begin;
  n = Node{};
  n.gone = true;
}

int Work::edge_between(int u, int v) const {
  if (nodes[at(u)].edges.size() > nodes[at(v)].edges.size()) std::swap(u, v);
  for (int edge : nodes[at(u)].edges)
    if (other_end(edge, u) == v) return edge;
  return -1;
}

void Work::add_edge(int u, int v, std::vector<double> cost) {
  const int known = edge_between(u, v);
  if (known >= 0) {
    Edge& edge = edges[at(known)];
    const int rows = labels(u), columns = labels(v);
    for (int p = 0; p < rows; ++p)
      for (int q = 0; q < columns; ++q)
        edge.cost[at(edge.u == u ? p * columns + q : q * rows + p)] += cost[at(p * columns + q)];
    touch_edge(known);
  } else {
    const int fresh = static_cast<int>(edges.size());
    entries += static_cast<double>(cost.size());
    edges.push_back({u, v, std::move(cost)});
    nodes[at(u)].edges.push_back(fresh);
    nodes[at(v)].edges.push_back(fresh);
    touch_edge(fresh);
  }
  touch_node(u);
  touch_node(v);
}

void Work::add_piece(MemoryPiece piece) {
  for (int known : nodes[at(piece.node)].pieces)
    if (pieces[at(known)].begin == piece.begin && pieces[at(known)].end == piece.end) {
      for (std::size_t i = 0; i < piece.memory.size(); ++i) pieces[at(known)].memory[i] += piece.memory[i];
      normalise_piece(known);
      return;
    }
  const int fresh = static_cast<int>(pieces.size());
  nodes[at(piece.node)].pieces.push_back(fresh);
  pieces.push_back(std::move(piece));
  normalise_piece(fresh);
}

void Work::normalise_piece(int index) {
  MemoryPiece& piece = pieces[at(index)];
  const double least = *std::min_element(piece.memory.begin(), piece.memory.end());
  for (double& memory : piece.memory) memory -= least;
  limit_change[at(piece.begin)] -= least;
  limit_change[at(piece.end)] += least;
  if (!is_zero(piece.memory)) return;
  erase(nodes[at(piece.node)].pieces, index);
  piece.end = piece.begin;
}

void Work::follow(int edge, int v, const std::vector<int>& of) {
  const int u = other_end(edge, v);
  const TableView view(*this, edge, u);
  for (int a = 0; a < labels(u); ++a)
    nodes[at(u)].cost[at(a)] += view.cost(a, of[at(a)]) + nodes[at(v)].cost[at(of[at(a)])];
  remove_edge(edge);
  for (int moved : std::vector<int>(nodes[at(v)].edges)) {
    const int w = other_end(moved, v);
    const TableView from(*this, moved, v);
    std::vector<double> cost;
    cost.reserve(at(labels(u)) * at(labels(w)));
    for (int a = 0; a < labels(u); ++a)
      for (int c = 0; c < labels(w); ++c) cost.push_back(from.cost(of[at(a)], c));
    remove_edge(moved);
    add_edge(u, w, std::move(cost));
  }
  for (int index : std::vector<int>(nodes[at(v)].pieces)) {
    MemoryPiece piece{u, pieces[at(index)].begin, pieces[at(index)].end, {}};
    for (int a = 0; a < labels(u); ++a) piece.memory.push_back(pieces[at(index)].memory[at(of[at(a)])]);
    add_piece(std::move(piece));
  }
  records.push_back({v, u, -1, 1, of, {}, -1, 1});
  remove_node(v);
  touch_node(u);
}

TableView::TableView(const Work& work, int edge, int node) {
  const Work::Edge& e = work.edges[at(edge)];
  const bool first = e.u == node;
  base = e.cost.data();
  own_labels = work.labels(node);
  other_labels = work.labels(first ? e.v : e.u);
  own_stride = first ? other_labels : 1;
  other_stride = first ? 1 : own_labels;
}

}  // namespace meshwright::portfolio
