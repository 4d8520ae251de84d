// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_master.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr double kReducedCost = 1e-9;  // columns better than this enter
constexpr double kPivot = 1e-9;        // smaller entries are taken as zero
constexpr int kPivotsBetweenRefreshes = 40;
constexpr int kMaxPivots = 2000;  // the answer only guides: a stalled simplex may stop anywhere

// Right-hand sides: all zero they would tie at every pivot, so each row gets its own small allowance.
double right_hand_side(std::size_t row) {
  return row == 0 ? 1.0 : 1e-8 * (1.0 + static_cast<double>(row * 7919 % 1009) / 1009.0);
}

}  // namespace

double CuttingPlanes::cost_of(int column) const {
  if (column >= 0) return cost_[column];
  return column % 2 == 0 ? max_multiplier_ : 0.0;
}

double CuttingPlanes::entry(int column, std::size_t row) const {
  if (column >= 0) return row == 0 ? 1.0 : excess_[column][row - 1];
  // The numbering of the header backwards: both columns of row r give r + 1, as row 0 has the weights.
  const auto own = static_cast<std::size_t>((-column - 1) / 2) + 1;
  if (row != own) return 0.0;
  return column % 2 == 0 ? -1.0 : 1.0;
}

void CuttingPlanes::add_plane(double cost, std::vector<double> excess) {
  cost_.push_back(cost);
  excess_.push_back(std::move(excess));
  if (basis_.empty()) {
    // The first plane with weight 1 is a feasible basis, with the slack or the excess of each row.
    basis_.push_back(0);
    for (std::size_t r = 0; r < rows_; ++r)
      basis_.push_back((excess_[0][r] > right_hand_side(r + 1) ? -2 : -1) - 2 * static_cast<int>(r));
  }
}

void CuttingPlanes::add_row(const std::vector<double>& excess_per_plane) {
  const std::size_t row = ++rows_;
  for (std::size_t k = 0; k < excess_.size(); ++k) excess_[k].push_back(excess_per_plane[k]);
  if (basis_.empty()) return;
  // The new row's slack, or its excess, whichever is not negative, joins the basis.
  // `used` is the excess of the current combination in this row.
  double used = 0.0;
  for (std::size_t b = 0; b < value_.size(); ++b)
    if (basis_[b] >= 0) used += value_[b] * excess_per_plane[basis_[b]];
  if (value_.empty()) used = excess_per_plane[0];
  basis_.push_back((used > right_hand_side(row) ? -2 : -1) - 2 * static_cast<int>(row - 1));
  value_.push_back(std::abs(used - right_hand_side(row)));
}

// The basis is inverted from scratch (Gauss-Jordan with partial pivoting): a few dozen rows, and rounding starts anew.
void CuttingPlanes::refresh() {
  const std::size_t size = rows_ + 1;
  std::vector<std::vector<double>> matrix(size, std::vector<double>(size));
  for (std::size_t r = 0; r < size; ++r)
    for (std::size_t b = 0; b < size; ++b) matrix[r][b] = entry(basis_[b], r);
  inverse_.assign(size, std::vector<double>(size, 0.0));
  for (std::size_t r = 0; r < size; ++r) inverse_[r][r] = 1.0;
  for (std::size_t c = 0; c < size; ++c) {
    std::size_t best = c;
    for (std::size_t r = c + 1; r < size; ++r)
      if (std::abs(matrix[r][c]) > std::abs(matrix[best][c])) best = r;
    std::swap(matrix[c], matrix[best]);
    std::swap(inverse_[c], inverse_[best]);
    const double pivot = matrix[c][c];
    if (pivot == 0.0) continue;  // cannot be while pivots are not tiny
    for (std::size_t k = 0; k < size; ++k) {
      matrix[c][k] /= pivot;
      inverse_[c][k] /= pivot;
    }
    for (std::size_t r = 0; r < size; ++r) {
      const double factor = matrix[r][c];
      if (r == c || factor == 0.0) continue;
      for (std::size_t k = 0; k < size; ++k) {
        matrix[r][k] -= factor * matrix[c][k];
        inverse_[r][k] -= factor * inverse_[c][k];
      }
    }
  }
  value_.assign(size, 0.0);
  for (std::size_t b = 0; b < size; ++b)
    for (std::size_t r = 0; r < size; ++r) value_[b] += inverse_[b][r] * right_hand_side(r);
}

// Product form update of the inverse: O(rows^2).
void CuttingPlanes::pivot(std::size_t leaving, int entering, const std::vector<double>& direction) {
  const double step = std::max(0.0, value_[leaving]) / direction[leaving];
  for (std::size_t b = 0; b < basis_.size(); ++b) {
    if (b == leaving) continue;
    value_[b] -= step * direction[b];
    const double factor = direction[b] / direction[leaving];
    if (factor == 0.0) continue;
    for (std::size_t r = 0; r <= rows_; ++r) inverse_[b][r] -= factor * inverse_[leaving][r];
  }
  for (double& entry_of : inverse_[leaving]) entry_of /= direction[leaving];
  value_[leaving] = step;
  basis_[leaving] = entering;
}

void CuttingPlanes::price(std::vector<double>& dual) const {
  dual.assign(rows_ + 1, 0.0);
  for (std::size_t b = 0; b < basis_.size(); ++b) {
    const double cost = cost_of(basis_[b]);
    if (cost == 0.0) continue;
    for (std::size_t r = 0; r <= rows_; ++r) dual[r] += cost * inverse_[b][r];
  }
}

// Primal simplex on the dual program, Dantzig's rule. The basis of the last call stays feasible when planes are added,
// so few pivots are needed. The simplex multipliers `dual` are those of the rows with their signs turned.
double CuttingPlanes::solve(std::vector<double>& multiplier) {
  std::vector<double> dual, direction(rows_ + 1);
  refresh();
  for (int pivots = 1; pivots <= kMaxPivots; ++pivots) {
    if (pivots % kPivotsBetweenRefreshes == 0) refresh();
    price(dual);
    int entering = 0;
    double best = -kReducedCost;
    const auto consider = [&](int column, double reduced_cost) {
      // Strictly less: of equal reduced costs the first column enters.
      if (reduced_cost >= best) return;
      best = reduced_cost;
      entering = column;
    };
    for (std::size_t k = 0; k < cost_.size(); ++k) {
      double reduced_cost = cost_[k] - dual[0];
      for (std::size_t r = 0; r < rows_; ++r) reduced_cost -= dual[r + 1] * excess_[k][r];
      consider(static_cast<int>(k), reduced_cost);
    }
    for (std::size_t r = 0; r < rows_; ++r) {
      // The slack costs 0 and has entry 1 in its row; the excess costs max_multiplier_ and has entry -1.
      consider(-1 - 2 * static_cast<int>(r), -dual[r + 1]);
      consider(-2 - 2 * static_cast<int>(r), max_multiplier_ + dual[r + 1]);
    }
    if (best == -kReducedCost) break;
    // The ratio test: the basic column that reaches 0 first leaves.
    std::size_t leaving = basis_.size();
    double shortest = std::numeric_limits<double>::infinity();
    for (std::size_t b = 0; b < basis_.size(); ++b) {
      direction[b] = 0.0;
      for (std::size_t r = 0; r <= rows_; ++r) direction[b] += inverse_[b][r] * entry(entering, r);
      if (direction[b] <= kPivot) continue;
      const double step = std::max(0.0, value_[b]) / direction[b];
      if (step >= shortest) continue;
      shortest = step;
      leaving = b;
    }
    if (leaving == basis_.size()) break;  // only rounding can bring this about: the weights are bounded
    pivot(leaving, entering, direction);
  }
  price(dual);
  multiplier.assign(rows_, 0.0);
  // At the optimum these are in range. A stalled simplex may leave them outside.
  for (std::size_t r = 0; r < rows_; ++r) multiplier[r] = std::clamp(-dual[r + 1], 0.0, max_multiplier_);
  return dual[0];
}

std::vector<double> CuttingPlanes::weights() const {
  std::vector<double> weights(cost_.size(), 0.0);
  for (std::size_t b = 0; b < basis_.size(); ++b)
    if (basis_[b] >= 0 && b < value_.size()) weights[basis_[b]] = std::max(0.0, value_[b]);
  return weights;
}

bool CuttingPlanes::pays_excess() const {
  for (std::size_t b = 0; b < basis_.size(); ++b)
    if (basis_[b] < 0 && basis_[b] % 2 == 0 && value_[b] > 1e-7) return true;
  return false;
}

}  // namespace meshwright::portfolio
