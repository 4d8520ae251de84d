// SPDX-License-Identifier: Apache-2.0
#include "core/solver/bound/bound.h"

#include <algorithm>
#include <cmath>

namespace meshwright::portfolio {

namespace {
constexpr double kMemory = 0.1;  // weight of the newest subgradient in the direction
constexpr double kMinPace = 1e-4;
constexpr int kPatience = 4;  // iterations without a clearly better bound before the pace is cut
}  // namespace

DualBound::DualBound(const Reduced& reduced, const std::vector<std::pair<int, double>>& multipliers)
    : reduced_(reduced),
      messages_(reduced.field),
      multiplier_(reduced.row_limit.size(), 0.0),
      extra_(messages_.label_count(), 0.0),
      direction_(reduced.row_limit.size(), 0.0) {
  for (const Field::Node& node : reduced.field.nodes) min_marginals_.emplace_back(node.cost.size(), -kForbidden);
  guide_ = min_marginals_;
  for (const auto& [step, value] : multipliers) {
    const auto row = std::lower_bound(reduced.row_step.begin(), reduced.row_step.end(), step);
    if (row != reduced.row_step.end() && *row == step) multiplier_[row - reduced.row_step.begin()] = value;
  }
  best_multiplier_ = multiplier_;
}

// Adds to every label what its memory costs at the multipliers.
void DualBound::price_memory() {
  priced_limit_ = 0.0;
  for (std::size_t row = 0; row < multiplier_.size(); ++row)
    priced_limit_ += multiplier_[row] * reduced_.row_limit[row];
  // Infinite entries stay: keep_only took those labels out.
  for (double& cost : extra_)
    if (cost < kForbidden) cost = 0.0;
  for_each_priced_piece(reduced_.pieces, multiplier_, [&](const MemoryPiece& piece, double price) {
    const std::size_t first = messages_.first_label(piece.node);
    for (std::size_t x = 0; x < piece.memory.size(); ++x) extra_[first + x] += price * piece.memory[x];
  });
}

std::pair<double, double> DualBound::pass_both_ways() {
  price_memory();
  const double there = messages_.pass(true, extra_, visit_) - priced_limit_;
  return {there, there == kForbidden ? there : messages_.pass(false, extra_, visit_) - priced_limit_};
}

// A label's total exceeds its node's least total by as much as the bound rises when the label is forced.
void DualBound::note_min_marginals(double bound_before) {
  for (std::size_t i = 0; i < guide_.size(); ++i) {
    const double* total = visit_.total.data() + messages_.first_label(i);
    const double least = total[visit_.cheapest[i]];
    for (std::size_t x = 0; x < guide_[i].size(); ++x) {
      guide_[i][x] = total[x];
      min_marginals_[i][x] = std::max(min_marginals_[i][x], bound_before + (total[x] - least));
    }
  }
}

// A subgradient step from the best multipliers: rows that the cheapest labels exceed get dearer. The direction is a
// running mean, since single subgradients zigzag; the length is Polyak's, from the distance to the best known cost.
void DualBound::step(double upper_bound, bool is_better) {
  const std::vector<double> lacks = row_excesses(reduced_, visit_.cheapest);
  double norm = 0.0, agreement = 0.0;
  for (std::size_t row = 0; row < multiplier_.size(); ++row) {
    agreement += lacks[row] * direction_[row];
    direction_[row] += kMemory * (lacks[row] - direction_[row]);
    // A multiplier of 0 that would fall does not move, so its row has no part in the length.
    if (direction_[row] > 0.0 || best_multiplier_[row] > 0.0) norm += direction_[row] * direction_[row];
  }
  if (is_better && agreement > 0.0) pace_ *= 1.1;
  if (norm <= 0.0) return;
  // Without a known cost, Polyak's rule aims a little above the bound.
  const double aim = upper_bound < kForbidden ? upper_bound : best_ + 0.05 * std::abs(best_) + 1.0;
  const double length = pace_ * std::max(aim - best_, 0.0) / norm;
  for (std::size_t row = 0; row < multiplier_.size(); ++row)
    multiplier_[row] = std::max(0.0, best_multiplier_[row] + length * direction_[row]);
}

void DualBound::renew() {
  pace_ = kFirstPace;
  since_better_ = 0;
  std::fill(direction_.begin(), direction_.end(), 0.0);
}

// The bound of the rest is at least the least min-marginal of a label that is kept.
void DualBound::keep_only(std::size_t node, const std::vector<bool>& kept) {
  double least = kForbidden;
  for (std::size_t x = 0; x < kept.size(); ++x) {
    if (kept[x]) {
      least = std::min(least, min_marginals_[node][x]);
      continue;
    }
    extra_[messages_.first_label(node) + x] = kForbidden;
    min_marginals_[node][x] = kForbidden;
    guide_[node][x] = kForbidden;
  }
  best_ = std::max(best_, least);
}

void DualBound::iterate(double upper_bound) {
  const auto [there, back] = pass_both_ways();
  if (back == kForbidden) {
    best_ = kForbidden;
    return;
  }
  // The visit is that of the backward pass, which began at the bound `there`.
  note_min_marginals(there);
  const double reached = std::max(there, back);
  const bool is_better = reached > best_;
  if (reached > best_ + 1e-6 * std::abs(best_)) since_better_ = 0;
  if (is_better) {
    best_ = reached;
    best_multiplier_ = multiplier_;
  }
  if (++since_better_ > kPatience) {
    pace_ *= 0.7;
    since_better_ = 0;
    if (pace_ < kMinPace) renew();
  }
  step(upper_bound, is_better);
}

// At the best multipliers. Pairs are judged against the bound before the backward pass, whose messages reparametrise
// the edges.
std::size_t DualBound::forbid_pairs(double upper_bound, Field& field) {
  multiplier_ = best_multiplier_;
  const auto [there, back] = pass_both_ways();
  best_ = std::max(best_, back);
  if (back == kForbidden) return 0;
  note_min_marginals(there);
  return messages_.forbid_pairs(visit_, upper_bound - there, field);
}

std::vector<std::pair<int, double>> DualBound::multipliers_by_step() const {
  std::vector<std::pair<int, double>> by_step;
  for (std::size_t row = 0; row < reduced_.row_step.size(); ++row)
    by_step.emplace_back(reduced_.row_step[row], multipliers()[row]);
  return by_step;
}

}  // namespace meshwright::portfolio
