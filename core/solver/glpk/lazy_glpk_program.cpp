// SPDX-License-Identifier: Apache-2.0
#include "core/solver/glpk/lazy_glpk_program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/solver/branch_and_bound/branch_and_bound_dual.h"

namespace meshwright::portfolio {

namespace {

constexpr std::size_t kRowsPerRound = 15;
constexpr double kLargestCost = 1e6;
constexpr double kExceeded = 1e-7;  // part of a row's limit by which a fractional solution must exceed it

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void put(SparseRow& row, int column, double value) {
  row.column.push_back(column);
  row.value.push_back(value);
}

void add_edge(Program& program, const Field& field, const Field::Edge& edge) {
  const int u_labels = field.labels(edge.u), v_labels = field.labels(edge.v);
  std::vector<SparseRow> rows(at(u_labels + v_labels));
  for (int p = 0; p < u_labels; ++p) put(rows[at(p)], program.first_x[at(edge.u)] + p, -1.0);
  for (int q = 0; q < v_labels; ++q) put(rows[at(u_labels + q)], program.first_x[at(edge.v)] + q, -1.0);
  for (int p = 0; p < u_labels; ++p)
    for (int q = 0; q < v_labels; ++q) {
      const double cost = edge.cost[at(p * v_labels + q)];
      if (cost == kForbidden) continue;
      program.cost.push_back(cost);
      const int y = static_cast<int>(program.cost.size()) - 1;
      put(rows[at(p)], y, 1.0);
      put(rows[at(u_labels + q)], y, 1.0);
    }
  for (SparseRow& row : rows) program.rows.push_back(std::move(row));
}

}  // namespace

Program make_program(const Field& field, double cut) {
  Program program;
  for (const Field::Node& node : field.nodes) {
    program.first_x.push_back(static_cast<int>(program.cost.size()));
    SparseRow row;
    row.bound = 1.0;
    for (double cost : node.cost) {
      program.cost.push_back(cost == kForbidden ? 0.0 : cost);
      if (cost != kForbidden) put(row, static_cast<int>(program.cost.size()) - 1, 1.0);
    }
    program.rows.push_back(std::move(row));
  }
  program.x_columns = static_cast<int>(program.cost.size()) - 1;
  for (std::size_t i = 0; i < field.nodes.size(); ++i)  // a forbidden label: its column stays out of row (a)
    for (std::size_t x = 0; x < field.nodes[i].cost.size(); ++x)
      if (field.nodes[i].cost[x] == kForbidden) {
        SparseRow never;
        put(never, program.first_x[i] + static_cast<int>(x), 1.0);
        program.rows.push_back(std::move(never));
      }
  for (const Field::Edge& edge : field.edges) add_edge(program, field, edge);
  double largest = 0.0;
  for (double cost : program.cost) largest = std::max(largest, std::abs(cost));
  if (largest > 0.0) program.scale = kLargestCost / largest;
  SparseRow objective;
  objective.equal = false;
  objective.bound = (cut - field.constant) * program.scale;
  for (std::size_t c = 1; c < program.cost.size(); ++c) {
    program.cost[c] *= program.scale;
    if (program.cost[c] != 0.0) put(objective, static_cast<int>(c), program.cost[c]);
  }
  if (cut != kForbidden) program.rows.push_back(std::move(objective));
  return program;
}

LazyRows::LazyRows(const Reduced& reduced, const Program& program)
    : reduced_(reduced), program_(program), added_(reduced.row_limit.size(), false) {}

std::vector<SparseRow> LazyRows::exceeded(const std::vector<double>& values) {
  std::vector<double> change(added_.size() + 1, 0.0);
  for (const MemoryPiece& piece : reduced_.pieces) {
    double memory = 0.0;
    for (std::size_t x = 0; x < piece.memory.size(); ++x)
      memory += piece.memory[x] * values[at(program_.first_x[at(piece.node)]) + x];
    change[at(piece.begin)] += memory;
    change[at(piece.end)] -= memory;
  }
  std::vector<double> beyond;
  double sum = 0.0;
  for (std::size_t r = 0; r < added_.size(); ++r)
    beyond.push_back(((sum += change[r]) - reduced_.row_limit[r]) / unit(r));
  std::vector<std::pair<double, std::size_t>> worst;
  for (std::size_t r = 0; r < beyond.size(); ++r) {
    if (beyond[r] <= kExceeded || added_[r]) continue;
    if ((r > 0 && beyond[r - 1] > beyond[r]) || (r + 1 < beyond.size() && beyond[r + 1] >= beyond[r])) continue;
    worst.emplace_back(-beyond[r], r);
  }
  std::sort(worst.begin(), worst.end());
  if (worst.size() > kRowsPerRound) worst.resize(kRowsPerRound);
  std::vector<SparseRow> rows;
  for (const auto& [unused, r] : worst) rows.push_back(written(r));
  return rows;
}

std::vector<SparseRow> LazyRows::cut_off(const Labels& labels) {
  std::vector<SparseRow> cuts;
  const std::vector<double> beyond = row_excesses(reduced_, labels);
  const auto worst = std::max_element(beyond.begin(), beyond.end());
  if (worst == beyond.end() || *worst <= 0.0) return cuts;
  const auto r = static_cast<std::size_t>(worst - beyond.begin());
  if (!added_[r]) {
    cuts.push_back(written(r));
    return cuts;
  }
  SparseRow cut;
  cut.equal = false;
  cut.bound = -1.0;
  const std::vector<std::vector<double>> memory = memory_at(r);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].empty()) continue;
    cut.bound += 1.0;
    for (std::size_t x = 0; x < memory[i].size(); ++x)
      if (memory[i][x] >= memory[i][at(labels[i])]) put(cut, program_.first_x[i] + static_cast<int>(x), 1.0);
  }
  cuts.push_back(std::move(cut));
  return cuts;
}

// Memory in units of the limit, or of the largest piece where that is larger.
double LazyRows::unit(std::size_t r) const {
  double largest = std::abs(reduced_.row_limit[r]);
  if (largest > 0.0) return largest;
  for (const MemoryPiece& piece : reduced_.pieces)
    largest = std::max(largest, *std::max_element(piece.memory.begin(), piece.memory.end()));
  return largest > 0.0 ? largest : 1.0;
}

std::vector<std::vector<double>> LazyRows::memory_at(std::size_t r) const {
  std::vector<std::vector<double>> memory(program_.first_x.size());
  for (const MemoryPiece& piece : reduced_.pieces) {
    if (at(piece.begin) > r || r >= at(piece.end)) continue;
    std::vector<double>& own = memory[at(piece.node)];
    own.resize(piece.memory.size(), 0.0);
    for (std::size_t x = 0; x < own.size(); ++x) own[x] += piece.memory[x];
  }
  return memory;
}

SparseRow LazyRows::written(std::size_t r) {
  added_[r] = true;
  SparseRow row;
  row.equal = false;
  row.bound = reduced_.row_limit[r] / unit(r);
  const std::vector<std::vector<double>> memory = memory_at(r);
  for (std::size_t i = 0; i < memory.size(); ++i)
    for (std::size_t x = 0; x < memory[i].size(); ++x)
      if (memory[i][x] > 0.0) put(row, program_.first_x[i] + static_cast<int>(x), memory[i][x] / unit(r));
  return row;
}

Labels labels_of(const Field& field, const Program& program, const std::vector<double>& values) {
  Labels labels;
  for (std::size_t i = 0; i < field.nodes.size(); ++i) {
    const auto first = values.begin() + program.first_x[i];
    const auto last = first + static_cast<std::ptrdiff_t>(field.nodes[i].cost.size());
    labels.push_back(static_cast<int>(std::max_element(first, last) - first));
  }
  return labels;
}

}  // namespace meshwright::portfolio
