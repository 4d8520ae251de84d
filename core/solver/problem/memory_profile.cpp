// SPDX-License-Identifier: Apache-2.0
#include "core/solver/problem/memory_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwright::portfolio {

namespace {
constexpr double kNone = -std::numeric_limits<double>::infinity();
}

MemoryProfile::MemoryProfile(const std::vector<double>& sums) : rows_(static_cast<int>(sums.size())) {
  while (leaves_ < rows_) leaves_ *= 2;
  largest_.assign(2 * static_cast<std::size_t>(leaves_), kNone);
  pending_.assign(2 * static_cast<std::size_t>(leaves_), 0.0);
  std::copy(sums.begin(), sums.end(), largest_.begin() + leaves_);
  for (std::size_t node = static_cast<std::size_t>(leaves_) - 1; node >= 1; --node)
    largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
}

void MemoryProfile::add(int begin, int end, double amount) {
  if (begin >= end || amount == 0.0) return;
  const auto apply = [&](std::size_t node) {
    largest_[node] += amount;
    pending_[node] += amount;
  };
  const std::size_t left = static_cast<std::size_t>(begin + leaves_), right = static_cast<std::size_t>(end + leaves_);
  for (std::size_t l = left, r = right; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) apply(l++);
    if (r % 2 == 1) apply(--r);
  }
  const auto renew = [&](std::size_t node) {
    for (node /= 2; node >= 1; node /= 2)
      largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]) + pending_[node];
  };
  renew(left);
  if (right - 1 != left) renew(right - 1);
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

int MemoryProfile::where_largest() const { return where_largest(0, rows_); }

int MemoryProfile::where_largest(int begin, int end) const {
  std::size_t node = 1;
  for (int first = 0, last = leaves_; last - first > 1;) {
    const int middle = (first + last) / 2;
    const double left = largest_below(2 * node, first, middle, begin, end);
    const double right = largest_below(2 * node + 1, middle, last, begin, end);
    node = 2 * node + (left >= right ? 0 : 1);
    (left >= right ? last : first) = middle;
  }
  return static_cast<int>(node) - leaves_;
}

double MemoryProfile::sum(int row) const {
  const std::size_t leaf = static_cast<std::size_t>(row + leaves_);
  double sum = largest_[leaf];
  for (std::size_t node = leaf / 2; node >= 1; node /= 2) sum += pending_[node];
  return sum;
}

PressureProfile::PressureProfile(const std::vector<double>& sums, double steepness) : steepness_(steepness) {
  while (leaves_ < static_cast<int>(sums.size())) leaves_ *= 2;
  total_.assign(2 * static_cast<std::size_t>(leaves_), 0.0);
  factor_.assign(2 * static_cast<std::size_t>(leaves_), 1.0);
  std::transform(sums.begin(), sums.end(), total_.begin() + leaves_,
                 [steepness](double sum) { return std::exp(steepness * sum); });
  for (std::size_t node = static_cast<std::size_t>(leaves_) - 1; node >= 1; --node)
    total_[node] = total_[2 * node] + total_[2 * node + 1];
}

void PressureProfile::add(int begin, int end, double amount) {
  if (begin >= end || amount == 0.0) return;
  const double factor = std::exp(steepness_ * amount);
  const auto apply = [&](std::size_t node) {
    total_[node] *= factor;
    factor_[node] *= factor;
  };
  const std::size_t left = static_cast<std::size_t>(begin + leaves_), right = static_cast<std::size_t>(end + leaves_);
  for (std::size_t l = left, r = right; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) apply(l++);
    if (r % 2 == 1) apply(--r);
  }
  const auto renew = [&](std::size_t node) {
    for (node /= 2; node >= 1; node /= 2) total_[node] = (total_[2 * node] + total_[2 * node + 1]) * factor_[node];
  };
  renew(left);
  if (right - 1 != left) renew(right - 1);
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
