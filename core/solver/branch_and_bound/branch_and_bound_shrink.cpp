// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_shrink.h"

#include <algorithm>
#include <utility>

namespace meshwright::portfolio {

namespace {

// Which labels are left, and where their nodes go.
struct Survivors {
  std::vector<std::vector<int>> labels;  // [node]
  std::vector<int> moved;                // [node]: its number in the smaller field; -1: it has one label
};

Survivors survivors(const Field& field, const std::vector<bool>& kept) {
  Survivors left;
  std::size_t place = 0;
  int count = 0;
  for (int i = 0; i < static_cast<int>(field.nodes.size()); ++i) {
    left.labels.emplace_back();
    for (int x = 0; x < field.labels(i); ++x)
      if (kept[place++]) left.labels.back().push_back(x);
    left.moved.push_back(left.labels.back().size() > 1 ? count++ : -1);
  }
  return left;
}

// Nodes with one label left become constants and costs of their neighbours.
Field smaller_field(const Field& field, const Survivors& left) {
  Field small;
  small.constant = field.constant;
  for (std::size_t i = 0; i < field.nodes.size(); ++i) {
    if (left.moved[i] < 0) {
      small.constant += field.nodes[i].cost[left.labels[i].front()];
      continue;
    }
    small.nodes.emplace_back();
    for (int x : left.labels[i]) small.nodes.back().cost.push_back(field.nodes[i].cost[x]);
  }
  for (const Field::Edge& edge : field.edges) {
    const std::vector<int>&u_labels = left.labels[edge.u], &v_labels = left.labels[edge.v];
    const int u = left.moved[edge.u], v = left.moved[edge.v];
    std::vector<double> cost;
    for (int p : u_labels)
      for (int q : v_labels) cost.push_back(edge.cost[static_cast<std::size_t>(p) * field.labels(edge.v) + q]);
    if (u < 0 && v < 0) {
      small.constant += cost.front();
    } else if (u < 0 || v < 0) {
      std::vector<double>& own = small.nodes[std::max(u, v)].cost;
      for (std::size_t x = 0; x < own.size(); ++x) own[x] += cost[x];
    } else {
      small.edges.push_back({u, v, std::move(cost)});
    }
  }
  return small;
}

// The least memory of the labels left is moved into the limits, so that every piece has a label that takes nothing.
void take_memory(const Reduced& reduced, const Survivors& left, Reduced& small) {
  // Differences between neighbouring rows: a piece covers a run of rows, and a running sum gives each row's change.
  std::vector<double> change(reduced.row_limit.size() + 1, 0.0);
  for (const MemoryPiece& piece : reduced.pieces) {
    MemoryPiece own{left.moved[piece.node], piece.begin, piece.end, {}};
    for (int x : left.labels[piece.node]) own.memory.push_back(piece.memory[x]);
    const double least = *std::min_element(own.memory.begin(), own.memory.end());
    change[piece.begin] += least;
    change[piece.end] -= least;
    for (double& memory : own.memory) memory -= least;
    // The memory of a decided node is all in the limits now.
    if (own.node >= 0 && max_memory(own) > 0.0) small.pieces.push_back(std::move(own));
  }
  double sum = 0.0;
  for (std::size_t r = 0; r < reduced.row_limit.size(); ++r)
    small.row_limit.push_back(reduced.row_limit[r] - (sum += change[r]));
}

// Rows that can be exceeded, and that no kept row beside them implies: row a is implied by row b when the pieces in a
// but not in b cannot take more than a's limit exceeds b's.
std::vector<int> rows_that_matter(const Reduced& small) {
  const std::size_t rows = small.row_limit.size();
  const std::vector<double> max_sums = row_sums(small.pieces, rows, max_memory);
  std::vector<int> candidates, kept;
  for (std::size_t r = 0; r < rows; ++r)
    if (max_sums[r] > small.row_limit[r]) candidates.push_back(static_cast<int>(r));
  const auto implies = [&](int b, int a) {
    double beyond = 0.0;
    for (const MemoryPiece& piece : small.pieces)
      if (piece.begin <= a && a < piece.end && (b < piece.begin || b >= piece.end)) beyond += max_memory(piece);
    return beyond <= small.row_limit[a] - small.row_limit[b];
  };
  // Rows are in the order of steps, and neighbours share most pieces: comparing with the last kept row is enough.
  for (int row : candidates) {
    if (!kept.empty() && implies(kept.back(), row)) continue;
    while (!kept.empty() && implies(row, kept.back())) kept.pop_back();
    kept.push_back(row);
  }
  return kept;
}

void keep_rows(const std::vector<int>& rows, Reduced& small) {
  // A piece that began or ended at a dropped row now does so at the next kept row.
  const auto moved = [&](int row) {
    return static_cast<int>(std::lower_bound(rows.begin(), rows.end(), row) - rows.begin());
  };
  std::vector<MemoryPiece> pieces;
  for (MemoryPiece& piece : small.pieces) {
    piece.begin = moved(piece.begin);
    piece.end = moved(piece.end);
    if (piece.begin < piece.end) pieces.push_back(std::move(piece));
  }
  small.pieces = std::move(pieces);
  std::vector<double> limit;
  for (int row : rows) limit.push_back(small.row_limit[row]);
  small.row_limit = std::move(limit);
}

}  // namespace

ShrunkField shrink(const Reduced& reduced, const std::vector<bool>& kept) {
  ShrunkField result;
  Reduced& small = result.reduced;
  Survivors left = survivors(reduced.field, kept);
  for (const auto& labels : left.labels) small.infeasible |= labels.empty();
  if (small.infeasible) return result;
  small.field = smaller_field(reduced.field, left);
  take_memory(reduced, left, small);
  for (double limit : small.row_limit) small.infeasible |= limit < 0.0;
  small.infeasible |= small.field.constant == kForbidden;
  if (small.infeasible) return result;
  result.rows = rows_that_matter(small);
  keep_rows(result.rows, small);
  small.lift = [left = std::move(left)](const Labels& labels) {
    Labels all;
    for (std::size_t i = 0; i < left.moved.size(); ++i)
      all.push_back(left.labels[i][left.moved[i] < 0 ? 0 : labels[left.moved[i]]]);
    return all;
  };
  return result;
}

}  // namespace meshwright::portfolio
