// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
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
    MemoryPiece piece{static_cast<int>(i), row_of(node.begin), row_of(node.end), node.memory};
    const double least = take_least(piece.memory);
    least_begins[at(piece.begin)] += least;
    least_begins[at(piece.end)] -= least;
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

double excess(const Reduced& reduced, const Labels& labels) {
  std::vector<double> change(reduced.row_limit.size() + 1, 0.0);
  for (const MemoryPiece& piece : reduced.pieces) {
    const double memory = piece.memory[at(labels[at(piece.node)])];
    change[at(piece.begin)] += memory;
    change[at(piece.end)] -= memory;
  }
  double sum = 0.0, largest = -kForbidden;
  for (std::size_t row = 0; row < reduced.row_limit.size(); ++row) {
    sum += change[row];
    largest = std::max(largest, sum - reduced.row_limit[row]);
  }
  return largest;
}

std::vector<MemoryRow> memory_rows(const Reduced& reduced) {
  std::vector<std::map<int, std::vector<double>>> terms(reduced.row_limit.size());
  for (const MemoryPiece& piece : reduced.pieces)
    for (int row = piece.begin; row < piece.end; ++row) {
      const auto [term, fresh] = terms[at(row)].try_emplace(piece.node, piece.memory);
      if (fresh) continue;
      for (std::size_t label = 0; label < piece.memory.size(); ++label) term->second[label] += piece.memory[label];
    }
  std::vector<MemoryRow> rows;
  for (std::size_t row = 0; row < terms.size(); ++row) {
    rows.push_back({{}, reduced.row_limit[row]});
    for (auto& [node, memory] : terms[row]) {
      rows.back().limit -= take_least(memory);
      rows.back().terms.push_back({node, std::move(memory)});
    }
  }
  return rows;
}

}  // namespace meshwright::portfolio
