// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/layer_solver.h"

#include "core/base/errors.h"

namespace meshwright {

int LayerSolver::add_price(double memory_price, std::optional<Bytes> max_working, StepWeight step) {
  constexpr double kLeast = 1.0 / 4096;  // of the share
  const bool is_least = step == StepWeight::Least || step == StepWeight::Late;
  // Without a price the number of microbatches in flight has no meaning; 1 keeps the weights of all schedules alike.
  const double in_flight = memory_price == 0.0 ? 1.0 : budget_.in_flight;
  const double microbatches = step == StepWeight::Whole     ? 1.0
                              : step == StepWeight::Half    ? budget_.microbatches * 2.0
                              : step == StepWeight::Quarter ? budget_.microbatches * 4.0
                              : is_least                    ? budget_.microbatches / kLeast
                                                            : budget_.microbatches;
  const double free_weights = step == StepWeight::Late ? 1.0 - kLeast : 0.0;
  prices_.push_back({{microbatches, memory_price, in_flight, free_weights}, max_working});
  shared_.push_back({});
  return prices_.count() - 1;
}

void LayerSolver::drop_last_price() {
  prices_.pop_back();
  shared_.pop_back();
  // The next price gets the same number and must not find these problems.
  std::erase_if(problems_, [&](const auto& known) { return known.first[0] == prices_.count(); });
}

void LayerSolver::forget_problems() {
  problems_.clear();
  for (Shared& shared : shared_) shared = {};
}

ShardingProblem LayerSolver::make_problem(int price, int of_class, int variant) const {
  MW_CHECK(!closed_, "a layer is to be solved that no span has");
  const LayerModel& model = layers_.models(of_class)[variant];
  const auto& [weights, max_working] = prices_[price];
  ShardingProblem problem = model.problem(weights, max_working, LayerModel::Texts::No);
  model.charge_recomputed(problem, recomputed_price(price));
  return problem;
}

double LayerSolver::min_excess(int price, int of_class, int one, int other) const {
  const auto& models = layers_.models(of_class);
  const auto& [weights, max_working] = prices_[price];
  return models[one].min_excess(models[other], weights, max_working, recomputed_price(price));
}

// In a pipeline recomputed bytes count by their maximum, which has no price per byte.
double LayerSolver::recomputed_price(int price) const {
  return budget_.one_stage ? prices_[price].weights.memory_price * budget_.recomputed_share : 0.0;
}

BetweenSolver& LayerSolver::between_borders(int price, int of_class, int variant) {
  const std::array<int, 3> key = {price, of_class, variant};
  if (const auto known = problems_.find(key); known != problems_.end()) return known->second;
  MW_CHECK(!closed_, "a layer is to be solved that no span has");
  const LayerModel& model = layers_.models(of_class)[variant];
  const auto& [weights, max_working] = prices_[price];
  return problems_
      .try_emplace(
          key, model.tables(weights, max_working, recomputed_price(price), shared_[price].costs),
          [this, price, of_class, variant] { return make_problem(price, of_class, variant); }, model.in_node(),
          model.out_node(), eliminations_, shared_[price].tables)
      .first->second;
}

CostMatrix LayerSolver::costs(int price, int of_class, int variant) {
  return between_borders(price, of_class, variant).costs();
}

const LayerSolution& LayerSolver::solve(int price, int layer, int variant, int in, int out) {
  // Layers of one class share their solutions.
  const int of_class = layers_.class_of(layer);
  const std::array<int, 5> key = {price, of_class, variant, in, out};
  const auto known = solutions_.find(key);
  if (known != solutions_.end()) return known->second;
  auto choice = between_borders(price, of_class, variant).solve(in, out);
  MW_CHECK(choice.has_value(), "layer {} has no sharding between states {} and {}", layer, in, out);
  const StepCost cost = layers_.model(layer, variant).cost(*choice);
  std::vector<Bytes> recomputed = layers_.recomputed_by_block(layer, variant, *choice);
  return solutions_.emplace(key, LayerSolution{variant, std::move(*choice), cost, std::move(recomputed)}).first->second;
}

void LayerSolver::close() {
  forget_problems();
  closed_ = true;
}

}  // namespace meshwright
