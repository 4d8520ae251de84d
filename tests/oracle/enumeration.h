// SPDX-License-Identifier: Apache-2.0
// Slow truths: what the planner's clever algorithms are compared with. Everything here tries all possibilities, or runs
// a recurrence exactly as it is written, and shares only the plain data types with the code under test.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "core/planner/layers/cluster_layers.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// --- sharding problems ---

// Cost of a choice, nullopt when it uses a forbidden strategy or pair or exceeds the memory limit.
inline std::optional<double> sharding_cost(const ShardingProblem& problem, const std::vector<int>& strategy,
                                           bool with_memory) {
  double cost = 0.0;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (!problem.nodes[i].cost.at(strategy[i])) return std::nullopt;
    cost += problem.nodes[i].cost.at(strategy[i])->si();
  }
  for (const auto& edge : problem.edges) {
    const auto& pair = edge.cost.at(strategy[edge.from] * problem.nodes[edge.to].cost.size() + strategy[edge.to]);
    if (!pair) return std::nullopt;
    cost += pair->si();
  }
  if (!with_memory || !problem.memory_limit) return cost;
  int steps = 0;
  for (const auto& node : problem.nodes) steps = std::max(steps, node.live_end);
  for (int step = 0; step < steps; ++step) {
    double used = 0.0;
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      const auto& node = problem.nodes[i];
      if (node.live_begin <= step && step < node.live_end && !node.memory.empty())
        used += node.memory.at(strategy[i]).si();
    }
    if (used > problem.memory_limit->si()) return std::nullopt;
  }
  return cost;
}

inline void for_each_choice(const ShardingProblem& problem, const std::function<void(const std::vector<int>&)>& visit) {
  for (const auto& node : problem.nodes)
    if (node.cost.empty()) return;
  std::vector<int> strategy(problem.nodes.size(), 0);
  for (;;) {
    visit(strategy);
    std::size_t i = 0;
    while (i < strategy.size() && ++strategy[i] == static_cast<int>(problem.nodes[i].cost.size())) strategy[i++] = 0;
    if (i == strategy.size()) return;
  }
}

inline std::optional<ShardingSolution> solve_by_enumeration(const ShardingProblem& problem, bool with_memory = true) {
  std::optional<ShardingSolution> best;
  for_each_choice(problem, [&](const std::vector<int>& strategy) {
    const std::optional<double> cost = sharding_cost(problem, strategy, with_memory);
    if (cost && (!best || *cost < best->cost.si())) best = {{strategy}, Seconds(*cost), Seconds(*cost), "enumeration"};
  });
  return best;
}

// --- layers ---

// Everything a cut is ranked by: (largest cut, sum of cuts, sum over layers of squared work), nullopt when the bound
// forbids it.
struct RankedLayerCut {
  std::vector<int> first_ops;
  double largest, total, imbalance;
};

inline std::optional<RankedLayerCut> rank_layer_cut(const LayerClusteringInput& input,
                                                    const std::vector<int>& first_ops) {
  const int ops = static_cast<int>(input.flops.size());
  const auto work_of = [&](int op) { return input.work.empty() ? input.flops[op].si() : input.work[op]; };
  double all_work = 0.0;
  int all_heavy = 0;
  for (int op = 0; op < ops; ++op) all_work += work_of(op), all_heavy += input.flops[op].si() > 0.0;
  RankedLayerCut cut{first_ops, 0.0, 0.0, 0.0};
  for (std::size_t layer = 0; layer < first_ops.size(); ++layer) {
    const int first = first_ops[layer], end = layer + 1 < first_ops.size() ? first_ops[layer + 1] : ops;
    double work = 0.0, bytes = 0.0;
    int heavy = 0;
    for (int op = first; op < end; ++op) work += work_of(op), heavy += input.flops[op].si() > 0.0;
    if (work > all_work / input.layers * (1.0 + input.epsilon) * (1.0 + 1e-9)) return std::nullopt;
    if (heavy < std::min(3, all_heavy / input.layers)) return std::nullopt;
    for (const auto& use : input.uses) {
      bool crosses = false;
      for (int reader : use.read_by) crosses |= use.made_by < first && reader >= first && reader < end;
      if (crosses) bytes += use.bytes.si();
    }
    cut.largest = std::max(cut.largest, bytes);
    cut.total += bytes;
    const double share = all_work > 0.0 ? work : end - first;
    cut.imbalance += share * share;
  }
  return cut;
}

inline std::optional<RankedLayerCut> cluster_layers_by_enumeration(const LayerClusteringInput& input) {
  const int ops = static_cast<int>(input.flops.size());
  std::vector<RankedLayerCut> allowed;
  std::vector<int> first_ops{0};
  const std::function<void()> extend = [&] {
    if (static_cast<int>(first_ops.size()) == input.layers) {
      if (auto cut = rank_layer_cut(input, first_ops)) allowed.push_back(*cut);
      return;
    }
    for (int next = first_ops.back() + 1; next < ops; ++next) {
      first_ops.push_back(next);
      extend();
      first_ops.pop_back();
    }
  };
  extend();
  if (allowed.empty()) return std::nullopt;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& cut : allowed) least = std::min(least, cut.largest);
  std::erase_if(allowed, [&](const auto& cut) { return cut.largest > least * (1.0 + 1e-4); });
  return *std::min_element(allowed.begin(), allowed.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.total, a.imbalance) < std::tuple(b.total, b.imbalance);
  });
}

}  // namespace meshwright
