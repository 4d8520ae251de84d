// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_dual.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr double kLittle = 1e-9;       // of the bound: a gain not worth another run
constexpr double kLittleOfGap = 2e-3;  // of the distance to `enough`
constexpr double kFirstCharge = 1.0;   // largest multiplier at first, in cost ranges per largest excess
constexpr double kLargestCharge = 1e7;
constexpr std::size_t kRowsPerRun = 3;  // newly exceeded rows taken up after a run
constexpr double kFirstMatch = 0.3;
constexpr int kMatchesBetweenChecks = 10;
constexpr double kLittleOfMatches = 0.01;  // of the distance: not worth ten more

}  // namespace

std::vector<double> charged(const Reduced& reduced, const EliminationPlan& plan, const Multipliers& multipliers) {
  std::vector<double> cost = side_by_side(reduced.field);
  for_each_priced_piece(reduced.pieces, multipliers, [&](const MemoryPiece& piece, double charge) {
    double* own = cost.data() + plan.first()[piece.node];
    for (std::size_t label = 0; label < piece.memory.size(); ++label) own[label] += charge * piece.memory[label];
  });
  return cost;
}

double given_back(const Reduced& reduced, const Multipliers& multipliers) {
  double sum = reduced.field.constant;
  for (std::size_t r = 0; r < multipliers.size(); ++r) sum -= multipliers[r] * reduced.row_limit[r];
  return sum;
}

RowDual::RowDual(const Reduced& reduced, const EliminationPlan& plan)
    : reduced_(reduced), plan_(plan), elimination_(plan), is_active_(reduced.row_limit.size(), false) {
  const std::vector<double> max_sums = row_sums(reduced.pieces, reduced.row_limit.size(), max_memory);
  for (std::size_t r = 0; r < max_sums.size(); ++r)
    norm_.push_back(max_sums[r] > reduced.row_limit[r] ? std::max(max_sums[r], std::abs(reduced.row_limit[r])) : 0.0);
}

// The unit of costs in the linear program, so that its numbers are near 1.
double RowDual::cost_range() const {
  double range = 0.0;
  const auto add = [&](const std::vector<double>& cost) {
    double least = kForbidden, most = -kForbidden;
    for (double c : cost) {
      if (c == kForbidden) continue;
      least = std::min(least, c);
      most = std::max(most, c);
    }
    if (most > least) range += most - least;
  };
  for (const Field::Node& node : reduced_.field.nodes) add(node.cost);
  for (const Field::Edge& edge : reduced_.field.edges) add(edge.cost);
  return range;
}

Multipliers RowDual::spread(const std::vector<double>& active) const {
  Multipliers multipliers(reduced_.row_limit.size(), 0.0);
  // The planes count multipliers in cost ranges per norm of the row.
  for (std::size_t a = 0; a < active_.size(); ++a) multipliers[active_[a]] = active[a] * scale_ / norm_[active_[a]];
  return multipliers;
}

void RowDual::measure() {
  elimination_.decode_buckets(solution_);
  // The buckets of one node may differ: the node then takes the mean of their memory.
  solution_excess_ = row_sums(reduced_.pieces, reduced_.row_limit.size(), [&](const MemoryPiece& piece) {
    const std::vector<int>& buckets = plan_.buckets_of(piece.node);
    double memory = 0.0;
    for (int b : buckets) memory += piece.memory[solution_[b]];
    return buckets.size() > 1 ? memory / static_cast<double>(buckets.size()) : memory;
  });
  for (std::size_t r = 0; r < solution_excess_.size(); ++r) solution_excess_[r] -= reduced_.row_limit[r];
  // An exact solution that breaks a row gives no labels. Buckets that differ may still decode to labels that keep all
  // rows.
  if (plan_.exact())
    for (double beyond : solution_excess_)
      if (beyond > 0.0) return;
  Labels labels;
  elimination_.decode(labels);
  if (excess(reduced_, labels) > 0.0) return;
  const double cost = evaluate(reduced_.field, labels).cost;
  if (cost >= labels_cost_) return;
  labels_cost_ = cost;
  labels_ = std::move(labels);
}

// The planes' weights are a convex combination of their solutions: the primal solution of the relaxation.
std::vector<double> RowDual::shares() const {
  std::vector<double> shares(plan_.first().back(), 0.0), weights(solution_of_plane_.size(), 0.0);
  if (!planes_ || solution_of_plane_.empty()) return shares;
  if (active_.empty())
    weights.back() = 1.0;
  else
    weights = planes_->weights();
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] <= 0.0) continue;
    for (int b = 0; b < plan_.buckets().count(); ++b) {
      const int node = plan_.buckets()[b].node;
      shares[plan_.first()[node] + solution_of_plane_[k][b]] +=
          weights[k] / static_cast<double>(plan_.buckets_of(node).size());
    }
  }
  return shares;
}

// One evaluation of the dual function: a lower bound at any multipliers (weak duality).
double RowDual::run(const Multipliers& multipliers, const Budget& budget) {
  work_ += plan_.work();
  const std::optional<double> least = elimination_.run_within(budget, charged(reduced_, plan_, multipliers));
  if (!least) return -kForbidden;
  if (*least == kForbidden) return value_ = kForbidden;
  const double value = *least + given_back(reduced_, multipliers);
  if (value > value_ || best_.empty()) {
    value_ = value;
    best_ = multipliers;
  }
  measure();
  return value;
}

// The dual is concave; a solution gives the plane cost(solution) + sum of multiplier * excess(solution) above it.
void RowDual::add_plane(double value, const Multipliers& multipliers) {
  double cost = value;
  for (std::size_t r = 0; r < multipliers.size(); ++r) cost -= multipliers[r] * solution_excess_[r];
  std::vector<double> scaled;
  for (int row : active_) scaled.push_back(solution_excess_[row] / norm_[row]);
  excess_of_plane_.push_back(solution_excess_);
  solution_of_plane_.push_back(solution_);
  planes_->add_plane((cost - reduced_.field.constant) / scale_, std::move(scaled));
}

// Rows newly exceeded: one for every stretch of steps, the worst stretches first.
void RowDual::activate() {
  std::vector<std::pair<double, int>> worst;
  const auto part = [&](std::size_t r) {
    return norm_[r] > 0.0 && solution_excess_[r] > 1e-12 * norm_[r] ? solution_excess_[r] / norm_[r] : 0.0;
  };
  for (std::size_t r = 0; r < norm_.size(); ++r) {
    const double own = part(r);
    if (own <= 0.0 || is_active_[r]) continue;
    // Neighbouring rows hold nearly the same pieces: the local maximum stands for its stretch.
    if ((r > 0 && part(r - 1) > own) || (r + 1 < norm_.size() && part(r + 1) >= own)) continue;
    worst.emplace_back(-own, static_cast<int>(r));
  }
  std::sort(worst.begin(), worst.end());
  if (worst.size() > kRowsPerRun) worst.resize(kRowsPerRun);
  for (const auto& [unused, row] : worst) {
    is_active_[row] = true;
    active_.push_back(row);
    // Planes keep the excess of all rows, so the older ones take part in the new row.
    std::vector<double> per_plane;
    for (const auto& excess_of : excess_of_plane_) per_plane.push_back(excess_of[row] / norm_[row]);
    planes_->add_row(per_plane);
  }
}

// Where nodes have several buckets: moves costs between them at fixed multipliers, the steps short enough to climb.
void RowDual::agree(const Multipliers& multipliers, double enough, int max_runs, const Budget& budget) {
  double step = kFirstMatch, best = run(multipliers, budget), checked = best;
  std::vector<double> kept = elimination_.shift();
  for (int runs = 1; runs < max_runs && value_ < enough && !budget.over(); ++runs) {
    elimination_.match(step);
    work_ += 2.0 * plan_.work();
    const double value = run(multipliers, budget);
    if (value > best) {
      best = value;
      kept = elimination_.shift();
      step = std::min(1.0, 1.2 * step);
    } else {
      step *= 0.5;
      elimination_.set_shift(kept);
      work_ += plan_.work();
      // The next match needs the messages of the shifts that were kept.
      if (!elimination_.run_within(budget, charged(reduced_, plan_, multipliers))) break;
    }
    if (runs % kMatchesBetweenChecks != 0) continue;
    const double distance = enough == kForbidden ? std::abs(best) : enough - best;
    if (best - checked < kLittleOfMatches * distance) break;
    checked = best;
  }
  elimination_.set_shift(kept);
}

// Nodes with several buckets make the elimination itself a bound: cost shifts first make the buckets agree, then the
// rows get their multipliers, then the shifts follow these.
void RowDual::ascend(const Multipliers& start, double enough, int max_runs, const Budget& budget) {
  scale_ = cost_range();
  if (scale_ <= 0.0) scale_ = 1.0;
  const Multipliers first = start.empty() ? Multipliers(reduced_.row_limit.size(), 0.0) : start;
  if (plan_.exact()) return climb(first, enough, max_runs, budget);
  agree(first, enough, max_runs, budget);
  if (value_ >= enough) return;
  climb(first, enough, max_runs, budget);
  if (!active_.empty() && value_ < enough) agree(Multipliers(best_), enough, max_runs, budget);
}

// Kelley's cutting planes with a stabilised query: asking at the planes' optimum itself makes the multipliers jump
// while planes are few, so the query is pulled inward, towards the best multipliers so far. The cap on multipliers
// keeps the linear program bounded; it is raised while the planes still pay for excess.
void RowDual::climb(Multipliers asked, double enough, int max_runs, const Budget& budget) {
  double most = kFirstCharge, inward = 0.4;  // the share of the best multipliers in the next ones
  planes_.emplace(most);
  for (std::size_t r = 0; r < asked.size(); ++r) {
    if (asked[r] <= 0.0 || norm_[r] <= 0.0) continue;
    is_active_[r] = true;
    active_.push_back(static_cast<int>(r));
    planes_->add_row({});
    // The cap leaves room to double the multipliers that were given.
    most = std::max(most, 2.0 * asked[r] * norm_[r] / scale_);
  }
  planes_->raise(most);
  for (int runs = 0; runs == 0 || (runs < max_runs && !budget.over()); ++runs) {
    const double value = run(asked, budget);
    if (value_ >= enough || value == -kForbidden) return;
    add_plane(value, asked);
    activate();
    if (active_.empty()) return;  // the free optimum keeps every row
    std::vector<double> proposal;
    double model = planes_->solve(proposal);
    while (planes_->pays_excess() && most < kLargestCharge && model * scale_ + reduced_.field.constant < enough) {
      planes_->raise(most *= 8.0);
      model = planes_->solve(proposal);
    }
    const double gain = model * scale_ + reduced_.field.constant - value_;
    const double distance = enough == kForbidden ? 1e-3 * std::abs(value_) : enough - value_;
    if (gain <= std::max(kLittle * std::abs(value_), kLittleOfGap * distance)) return;
    const Multipliers proposed = spread(proposal);
    inward = value >= value_ ? 0.4 : inward * 0.8;
    for (std::size_t r = 0; r < asked.size(); ++r) asked[r] = inward * best_[r] + (1.0 - inward) * proposed[r];
  }
}

}  // namespace meshwright::portfolio
