// SPDX-License-Identifier: Apache-2.0
// Memory sums over rows as a segment tree: add to a range of rows, ask for the largest sum, each in O(log rows).
#pragma once

#include <cstddef>
#include <vector>

namespace meshwright::portfolio {

class MemoryProfile {
 public:
  explicit MemoryProfile(const std::vector<double>& sums);  // [row]; may be empty

  void add(int begin, int end, double amount);  // to the rows begin <= r < end
  [[nodiscard]] double largest() const;         // over all rows; minus infinity: no rows
  [[nodiscard]] double largest(int begin, int end) const;
  [[nodiscard]] double sum(int row) const;

 private:
  [[nodiscard]] double largest_below(std::size_t node, int first, int last, int begin, int end) const;

  // A perfect binary tree, root 1. A node's largest = own pending amount + the larger of its children's; amounts are
  // never pushed down, so that adding touches two paths only.
  int leaves_ = 1, rows_;
  std::vector<double> largest_;
  std::vector<double> pending_;
};

// Sums of exponentials over rows: a row whose memory sum is x beyond its limit weighs exp(steepness * x), so that
// adding memory to rows multiplies their weights. The gradient of a penalty that rises smoothly towards the limits and
// beyond.
class PressureProfile {
 public:
  PressureProfile(const std::vector<double>& sums, double steepness);

  void add(int begin, int end, double amount);
  [[nodiscard]] double total() const { return total_[1]; }
  [[nodiscard]] double total(int begin, int end) const;
  [[nodiscard]] double steepness() const { return steepness_; }

 private:
  [[nodiscard]] double total_below(std::size_t node, int first, int last, int begin, int end) const;

  int leaves_ = 1;
  double steepness_;
  std::vector<double> total_;   // own factor times the sum of the children's
  std::vector<double> factor_;  // never pushed down
};

}  // namespace meshwright::portfolio
