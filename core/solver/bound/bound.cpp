// SPDX-License-Identifier: Apache-2.0
#include "core/solver/bound/bound.h"

#include <algorithm>
#include <cmath>

#include "core/solver/bound/bound_messages.h"

namespace meshwright::portfolio {

namespace {
constexpr double kMemory = 0.1;  // weight of the newest subgradient in the direction
constexpr double kFirstPace = 0.05, kMinPace = 1e-4;
constexpr int kPatience = 4;  // iterations without a clearly better bound before the pace is cut
}  // namespace

struct DualBound::State {
  State(const Reduced& from, const std::vector<std::pair<int, double>>& multipliers);

  void price_memory();  // extra, priced_limit from multiplier
  // The volume algorithm (Barahona and Anbil 2000): from the best multipliers along a running mean of subgradients, as
  // far as Polyak's rule says, by a pace that grows while it helps and shrinks while it does not.
  void step(double upper_bound, bool is_better);
  void renew();
  void note_min_marginals(double bound_before);

  const Reduced& reduced;
  Messages messages;
  Messages::Visit visit;
  std::vector<double> multiplier, best_multiplier;  // [row]
  std::vector<double> extra;                        // [label of all nodes]: priced memory; infinity: taken out
  double priced_limit = 0.0;                        // sum over rows of multiplier times limit
  std::vector<double> direction;                    // [row]: running mean of what the rows lack
  double best = -kForbidden;
  double pace = kFirstPace;  // of the multiplier steps
  int since_better = 0;
  Guide min_marginals, guide;
};

DualBound::State::State(const Reduced& from, const std::vector<std::pair<int, double>>& multipliers)
    : reduced(from),
      messages(from.field),
      multiplier(from.row_limit.size(), 0.0),
      best_multiplier(multiplier),
      extra(messages.label_count(), 0.0),
      direction(from.row_limit.size(), 0.0) {
  for (const Field::Node& node : from.field.nodes) min_marginals.emplace_back(node.cost.size(), -kForbidden);
  guide = min_marginals;
  for (const auto& [step, value] : multipliers) {
    const auto row = std::lower_bound(from.row_step.begin(), from.row_step.end(), step);
    if (row != from.row_step.end() && *row == step)
      multiplier[static_cast<std::size_t>(row - from.row_step.begin())] = value;
  }
  best_multiplier = multiplier;
}

// Adds to every label what its memory costs at the multipliers. A piece holds consecutive rows, so a prefix sum gives
// the price of all of them at once.
void DualBound::State::price_memory() {
  std::vector<double> sum(multiplier.size() + 1, 0.0);  // of the multipliers of the rows before
  priced_limit = 0.0;
  for (std::size_t row = 0; row < multiplier.size(); ++row) {
    sum[row + 1] = sum[row] + multiplier[row];
    priced_limit += multiplier[row] * reduced.row_limit[row];
  }
  for (double& cost : extra)
    if (cost < kForbidden) cost = 0.0;
  for (const MemoryPiece& piece : reduced.pieces) {
    const double price = sum[at(piece.end)] - sum[at(piece.begin)];
    if (price <= 0.0) continue;
    const std::size_t first = messages.first_label(at(piece.node));
    for (std::size_t x = 0; x < piece.memory.size(); ++x) extra[first + x] += price * piece.memory[x];
  }
}

// A label's total exceeds its node's least total by as much as the bound rises when the label is forced.
void DualBound::State::note_min_marginals(double bound_before) {
  for (std::size_t i = 0; i < guide.size(); ++i) {
    const double* total = visit.total.data() + messages.first_label(i);
    const double least = total[at(visit.cheapest[i])];
    for (std::size_t x = 0; x < guide[i].size(); ++x) {
      guide[i][x] = total[x];
      min_marginals[i][x] = std::max(min_marginals[i][x], bound_before + (total[x] - least));
    }
  }
}

// A subgradient step from the best multipliers: rows that the cheapest labels exceed get dearer. The direction is a
// running mean, since single subgradients zigzag; the length is Polyak's, from the distance to the best known cost.
void DualBound::State::step(double upper_bound, bool is_better) {
  std::vector<double> lacks(multiplier.size() + 1, 0.0);
  for (const MemoryPiece& piece : reduced.pieces) {
    const double memory = piece.memory[at(visit.cheapest[at(piece.node)])];
    lacks[at(piece.begin)] += memory;
    lacks[at(piece.end)] -= memory;
  }
  double sum = 0.0, norm = 0.0, agreement = 0.0;
  for (std::size_t row = 0; row < multiplier.size(); ++row) {
    sum += lacks[row];
    const double lack = sum - reduced.row_limit[row];
    agreement += lack * direction[row];
    direction[row] += kMemory * (lack - direction[row]);
    if (direction[row] > 0.0 || best_multiplier[row] > 0.0) norm += direction[row] * direction[row];
  }
  if (is_better && agreement > 0.0) pace *= 1.1;
  if (norm <= 0.0) return;
  const double aim = upper_bound < kForbidden ? upper_bound : best + 0.05 * std::abs(best) + 1.0;
  const double length = pace * std::max(aim - best, 0.0) / norm;
  for (std::size_t row = 0; row < multiplier.size(); ++row)
    multiplier[row] = std::max(0.0, best_multiplier[row] + length * direction[row]);
}

// Forgets how the steps went so far: too short a pace never finds out that the messages have moved on.
void DualBound::State::renew() {
  pace = kFirstPace;
  since_better = 0;
  std::fill(direction.begin(), direction.end(), 0.0);
}

DualBound::DualBound(const Reduced& reduced, const std::vector<std::pair<int, double>>& multipliers)
    : state_(std::make_unique<State>(reduced, multipliers)) {}
DualBound::DualBound(const DualBound& other) : state_(std::make_unique<State>(*other.state_)) {
  state_->renew();  // what held the other back is not what will hold this one back
}
DualBound::~DualBound() = default;

void DualBound::keep_only(const std::vector<std::vector<bool>>& kept) {
  for (std::size_t i = 0; i < kept.size(); ++i) keep_only(i, kept[i]);
}

void DualBound::keep_only(std::size_t node, const std::vector<bool>& kept) {
  State& s = *state_;
  double least = kForbidden;
  for (std::size_t x = 0; x < kept.size(); ++x) {
    if (kept[x]) {
      least = std::min(least, s.min_marginals[node][x]);
      continue;
    }
    s.extra[s.messages.first_label(node) + x] = kForbidden;
    s.min_marginals[node][x] = kForbidden;
    s.guide[node][x] = kForbidden;
  }
  s.best = std::max(s.best, least);
}

void DualBound::iterate(double upper_bound) {
  State& s = *state_;
  s.price_memory();
  const double there = s.messages.pass(true, s.extra, s.visit) - s.priced_limit;
  const double back = there == kForbidden ? there : s.messages.pass(false, s.extra, s.visit) - s.priced_limit;
  if (back == kForbidden) {
    s.best = kForbidden;
    return;
  }
  s.note_min_marginals(there);
  const double reached = std::max(there, back);
  const bool is_better = reached > s.best;
  if (reached > s.best + 1e-6 * std::abs(s.best)) s.since_better = 0;
  if (is_better) {
    s.best = reached;
    s.best_multiplier = s.multiplier;
  }
  if (++s.since_better > kPatience) {
    s.pace *= 0.7;
    s.since_better = 0;
    if (s.pace < kMinPace) s.renew();
  }
  s.step(upper_bound, is_better);
}

std::size_t DualBound::forbid_pairs(double upper_bound, Field& field) {
  State& s = *state_;
  s.multiplier = s.best_multiplier;
  s.price_memory();
  const double there = s.messages.pass(true, s.extra, s.visit) - s.priced_limit;
  const double back = there == kForbidden ? there : s.messages.pass(false, s.extra, s.visit) - s.priced_limit;
  s.best = std::max(s.best, back);
  if (back == kForbidden) return 0;
  s.note_min_marginals(there);
  return s.messages.forbid_pairs(s.visit, upper_bound - there, field);
}

double DualBound::value() const { return state_->best; }
const Guide& DualBound::min_marginals() const { return state_->min_marginals; }
const Guide& DualBound::guide() const { return state_->guide; }
std::vector<double> DualBound::disagreement() const { return state_->messages.disagreement(state_->visit); }
const std::vector<double>& DualBound::multipliers() const { return state_->best_multiplier; }

}  // namespace meshwright::portfolio
