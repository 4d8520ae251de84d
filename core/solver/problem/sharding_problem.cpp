// SPDX-License-Identifier: Apache-2.0
#include "core/solver/problem/sharding_problem.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

int strategies_of(const ShardingProblem& problem, int node) {
  return static_cast<int>(problem.nodes[node].cost.size());
}

std::string strategy_name(const ShardingProblem::Node& node, int strategy) {
  return node.strategies.empty() ? fmt::format("strategy {}", strategy) : node.strategies[strategy];
}

std::optional<Seconds> edge_cost(const ShardingProblem& problem, const ShardingProblem::Edge& edge,
                                 const ShardingChoice& choice) {
  const int from = choice.strategy[edge.from];
  const int to = choice.strategy[edge.to];
  const std::size_t to_count = problem.nodes[edge.to].cost.size();
  return edge.cost[from * to_count + to];
}

Bytes memory_of(const ShardingProblem::Node& node, int strategy) {
  return node.memory.empty() ? Bytes(0.0) : node.memory[strategy];
}

void require_consistent_node(const ShardingProblem::Node& node, std::size_t index) {
  const std::size_t count = node.cost.size();
  require(node.strategies.empty() || node.strategies.size() == count,
          "sharding problem: node {} ({}) has {} strategies but {} costs; give one cost per strategy.", index,
          node.name, node.strategies.size(), count);
  require(node.memory.empty() || node.memory.size() == count,
          "sharding problem: node {} ({}) has {} strategies but {} memory sizes; give one per strategy or none.", index,
          node.name, count, node.memory.size());
  const bool finite =
      std::all_of(node.cost.begin(), node.cost.end(), [](const auto& c) { return !c || std::isfinite(c->si()); }) &&
      std::all_of(node.memory.begin(), node.memory.end(), [](Bytes m) { return std::isfinite(m.si()); });
  require(
      finite,
      "sharding problem: node {} ({}) has a cost or size that is not finite; leave a forbidden strategy's cost empty.",
      index, node.name);
  require(std::all_of(node.memory.begin(), node.memory.end(), [](Bytes m) { return m.si() >= 0.0; }),
          "sharding problem: node {} ({}) has a negative memory size; give 0 or more bytes.", index, node.name);
  require(0 <= node.live_begin && node.live_begin <= node.live_end,
          "sharding problem: node {} ({}) is live from step {} to {}; give 0 <= begin <= end.", index, node.name,
          node.live_begin, node.live_end);
}

void require_consistent_edge(const ShardingProblem& problem, std::size_t index) {
  const ShardingProblem::Edge& edge = problem.edges[index];
  const int count = static_cast<int>(problem.nodes.size());
  require(edge.from >= 0 && edge.from < count && edge.to >= 0 && edge.to < count && edge.from != edge.to,
          "sharding problem: edge {} goes from {} to {}, but needs two different nodes of 0..{}.", index, edge.from,
          edge.to, count - 1);
  const std::size_t pairs = problem.nodes[edge.from].cost.size() * problem.nodes[edge.to].cost.size();
  require(edge.cost.size() == pairs,
          "sharding problem: edge {} ({} -> {}) has {} costs, but its ends have {} pairs of strategies.", index,
          problem.nodes[edge.from].name, problem.nodes[edge.to].name, edge.cost.size(), pairs);
  const bool finite =
      std::all_of(edge.cost.begin(), edge.cost.end(), [](const auto& c) { return !c || std::isfinite(c->si()); });
  require(finite,
          "sharding problem: edge {} ({} -> {}) has a cost that is not finite; leave a forbidden pair's cost empty.",
          index, problem.nodes[edge.from].name, problem.nodes[edge.to].name);
}

// Sweeps over the steps at which an interval begins, the only ones at which the sum can be largest.
void follow_memory(const ShardingProblem& problem, const ShardingChoice& choice, Evaluation& evaluation) {
  struct Event {
    int step;
    bool begins;  // an interval that ends at t does not hold t: ends come first
    Bytes memory;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const ShardingProblem::Node& node = problem.nodes[i];
    const Bytes memory = memory_of(node, choice.strategy[i]);
    if (node.live_begin == node.live_end || memory == Bytes(0.0)) continue;
    events.push_back({node.live_begin, true, memory});
    events.push_back({node.live_end, false, memory});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.step, a.begins) < std::tuple(b.step, b.begins);
  });

  Bytes memory(0.0);
  for (std::size_t e = 0; e < events.size(); ++e) {
    if (events[e].begins)
      memory += events[e].memory;
    else
      memory -= events[e].memory;
    const bool last_of_step = e + 1 == events.size() || events[e + 1].step != events[e].step;
    if (!events[e].begins || !last_of_step) continue;
    evaluation.peak_memory = std::max(evaluation.peak_memory, memory);
    if (problem.memory_limit && memory > *problem.memory_limit)
      evaluation.violations.push_back(fmt::format("time step {} needs {:.0f} bytes, the limit is {:.0f}",
                                                  events[e].step, memory.si(), problem.memory_limit->si()));
  }
}

// Sentences on strategies that do not exist; empty: the choice has a cost.
std::vector<std::string> misfits(const ShardingProblem& problem, const ShardingChoice& choice) {
  if (choice.strategy.size() != problem.nodes.size())
    return {fmt::format("the choice names {} strategies for {} nodes", choice.strategy.size(), problem.nodes.size())};
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i)
    if (choice.strategy[i] < 0 || choice.strategy[i] >= static_cast<int>(problem.nodes[i].cost.size()))
      sentences.push_back(fmt::format("{}: strategy {} does not exist, it has {}", problem.nodes[i].name,
                                      choice.strategy[i], problem.nodes[i].cost.size()));
  return sentences;
}

}  // namespace

void require_consistent(const ShardingProblem& problem) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) require_consistent_node(problem.nodes[i], i);
  for (std::size_t k = 0; k < problem.edges.size(); ++k) require_consistent_edge(problem, k);
  const double limit = problem.memory_limit ? problem.memory_limit->si() : 0.0;
  require(std::isfinite(limit) && limit >= 0.0,
          "sharding problem: the memory limit is {}; give a finite number of bytes, or none.", limit);
}

Evaluation evaluate(const ShardingProblem& problem, const ShardingChoice& choice) {
  require_consistent(problem);
  Evaluation evaluation;
  evaluation.violations = misfits(problem, choice);
  if (!evaluation.violations.empty()) return evaluation;

  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (const auto& cost = problem.nodes[i].cost[choice.strategy[i]])
      evaluation.node_cost += *cost;
    else
      evaluation.violations.push_back(fmt::format("{}: {} cannot be taken", problem.nodes[i].name,
                                                  strategy_name(problem.nodes[i], choice.strategy[i])));
  }
  for (const ShardingProblem::Edge& edge : problem.edges) {
    if (const std::optional<Seconds> cost = edge_cost(problem, edge, choice)) {
      evaluation.edge_cost += *cost;
      continue;
    }
    const auto &from = problem.nodes[edge.from], &to = problem.nodes[edge.to];
    evaluation.violations.push_back(fmt::format("{} -> {}: {} cannot be followed by {}", from.name, to.name,
                                                strategy_name(from, choice.strategy[edge.from]),
                                                strategy_name(to, choice.strategy[edge.to])));
  }
  follow_memory(problem, choice, evaluation);
  return evaluation;
}

ShardingProblem fix_strategy(const ShardingProblem& problem, int node, int strategy) {
  require_consistent(problem);
  require(node >= 0 && node < static_cast<int>(problem.nodes.size()), "fix_strategy: node {} does not exist.", node);
  require(strategy >= 0 && strategy < strategies_of(problem, node), "fix_strategy: {} has no strategy {}.",
          problem.nodes[node].name, strategy);

  ShardingProblem fixed = problem;
  const auto kept = static_cast<std::size_t>(strategy);
  ShardingProblem::Node& only = fixed.nodes[node];
  only.cost = {only.cost[kept]};
  if (!only.strategies.empty()) only.strategies = {only.strategies[kept]};
  if (!only.memory.empty()) only.memory = {only.memory[kept]};
  for (ShardingProblem::Edge& edge : fixed.edges) {
    const int to_count = strategies_of(problem, edge.to);
    if (edge.from == node) {
      const auto row = edge.cost.begin() + strategy * to_count;
      edge.cost = std::vector<std::optional<Seconds>>(row, row + to_count);
    } else if (edge.to == node) {
      std::vector<std::optional<Seconds>> column;
      for (int p = 0; p < strategies_of(problem, edge.from); ++p) column.push_back(edge.cost[p * to_count + strategy]);
      edge.cost = std::move(column);
    }
  }
  return fixed;
}

}  // namespace meshwright
