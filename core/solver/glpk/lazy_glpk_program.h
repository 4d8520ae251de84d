// SPDX-License-Identifier: Apache-2.0
// The integer program of lazy_glpk.h as plain arrays. Columns count from 1, as in GLPK: the labels of node 0, those of
// node 1, ..., then the pairs of every edge that are not forbidden. All lie in [0, 1].
#pragma once

#include <vector>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

struct SparseRow {
  std::vector<int> column{0};  // entry 0 is unused
  std::vector<double> value{0.0};
  bool equal = true;  // to the bound; false: at most the bound
  double bound = 0.0;
};

struct Program {
  std::vector<SparseRow> rows;
  std::vector<double> cost{0.0};  // per column, scaled
  std::vector<int> first_x;       // [node] its label 0's column
  int x_columns = 0;              // those come first
  double scale = 1.0;             // of costs: the largest becomes 10^6, for GLPK's tolerances are absolute
};

// Rows (a)..(c) of core/solver/problem/sharding_problem.h, and the cost at most `cut`.
[[nodiscard]] Program make_program(const Field& field, double cut);

[[nodiscard]] Labels labels_of(const Field& field, const Program& program, const std::vector<double>& values);

// The memory rows, written as rows of the program when they are needed.
class LazyRows {
 public:
  LazyRows(const Reduced& reduced, const Program& program);  // keeps references

  // The most exceeded rows that are not in the program yet, one of a stretch. `values` per column.
  [[nodiscard]] std::vector<SparseRow> exceeded(const std::vector<double>& values);

  // A row that cuts off `labels`; none: they keep every row. Either a memory row the program lacks, or, where it has
  // the row and GLPK's tolerances let the labels pass: of the nodes in the row, at least one takes less than now.
  [[nodiscard]] std::vector<SparseRow> cut_off(const Labels& labels);

 private:
  [[nodiscard]] double unit(std::size_t row) const;
  [[nodiscard]] std::vector<std::vector<double>> memory_at(std::size_t row) const;  // [node][label]
  [[nodiscard]] SparseRow written(std::size_t row);

  const Reduced& reduced_;
  const Program& program_;
  std::vector<bool> added_;  // [row]
};

}  // namespace meshwright::portfolio
