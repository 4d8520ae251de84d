// SPDX-License-Identifier: Apache-2.0
// Small random sharding problems, feasible and infeasible ones.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <random>
#include <utility>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// Integer costs (so that sums are exact), some forbidden strategies and pairs, some parallel edges, memory on most
// nodes in intervals of steps 0..5, some of them empty.
inline ShardingProblem random_problem(std::mt19937& random, int most_nodes, int most_strategies, double forbidden) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
  const std::optional<Seconds> none;
  ShardingProblem problem;
  const int count = draw(1, most_nodes);
  for (int i = 0; i < count; ++i) {
    ShardingProblem::Node node{fmt::format("n{}", i), {}, {}, {}, draw(0, 4), 0};
    node.live_end = draw(node.live_begin, 6);
    const bool has_memory = chance(0.8);
    for (int p = draw(1, most_strategies); p > 0; --p) {
      node.cost.push_back(chance(forbidden / 2) ? none : std::optional(Seconds(draw(0, 99))));
      if (has_memory) node.memory.push_back(Bytes(draw(0, 20)));
    }
    problem.nodes.push_back(std::move(node));
  }
  for (int k = count == 1 ? 0 : draw(0, 2 * count); k > 0; --k) {
    ShardingProblem::Edge edge{draw(0, count - 1), draw(0, count - 2), {}};
    if (edge.to >= edge.from) ++edge.to;
    for (std::size_t n = problem.nodes[edge.from].cost.size() * problem.nodes[edge.to].cost.size(); n > 0; --n)
      edge.cost.push_back(chance(forbidden) ? none : std::optional(Seconds(draw(-5, 99))));
    problem.edges.push_back(std::move(edge));
  }
  return problem;
}

}  // namespace meshwright
