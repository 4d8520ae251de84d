// SPDX-License-Identifier: Apache-2.0
// Slow truths: what the planner's clever algorithms are compared with. Everything here tries all possibilities, or runs
// a recurrence exactly as it is written, and shares only the plain data types with the code under test.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "core/planner/choose_pipeline.h"
#include "core/planner/cluster_layers.h"
#include "core/planner/sharding_problem.h"

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

// --- pipelines ---

// All pipelines that use every layer and every device and keep the memory rule, in no particular order.
inline std::vector<ChosenPipeline> all_pipelines(const StageTable& table, const PipelineSearch& search) {
  std::vector<ChosenPipeline> found;
  std::vector<ChosenStage> stages;
  const auto finish = [&] {
    const int count = static_cast<int>(stages.size());
    if (search.stages && count != *search.stages) return;
    double sum = 0.0, largest = 0.0;
    for (int n = count - 1; n >= 0; --n) {  // from the last stage to the first, as the sum is defined
      const StageOption& option = table.at(stages[n].first, stages[n].last, stages[n].submesh)[stages[n].option];
      if (option.max_successors < count - 1 - n) return;
      sum = sum + option.time.si();
      largest = std::max(largest, option.time.si());
    }
    found.push_back({stages, Seconds(sum + static_cast<double>(search.microbatches - 1) * largest)});
  };
  const std::function<void(int, int)> extend = [&](int first, int devices) {
    if (first == table.layers) {
      if (devices == 0) finish();
      return;
    }
    for (int last = first; last < table.layers; ++last)
      for (int m = 0; m < static_cast<int>(table.submeshes.size()); ++m)
        for (int c = 0;
             table.submeshes[m].devices() <= devices && c < static_cast<int>(table.at(first, last, m).size()); ++c) {
          stages.push_back({first, last, m, c});
          extend(last + 1, devices - table.submeshes[m].devices());
          stages.pop_back();
        }
  };
  extend(0, search.devices);
  return found;
}

// Smaller T, then fewer stages, then lexicographic.
inline bool ranks_before(const ChosenPipeline& a, const ChosenPipeline& b) {
  const auto key = [](const ChosenPipeline& pipeline) {
    std::vector<std::tuple<int, int, int, int>> stages;
    for (const auto& s : pipeline.stages) stages.emplace_back(s.first, s.last, s.submesh, s.option);
    return std::tuple(pipeline.time, pipeline.stages.size(), stages);
  };
  return key(a) < key(b);
}

inline std::optional<ChosenPipeline> choose_pipeline_by_enumeration(const StageTable& table,
                                                                    const PipelineSearch& search) {
  const std::vector<ChosenPipeline> all = all_pipelines(table, search);
  if (all.empty()) return std::nullopt;
  return *std::min_element(all.begin(), all.end(), ranks_before);
}

// T by the recurrence of choose_pipeline.h, for every stage time as t_max, with no thought given to speed.
inline std::optional<double> pipeline_time_by_recurrence(const StageTable& table, const PipelineSearch& search) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::set<double> times;
  for (const auto& options : table.options)
    for (const auto& option : options) times.insert(option.time.si());
  const int L = table.layers, D = search.devices;
  double best = infinity;
  for (double t_max : times) {
    std::vector<std::vector<std::vector<double>>> f(
        L + 1, std::vector<std::vector<double>>(L + 1, std::vector<double>(D + 1, infinity)));
    f[0][L][0] = 0.0;
    for (int s = 1; s <= L; ++s)
      for (int i = 0; i < L; ++i)
        for (int d = 0; d <= D; ++d)
          for (int k = i + 1; k <= L; ++k)
            for (int m = 0; m < static_cast<int>(table.submeshes.size()); ++m)
              for (const StageOption& option : table.at(i, k - 1, m)) {
                const int left = d - table.submeshes[m].devices();
                if (left < 0 || option.time.si() > t_max || s - 1 > option.max_successors) continue;
                f[s][i][d] = std::min(f[s][i][d], f[s - 1][k][left] + option.time.si());
              }
    for (int s = 1; s <= L; ++s)
      if (!search.stages || s == *search.stages)
        best = std::min(best, f[s][0][D] + static_cast<double>(search.microbatches - 1) * t_max);
  }
  if (best == infinity) return std::nullopt;
  return best;
}

}  // namespace meshwright
