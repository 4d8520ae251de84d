// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_relaxation.h"

#include <algorithm>
#include <cmath>

namespace meshwright::portfolio {

namespace {

constexpr int kFirstPasses = 50;  // before prices move: messages have to cross the graph first
// Length of a price step, as a share of the cost: it shrinks from pass to pass and starts again when it got too small,
// so that the decoded labels stay near the limits but do not settle.
constexpr double kFirstStep = 0.05, kLaterStep = 0.025, kShrink = 0.98, kMinStep = 0.002;

}  // namespace

Relaxation::Relaxation(const SearchModel& model)
    : model_(model),
      messages_(model),
      price_(model.reduced().row_limit.size(), 0.0),
      costs_(model.nodes()),
      step_(kFirstStep) {}

const std::vector<std::vector<double>>& Relaxation::costs(double factor) {
  for (int i = 0; i < model_.nodes(); ++i) costs_[i].assign(model_.cost(i), model_.cost(i) + model_.labels(i));
  std::vector<double> row_prices;
  for (const double price : price_) row_prices.push_back(factor * price);
  for_each_priced_piece(model_.reduced().pieces, row_prices, [&](const MemoryPiece& piece, double price) {
    std::vector<double>& costs = costs_[piece.node];
    for (std::size_t k = 0; k < costs.size(); ++k) costs[k] += price * piece.memory[k];
  });
  return costs_;
}

void Relaxation::advance(int passes, Assignment& now, const std::function<void()>& on_labels,
                         const std::function<bool()>& stop) {
  costs(1.0);
  for (int pass = 0; fresh_ && pass < kFirstPasses && !stop(); ++pass) messages_.pass(costs_);
  fresh_ = false;
  for (int pass = 0; pass < passes && !stop(); ++pass) {
    messages_.pass(costs(1.0));
    now.set(messages_.decode(costs_));
    on_labels();
    move_prices(now);
  }
}

// A Polyak step with a share of the cost in the place of the gap, which is not known. Rows with room and no price are
// left out of the norm: they would shorten the step of those that bind.
void Relaxation::move_prices(const Assignment& now) {
  std::vector<double> beyond(price_.size());
  double square = 0.0;
  for (std::size_t row = 0; row < price_.size(); ++row) {
    beyond[row] = now.memory().sum(static_cast<int>(row));
    if (beyond[row] < 0.0 && price_[row] == 0.0) beyond[row] = 0.0;
    square += beyond[row] * beyond[row];
  }
  if (square > 0.0) {
    const double length = step_ * std::abs(now.cost()) / square;
    for (std::size_t row = 0; row < price_.size(); ++row)
      price_[row] = std::max(0.0, price_[row] + length * beyond[row]);
  }
  step_ *= kShrink;
  if (step_ < kMinStep) step_ = kLaterStep;
}

// Exponential noise on every cost samples labels near the optimum at these prices (perturb and decode).
Labels Relaxation::decode(double noise, Random& random) const {
  std::vector<std::vector<double>> noisy = costs_;
  for (std::vector<double>& costs : noisy)
    for (double& cost : costs) cost -= noise * std::log(1.0 - random.unit());
  return messages_.decode(noisy);
}

double Relaxation::typical_price() const {
  double sum = 0.0, squares = 0.0;
  for (double price : price_) {
    sum += price;
    squares += price * price;
  }
  return sum > 0.0 ? squares / sum : 0.0;
}

}  // namespace meshwright::portfolio
