// SPDX-License-Identifier: Apache-2.0
// The best multipliers a set of cutting planes allows: a small linear program.
#pragma once

#include <vector>

namespace meshwright::portfolio {

// max over 0 <= multiplier <= max_multiplier of min over planes k of cost[k] + sum over rows r of multiplier[r]
// excess[k][r], by the simplex method on its dual: the cheapest convex combination of planes whose excess is at
// max_multiplier 0 in every row, each unit beyond it paid `max_multiplier`. Numbers are expected near 1 in size.
class CuttingPlanes {
 public:
  explicit CuttingPlanes(double max_multiplier) : max_multiplier_(max_multiplier) {}

  void raise(double max_multiplier) { max_multiplier_ = max_multiplier; }
  void add_plane(double cost, std::vector<double> excess);    // [row]
  void add_row(const std::vector<double>& excess_per_plane);  // [plane]
  // REQUIRES: a plane. Returns the value; `multiplier` gets one entry per row.
  double solve(std::vector<double>& multiplier);
  [[nodiscard]] std::vector<double> weights() const;  // [plane], of the last solution's combination
  [[nodiscard]] bool pays_excess() const;             // at the last solution: the planes alone cannot keep every row

 private:
  // Columns: planes from 0 on; the slack of row r is -1 - 2 r, its excess -2 - 2 r.
  [[nodiscard]] double cost_of(int column) const;
  [[nodiscard]] double entry(int column, std::size_t row) const;  // row 0: the weights add up to 1
  void refresh();                                                 // inverse and values from the basis
  void pivot(std::size_t leaving, int entering, const std::vector<double>& direction);
  void price(std::vector<double>& dual) const;

  double max_multiplier_;
  std::size_t rows_ = 0;
  std::vector<double> cost_;                 // [plane]
  std::vector<std::vector<double>> excess_;  // [plane][row]
  std::vector<int> basis_;                   // columns, rows + 1 of them
  std::vector<std::vector<double>> inverse_;
  std::vector<double> value_;  // of the basic columns
};

}  // namespace meshwright::portfolio
