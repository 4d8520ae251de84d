// SPDX-License-Identifier: Apache-2.0
// Exact reductions: a smaller field with the same optimum, and the way back.
//
// Applied until nothing changes: labels without a partner across an edge are dropped (arc consistency); labels that are
// never better than another in cost, in every edge row and in memory are dropped (dominance); an edge that ties the
// label of one node to that of another merges the two (followers); nodes of degree 0, 1 and 2 whose memory does not
// depend on their label are eliminated by min-sum (series-parallel parts vanish whole); memory that every label of a
// node takes moves into the limit of its steps; rows that cannot be exceeded, or that another row implies, are dropped.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "core/solver/problem/field.h"

namespace meshwright::portfolio {

// What a node takes of a range of memory rows. A node that followers were merged into has several pieces.
struct MemoryPiece {
  int node;
  int begin, end;              // rows begin <= r < end
  std::vector<double> memory;  // [label], least value 0
};

// A field whose memory is held by rows and pieces: at every row, the sum over the pieces that hold it stays within the
// row's limit. The field's own memory (Field::limit, Node::memory) is not used.
struct Reduced {
  bool infeasible = false;  // proven
  Field field;
  std::vector<double> row_limit;  // [row]
  std::vector<int> row_step;      // [row]: the step of the original field that it stands for
  std::vector<MemoryPiece> pieces;
  // Labels of the original field from labels of `field`; cost and every memory row carry over exactly.
  std::function<Labels(const Labels&)> lift;
  // Labels of `field` that cost no more and take no more memory than these of the original field; nullopt: one of them
  // was dropped for another reason than that a better one is left.
  std::function<std::optional<Labels>(const Labels&)> project;
};

// The field as it stands, nothing reduced; one row per step at which some memory begins.
[[nodiscard]] Reduced unreduced(const Field& field);

[[nodiscard]] inline double max_memory(const MemoryPiece& piece) {
  return *std::max_element(piece.memory.begin(), piece.memory.end());
}

// [row]: the sum of amount(piece) over the pieces that hold the row. O(pieces + rows): a piece changes the sum only
// where it begins and where it ends.
template <class Amount>
[[nodiscard]] std::vector<double> row_sums(const std::vector<MemoryPiece>& pieces, std::size_t rows,
                                           const Amount& amount) {
  std::vector<double> sums(rows + 1, 0.0);
  for (const MemoryPiece& piece : pieces) {
    const double added = amount(piece);
    sums[piece.begin] += added;
    sums[piece.end] -= added;
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  sums.pop_back();
  return sums;
}

// Calls visit(piece, price) for every piece that pays: `price`, per unit of its memory, is the sum of the prices of the
// rows it holds. Prefix sums give it in O(1).
template <class Visit>
void for_each_priced_piece(const std::vector<MemoryPiece>& pieces, const std::vector<double>& row_prices,
                           const Visit& visit) {
  std::vector<double> before{0.0};
  for (const double price : row_prices) before.push_back(before.back() + price);
  for (const MemoryPiece& piece : pieces)
    if (const double price = before[piece.end] - before[piece.begin]; price != 0.0) visit(piece, price);
}

// Memory beyond the limit in each row; negative: room left.
[[nodiscard]] std::vector<double> row_excesses(const Reduced& reduced, const Labels& labels);
// The largest of them, at most 0: `labels` keep the memory. Minus infinity: no rows.
[[nodiscard]] double excess(const Reduced& reduced, const Labels& labels);

// Reduces until nothing changes or the budget is over; only then may labels be left that have no partner across an
// edge.
[[nodiscard]] Reduced presolve(const Field& field, const Budget& budget);

// Goes on from an earlier reduction. `dropped[node][label]`: labels of `reduced.field` proven to be in no better
// solution than one already known (may be empty). The result's `lift` leads to the original field.
[[nodiscard]] Reduced presolve(const Reduced& reduced, const std::vector<std::vector<bool>>& dropped,
                               const Budget& budget);

// The same problem with neighbours merged into nodes of pairs, cheapest first, while the edge tables grow by no more
// than `max_growth` entries. Every merge turns the cycles of length 3 through it into edges, so that a bound by
// messages gets tighter.
[[nodiscard]] Reduced merge_nodes(const Reduced& reduced, double max_growth, const Budget& budget);

}  // namespace meshwright::portfolio
