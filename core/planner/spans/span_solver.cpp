// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/span_solver.h"

#include <algorithm>

namespace meshwright {

SpanSolver::SpanSolver(const StepStructure& structure, const LogicalMesh& mesh, const CostModel& costs,
                       bool receive_hosts_apart, const LayerClasses& layers, const SpanBudget& budget,
                       BetweenSolver::Known eliminations)
    : structure_(structure),
      mesh_(mesh),
      costs_(costs),
      receive_hosts_apart_(receive_hosts_apart),
      layers_(layers),
      solver_(layers, budget, std::move(eliminations)),
      matrices_(layers, solver_) {}

int SpanSolver::add_price(double memory_price, LayerMatrices::Variants variants, std::optional<Bytes> max_working) {
  const int price = solver_.add_price(memory_price, max_working);
  matrices_.add(price, variants);
  return price;
}

int SpanSolver::add_price_of_way(double memory_price, int way, StepWeight step) {
  const int price = solver_.add_price(memory_price, std::nullopt, step);
  matrices_.add_way(price, way);
  return price;
}

void SpanSolver::drop_last_price() {
  matrices_.drop_last();
  solver_.drop_last_price();
}

// Receiving the tensors that enter a stage, and sending their gradients back. This only weighs states against each
// other: a tensor that is whole on every device would be sent as often.
StateCosts SpanSolver::receive_costs(int first) const {
  StateCosts cost(layers_.in_states(first), Seconds(0));
  const Border& border = layers_.model(first).in_border();
  for (std::size_t in = 0; in < cost.size(); ++in)
    for (std::size_t t = 0; t < border.tensors.size(); ++t) {
      const Bytes tile = local_bytes(structure_.graph().tensor(border.tensors[t]), border.states[in][t], mesh_);
      *cost[in] += 2.0 * costs_.on(mesh_.of.group).transfer(tile, receive_hosts_apart_, mesh_.of.devices_per_host).time;
    }
  return cost;
}

BorderPaths SpanSolver::paths(int price, int first, int last, Entering entering, const SpanVariants& variants) const {
  BorderPaths found(entering == Entering::Paid ? receive_costs(first)
                                               : StateCosts(layers_.in_states(first), Seconds(0)));
  extend(found, price, first, last, variants);
  return found;
}

void SpanSolver::extend(BorderPaths& paths, int price, int first, int last, const SpanVariants& variants) const {
  for (int layer = first + static_cast<int>(paths.layers()); layer <= last; ++layer)
    paths.extend(variants.empty() ? matrices_.cheapest(price, layer)
                                  : matrices_.of_variant(price, layer, variants[layer - first]),
                 layers_.out_states(layer));
}

SpanSharding SpanSolver::sharding(int price, const BorderPaths& paths, int first, int last,
                                  const SpanVariants& variants) {
  SpanSharding found{paths.trace(last - first + 1), {}};
  for (std::size_t l = 0; l < found.states.size(); ++l) {
    const int layer = first + static_cast<int>(l);
    found.layers.push_back(variants.empty() ? &solve(price, layer, found.states[l])
                                            : &solve(price, layer, found.states[l], variants[l]));
  }
  return found;
}

void SpanSolver::add(Total& total, const LayerSolution& layer, int at) const {
  total.cost += layer.cost;
  const std::vector<int>& blocks = layers_.blocks(at);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    // A block may go on in the next layer: all of it is recomputed at once.
    total.recomputed = layer.recomputed[b] + (blocks[b] == total.block ? total.recomputed : Bytes(0));
    total.block = blocks[b];
    total.cost.recomputed_at_once = std::max(total.cost.recomputed_at_once, total.recomputed);
  }
}

StepCost SpanSolver::cost(const SpanSharding& sharding, int first) const {
  Total total;
  for (std::size_t l = 0; l < sharding.layers.size(); ++l) add(total, *sharding.layers[l], first + static_cast<int>(l));
  return total.cost;
}

const StepCost& SpanTotals::cost(const std::vector<InOutStates>& states, const SpanVariants& variants) {
  const auto variant = [&](std::size_t l) { return variants.empty() ? -1 : variants[l]; };
  std::size_t known = 0;
  while (known < std::min(layers_.size(), states.size()) && layers_[known].states == states[known] &&
         layers_[known].variant == variant(known))
    ++known;
  layers_.resize(known);
  for (std::size_t l = known; l < states.size(); ++l) {
    const int at = first_ + static_cast<int>(l);
    Layer next{states[l], variant(l), l == 0 ? SpanSolver::Total{} : layers_.back().total};
    solver_.add(
        next.total,
        next.variant < 0 ? solver_.solve(price_, at, states[l]) : solver_.solve(price_, at, states[l], next.variant),
        at);
    layers_.push_back(next);
  }
  return layers_.back().total.cost;
}

}  // namespace meshwright
