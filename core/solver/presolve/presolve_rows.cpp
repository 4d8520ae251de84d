// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

namespace {
// Moves the values down until the least is 0; returns by how much.
double take_least(std::vector<double>& values) {
  const double least = *std::min_element(values.begin(), values.end());
  for (double& value : values) value -= least;
  return least;
}
}  // namespace

Reduced unreduced(const Field& field) {
  Reduced reduced;
  reduced.field = field;
  reduced.lift = [](const Labels& labels) { return labels; };
  reduced.project = [](const Labels& labels) { return std::optional(labels); };
  if (field.limit == kForbidden) return reduced;
  // The sum is largest at a step at which memory begins, so only those steps become rows.
  std::vector<int> steps;
  for (const Field::Node& node : field.nodes)
    if (!node.memory.empty() && node.begin < node.end) steps.push_back(node.begin);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const auto row_of = [&](int step) {
    return static_cast<int>(std::lower_bound(steps.begin(), steps.end(), step) - steps.begin());
  };
  std::vector<double> least_begins(steps.size() + 1, 0.0);  // change of the sum of least memories from row to row
  for (std::size_t i = 0; i < field.nodes.size(); ++i) {
    const Field::Node& node = field.nodes[i];
    if (node.memory.empty() || node.begin >= node.end) continue;
    // An end stands for the first row at or after it, which the piece does not hold.
    MemoryPiece piece{static_cast<int>(i), row_of(node.begin), row_of(node.end), node.memory};
    // The least memory of the node is used whatever its label: it counts against the limit of its rows from the start.
    const double least = take_least(piece.memory);
    least_begins[piece.begin] += least;
    least_begins[piece.end] -= least;
    const bool varies = std::any_of(piece.memory.begin(), piece.memory.end(), [](double m) { return m > 0.0; });
    if (varies) reduced.pieces.push_back(std::move(piece));
  }
  double least = 0.0;
  for (std::size_t row = 0; row < steps.size(); ++row) {
    least += least_begins[row];
    reduced.row_limit.push_back(field.limit - least);
  }
  reduced.row_step = std::move(steps);
  return reduced;
}

std::vector<double> row_excesses(const Reduced& reduced, const Labels& labels) {
  std::vector<double> excesses = row_sums(reduced.pieces, reduced.row_limit.size(),
                                          [&](const MemoryPiece& piece) { return piece.memory[labels[piece.node]]; });
  for (std::size_t row = 0; row < excesses.size(); ++row) excesses[row] -= reduced.row_limit[row];
  return excesses;
}

double excess(const Reduced& reduced, const Labels& labels) {
  double largest = -kForbidden;
  for (const double beyond : row_excesses(reduced, labels)) largest = std::max(largest, beyond);
  return largest;
}

}  // namespace meshwright::portfolio
