// SPDX-License-Identifier: Apache-2.0
#include "core/solver/problem/memory_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwright::portfolio {

namespace {
constexpr double kNone = -std::numeric_limits<double>::infinity();

// Applies a change to the O(log rows) nodes that together cover the rows begin <= r < end, then renews the nodes above
// them. REQUIRES: begin < end.
template <class Apply, class Renew>
void change_range(int leaves, int begin, int end, const Apply& apply, const Renew& renew) {
  const std::size_t left = begin + leaves, right = end + leaves;
  for (std::size_t l = left, r = right; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) apply(l++);
    if (r % 2 == 1) apply(--r);
  }
  for (std::size_t node = left / 2; node >= 1; node /= 2) renew(node);
  if (right - 1 != left)
    for (std::size_t node = (right - 1) / 2; node >= 1; node /= 2) renew(node);
}
}  // namespace

MemoryProfile::MemoryProfile(const std::vector<double>& sums) : rows_(static_cast<int>(sums.size())) {
  while (leaves_ < rows_) leaves_ *= 2;
  largest_.assign(2 * leaves_, kNone);
  pending_.assign(2 * leaves_, 0.0);
  std::copy(sums.begin(), sums.end(), largest_.begin() + leaves_);
  for (int node = leaves_ - 1; node >= 1; --node) largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
}

void MemoryProfile::add(int begin, int end, double amount) {
  if (begin >= end || amount == 0.0) return;
  const auto apply = [&](std::size_t node) {
    largest_[node] += amount;
    pending_[node] += amount;
  };
  change_range(leaves_, begin, end, apply, [&](std::size_t node) {
    largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]) + pending_[node];
  });
}

double MemoryProfile::largest() const { return largest_[1]; }

double MemoryProfile::largest(int begin, int end) const { return largest_below(1, 0, leaves_, begin, end); }

double MemoryProfile::largest_below(std::size_t node, int first, int last, int begin, int end) const {
  if (end <= first || last <= begin) return kNone;
  if (begin <= first && last <= end) return largest_[node];
  const int middle = (first + last) / 2;
  return pending_[node] + std::max(largest_below(2 * node, first, middle, begin, end),
                                   largest_below(2 * node + 1, middle, last, begin, end));
}

double MemoryProfile::sum(int row) const {
  const int leaf = row + leaves_;
  double sum = largest_[leaf];
  for (int node = leaf / 2; node >= 1; node /= 2) sum += pending_[node];
  return sum;
}

PressureProfile::PressureProfile(const std::vector<double>& sums, double steepness) : steepness_(steepness) {
  while (leaves_ < static_cast<int>(sums.size())) leaves_ *= 2;
  total_.assign(2 * leaves_, 0.0);
  factor_.assign(2 * leaves_, 1.0);
  std::transform(sums.begin(), sums.end(), total_.begin() + leaves_,
                 [steepness](double sum) { return std::exp(steepness * sum); });
  for (int node = leaves_ - 1; node >= 1; --node) total_[node] = total_[2 * node] + total_[2 * node + 1];
}

void PressureProfile::add(int begin, int end, double amount) {
  if (begin >= end || amount == 0.0) return;
  const double factor = std::exp(steepness_ * amount);
  const auto apply = [&](std::size_t node) {
    total_[node] *= factor;
    factor_[node] *= factor;
  };
  change_range(leaves_, begin, end, apply,
               [&](std::size_t node) { total_[node] = (total_[2 * node] + total_[2 * node + 1]) * factor_[node]; });
}

double PressureProfile::total(int begin, int end) const { return total_below(1, 0, leaves_, begin, end); }

double PressureProfile::total_below(std::size_t node, int first, int last, int begin, int end) const {
  if (end <= first || last <= begin) return 0.0;
  if (begin <= first && last <= end) return total_[node];
  const int middle = (first + last) / 2;
  return factor_[node] *
         (total_below(2 * node, first, middle, begin, end) + total_below(2 * node + 1, middle, last, begin, end));
}

}  // namespace meshwright::portfolio
