// SPDX-License-Identifier: Apache-2.0
#include "core/solver/glpk/glpk_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr std::size_t kRowsPerRound = 15;  // added at once: more would mostly be implied by these
constexpr double kLargestCost = 1e6;
constexpr double kExceeded = 1e-7;  // part of a row's limit by which a fractional solution must exceed it

void put(SparseRow& row, int column, double value) {
  row.column.push_back(column);
  row.value.push_back(value);
}

// Rows (b), one per label of u, then (c), one per label of v; a pair that is forbidden has no column at all.
void add_edge(Program& program, const Field& field, const Field::Edge& edge) {
  const int u_labels = field.labels(edge.u), v_labels = field.labels(edge.v);
  IndexedVector<int, SparseRow> rows(u_labels + v_labels);
  for (int p = 0; p < u_labels; ++p) put(rows[p], program.first_x[edge.u] + p, -1.0);
  for (int q = 0; q < v_labels; ++q) put(rows[u_labels + q], program.first_x[edge.v] + q, -1.0);
  auto cost = edge.cost.begin();
  for (int p = 0; p < u_labels; ++p)
    for (int q = 0; q < v_labels; ++q, ++cost) {
      if (*cost == kForbidden) continue;
      const int y = program.cost.count();
      program.cost.push_back(*cost);
      put(rows[p], y, 1.0);
      put(rows[u_labels + q], y, 1.0);
    }
  for (SparseRow& row : rows) program.rows.push_back(std::move(row));
}

}  // namespace

Program make_program(const Field& field, double cut) {
  Program program;
  for (const Field::Node& node : field.nodes) {
    program.first_x.push_back(program.cost.count());
    SparseRow row;  // (a)
    row.bound = 1.0;
    for (const double cost : node.cost) {
      const int x = program.cost.count();
      program.cost.push_back(cost == kForbidden ? 0.0 : cost);
      // A forbidden label keeps its column, fixed at 0, so that columns follow labels.
      if (cost == kForbidden)
        program.forbidden.push_back(x);
      else
        put(row, x, 1.0);
    }
    program.rows.push_back(std::move(row));
  }
  // Only the x are integers: where they are whole, rows (b) and (c) make the y whole.
  program.x_columns = program.cost.count() - 1;
  for (const Field::Edge& edge : field.edges) add_edge(program, field, edge);
  // Scaled, so that GLPK's tolerances are the same share of the largest cost in every problem.
  double largest = 0.0;
  for (const double cost : program.cost) largest = std::max(largest, std::abs(cost));
  if (largest > 0.0) program.scale = kLargestCost / largest;
  // A row that keeps the cost below the cut.
  SparseRow objective;
  objective.equal = false;
  objective.bound = (cut - field.constant) * program.scale;
  for (int c = 1; c < program.cost.count(); ++c) {
    program.cost[c] *= program.scale;
    if (program.cost[c] != 0.0) put(objective, c, program.cost[c]);
  }
  if (cut != kForbidden) program.rows.push_back(std::move(objective));
  return program;
}

MemoryRows::MemoryRows(const Reduced& reduced, const Program& program)
    : reduced_(reduced), program_(program), added_(reduced.row_limit.size(), false) {}

std::vector<SparseRow> MemoryRows::all() {
  std::vector<SparseRow> rows;
  for (int r = 0; r < added_.count(); ++r) rows.push_back(written(r));
  return rows;
}

// Lazy rows: most memory rows never bind, and each holds nearly every label. `values` are those of the relaxation.
std::vector<SparseRow> MemoryRows::exceeded(const IndexedVector<int, double>& values) {
  IndexedVector<int, double> beyond(row_sums(reduced_.pieces, added_.size(), [&](const MemoryPiece& piece) {
    double memory = 0.0;
    int x = program_.first_x[piece.node];
    for (const double of_label : piece.memory) memory += of_label * values[x++];
    return memory;
  }));
  for (int r = 0; r < beyond.count(); ++r) beyond[r] = (beyond[r] - limit(r)) / unit(r);  // in units of the row
  std::vector<std::pair<double, int>> worst;
  for (int r = 0; r < beyond.count(); ++r) {
    if (beyond[r] <= kExceeded || added_[r]) continue;
    // Neighbouring rows differ little: take the one that is exceeded the most.
    if ((r > 0 && beyond[r - 1] > beyond[r]) || (r + 1 < beyond.count() && beyond[r + 1] >= beyond[r])) continue;
    worst.emplace_back(-beyond[r], r);
  }
  std::sort(worst.begin(), worst.end());
  if (worst.size() > kRowsPerRound) worst.resize(kRowsPerRound);
  std::vector<SparseRow> rows;
  for (const auto& [negated, r] : worst) rows.push_back(written(r));
  return rows;
}

std::vector<SparseRow> MemoryRows::cut_off(const Labels& labels) {
  const std::vector<double> beyond = row_excesses(reduced_, labels);
  const auto worst = std::max_element(beyond.begin(), beyond.end());
  if (worst == beyond.end() || *worst <= 0.0) return {};
  const auto r = static_cast<int>(worst - beyond.begin());
  if (!added_[r]) return {written(r)};
  // The row is there already, so GLPK's tolerance let these labels pass. The cut: not all nodes of the row may take as
  // much memory as here.
  SparseRow cut;
  cut.equal = false;
  cut.bound = -1.0;
  const OfRow memory = memory_at(r);
  for (int i = 0; i < memory.count(); ++i) {
    if (memory[i].empty()) continue;
    cut.bound += 1.0;
    const int label = labels[i];
    for (std::size_t x = 0; x < memory[i].size(); ++x)
      if (memory[i][x] >= memory[i][label]) put(cut, program_.first_x[i] + static_cast<int>(x), 1.0);
  }
  return {cut};
}

double MemoryRows::limit(int r) const { return reduced_.row_limit[r]; }

// Memory in units of the limit, or of the largest piece where there is no room at all: bytes are too far from 1 for
// GLPK's tolerances.
double MemoryRows::unit(int r) const {
  double largest = std::abs(limit(r));
  if (largest > 0.0) return largest;
  for (const MemoryPiece& piece : reduced_.pieces) largest = std::max(largest, max_memory(piece));
  return largest > 0.0 ? largest : 1.0;
}

MemoryRows::OfRow MemoryRows::memory_at(int r) const {
  OfRow memory(program_.first_x.size());
  for (const MemoryPiece& piece : reduced_.pieces) {
    if (piece.begin > r || r >= piece.end) continue;
    std::vector<double>& own = memory[piece.node];
    own.resize(piece.memory.size(), 0.0);
    std::transform(own.begin(), own.end(), piece.memory.begin(), own.begin(), std::plus<>());
  }
  return memory;
}

SparseRow MemoryRows::written(int r) {
  added_[r] = true;
  SparseRow row;
  row.equal = false;
  row.bound = limit(r) / unit(r);
  const OfRow memory = memory_at(r);
  for (int i = 0; i < memory.count(); ++i)
    for (std::size_t x = 0; x < memory[i].size(); ++x)
      if (memory[i][x] > 0.0) put(row, program_.first_x[i] + static_cast<int>(x), memory[i][x] / unit(r));
  return row;
}

Labels labels_of(const Field& field, const Program& program, const IndexedVector<int, double>& values) {
  Labels labels;
  for (int i = 0; i < program.first_x.count(); ++i) {
    const auto first = values.begin() + program.first_x[i];
    // GLPK's integers are whole only within its tolerance: one value is near 1, the others near 0.
    labels.push_back(static_cast<int>(std::max_element(first, first + field.labels(i)) - first));
  }
  return labels;
}

}  // namespace meshwright::portfolio
