// SPDX-License-Identifier: Apache-2.0
// What fitting one stage into the memory (memory_fit.h) needs of a layer model beside its problem.
#include <algorithm>

#include "core/base/errors.h"
#include "core/planner/intra_op/layer_model.h"

namespace meshwright {

std::vector<Bytes> LayerModel::working_values() const {
  std::vector<Bytes> values;
  for (const Node& node : nodes_)
    for (const StepCost& cost : node.costs->by_strategy) values.push_back(cost.working);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

void LayerModel::charge_recomputed(ShardingProblem& problem, double memory_price) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (std::size_t p = 0; p < nodes_[i].size(); ++p)
      if (auto& cost = problem.nodes[i].cost[p])
        *cost += Seconds(memory_price * nodes_[i].costs->by_strategy[p].recomputed.si());
}

LayerModel::Parts LayerModel::parts(const ShardingChoice& choice) const {
  const auto chosen = [&](int node) {
    return static_cast<std::size_t>(choice.strategy[static_cast<std::size_t>(node)]);
  };
  Parts parts;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind != Node::Kind::Parameter) parts.ops += nodes_[i].costs->by_strategy[chosen(static_cast<int>(i))];
  for (const Edge& edge : edges_) {
    const Node& from = nodes_[static_cast<std::size_t>(edge.from)];
    if (from.kind != Node::Kind::Parameter) {
      const auto& cost = edge.cost(chosen(edge.from), chosen(edge.to));
      MW_CHECK(cost.has_value(), "a forbidden pair was chosen");
      parts.ops += *cost;
      continue;
    }
    parts.parameters.push_back({edge.from, {}});
    for (std::size_t p = 0; p < from.size(); ++p) {
      auto cost = edge.cost(p, chosen(edge.to));
      if (cost) *cost += from.costs->by_strategy[p];
      parts.parameters.back().costs.push_back(cost);
    }
  }
  return parts;
}

}  // namespace meshwright
