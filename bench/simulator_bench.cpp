// SPDX-License-Identifier: Apache-2.0
// How fast a training step is simulated: the workload of tests/unit/pipeline_workload.h, which other simulators of
// clusters were measured with. Times are CPU times; `step_ms` is what the simulated step takes, beside what others say.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <random>

#include "simulator/report/step_report.h"
#include "tests/truth/pipeline_graph.h"
#include "tests/unit/pipeline_workload.h"

namespace meshwright {
namespace {

struct Size {
  int stages, microbatches, replicas;
  Links links;
};
Size size_of(const benchmark::State& state) {
  return {static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), static_cast<int>(state.range(2)),
          state.range(3) == 0 ? Links::Pair : Links::Nic};
}
PipelineStep step_of(const Size& size) { return workload(size.stages, size.replicas, size.links); }

void report(benchmark::State& state, std::int64_t tasks, SimTime step) {
  state.counters["simulations/s"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["time/task"] = benchmark::Counter(
      static_cast<double>(tasks), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["step_ms"] = static_cast<double>(step.ps) * 1e-9;
}
void report(benchmark::State& state, const Size& size, SimTime step) {
  report(state, workload_tasks(size.stages, size.microbatches, size.replicas), step);
  for (const PublishedStep& published : published_steps())
    if (published.stages == size.stages && published.microbatches == size.microbatches &&
        published.replicas == size.replicas && published.links == size.links)
      state.counters["published_ms"] = published.milliseconds;
}

// --- A step as a graph ------------------------------------------------------------------------------

void make_shape(benchmark::State& state) {
  const Size size = size_of(state);
  for (auto iteration : state) benchmark::DoNotOptimize(workload_shape(size.stages, size.microbatches));
  report(state, std::int64_t{2} * size.stages * size.microbatches, SimTime{0});
}

void make_graph(benchmark::State& state) {
  const Size size = size_of(state);
  const PipelineShape shape = workload_shape(size.stages, size.microbatches);
  const PipelineStep step = step_of(size);
  for (auto iteration : state) benchmark::DoNotOptimize(pipeline_graph(shape, step));
  report(state, size, SimTime{0});
}

// A run with the message it sends: two tasks are one.
void single_pass(benchmark::State& state) {
  const Size size = size_of(state);
  const PipelineShape shape = workload_shape(size.stages, size.microbatches);
  const PipelineStep step = step_of(size);
  SimTime took{0};
  for (auto iteration : state) took = simulate_pipeline(shape, step.times).step;
  report(state, size, took);
  state.counters["time/run"] =
      benchmark::Counter(2.0 * size.stages * size.microbatches,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void tasks_in_order(benchmark::State& state) {
  const Size size = size_of(state);
  const TaskGraph graph = pipeline_graph(workload_shape(size.stages, size.microbatches), step_of(size));
  TaskTimes times;
  for (auto iteration : state) run_in_order(graph, {}, times);
  report(state, size, times.step);
}

std::size_t bytes_of(const TaskGraph& graph, const TaskTimes& times) {
  const std::size_t per_task = 2 * graph.class_numbers().capacity() * sizeof(std::int32_t) +  // microbatches, too
                               graph.stream_numbers().capacity() * sizeof(std::int32_t) +
                               graph.first_predecessors().capacity() * sizeof(std::uint32_t);
  return per_task + graph.all_predecessors().capacity() * sizeof(std::int32_t) +
         (times.begin.capacity() + times.end.capacity()) * sizeof(SimTime);
}

// With memory, and where the time of each device went.
void tasks_by_events(benchmark::State& state) {
  const Size size = size_of(state);
  const TaskGraph graph = pipeline_graph(workload_shape(size.stages, size.microbatches), step_of(size));
  TaskTimes times;
  for (auto iteration : state) {
    run_by_events(graph, {}, times);
    benchmark::DoNotOptimize(device_shares(graph, times));
  }
  report(state, size, times.step);
  state.counters["bytes/task"] = static_cast<double>(bytes_of(graph, times)) / static_cast<double>(graph.size());
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"stages", "microbatches", "replicas", "nic"})->Unit(benchmark::kMicrosecond);
  for (const std::int64_t replicas : {1, 8})
    for (const auto& [stages, microbatches] : {std::pair{4, 16}, {8, 64}, {16, 128}, {64, 512}})
      benchmark->Args({stages, microbatches, replicas, 0});
}
void shared_sizes(benchmark::internal::Benchmark* benchmark) {
  sizes(benchmark);
  benchmark->Args({8, 64, 8, 1})->Args({16, 128, 8, 1});
}
void folded_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"stages", "microbatches", "replicas", "nic"})->Unit(benchmark::kMicrosecond);
  benchmark->Args({4, 16, 1, 0})->Args({8, 64, 1, 0})->Args({16, 128, 1, 0})->Args({64, 512, 1, 0});
}

BENCHMARK(make_shape)->Apply(folded_sizes);
BENCHMARK(make_graph)->Apply(sizes);
BENCHMARK(single_pass)->Apply(folded_sizes);
BENCHMARK(tasks_in_order)->Apply(sizes);
BENCHMARK(tasks_by_events)->Apply(shared_sizes);

// --- What links are taken for -----------------------------------------------------------------------

// 16 stages, 128 micro-batches, messages of 20.48 ms: two out and two in per 30 ms of passes.
enum class LongMessages { OwnLinks, Egress, BothEnds };

void long_messages(benchmark::State& state, LongMessages links, LinkDiscipline discipline, bool at_once) {
  TaskGraph graph = pipeline_graph(workload_shape(16, 128), workload(16, 1, Links::Nic, Bytes(512e6)));
  for (std::size_t r = 0; r < graph.links.routes.size(); ++r) {
    if (links == LongMessages::Egress) graph.links.routes[r].pop_back();
    if (links == LongMessages::OwnLinks) graph.links.routes[r] = {LinkId(static_cast<int>(r))};
  }
  if (links == LongMessages::OwnLinks)
    graph.links.capacity.assign(graph.links.routes.size(), graph.links.capacity.front());
  if (at_once) graph = with_messages_at_once(graph);
  Conditions conditions;
  conditions.discipline = discipline;
  TaskTimes times;
  for (auto iteration : state) run_by_events(graph, conditions, times);
  report(state, workload_tasks(16, 128, 1), times.step);
}
BENCHMARK_CAPTURE(long_messages, own_links, LongMessages::OwnLinks, LinkDiscipline::Fifo, false)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(long_messages, own_links_fluid_at_once, LongMessages::OwnLinks, LinkDiscipline::Fluid, true)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(long_messages, egress_fifo, LongMessages::Egress, LinkDiscipline::Fifo, false)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(long_messages, egress_fluid, LongMessages::Egress, LinkDiscipline::Fluid, false)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(long_messages, both_ends_fifo, LongMessages::BothEnds, LinkDiscipline::Fifo, false)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(long_messages, both_ends_fluid, LongMessages::BothEnds, LinkDiscipline::Fluid, false)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(long_messages, both_ends_fluid_at_once, LongMessages::BothEnds, LinkDiscipline::Fluid, true)
    ->Unit(benchmark::kMicrosecond);

// --- Thousands of candidates ------------------------------------------------------------------------

std::vector<PipelineStep> candidates(int count) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> any(5'000'000'000, 30'000'000'000);
  std::vector<PipelineStep> steps;
  for (int c = 0; c < count; ++c) {
    steps.push_back(workload(8));
    for (auto* list : {&steps.back().times.forward, &steps.back().times.backward})
      for (SimTime& time : *list) time.ps = any(random);
  }
  return steps;
}

// Of one shape, as the planner ranks them.
void candidates_of_one_shape(benchmark::State& state) {
  const std::vector<PipelineStep> all = candidates(1000);
  for (auto iteration : state) {
    const PipelineShape shape = workload_shape(8, 64);
    for (const PipelineStep& candidate : all) benchmark::DoNotOptimize(simulate_pipeline(shape, candidate.times));
  }
}
BENCHMARK(candidates_of_one_shape)->Unit(benchmark::kMillisecond);

// As if no two of them had one shape.
void candidates_of_shapes(benchmark::State& state) {
  const std::vector<PipelineStep> all = candidates(1000);
  for (auto iteration : state)
    for (const PipelineStep& candidate : all)
      benchmark::DoNotOptimize(simulate_pipeline(workload_shape(8, 64), candidate.times));
}
BENCHMARK(candidates_of_shapes)->Unit(benchmark::kMillisecond);

// The graph, its times and the shares of every device for each of them.
void candidates_as_graphs(benchmark::State& state) {
  const std::vector<PipelineStep> all = candidates(1000);
  const PipelineShape shape = workload_shape(8, 64);
  TaskTimes times;
  for (auto iteration : state)
    for (const PipelineStep& candidate : all) {
      const TaskGraph graph = pipeline_graph(shape, candidate);
      run_by_events(graph, {}, times);
      benchmark::DoNotOptimize(device_shares(graph, times));
    }
}
BENCHMARK(candidates_as_graphs)->Unit(benchmark::kMillisecond);

// --- 10,000 devices ---------------------------------------------------------------------------------

// 80 stages, 125 replicas. Folded: one replica stands for all. Memory is that of the whole process so far, so the large
// case is last.
void ten_thousand_devices(benchmark::State& state) {
  const int microbatches = static_cast<int>(state.range(0));
  PipelineStep step = workload(80, 125);
  step.folded = state.range(1) != 0;
  std::size_t tasks = 0;
  SimTime took{0};
  for (auto iteration : state) {
    const TaskGraph graph = pipeline_graph(workload_shape(80, microbatches), step);
    tasks = graph.size();
    took = run_tasks(graph).times.step;
  }
  report(state, static_cast<std::int64_t>(tasks), took);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024.0;
}
BENCHMARK(ten_thousand_devices)
    ->ArgNames({"microbatches", "folded"})
    ->Args({4000, 1})
    ->Args({500, 0})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshwright
