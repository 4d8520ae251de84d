// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/program_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/errors.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::program_graph_test {
namespace {

const ProgramGraphOptions kNamed{.name_tasks = true};

// Runs and messages, which are all that both kinds of simulation name.
std::vector<Span> named(const std::vector<Span>& spans) {
  std::vector<Span> found;
  for (const Span& span : spans)
    if (span.kind != Span::Kind::Wait) found.push_back(span);
  return found;
}

Span::Kind span_kind(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return Span::Kind::Forward;
    case TaskKind::Backward:
      return Span::Kind::Backward;
    case TaskKind::Update:
      return Span::Kind::Update;
    default:
      return Span::Kind::Send;
  }
}

std::vector<Span> named(const ProgramGraph& made, const TaskTimes& times) {
  std::vector<Span> found;
  for (int t = 0; t < static_cast<int>(made.graph.size()); ++t) {
    const TaskClass& own = made.graph.of(TaskId(t));
    if (own.kind == TaskKind::Join || own.kind == TaskKind::Dispatch) continue;
    const auto i = static_cast<std::size_t>(t);
    // Of a message the span is of its source's stage.
    found.push_back({span_kind(own.kind), DeviceId(made.of[i].device), own.stage, made.graph.microbatch_of(TaskId(t)),
                     times.begin[i], times.end[i]});
  }
  return make_timeline(std::move(found)).spans;
}

// To the picosecond what the Program means, and to the byte what its check says.
void expect_equal(const Program& program, const ProgramTimes& times) {
  const ProgramCheck check = check_program(program);
  ASSERT_EQ(check.violations, std::vector<std::string>{});
  const ProgramGraph made = program_graph(program, times, kNamed);
  check_task_graph(made.graph);
  const TaskTimes run = run_in_order(made.graph);
  const SimulationResult truth = simulate_by_events(program, times);
  EXPECT_EQ(named(made, run), named(truth.timeline.spans));
  EXPECT_EQ(run.step, truth.timeline.end);
  const TaskTimes by_events = run_by_events(made.graph);
  EXPECT_EQ(by_events.begin, run.begin);
  EXPECT_EQ(by_events.peak_memory, run.peak_memory);
  for (std::size_t d = 0; d < program.devices.size(); ++d)
    EXPECT_EQ(run.peak_memory[d], static_cast<std::int64_t>((check.peak_memory[d] - program.persistent_bytes[d]).si()))
        << "device " << d;
}

ProgramTimes random_times(std::mt19937& random, const Program& program, std::int64_t most) {
  std::uniform_int_distribution<std::int64_t> any(1, most);
  ProgramTimes times;
  for (std::size_t e = 0; e < program.executables.size(); ++e) times.executable.push_back({any(random)});
  for (std::size_t t = 0; t < program.transfers.size(); ++t) times.transfer.push_back({any(random)});
  return times;
}

TEST(ProgramGraph, OfPipelinesIsTheProgramToThePicosecondAndTheByte) {
  std::mt19937 random(20261121);
  std::uniform_int_distribution<int> any_stages(1, 7), any_microbatches(1, 12), any_width(1, 3);
  constexpr ScheduleKind kKinds[] = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference};
  for (int round = 0; round < 200; ++round) {
    const int stages = any_stages(random), microbatches = any_microbatches(random), width = any_width(random);
    const ScheduleKind kind = kKinds[round % 3];
    const auto edges = round % 2 == 0 ? edges_of_line(stages) : random_edges(random, stages);
    const auto collectives = round % 5 < 2 ? Collectives::Some : Collectives::None;
    SCOPED_TRACE(fmt::format("{} {} stages of {}, {} microbatches, round {}", name_of(kind), stages, width,
                             microbatches, round));
    const Program program = PipelineProgram(kind, stages, edges, microbatches, width, collectives).take();
    expect_equal(program, random_times(random, program, round % 4 == 0 ? 3 : 1000000));
  }
}

struct Lowered {
  const char *model, *cluster, *method;
};
class ProgramGraphOfPlans : public testing::TestWithParam<Lowered> {};
TEST_P(ProgramGraphOfPlans, IsTheProgramToThePicosecondAndTheByte) {
  const auto& [model, cluster, method] = GetParam();
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference}) {
    PlanRequest request = ask(model, cluster, method, 64, 4);
    request.search.layers = 4;
    request.search.schedule = schedule;
    const Planned result = planned(request);
    ASSERT_TRUE(result.plan) << result.reason;
    const auto costs = make_analytic_cost_model(request.cluster);
    expect_equal(result.program, program_costs(result.program, *costs).times);
    std::mt19937 random(5);
    expect_equal(result.program, random_times(random, result.program, 100));
  }
}
INSTANTIATE_TEST_SUITE_P(All, ProgramGraphOfPlans,
                         testing::Values(Lowered{"mlp:layers=4,hidden=32", "cpu:4", "pipeshard"},
                                         Lowered{"mlp:layers=4,hidden=32", "p3.16xlarge:2", "megatron:tp=2,pp=2"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:8", "pipeshard"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:8", "zero3"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:4", "zero2"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:8",
                                                 "megatron:tp=2,pp=2"}),
                         [](const auto& of) { return fmt::format("Case{}", of.index); });

// One norm of all stages' gradients: an Exchange after an Exchange.
TEST(ProgramGraph, OfAStepThatClipsItsGradientsIsTheProgram) {
  const Names whole = {}, data = {{"batch", 1}};
  const TrainingOptions training{.batch = 8,
                                 .microbatches = 2,
                                 .dtype = DType::F32,
                                 .optimizer = {.kind = Optimizer::Kind::Adam, .max_norm = 0.01}};
  constexpr const char* kGpt = "gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32";
  std::mt19937 random(8);
  for (const auto& stages :
       {std::vector<HandStage>{{"", {1, 1}, whole}, {"blk1.ln1", {1, 1}, whole}},
        std::vector<HandStage>{{"", {2, 1}, data}, {"blk1.ln1", {2, 1}, data}},
        std::vector<HandStage>{{"", {1, 1}, whole}, {"blk1.ln1", {2, 1}, data}, {"blk2.ln1", {1, 1}, whole}}}) {
    const HandPlan made = by_hand(kGpt, "cpu:4", training, stages);
    expect_equal(made.program, program_costs(made.program, *made.costs).times);
    expect_equal(made.program, random_times(random, made.program, 50));
  }
}

// Stages 0 and 2 on device 0, 1 and 3 on device 1: what runs where is asked of the executables.
TEST(ProgramGraph, OfSeveralStagesOnADeviceRunsThemInTheOrderOfItsList) {
  ProgramBuilder builder(2);
  const StageId low = builder.stage(), high = builder.stage();
  builder.program.stages.push_back(builder.program.stages[0]);
  builder.program.stages.push_back(builder.program.stages[1]);
  const std::vector<StageId> stages = {low, high, StageId(2), StageId(3)};
  std::vector<BufferId> in, out;
  std::vector<int> forward;
  for (const StageId stage : stages) {
    in.push_back(builder.buffer(stage, "in", 100));
    out.push_back(builder.buffer(stage, "out", 100));
    forward.push_back(builder.executable(
        stage, Phase::Forward, stage == low ? std::vector<BufferId>{} : std::vector{in.back()}, {out.back()}));
  }
  for (int m = 0; m < 2; ++m)
    for (std::size_t s = 0; s < 4; ++s) {
      const int here = static_cast<int>(s % 2);
      builder.on(here).run(forward[s], m);
      if (s > 0) builder.free({in[s]}, m);
      if (s == 3) {
        builder.free({out[s]}, m);
        continue;
      }
      const int t = builder.transfer(here, 1 - here, out[s], in[s + 1], m);
      builder.exchange({t}, {}).free({out[s]}, m);
      builder.on(1 - here).exchange({}, {t});
    }
  const ProgramTimes times{{{10}, {20}, {30}, {40}}, std::vector<SimTime>(6, {5})};
  const ProgramGraph made = program_graph(builder.program, times, kNamed);
  const TaskTimes run = run_in_order(made.graph);
  std::vector<std::int64_t> begins;
  for (std::size_t t = 0; t < made.of.size(); ++t)
    if (made.graph.of(TaskId(static_cast<int>(t))).kind == TaskKind::Forward) begins.push_back(run.begin[t].ps);
  std::sort(begins.begin(), begins.end());
  // Down and up twice; the second micro-batch begins on device 0 after its second stage of the first.
  EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 15, 40, 70, 75, 115, 140, 175}));
  EXPECT_EQ(run.peak_memory, (std::vector<std::int64_t>{200, 200}));
}

TEST(ProgramGraph, OfAProgramThatIsNotSoundIsRefused) {
  Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 2).take();
  const ProgramTimes times = program_times(program, equal_stages(2, {10}, {20}));
  std::vector<Instruction>& list = program.devices[0];
  std::find_if(list.rbegin(), list.rend(), [](const Instruction& i) { return !i.sends.empty(); })->sends.clear();
  EXPECT_THROW((void)program_graph(program, times), InternalError);
}

// Steps follow one another on each device: the first stage begins its next step while the last ends the one before.
TEST(ProgramGraph, OfSeveralStepsBeginsEachWhereItsDevicesAreFree) {
  const Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 1).take();
  // Forwards 10 and 20, backwards 30 and 40, updates 1 and 2, messages 100 down and 1000 up.
  const PipelineTimes times{{{10}, {20}}, {{30}, {40}}, {{1}, {2}}, {{0, 1, {100}, {1000}}}};
  ProgramGraphOptions options;
  options.steps = 3;
  const ProgramGraph made = program_graph(program, program_times(program, times), options);
  const TaskTimes run = run_in_order(made.graph);
  // Alone a step takes 10 + 100 + 20 + 40 + 1000 + 30 + 1.
  EXPECT_EQ(run.step.ps, 3 * 1201);
  EXPECT_EQ(step_among_many(made, run).ps, 1201);
  EXPECT_EQ(step_among_many(made, run, 2).ps, 1201);
  EXPECT_EQ(made.first_of_step.size(), 4u);
  EXPECT_THROW((void)step_among_many(made, run, 3), InternalError);
}

// Two messages of different channels that share a link of half the speed they have alone.
TEST(ProgramGraph, LaysMessagesOnTheLinksTheyShare) {
  const Program program = PipelineProgram(ScheduleKind::Inference, 2, 1, 2).take();
  const ProgramTimes times = program_times(program, equal_stages(2, {10}, {0}, {100}));
  ProgramFlows flows;
  flows.links.capacity = {BytesPerSecond(1e12)};  // a byte per picosecond
  flows.links.routes = {{LinkId(0)}};
  flows.transfer.assign(program.transfers.size(), {0, {7}, {107}});
  ProgramGraphOptions options;
  options.flows = &flows;
  const ProgramGraph made = program_graph(program, times, options);
  EXPECT_EQ(run_in_order(made.graph).step.ps, 10 + 107 + 10);
  EXPECT_EQ(run_by_events(made.graph).step.ps, 10 + 207 + 10);
}

// Between stages of one device a message is a copy: no network changes what it takes.
TEST(ProgramGraph, LeavesCopiesOnADeviceOutOfTheNetwork) {
  ProgramBuilder builder;
  const StageId stage = builder.stage();
  const BufferId made = builder.buffer(stage, "made", 100), copied = builder.buffer(stage, "copied", 100);
  const int makes = builder.executable(stage, Phase::Forward, {}, {made});
  const int reads = builder.executable(stage, Phase::Forward, {copied}, {});
  const int copy = builder.transfer(0, 0, made, copied);
  builder.on(0).run(makes).exchange({copy}, {copy}).free({made}).run(reads).free({copied});
  const ProgramTimes times{{{10}, {20}}, {{5}}};
  ProgramFlows flows;
  flows.transfer = {{}};
  ProgramGraphOptions options;
  for (const ProgramFlows* with :
       {static_cast<const ProgramFlows*>(nullptr), static_cast<const ProgramFlows*>(&flows)}) {
    options.flows = with;
    const ProgramGraph graph = program_graph(builder.program, times, options);
    EXPECT_TRUE(graph.of.empty());
    const TaskTimes run = run_in_order(graph.graph);
    EXPECT_EQ(run.step.ps, 10 + 5 + 20);
    EXPECT_EQ(run.peak_memory, (std::vector<std::int64_t>{200}));
  }
}

// Device 1 posts 100 bytes beside the 100 that it then frees, and waits for 4 more.
TEST(ProgramGraph, KeepsAPeakOfTheTimeBeforeAnExchangeThatWaits) {
  ProgramBuilder builder;
  const StageId left = builder.stage(), right = builder.stage();
  const BufferId large = builder.buffer(left, "large", 100), small = builder.buffer(left, "small", 4);
  const BufferId own = builder.buffer(right, "own", 100), large_there = builder.buffer(right, "large", 100),
                 small_there = builder.buffer(right, "small", 4);
  const int sends = builder.executable(left, Phase::Forward, {}, {large, small});
  const int makes = builder.executable(right, Phase::Forward, {}, {own});
  const int reads = builder.executable(right, Phase::Forward, {large_there, small_there}, {});
  const int first = builder.transfer(0, 1, large, large_there), second = builder.transfer(0, 1, small, small_there);
  builder.on(0).run(sends).exchange({first}, {}).exchange({second}, {}).free({large, small});
  builder.on(1).run(makes).exchange({}, {first}, false).free({own}).exchange({}, {second}).await({first});
  builder.run(reads).free({large_there, small_there});
  const ProgramTimes times{{{10}, {5}, {20}}, {{3}, {4}}};
  expect_equal(builder.program, times);
  EXPECT_EQ(run_in_order(program_graph(builder.program, times).graph).peak_memory[1], 200);
}

}  // namespace
}  // namespace meshwright::program_graph_test
