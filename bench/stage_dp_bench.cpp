// SPDX-License-Identifier: Apache-2.0
// How fast the stage search on plain data is, and the plain recurrence on the same tables.
#include <benchmark/benchmark.h>

#include "core/planner/pipeline/stage_dp.h"
#include "core/planner/pipeline/stage_dp_branches.h"
#include "core/planner/pipeline/stage_dp_ranking.h"
#include "tests/oracle/stage_dp_truth.h"

namespace meshwright {
namespace {

// Like a model of equal layers: work over devices, losses that grow with the slice, configurations that trade time for
// memory, which the first stages lack.
StageTable model_prices(std::mt19937& random, int layers, const std::vector<std::vector<int>>& slices, int configs) {
  std::uniform_real_distribution<double> noise(0.0, 0.05);
  std::vector<DeviceSlice> with_memory;
  for (const auto& devices : slices) with_memory.push_back({devices, Bytes(16)});
  StageTable prices(layers, with_memory, configs);
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last)
      for (int s = 0; s < static_cast<int>(slices.size()); ++s)
        for (int c = 0; c < configs; ++c) {
          const double share = (last - first + 1.0) / slices[static_cast<std::size_t>(s)].front();
          const double time = share * (1.0 + 0.05 * s + 0.03 * c + noise(random)) + 0.02;
          prices.at(first, last, s, c) =
              StageCost{Seconds(time), Seconds(0.1 * time), Bytes(14 * share * (1 - 0.1 * c)),
                        Bytes(2 * share * (1 - 0.11 * c)), Bytes(0.3)};
        }
  return prices;
}

// kind: 0 times that say nothing about layers and devices, 1 proportional to them give or take a half, 2 a model.
StageTable drawn_prices(int layers, int devices, int configs, std::int64_t kind) {
  std::mt19937 random(3);
  std::vector<std::vector<int>> slices;
  for (int n = 1; n <= devices; n *= 2) slices.push_back({n});
  if (kind == 2) return model_prices(random, layers, slices, configs);
  return random_prices(random, layers, slices, configs, 0.0, kind == 0 ? DrawnTimes::Reals : DrawnTimes::Proportional);
}

struct Given {
  explicit Given(const benchmark::State& state)
      : prices(drawn_prices(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 8, state.range(3))),
        request{.devices = {static_cast<int>(state.range(1))}, .microbatches = state.range(2)} {}
  StageTable prices;
  StageDpRequest request;
};

void fastest(benchmark::State& state) {
  const Given given(state);
  std::optional<TablePipeline> found;
  for (auto _ : state) found = fastest_training(given.prices, given.request);
  state.counters["cost"] = found ? found->cost.si() : 0.0;
  state.counters["stages"] = found ? static_cast<double>(found->stages.size()) : 0.0;
}
BENCHMARK(fastest)
    ->ArgNames({"layers", "devices", "microbatches", "kind"})
    ->ArgsProduct({{64}, {64}, {1024, 64, 4}, {0, 1, 2}})
    ->ArgsProduct({{12}, {16}, {64}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond);

// The same result by the plain recurrence, for every bound until one alone is too much.
void plain_recurrence(benchmark::State& state) {
  const Given given(state);
  std::optional<double> cost;
  for (auto _ : state) cost = least_training_by_recurrence(given.prices, given.request);
  state.counters["cost"] = cost.value_or(0.0);
}
BENCHMARK(plain_recurrence)
    ->ArgNames({"layers", "devices", "microbatches", "kind"})
    ->ArgsProduct({{12}, {16}, {64}, {0, 1, 2}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// For the large tables: one bound, that of the best pipeline; `bounds` is how many the whole would take.
void plain_recurrence_one_bound(benchmark::State& state) {
  const Given given(state);
  const auto found = fastest_training(given.prices, given.request);
  double sum = 0.0;
  for (auto _ : state) sum = least_sum_by_recurrence(given.prices, given.request, found->slowest.si());
  state.counters["sum"] = sum;
  const std::set<double> times = stage_times(given.prices, given.request);
  const double most = found->cost.si() / static_cast<double>(given.request.microbatches - 1);
  state.counters["bounds"] = static_cast<double>(std::distance(times.begin(), times.lower_bound(most)));
}
BENCHMARK(plain_recurrence_one_bound)
    ->ArgNames({"layers", "devices", "microbatches", "kind"})
    ->ArgsProduct({{64}, {64}, {1024}, {0, 1, 2}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// Half the devices of each kind.
void fastest_with_two_kinds(benchmark::State& state) {
  std::mt19937 random(5);
  const int layers = static_cast<int>(state.range(0)), each = static_cast<int>(state.range(1));
  std::vector<std::vector<int>> slices;
  for (int n = 1; n <= each; n *= 2) slices.insert(slices.end(), {{n, 0}, {0, n}});
  const StageTable prices = random_prices(random, layers, slices, 8, 0.0, DrawnTimes::Proportional);
  const StageDpRequest request{.devices = {each, each}, .microbatches = state.range(2)};
  std::optional<TablePipeline> found;
  for (auto _ : state) found = fastest_training(prices, request);
  state.counters["cost"] = found ? found->cost.si() : 0.0;
}
BENCHMARK(fastest_with_two_kinds)
    ->ArgNames({"layers", "devices_each", "microbatches"})
    ->ArgsProduct({{32, 64}, {8, 32}, {1024, 16}})
    ->Unit(benchmark::kMillisecond);

// The best `count` pipelines of two towers of `tower` layers and a tail of four.
void two_towers(benchmark::State& state) {
  const int tower = static_cast<int>(state.range(0)), devices = static_cast<int>(state.range(1));
  const LayerBranches branches{{{{0, tower - 1}, {tower, 2 * tower - 1}}, {{2 * tower, 2 * tower + 3}}}};
  const StageTable prices = drawn_prices(branches.layers(), devices, 8, state.range(3));
  const StageDpRequest request{.devices = {devices}, .microbatches = state.range(2)};
  std::vector<TablePipeline> found;
  for (auto _ : state) found = pipelines_with_branches(prices, request, branches, static_cast<int>(state.range(4)));
  state.counters["cost"] = found.empty() ? 0.0 : found.front().cost.si();
  state.counters["stages"] = found.empty() ? 0.0 : static_cast<double>(found.front().stages.size());
  const auto line = fastest_training(prices, request);
  state.counters["as_line"] = line ? line->cost.si() : 0.0;
}
BENCHMARK(two_towers)
    ->ArgNames({"tower", "devices", "microbatches", "kind", "count"})
    ->ArgsProduct({{8}, {64}, {1024, 64, 4}, {0, 1, 2}, {1, 8}})
    ->ArgsProduct({{22}, {64}, {64}, {0, 1, 2}, {1}})
    ->Unit(benchmark::kMillisecond);

// Least latency at a twentieth above the best pace, and the best pace at a twentieth above the least latency.
void serving(benchmark::State& state) {
  Given given(state);
  given.request.in_flight = in_flight_of(ScheduleKind::Inference);
  const Seconds none(1e9);
  const auto steady = max_throughput(given.prices, given.request, none);
  const auto quick = min_latency(given.prices, given.request, none);
  for (auto _ : state) {
    benchmark::DoNotOptimize(min_latency(given.prices, given.request, 1.05 * steady->slowest));
    benchmark::DoNotOptimize(max_throughput(given.prices, given.request, 1.05 * quick->sum));
  }
}
BENCHMARK(serving)
    ->ArgNames({"layers", "devices", "microbatches", "kind"})
    ->ArgsProduct({{64}, {64}, {1}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond);

// The best `count` pipelines.
void best_few(benchmark::State& state) {
  const Given given(state);
  double last = 0.0;
  for (auto _ : state) {
    PipelineRanking ranking = PipelineRanking::by_training_time(given.prices, given.request);
    for (std::int64_t n = 0; n < state.range(4); ++n)
      if (const auto pipeline = ranking.next()) last = pipeline->cost.si();
  }
  state.counters["last"] = last;
}
BENCHMARK(best_few)
    ->ArgNames({"layers", "devices", "microbatches", "kind", "count"})
    ->ArgsProduct({{64}, {64}, {1024, 64, 4}, {0, 1, 2}, {1, 8, 100}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshwright
