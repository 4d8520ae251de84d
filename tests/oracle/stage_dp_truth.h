// SPDX-License-Identifier: Apache-2.0
// Slow truths of the stage search: every pipeline of a table, and the recurrence exactly as Alpa writes it.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "core/planner/pipeline/stage_dp.h"

namespace meshwright {

// t of a stage that keeps `kept` microbatches, nullopt when it cannot run or does not fit.
inline std::optional<double> stage_time(const StageTable& prices, const StageDpRequest& request,
                                        const TableStage& stage, std::int64_t kept) {
  const std::optional<StageCost>& price = prices.at(stage.first, stage.last, stage.slice, stage.config);
  if (!price) return std::nullopt;
  const double bytes = price->resident.si() + price->working.si() + static_cast<double>(kept) * price->saved.si();
  if (bytes > prices.slices()[static_cast<std::size_t>(stage.slice)].memory.si()) return std::nullopt;
  return price->time.si() + price->step.si() / static_cast<double>(request.microbatches);
}

// All pipelines that fit, with T as their cost, in no particular order.
inline std::vector<TablePipeline> all_table_pipelines(const StageTable& prices, const StageDpRequest& request) {
  std::vector<TablePipeline> found;
  std::vector<TableStage> stages;
  std::vector<int> left = request.devices;
  const auto finish = [&] {
    const int count = static_cast<int>(stages.size());
    if (request.stages && count != *request.stages) return;
    if (request.all_devices && std::any_of(left.begin(), left.end(), [](int n) { return n > 0; })) return;
    double sum = 0.0, slowest = 0.0;
    for (int from_end = 0; from_end < count; ++from_end) {
      const auto time = stage_time(prices, request, stages[static_cast<std::size_t>(count - 1 - from_end)],
                                   request.in_flight(from_end, request.microbatches));
      if (!time) return;
      sum = sum + *time;
      slowest = std::max(slowest, *time);
    }
    found.push_back({stages, Seconds(sum + static_cast<double>(request.microbatches - 1) * slowest), Seconds(sum),
                     Seconds(slowest)});
  };
  const std::function<void(int)> extend = [&](int first) {
    if (first == prices.layers()) return finish();
    for (int last = first; last < prices.layers(); ++last)
      for (int s = 0; s < static_cast<int>(prices.slices().size()); ++s) {
        const std::vector<int>& used = prices.slices()[static_cast<std::size_t>(s)].devices;
        bool enough = true;
        for (std::size_t k = 0; k < left.size(); ++k) enough = (left[k] -= used[k]) >= 0 && enough;
        for (int c = 0; enough && c < prices.configs(); ++c) {
          stages.push_back({first, last, s, c});
          extend(last + 1);
          stages.pop_back();
        }
        for (std::size_t k = 0; k < left.size(); ++k) left[k] += used[k];
      }
  };
  extend(0);
  return found;
}

// The recurrence for one kind of device and one t_max: least sum of stages of at most t_max.
inline double least_sum_by_recurrence(const StageTable& prices, const StageDpRequest& request, double t_max) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const int L = prices.layers(), D = request.devices.front();
  std::vector<std::vector<std::vector<double>>> f(
      static_cast<std::size_t>(L) + 1,
      std::vector<std::vector<double>>(static_cast<std::size_t>(L) + 1,
                                       std::vector<double>(static_cast<std::size_t>(D) + 1, infinity)));
  f[0][static_cast<std::size_t>(L)][0] = 0.0;
  for (int n = 1; n <= L; ++n)
    for (int i = 0; i < L; ++i)
      for (int k = i + 1; k <= L; ++k)
        for (int s = 0; s < static_cast<int>(prices.slices().size()); ++s)
          for (int c = 0; c < prices.configs(); ++c) {
            const auto time =
                stage_time(prices, request, {i, k - 1, s, c}, request.in_flight(n - 1, request.microbatches));
            if (!time || *time > t_max) continue;
            const int used = prices.slices()[static_cast<std::size_t>(s)].devices.front();
            auto& here = f[static_cast<std::size_t>(n)][static_cast<std::size_t>(i)];
            const auto& after = f[static_cast<std::size_t>(n - 1)][static_cast<std::size_t>(k)];
            for (int d = used; d <= D; ++d) {
              double& least = here[static_cast<std::size_t>(d)];
              least = std::min(least, after[static_cast<std::size_t>(d - used)] + *time);
            }
          }
  double least = infinity;
  for (int n = 1; n <= L; ++n)
    if (!request.stages || n == *request.stages)
      least = std::min(least, f[static_cast<std::size_t>(n)][0][static_cast<std::size_t>(D)]);
  return least;
}

inline std::set<double> stage_times(const StageTable& prices, const StageDpRequest& request) {
  std::set<double> times;
  for (int first = 0; first < prices.layers(); ++first)
    for (int last = first; last < prices.layers(); ++last)
      for (int s = 0; s < static_cast<int>(prices.slices().size()); ++s)
        for (int c = 0; c < prices.configs(); ++c)
          if (const auto time = stage_time(prices, request, {first, last, s, c}, 0)) times.insert(*time);
  return times;
}

// Least T: every stage time as t_max, ascending, until (B - 1) t_max alone is too much.
inline std::optional<double> least_training_by_recurrence(const StageTable& prices, const StageDpRequest& request) {
  double best = std::numeric_limits<double>::infinity();
  for (const double t_max : stage_times(prices, request)) {
    const double waiting = static_cast<double>(request.microbatches - 1) * t_max;
    if (waiting >= best) break;
    best = std::min(best, least_sum_by_recurrence(prices, request, t_max) + waiting);
  }
  if (best == std::numeric_limits<double>::infinity()) return std::nullopt;
  return best;
}

// Small integers make many ties and exact sums, real numbers none. Proportional: about what the work takes.
enum class DrawnTimes { Integers, Reals, Proportional };

// Of 16 bytes per device, weights and one microbatch take up to about 10; `empty` is the share that cannot run.
inline StageTable random_prices(std::mt19937& random, int layers, const std::vector<std::vector<int>>& slices,
                                int configs, double empty, DrawnTimes times) {
  const auto real = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<DeviceSlice> with_memory;
  for (const std::vector<int>& devices : slices) with_memory.push_back({devices, Bytes(16)});
  StageTable prices(layers, with_memory, configs);
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last)
      for (int s = 0; s < static_cast<int>(slices.size()); ++s) {
        int devices = 0;
        for (const int count : slices[static_cast<std::size_t>(s)]) devices += count;
        for (int c = 0; c < configs; ++c) {
          if (std::bernoulli_distribution(empty)(random)) continue;
          const double work = times == DrawnTimes::Proportional ? (last - first + 1.0) / devices : 1.0;
          const double time = times == DrawnTimes::Integers ? integer(1, 9) : work * real(0.5, 1.5);
          const double step = times == DrawnTimes::Integers ? 0.0 : real(0.0, 0.5);
          // The more it keeps the fewer microbatches fit: from 1 to more than there are.
          prices.at(first, last, s, c) = StageCost{Seconds(time), Seconds(step), Bytes(integer(0, 6)),
                                                   Bytes(12.0 / integer(1, 2 * layers)), Bytes(integer(0, 2))};
        }
      }
  return prices;
}

}  // namespace meshwright
