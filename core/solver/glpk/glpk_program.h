// SPDX-License-Identifier: Apache-2.0
// The integer program of core/solver/problem/sharding_problem.h, rows (a)..(d), as plain arrays. Columns count from 1,
// as in GLPK: the labels of node 0, those of node 1, ..., then the pairs of every edge that are not forbidden. All lie
// in [0, 1].
#pragma once

#include <vector>

#include "core/base/indexed_vector.h"
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
  IndexedVector<int, double> cost{0.0};  // per column, scaled
  IndexedVector<int, int> first_x;       // [node] its label 0's column
  int x_columns = 0;                     // those come first; with them integers, every pair is forced to 0 or 1
  std::vector<int> forbidden;            // columns that stay 0
  double scale = 1.0;                    // of costs: the largest becomes 10^6, for GLPK's tolerances are absolute
};

// Rows (a)..(c), and the cost at most `cut`.
[[nodiscard]] Program make_program(const Field& field, double cut);

[[nodiscard]] Labels labels_of(const Field& field, const Program& program, const IndexedVector<int, double>& values);

// The memory rows (d), written as rows of the program when they are needed.
class MemoryRows {
 public:
  MemoryRows(const Reduced& reduced, const Program& program);  // keeps references

  // Every row.
  [[nodiscard]] std::vector<SparseRow> all();
  // The most exceeded rows that are not in the program yet, one of a stretch. `values` per column.
  [[nodiscard]] std::vector<SparseRow> exceeded(const IndexedVector<int, double>& values);

  // A row that cuts off `labels`; none: they keep every row. Either a memory row the program lacks, or, where it has
  // the row and GLPK's tolerances (some 1e-7 of the row) let the labels pass: of the nodes in the row, at least one
  // takes less than now.
  [[nodiscard]] std::vector<SparseRow> cut_off(const Labels& labels);

 private:
  // What every node takes of a row, [node][label]; empty: nothing.
  using OfRow = IndexedVector<int, std::vector<double>>;
  [[nodiscard]] double limit(int row) const;
  [[nodiscard]] double unit(int row) const;
  [[nodiscard]] OfRow memory_at(int row) const;
  [[nodiscard]] SparseRow written(int row);

  const Reduced& reduced_;
  const Program& program_;
  IndexedVector<int, bool> added_;  // [row]
};

}  // namespace meshwright::portfolio
