// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "core/planner/intra_op/layer_model_builder.h"

namespace meshwright {

StepCost& StepCost::operator+=(const StepCost& other) {
  forward += other.forward;
  backward += other.backward;
  weights += other.weights;
  step += other.step;
  moved_forward += other.moved_forward;
  moved_backward += other.moved_backward;
  host_forward += other.host_forward;
  host_backward += other.host_backward;
  resident += other.resident;
  saved += other.saved;
  recomputed += other.recomputed;
  held += other.held;
  // One op works at a time, and one block is recomputed at a time: these do not add up.
  recomputed_at_once = std::max(recomputed_at_once, other.recomputed_at_once);
  working = std::max(working, other.working);
  return *this;
}

// Recomputed and working bytes have no price here: they count by a maximum or by a share (SpanBudget).
Seconds CostWeights::total(const StepCost& cost) const {
  const double bytes = cost.resident.si() + in_flight * cost.saved.si();
  const Seconds passes = cost.forward + cost.backward - free_weights * cost.weights;
  return passes + cost.step / microbatches + Seconds(memory_price * bytes);
}

std::size_t ReshardingCosts::Hash::operator()(const Shape& shape) const {
  std::size_t hash = static_cast<std::size_t>(shape.dtype);
  for (const std::int64_t size : shape.sizes) hash = hash * 0x9e3779b97f4a7c15 + size;
  return hash;
}

Seconds ReshardingCosts::operator()(const Tensor& tensor, const ShardingSpec& from, const ShardingSpec& to) {
  if (from == to) return Seconds(0);
  // A layer asks for one tensor many times in a row: a comparison is cheaper than a hash.
  const bool as_last =
      last_ != nullptr && last_->first.dtype == tensor.dtype &&
      std::equal(tensor.dims.begin(), tensor.dims.end(), last_->first.sizes.begin(), last_->first.sizes.end(),
                 [](const Dim& dim, std::int64_t s) { return dim.size == s; });
  if (!as_last)
    last_ = &*known_.try_emplace(Shape{sizes_and_roles(tensor.dims, mesh_), tensor.dtype}, tensor, mesh_, costs_).first;
  OfShape& of = last_->second;
  if (divides(tensor.dims, to, mesh_)) return of.even(from, to);
  const auto [known, is_new] = of.padded.try_emplace({from, to}, 0.0);
  if (is_new) known->second = resharding_times(tensor.dims, tensor.dtype, from, {to}, mesh_, costs_).front();
  return known->second;
}

LayerModel::LayerModel(const StepStructure& structure, int layer, const LogicalMesh& mesh, const CostModel& costs,
                       ReshardingCosts& resharding, const IntraOpRules& rules, Cache* cache) {
  Cache own;
  own.names = true;
  Builder(*this, structure, layer, mesh, costs, resharding, rules, cache == nullptr ? own : *cache).build();
}

ShardingProblem LayerModel::problem(const CostWeights& weights, std::optional<Bytes> max_working, Texts texts) const {
  ShardingProblem problem;
  for (const Node& node : nodes_) {
    ShardingProblem::Node plain{node.name, {}, {}, {}};
    if (texts == Texts::Yes) plain.strategies = node.costs->names;
    plain.cost.reserve(node.size());
    for (const StepCost& cost : node.costs->by_strategy) {
      const bool allowed = !max_working || cost.working <= *max_working;
      plain.cost.push_back(allowed ? std::optional(weights.total(cost)) : std::nullopt);
    }
    problem.nodes.push_back(std::move(plain));
  }
  for (const Edge& edge : edges_) {
    // Weighted once per pair of classes, then spread over the pairs of strategies.
    std::vector<std::optional<Seconds>> of_classes;
    of_classes.reserve(edge.of->costs.size());
    for (const auto& cost : edge.of->costs)
      of_classes.push_back(cost ? std::optional(weights.total(*cost)) : std::nullopt);
    ShardingProblem::Edge plain{edge.from, edge.to, {}};
    plain.cost.reserve(edge.of->from->of.size() * edge.of->to->of.size());
    for (const int p : edge.of->from->of)
      for (const int q : edge.of->to->of) plain.cost.push_back(of_classes[p * edge.of->to->first.count() + q]);
    problem.edges.push_back(std::move(plain));
  }
  return problem;
}

std::vector<elimination::Table> LayerModel::tables(const CostWeights& weights, std::optional<Bytes> max_working,
                                                   double recomputed_price, WeightedCosts& known) const {
  const auto finite = [](double total) {
    MW_CHECK(std::isfinite(total), "a layer's cost is not finite");
    return total;
  };
  const auto weighted = [&](const StepCost& cost) { return finite(weights.total(cost).si()); };
  const auto of_node = [&](const StepCost& cost) {
    return finite(weighted(cost) + recomputed_price * cost.recomputed.si());
  };
  std::vector<elimination::Costs> nodes;
  for (const Node& node : nodes_) {
    elimination::Costs& costs = known.of_nodes[node.costs];
    if (costs == nullptr) {
      std::vector<double> made;
      made.reserve(node.size());
      for (const StepCost& cost : node.costs->by_strategy) {
        const bool allowed = !max_working || cost.working <= *max_working;
        made.push_back(allowed ? of_node(cost) : elimination::kForbidden);
      }
      costs = std::make_shared<const std::vector<double>>(std::move(made));
    }
    nodes.push_back(costs);
  }
  std::vector<elimination::Edge> edges;
  for (const Edge& edge : edges_) {
    std::shared_ptr<const elimination::Between>& between = known.of_edges[edge.of];
    if (between == nullptr) {
      std::vector<double> costs;
      costs.reserve(edge.of->costs.size());
      for (const auto& cost : edge.of->costs) costs.push_back(cost ? weighted(*cost) : elimination::kForbidden);
      elimination::Between made{edge.of->from, edge.of->to, std::move(costs)};
      elimination::merge_equal(made);
      between = std::make_shared<const elimination::Between>(std::move(made));
    }
    edges.push_back({edge.from, edge.to, between});
  }
  return elimination::make_tables(nodes, edges);
}

void LayerModel::forget_costs() {
  for (Node& node : nodes_) node.costs.reset();
  std::vector<Edge>().swap(edges_);
}

// The maximum over nodes of what each needs at least: nodes choose independently here, so this is a lower bound.
Bytes LayerModel::min_working() const {
  Bytes most(0);
  for (const Node& node : nodes_) {
    Bytes least = node.costs->by_strategy.front().working;
    for (const StepCost& cost : node.costs->by_strategy) least = std::min(least, cost.working);
    most = std::max(most, least);
  }
  return most;
}

std::vector<Bytes> LayerModel::recomputed_by_op(const ShardingChoice& choice, std::size_t ops) const {
  std::vector<Bytes> found(ops, Bytes(0));
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind == Node::Kind::Op)
      found[nodes_[i].op_position] += nodes_[i].costs->by_strategy[choice.strategy[i]].recomputed;
  return found;
}

StepCost LayerModel::cost(const ShardingChoice& choice) const {
  StepCost total;
  const auto chosen = [&](int node) { return static_cast<std::size_t>(choice.strategy[node]); };
  for (std::size_t i = 0; i < nodes_.size(); ++i) total += nodes_[i].costs->by_strategy[chosen(static_cast<int>(i))];
  for (const Edge& edge : edges_) {
    const auto& cost = edge.cost(chosen(edge.from), chosen(edge.to));
    MW_CHECK(cost.has_value(), "a forbidden pair was chosen");
    total += *cost;
  }
  return total;
}

// --- for fitting one stage into the memory (memory_fit.h) ---

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

namespace {

// The least difference of costs[i] and others[i] where both are allowed; where only the former is, there is no bound.
class LeastDifference {
 public:
  void add(const std::optional<double>& cost, const std::optional<double>& other) {
    if (cost) least_ = std::min(least_, other ? *cost - *other : -std::numeric_limits<double>::infinity());
  }
  [[nodiscard]] double value() const { return least_; }

 private:
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

double LayerModel::min_excess(const LayerModel& other, const CostWeights& weights, std::optional<Bytes> max_working,
                              double recomputed_price) const {
  MW_CHECK(nodes_.size() == other.nodes_.size() && edges_.size() == other.edges_.size(),
           "variants of a layer have {} and {} nodes, {} and {} edges", nodes_.size(), other.nodes_.size(),
           edges_.size(), other.edges_.size());
  double total = 0.0;
  const auto of_node = [&](const StepCost& cost) -> std::optional<double> {
    if (max_working && cost.working > *max_working) return std::nullopt;
    return (weights.total(cost) + Seconds(recomputed_price * cost.recomputed.si())).si();
  };
  // Nodes and edges of equal ops share their costs.
  std::map<std::pair<const void*, const void*>, double> known;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto [excess, is_new] = known.try_emplace({nodes_[i].costs.get(), other.nodes_[i].costs.get()});
    if (is_new) {
      const auto &own = nodes_[i].costs->by_strategy, &others = other.nodes_[i].costs->by_strategy;
      MW_CHECK(own.size() == others.size(), "variants of a layer have {} and {} strategies", own.size(), others.size());
      LeastDifference least;
      for (std::size_t p = 0; p < own.size(); ++p) least.add(of_node(own[p]), of_node(others[p]));
      excess->second = least.value();
    }
    total += excess->second;
  }
  const auto of_edge = [&](const std::optional<StepCost>& cost) {
    return cost ? std::optional(weights.total(*cost).si()) : std::nullopt;
  };
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const ByClass &own = *edges_[e].of, &others = *other.edges_[e].of;
    const auto [excess, is_new] = known.try_emplace({&own, &others});
    if (!is_new) {
      total += excess->second;
      continue;
    }
    LeastDifference least;
    if (own.from == others.from && own.to == others.to) {
      // The same classes: one pair of strategies stands for all of theirs.
      for (std::size_t c = 0; c < own.costs.size(); ++c) least.add(of_edge(own.costs[c]), of_edge(others.costs[c]));
    } else {
      for (std::size_t p = 0; p < own.from->of.size(); ++p)
        for (std::size_t q = 0; q < own.to->of.size(); ++q)
          least.add(of_edge(edges_[e].cost(p, q)), of_edge(other.edges_[e].cost(p, q)));
    }
    excess->second = least.value();
    total += excess->second;
  }
  return total;
}

LayerModel::Parts LayerModel::parts(const ShardingChoice& choice) const {
  const auto chosen = [&](int node) { return static_cast<std::size_t>(choice.strategy[node]); };
  Parts parts;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind != Node::Kind::Parameter) parts.ops += nodes_[i].costs->by_strategy[chosen(static_cast<int>(i))];
  for (const Edge& edge : edges_) {
    const Node& from = nodes_[edge.from];
    if (from.kind != Node::Kind::Parameter) {
      const auto& cost = edge.cost(chosen(edge.from), chosen(edge.to));
      MW_CHECK(cost.has_value(), "a forbidden pair was chosen");
      parts.ops += *cost;
      continue;
    }
    // A parameter has one edge, to its reader. With the ops' choices given, it depends on nothing else.
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
