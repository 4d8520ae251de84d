// SPDX-License-Identifier: Apache-2.0
#include "simulator/pipeline/simulate_pipeline.h"
#include "simulator/program/program_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/errors.h"
#include "tests/truth/event_queue.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::simulator_test {
namespace {

using Kind = Span::Kind;
constexpr ScheduleKind kKinds[] = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference};

Span span(Kind kind, int device, int stage, int microbatch, std::int64_t begin, std::int64_t end) {
  return {kind, DeviceId(device), StageId(stage), MicrobatchId(microbatch), {begin}, {end}};
}

SimulationResult in_order(const Program& program, const ProgramTimes& times) {
  const ProgramCheck check = check_program(program);
  EXPECT_EQ(check.violations, std::vector<std::string>{});
  return simulate_in_order(program, check.order, times);
}

// Simulates with both engines, which must agree in every span.
Timeline simulate(const Program& program, const ProgramTimes& times) {
  const SimulationResult by_events = simulate_by_events(program, times);
  const SimulationResult ordered = in_order(program, times);
  EXPECT_EQ(by_events.timeline.spans, ordered.timeline.spans);
  EXPECT_EQ(by_events.timeline.end, ordered.timeline.end);
  EXPECT_EQ(by_events.events, ordered.events);
  return by_events.timeline;
}

// Times below `most`, most of them different, some zero.
PipelineTimes random_times(std::mt19937& random, int stages, const std::vector<StageEdge>& edges, std::int64_t most) {
  PipelineTimes times = equal_branches(stages, edges, {0}, {0});
  std::uniform_int_distribution<std::int64_t> any(0, most);
  for (auto* list : {&times.forward, &times.backward, &times.update})
    for (SimTime& time : *list) time.ps = any(random);
  for (PipelineTimes::Edge& edge : times.edges) {
    edge.forward.ps = any(random);
    edge.backward.ps = any(random);
  }
  return times;
}
PipelineTimes random_times(std::mt19937& random, int stages, std::int64_t most) {
  return random_times(random, stages, edges_of_line(stages), most);
}

TEST(EventQueue, OrdersByTimeThenByWhoCameFirst) {
  EventQueue queue;
  queue.push({20}, 1);
  queue.push({10}, 2);
  queue.push({20}, 3);
  queue.push({10}, 4);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop().what);
  EXPECT_EQ(order, (std::vector<int>{2, 4, 1, 3}));
  EXPECT_THROW((void)queue.pop(), InternalError);
}

// Forwards take 10 and 20, backwards 30 and 40, updates 1 and 2, messages 100 down and 1000 up.
TEST(Engines, TimeARunAfterWhatItReceivesAndAMessageAfterTheRun) {
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 1).take();
  const PipelineTimes times{{{10}, {20}}, {{30}, {40}}, {{1}, {2}}, {{0, 1, {100}, {1000}}}};
  EXPECT_EQ(simulate(program, program_times(program, times)).spans, (std::vector<Span>{
                                                                        span(Kind::Forward, 0, 0, 0, 0, 10),
                                                                        span(Kind::Wait, 1, 1, 0, 0, 110),
                                                                        span(Kind::Send, 0, 0, 0, 10, 110),
                                                                        span(Kind::Wait, 0, 0, 0, 10, 1170),
                                                                        span(Kind::Forward, 1, 1, 0, 110, 130),
                                                                        span(Kind::Backward, 1, 1, 0, 130, 170),
                                                                        span(Kind::Update, 1, 1, 0, 170, 172),
                                                                        span(Kind::Send, 1, 1, 0, 170, 1170),
                                                                        span(Kind::Backward, 0, 0, 0, 1170, 1200),
                                                                        span(Kind::Update, 0, 0, 0, 1200, 1201),
                                                                    }));
}

// Runs of 10, messages of 25: the channel is the bottleneck, the sender never waits for it.
TEST(Engines, QueueMessagesOnAChannelWithoutOccupyingTheSender) {
  const Program program = PipelineProgram(ScheduleKind::Inference, 2, 3).take();
  const Timeline timeline = simulate(program, program_times(program, equal_stages(2, {10}, {0}, {25})));
  std::vector<Span> of_source;
  for (const Span& s : timeline.spans)
    if (s.device.value == 0) of_source.push_back(s);
  EXPECT_EQ(of_source, (std::vector<Span>{
                           span(Kind::Forward, 0, 0, 0, 0, 10),
                           span(Kind::Forward, 0, 0, 1, 10, 20),
                           span(Kind::Send, 0, 0, 0, 10, 35),
                           span(Kind::Forward, 0, 0, 2, 20, 30),
                           span(Kind::Send, 0, 0, 1, 35, 60),
                           span(Kind::Send, 0, 0, 2, 60, 85),
                       }));
  EXPECT_EQ(timeline.end.ps, 85 + 10);
}

// Device 1 is 7 late for the Run with collectives: device 0 waits, and both run from 7 to 10.
TEST(Engines, StartARunWithCollectivesOnAllDevicesTogether) {
  ProgramBuilder builder;
  const StageId stage = builder.stage(2);
  const BufferId weight = builder.buffer(stage, "weight", 4, Kept::Always);
  const int alone = builder.executable(stage, Phase::Forward, {weight}, {});
  const int together = builder.executable(stage, Phase::Update, {weight}, {weight}, Collectives::Some);
  builder.on(0).run(together);
  builder.on(1).run(alone).run(together);
  EXPECT_EQ(simulate(builder.program, {{{7}, {3}}, {}}).spans, (std::vector<Span>{
                                                                   span(Kind::Wait, 0, 0, 0, 0, 7),
                                                                   span(Kind::Forward, 1, 0, 0, 0, 7),
                                                                   span(Kind::Update, 0, 0, 0, 7, 10),
                                                                   span(Kind::Update, 1, 0, 0, 7, 10),
                                                               }));
}

TEST(Engines, RefuseAProgramThatIsNotSound) {
  Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 2).take();
  const ProgramTimes times = program_times(program, equal_stages(2, {10}, {20}));
  const std::vector<InstructionRef> order = check_program(program).order;
  std::vector<Instruction>& list = program.devices[0];
  const auto last_exchange =
      std::find_if(list.rbegin(), list.rend(), [](const Instruction& i) { return !i.sends.empty(); });
  last_exchange->sends.clear();
  EXPECT_THROW((void)simulate_by_events(program, times), InternalError);
  EXPECT_THROW((void)simulate_in_order(program, order, times), InternalError);
  EXPECT_THROW((void)simulate_in_order(program, {}, times), InternalError);
}

// The engines' timeline of single devices, and of two devices in step, against the pipeline alone.
void expect_pipeline(ScheduleKind kind, int stages, const std::vector<StageEdge>& edges, int microbatches,
                     const PipelineTimes& times) {
  const Program program = PipelineProgram(kind, stages, edges, microbatches).take();
  const Timeline timeline = simulate(program, program_times(program, times));
  const PipelineResult pipeline = simulate_pipeline(kind, microbatches, times);
  EXPECT_EQ(timeline.end, pipeline.step);
  for (int s = 0; s < stages; ++s) {
    std::vector<SimTime> begins, ends;
    for (const Span& span : timeline.spans) {
      if (span.stage.value != s || (span.kind != Kind::Forward && span.kind != Kind::Backward)) continue;
      begins.push_back(span.begin);
      ends.push_back(span.end);
    }
    EXPECT_EQ(*std::min_element(begins.begin(), begins.end()), pipeline.first_begin[static_cast<std::size_t>(s)]);
    EXPECT_EQ(*std::max_element(ends.begin(), ends.end()), pipeline.last_end[static_cast<std::size_t>(s)]);
  }
  const Program wide = PipelineProgram(kind, stages, edges, microbatches, 2, Collectives::Some).take();
  EXPECT_EQ(simulate(wide, program_times(wide, times)).end, pipeline.step);
}

TEST(Engines, AgreeWithEachOtherAndWithThePipelineToThePicosecond) {
  std::mt19937 random(20250101);
  std::uniform_int_distribution<int> any_stages(1, 8), any_microbatches(1, 20);
  for (int round = 0; round < 150; ++round) {
    const ScheduleKind kind = kKinds[round % 3];
    const int stages = any_stages(random), microbatches = any_microbatches(random);
    // Small numbers make ties, large ones make all times differ.
    const PipelineTimes times = random_times(random, stages, round % 2 == 0 ? 3 : 1000000);
    SCOPED_TRACE(fmt::format("{} {} stages, {} microbatches, round {}", name_of(kind), stages, microbatches, round));
    expect_pipeline(kind, stages, edges_of_line(stages), microbatches, times);
  }
}

// Branches, joins, stages that are skipped, several ends.
TEST(Engines, AgreeWithThePipelineOfStagesThatBranch) {
  std::mt19937 random(20251121);
  std::uniform_int_distribution<int> any_stages(2, 9), any_microbatches(1, 20);
  for (int round = 0; round < 300; ++round) {
    const ScheduleKind kind = kKinds[round % 3];
    const int stages = any_stages(random), microbatches = any_microbatches(random);
    const std::vector<StageEdge> edges = random_edges(random, stages);
    const PipelineTimes times = random_times(random, stages, edges, round % 2 == 0 ? 3 : 1000000);
    SCOPED_TRACE(fmt::format("{} {} stages, {} microbatches, round {}", name_of(kind), stages, microbatches, round));
    expect_pipeline(kind, stages, edges, microbatches, times);
  }
}

// Devices that compute, and now and then a group of them that exchanges messages all at once, over channels with
// several messages each: sound by construction, with none of a pipeline's regularity.
TEST(Engines, AgreeOnRandomPrograms) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 200; ++round) {
    constexpr int kDevices = 5;
    ProgramBuilder builder;
    std::vector<BufferId> state;
    std::vector<int> work;
    for (int d = 0; d < kDevices; ++d) {
      const StageId stage = builder.stage();
      state.push_back(builder.buffer(stage, "state", 4, Kept::Always));
      work.push_back(builder.executable(stage, Phase::Forward, {state.back()}, {state.back()}));
    }
    for (int step = 0; step < 60; ++step) {
      const int d = below(kDevices);
      builder.on(d).run(work[static_cast<std::size_t>(d)]);
      if (step % 2 == 0) continue;
      std::vector<std::vector<int>> sends(kDevices), receives(kDevices);
      for (int message = 1 + below(6); message > 0; --message) {
        const int from = below(kDevices), to = (from + 1 + below(kDevices - 1)) % kDevices;
        const int t =
            builder.transfer(from, to, state[static_cast<std::size_t>(from)], state[static_cast<std::size_t>(to)]);
        sends[static_cast<std::size_t>(from)].push_back(t);
        receives[static_cast<std::size_t>(to)].push_back(t);
      }
      for (std::size_t i = 0; i < kDevices; ++i)
        if (!sends[i].empty() || !receives[i].empty()) builder.on(static_cast<int>(i)).exchange(sends[i], receives[i]);
    }
    ProgramTimes times;
    for (std::size_t e = 0; e < builder.program.executables.size(); ++e) times.executable.push_back({below(10)});
    for (std::size_t t = 0; t < builder.program.transfers.size(); ++t) times.transfer.push_back({below(20)});
    SCOPED_TRACE(round);
    EXPECT_GT(simulate(builder.program, times).end.ps, 0);
  }
}

TEST(Engines, GiveTheSameBytesTwice) {
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, 4, 8).take();
  const ProgramTimes times = program_times(program, equal_stages(4, {10}, {20}, {3}));
  EXPECT_EQ(to_chrome_trace(simulate_by_events(program, times).timeline, "t"),
            to_chrome_trace(simulate_by_events(program, times).timeline, "t"));
}

// Nothing is lost: every device computes for exactly as long as its runs take, one at a time.
TEST(Engines, KeepEveryDeviceBusyForTheSumOfItsRuns) {
  std::mt19937 random(3);
  const PipelineTimes times = random_times(random, 5, 1000);
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, 5, 12).take();
  const Timeline timeline = simulate(program, program_times(program, times));
  for (int s = 0; s < 5; ++s) {
    SimTime busy{0}, free{0};
    for (const Span& span : timeline.spans) {
      if (span.stage.value != s || span.kind == Kind::Send || span.kind == Kind::Wait) continue;
      EXPECT_GE(span.begin, free);
      free = span.end;
      busy += span.end - span.begin;
    }
    const auto i = static_cast<std::size_t>(s);
    EXPECT_EQ(busy.ps, 12 * (times.forward[i].ps + times.backward[i].ps) + times.update[i].ps);
  }
}

TEST(Pipeline, OfEqualStagesWithoutCommunicationTakesStagesPlusMicrobatchesMinusOne) {
  for (int n = 1; n <= 8; ++n) {
    for (int m = 1; m <= 20; ++m) {
      const PipelineTimes times = equal_stages(n, {1}, {2});
      EXPECT_EQ(simulate_pipeline(ScheduleKind::OneFOneB, m, times).step.ps, (n + m - 1) * 3);
      EXPECT_EQ(simulate_pipeline(ScheduleKind::GPipe, m, times).step.ps, (n + m - 1) * 3);
      EXPECT_EQ(simulate_pipeline(ScheduleKind::Inference, m, times).step.ps, n + m - 1);
    }
  }
  EXPECT_EQ(simulate_pipeline(ScheduleKind::OneFOneB, 1024, equal_stages(16, {1}, {2})).step.ps, 3117);
}

// Towers of 3 and 1 stages that a last stage joins take what the longer one and the last stage take as a line: with
// equal stages the shorter tower is never waited for. Each tower begins at once.
TEST(Pipeline, OfTwoTowersTakesAsLongAsTheLongerOne) {
  const std::vector<StageEdge> towers = {{0, 1}, {1, 2}, {2, 4}, {3, 4}};
  for (const ScheduleKind kind : kKinds)
    for (int m = 1; m <= 20; ++m) {
      const PipelineResult both = simulate_pipeline(kind, m, equal_branches(5, towers, {10}, {20}, {3}));
      EXPECT_EQ(both.step, simulate_pipeline(kind, m, equal_stages(4, {10}, {20}, {3})).step) << m;
      EXPECT_EQ(both.first_begin, (std::vector<SimTime>{{0}, {13}, {26}, {0}, {39}}));
    }
}

TEST(Pipeline, EndsWithTheLastUpdate) {
  PipelineTimes times = equal_stages(2, {10}, {20});
  times.update = {{5}, {500}};
  // Stage 1 ends its only backward at 10 + 10 + 20 = 40, stage 0 at 60.
  EXPECT_EQ(simulate_pipeline(ScheduleKind::OneFOneB, 1, times).step.ps, 540);
  EXPECT_EQ(simulate_pipeline(ScheduleKind::OneFOneB, 1, times).last_end, (std::vector<SimTime>{{60}, {40}}));
  EXPECT_EQ(simulate_pipeline(ScheduleKind::OneFOneB, 1, times).first_begin, (std::vector<SimTime>{{0}, {10}}));
}

std::int64_t sum(const std::vector<SimTime>& times) {
  SimTime total{0};
  for (const SimTime time : times) total += time;
  return total.ps;
}
std::int64_t largest(const std::vector<SimTime>& times) { return std::max_element(times.begin(), times.end())->ps; }

PipelineTimes random_compute(std::mt19937& random, int stages) {
  PipelineTimes times = random_times(random, stages, 1000);
  for (SimTime& time : times.update) time.ps = 0;
  for (PipelineTimes::Edge& edge : times.edges) edge.forward = edge.backward = SimTime{0};
  return times;
}

// Without communication each phase of gpipe is a flow shop: its slowest stage, filled and drained once.
TEST(Pipeline, UnderGPipeTakesAFlowShopPerPhase) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const int n = 1 + round % 8, m = 1 + round % 40;
    const PipelineTimes times = random_compute(random, n);
    EXPECT_EQ(simulate_pipeline(ScheduleKind::GPipe, m, times).step.ps,
              sum(times.forward) + (m - 1) * largest(times.forward) + sum(times.backward) +
                  (m - 1) * largest(times.backward));
  }
}

// Stage i works B * t_i, and before it can start and after it ends one microbatch crosses the stages before it.
TEST(Pipeline, IsNeverFasterThanAStagesWorkPlusTheWayToIt) {
  std::mt19937 random(12);
  for (int round = 0; round < 500; ++round) {
    const int n = 1 + round % 8, m = 1 + round % 40;
    const PipelineTimes times = random_compute(random, n);
    std::int64_t bound = 0, way = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::int64_t both = times.forward[i].ps + times.backward[i].ps;
      bound = std::max(bound, m * both + way);
      way += both;
    }
    EXPECT_GE(simulate_pipeline(ScheduleKind::OneFOneB, m, times).step.ps, bound);
    EXPECT_GE(simulate_pipeline(ScheduleKind::GPipe, m, times).step.ps, bound);
  }
}

// Four independent simulators agree on these (a longest path, SimGrid, ASTRA-sim, LogGOPSim): forward 10 ms, backward
// 20 ms, 32 MB over 25 GB/s + 5 us per message, one channel per direction between neighbours; printed to 0.01 ms.
TEST(Pipeline, TakesAsLongAsOtherSimulatorsSay) {
  struct Case {
    int stages, microbatches;
    double milliseconds;
  };
  const SimTime send = to_sim_time(Bytes(32e6) / gigabytes_per_second(25) + microseconds(5));
  for (const Case& c : {Case{4, 16, 605.98}, Case{8, 64, 2289.34}, Case{16, 128, 4634.38}, Case{64, 512, 18704.62}}) {
    const PipelineTimes times = equal_stages(c.stages, to_sim_time(Seconds(10e-3)), to_sim_time(Seconds(20e-3)), send);
    const PipelineResult result = simulate_pipeline(ScheduleKind::OneFOneB, c.microbatches, times);
    EXPECT_NEAR(to_seconds(result.step).si() * 1e3, c.milliseconds, 0.005) << c.stages << " stages";
  }
}

}  // namespace
}  // namespace meshwright::simulator_test
