// SPDX-License-Identifier: Apache-2.0
// How fast a training step is simulated: stages x microbatches of 1F1B, forward 10 ms, backward 20 ms, messages
// of 1.285 ms (the workload of the other simulators' measurements). A task is a run or a message: 2 P M + 2 (P - 1) M
// of them.
#include <benchmark/benchmark.h>

#include "core/plan/check_program.h"
#include "simulator/simulate.h"
#include "tests/unit/program_fixture.h"

namespace meshwright {
namespace {

PipelineTimes workload(int stages) {
  return equal_stages(stages, to_sim_time(Seconds(10e-3)), to_sim_time(Seconds(20e-3)), to_sim_time(Seconds(1.285e-3)));
}

void report(benchmark::State& state, std::int64_t tasks) {
  state.counters["simulations/s"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["time/task"] = benchmark::Counter(
      static_cast<double>(tasks), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

std::int64_t tasks(int stages, int microbatches) { return std::int64_t{2} * (2 * stages - 1) * microbatches; }

void pipeline(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0)), microbatches = static_cast<int>(state.range(1));
  const PipelineTimes times = workload(stages);
  for (auto iteration : state) benchmark::DoNotOptimize(simulate_pipeline(ScheduleKind::OneFOneB, microbatches, times));
  report(state, tasks(stages, microbatches));
}

void by_events(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0)), microbatches = static_cast<int>(state.range(1));
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, stages, microbatches).take();
  const ProgramTimes times = program_times(program, workload(stages));
  for (auto iteration : state) benchmark::DoNotOptimize(simulate_by_events(program, times));
  report(state, tasks(stages, microbatches));
}

void in_order(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0)), microbatches = static_cast<int>(state.range(1));
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, stages, microbatches).take();
  const ProgramTimes times = program_times(program, workload(stages));
  const ProgramCheck check = check_program(program);
  for (auto iteration : state) benchmark::DoNotOptimize(simulate_in_order(program, check.order, times));
  report(state, tasks(stages, microbatches));
}

void check(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0)), microbatches = static_cast<int>(state.range(1));
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, stages, microbatches).take();
  std::size_t instructions = 0;
  for (const auto& list : program.devices) instructions += list.size();
  for (auto iteration : state) benchmark::DoNotOptimize(check_program(program));
  state.counters["instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsIterationInvariantRate);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"stages", "microbatches"})->Args({4, 16})->Args({8, 64})->Args({16, 128})->Args({64, 512});
  benchmark->Unit(benchmark::kMicrosecond);
}

BENCHMARK(pipeline)->Apply(sizes);
BENCHMARK(by_events)->Apply(sizes);
BENCHMARK(in_order)->Apply(sizes);
BENCHMARK(check)->Apply(sizes);

}  // namespace
}  // namespace meshwright
