// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/pipeline_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <tuple>

#include "core/base/errors.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::pipeline_graph_test {
namespace {

// A kind with stages per rank and edges it can run.
struct Form {
  ScheduleKind kind;
  int stages, chunks;
  std::vector<StageEdge> edges;
};

// Of any kind; stages that branch where the kind allows them and `branches`.
Form random_form(std::mt19937& random, ScheduleKind kind, bool branches) {
  const ScheduleTraits traits = traits_of(kind);
  const auto between = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const int chunks = traits.chunks ? *traits.chunks : between(2, 3);
  const int stages = chunks * (traits.copies > 1 ? 2 * between(1, 2) : between(1, chunks > 1 ? 4 : 8));
  if (branches && !traits.line) return {kind, stages, chunks, random_edges(random, stages)};
  // Nothing goes from one copy of the stages to the next.
  std::vector<StageEdge> edges = edges_of_line(stages);
  std::erase_if(edges, [&](const StageEdge& edge) { return edge.to % (stages / traits.copies) == 0; });
  return {kind, stages, chunks, std::move(edges)};
}

// The number itself, or one that the kind can run.
int possible(const Form& form, int microbatches) {
  const int ranks = form.stages / form.chunks;
  return unmet_by(form.kind, ranks, microbatches) ? 2 * ranks + microbatches / 2 * 2 : microbatches;
}

PipelineTimes random_times(std::mt19937& random, const Form& form, std::int64_t most) {
  PipelineTimes times = equal_branches(form.stages, form.edges, {0}, {0});
  std::uniform_int_distribution<std::int64_t> any(0, most);
  times.ring_step.resize(times.forward.size());
  for (auto* list : {&times.forward, &times.backward, &times.update, &times.ring_step})
    for (SimTime& time : *list) time.ps = any(random);
  for (const SimTime whole : times.backward)
    times.backward_weight.push_back({std::uniform_int_distribution<std::int64_t>(0, whole.ps)(random)});
  for (PipelineTimes::Edge& edge : times.edges) {
    edge.forward.ps = any(random);
    edge.backward.ps = any(random);
  }
  return times;
}

PipelineShape shape_of(const Form& form, int microbatches, const PipelineTimes& times) {
  return pipeline_shape(form.kind, form.stages, microbatches, times.edges, form.chunks);
}

std::string name_of(const Form& form, int microbatches, int round) {
  return fmt::format("{}: {} stages, {} per rank, {} microbatches, round {}", meshwright::name_of(form.kind),
                     form.stages, form.chunks, microbatches, round);
}

// The three ways to time a pipeline are one: the loops without a list, the pass over a shape, and the engine's pass
// over the graph; replicas that are alike end when one that is folded does.
TEST(PipelineGraph, TakesWhatThePipelineAloneTakesUnderEverySchedule) {
  std::mt19937 random(20261121);
  const std::vector<ScheduleKind> kinds = all_schedules();
  for (int round = 0; round < 360; ++round) {
    const ScheduleKind kind = kinds[static_cast<std::size_t>(round) % kinds.size()];
    const Form form = random_form(random, kind, round % 4 >= 2);
    const int microbatches = possible(form, std::uniform_int_distribution<int>(1, 16)(random));
    SCOPED_TRACE(name_of(form, microbatches, round));
    // Small numbers make ties, large ones make all times differ.
    PipelineStep step{random_times(random, form, round % 2 == 0 ? 3 : 1000000)};
    step.times.replicas = 1 + round % 3;
    const PipelineShape shape = shape_of(form, microbatches, step.times);
    const PipelineResult alone = simulate_pipeline(kind, microbatches, step.times, form.chunks);
    const PipelineResult pass = simulate_pipeline(shape, step.times);
    EXPECT_EQ(pass.step, alone.step);
    EXPECT_EQ(pass.first_begin, alone.first_begin);
    EXPECT_EQ(pass.last_end, alone.last_end);
    for (const bool folded : {true, false}) {
      step.folded = folded;
      const TaskGraph graph = pipeline_graph(shape, step);
      check_task_graph(graph);
      EXPECT_EQ(run_in_order(graph).step, alone.step) << (folded ? "folded" : "unfolded");
    }
  }
}

// A second opinion, straight from the schedule and with maps: whatever rank can run its next pass does.
SimTime step_of_schedule(const Schedule& schedule, const std::vector<int>& rank_of, const PipelineTimes& times) {
  using Key = std::pair<int, int>;
  std::map<std::tuple<int, int, bool>, SimTime> arrived;  // edge, microbatch, backward
  std::map<Key, SimTime> channel;                         // by rank from, to
  std::vector<SimTime> clock(schedule.size()), last(rank_of.size()), ring(schedule.size());
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<int> endings;
  const auto weight = [&](std::size_t s) { return times.backward_weight[s]; };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
      if (next[rank] == schedule[rank].size()) continue;
      const ScheduledRun& run = schedule[rank][next[rank]];
      const std::size_t s = run.stage.index();
      const bool forward = run.pass == Pass::Forward, weights = run.pass == Pass::BackwardWeight;
      SimTime begin = clock[rank];
      bool ready = true;
      for (int e = 0; e < static_cast<int>(times.edges.size()) && !weights; ++e) {
        const auto& edge = times.edges[static_cast<std::size_t>(e)];
        if ((forward ? edge.to : edge.from) != run.stage.value) continue;
        const auto found = arrived.find({e, run.microbatch.value, !forward});
        ready = ready && found != arrived.end();
        if (ready) begin = std::max(begin, found->second);
      }
      if (!ready) continue;
      progress = true;
      ++next[rank];
      clock[rank] = begin + (forward                           ? times.forward[s]
                             : weights                         ? weight(s)
                             : run.pass == Pass::BackwardInput ? times.backward[s] - weight(s)
                                                               : times.backward[s]);
      last[s] = clock[rank];
      std::erase(endings, run.stage.value);
      endings.push_back(run.stage.value);
      for (int e = 0; e < static_cast<int>(times.edges.size()) && !weights; ++e) {
        const auto& edge = times.edges[static_cast<std::size_t>(e)];
        if ((forward ? edge.from : edge.to) != run.stage.value) continue;
        const int other = rank_of[static_cast<std::size_t>(forward ? edge.to : edge.from)];
        SimTime at = clock[rank];
        if (other != static_cast<int>(rank)) {
          SimTime& free = channel[Key{static_cast<int>(rank), other}];
          at = free = std::max(free, at) + (forward ? edge.forward : edge.backward);
        }
        arrived[{e, run.microbatch.value, !forward}] = at;
      }
    }
  }
  for (const int stage : endings) {
    const auto s = static_cast<std::size_t>(stage), rank = static_cast<std::size_t>(rank_of[s]);
    ring[rank] = std::max(ring[rank], last[s]) + SimTime{2 * (times.replicas - 1) * times.ring_step[s].ps};
    clock[rank] = std::max(clock[rank], ring[rank]) + times.update[s];
  }
  return *std::max_element(clock.begin(), clock.end());
}

TEST(PipelineGraph, TakesWhatItsScheduleTakesRunByRun) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::vector<ScheduleKind> kinds = all_schedules();
    const ScheduleKind kind = kinds[static_cast<std::size_t>(round) % kinds.size()];
    if (!traits_of(kind).trains) continue;
    // Under 1f1b the second opinion, whose messages leave at once, holds for a line.
    const Form form = random_form(random, kind, kind != ScheduleKind::OneFOneB && round % 4 >= 2);
    const int microbatches = possible(form, std::uniform_int_distribution<int>(1, 16)(random));
    SCOPED_TRACE(name_of(form, microbatches, round));
    PipelineTimes times = random_times(random, form, round % 2 == 0 ? 3 : 1000000);
    times.replicas = 1 + round % 3;
    const std::vector<int> rank_of = ranks_of_stages(kind, form.stages, form.chunks);
    const Schedule schedule = make_schedule(kind, stages_after(form.stages, form.edges), microbatches, form.chunks);
    EXPECT_EQ(simulate_pipeline(shape_of(form, microbatches, times), times).step,
              step_of_schedule(schedule, rank_of, times));
  }
}

// Messages posted at once and one tick later differ only between stages more than one apart.
TEST(PipelineGraph, OfALineHasTheSameTimesWhenMessagesLeaveAtOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const Form form{ScheduleKind::OneFOneB, 1 + round % 7, 1, edges_of_line(1 + round % 7)};
    const PipelineTimes times = random_times(random, form, 100);
    const Schedule schedule = make_schedule(form.kind, line_of(form.stages), 9);
    const PipelineShape at_once = pipeline_shape(schedule, ranks_of_stages(form.kind, form.stages), times.edges);
    EXPECT_EQ(simulate_pipeline(at_once, times).step, simulate_pipeline(form.kind, 9, times).step);
  }
}

// Runs 10 + 20, messages 3: F on stage 0, message, F on 1, B on 1, message, B on 0, updates 1.
TEST(PipelineGraph, HasATaskPerRunAndMessageWithWhatEachWaitsFor) {
  PipelineStep step{equal_stages(2, {10}, {20}, {3})};
  step.times.update = {{1}, {1}};
  step.activations = {Bytes(100), Bytes(7)};
  const TaskGraph graph = pipeline_graph(pipeline_shape(ScheduleKind::OneFOneB, 2, 1, step.times.edges), step);
  struct Expected {
    TaskKind kind;
    int stage;
    std::int64_t begin, end;
    std::vector<std::int32_t> predecessors;
  };
  const std::vector<Expected> expected = {
      {TaskKind::Forward, 0, 0, 10, {}},   {TaskKind::Message, 0, 10, 13, {0}}, {TaskKind::Forward, 1, 13, 23, {1}},
      {TaskKind::Backward, 1, 23, 43, {}}, {TaskKind::Message, 1, 43, 46, {3}}, {TaskKind::Backward, 0, 46, 66, {4}},
      {TaskKind::Update, 1, 43, 44, {}},   {TaskKind::Update, 0, 66, 67, {}},
  };
  ASSERT_EQ(graph.size(), expected.size());
  const TaskTimes times = run_in_order(graph);
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const TaskId task(static_cast<int>(t));
    EXPECT_EQ(graph.of(task).kind, expected[t].kind) << t;
    EXPECT_EQ(graph.of(task).stage.value, expected[t].stage) << t;
    EXPECT_EQ(times.begin[t].ps, expected[t].begin) << t;
    EXPECT_EQ(times.end[t].ps, expected[t].end) << t;
    const auto waits = graph.predecessors(task);
    EXPECT_EQ(std::vector<std::int32_t>(waits.begin(), waits.end()), expected[t].predecessors) << t;
  }
  EXPECT_EQ(times.peak_memory, (std::vector<std::int64_t>{100, 7}));
}

// A V over 3 ranks: stages 2 and 3 lie on the last, 1 and 4, 0 and 5 on the others. All but 2 -> 3 exchange messages.
TEST(PipelineGraph, HasNoMessagesBetweenStagesOnOneRank) {
  const PipelineStep step{equal_stages(6, {10}, {20}, {3})};
  const PipelineShape shape = pipeline_shape(ScheduleKind::ZeroBubbleV, 6, 5, step.times.edges, 2);
  const TaskGraph graph = pipeline_graph(shape, step);
  EXPECT_EQ(graph.devices, 3);
  EXPECT_EQ(graph.streams.size(), 3U + 4U);  // channels both ways between neighbours
  EXPECT_EQ(graph.size(), 6U * 5 * 3 + 4 * 5 * 2 + 6);
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const TaskId task(t);
    if (graph.of(task).kind != TaskKind::Message) continue;
    const Stream& stream = graph.streams[graph.stream_of(task).index()];
    EXPECT_EQ(stream.kind, Stream::Kind::Channel);
    EXPECT_EQ(std::abs(stream.device.value - stream.peer.value), 1);
    EXPECT_EQ(stream.device.value, shape.rank_of_stage[graph.of(task).stage.index()]);
  }
}

// Three replicas, whose stages' gradients go around in 4 steps of 5 each: 66 + 20 + 1 and, beside it, 43 + 20 + 1.
TEST(PipelineGraph, SumsGradientsAroundARingBeforeTheUpdate) {
  PipelineStep step{equal_stages(2, {10}, {20}, {3})};
  step.times.update = {{1}, {1}};
  step.times.replicas = 3;
  step.times.ring_step = {{5}, {5}};
  const PipelineShape shape = pipeline_shape(ScheduleKind::OneFOneB, 2, 1, step.times.edges);
  for (const bool folded : {true, false}) {
    step.folded = folded;
    const TaskGraph graph = pipeline_graph(shape, step);
    const TaskTimes times = run_in_order(graph);
    EXPECT_EQ(graph.devices, folded ? 2 : 6);
    EXPECT_EQ(times.step.ps, 66 + 4 * 5 + 1);
    EXPECT_EQ(graph.size(), (folded ? 1U : 3U) * (6 + 2 * 4 + 2));
    for (std::size_t t = 0; t < graph.size(); ++t) {
      const TaskId task(static_cast<int>(t));
      if (graph.of(task).kind == TaskKind::Update && graph.of(task).stage.value == 1) {
        EXPECT_EQ(times.end[t].ps, 43 + 4 * 5 + 1);
      }
    }
  }
}

// One replica whose stage 1 is slower by 100 holds up the ring of that stage everywhere.
TEST(PipelineGraph, ASlowReplicaHoldsUpTheOthersUpdates) {
  PipelineStep step{equal_stages(1, {10}, {20})};
  step.times.update = {{1}};
  step.times.replicas = 4;
  step.times.ring_step = {{5}};
  step.folded = false;
  const TaskGraph graph = pipeline_graph(pipeline_shape(ScheduleKind::OneFOneB, 1, 1, {}), step);
  Conditions conditions;
  conditions.compute_scale = {1.0, 1.0, 2.0, 1.0};
  const TaskTimes times = run_in_order(graph, conditions);
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (graph.of(TaskId(static_cast<int>(t))).kind == TaskKind::Update) {
      EXPECT_GE(times.begin[t].ps, 60 + 2 * 5);
    }
  }
  EXPECT_EQ(times.step.ps, 60 + 6 * 5 + 2);
}

// Memory is a function of the order of runs: as many activations as the schedule has in flight.
TEST(PipelineGraph, KeepsWhatTheOrderOfRunsKeeps) {
  std::mt19937 random(9);
  for (int round = 0; round < 90; ++round) {
    const std::vector<ScheduleKind> kinds = all_schedules();
    const Form form = random_form(random, kinds[static_cast<std::size_t>(round) % kinds.size()], false);
    const int microbatches = possible(form, 1 + round % 11);
    SCOPED_TRACE(name_of(form, microbatches, round));
    PipelineStep step{random_times(random, form, 1000)};
    for (SimTime& time : step.times.forward) time.ps += 1;  // what takes no time keeps nothing that anybody sees
    for (SimTime& time : step.times.backward) time.ps += 2;
    for (SimTime& time : step.times.backward_weight) time.ps += 1;
    for (int s = 0; s < form.stages; ++s) step.activations.emplace_back(1000.0 + s);
    const PipelineShape shape = shape_of(form, microbatches, step.times);
    if (traits_of(form.kind).splits_backward || form.chunks != 1) continue;
    const std::vector<std::int64_t> peaks = run_in_order(pipeline_graph(shape, step)).peak_memory;
    for (int s = 0; s < form.stages; ++s)
      EXPECT_EQ(peaks[static_cast<std::size_t>(s)],
                (1000 + s) * in_flight(form.kind, form.stages - 1 - s, microbatches));
  }
}

TEST(PipelineShapes, AreRefusedWhereRunsWaitForEachOtherForEver) {
  const std::vector<PipelineTimes::Edge> line = {{0, 1}};
  const auto run = [](Pass pass, int stage, int microbatch = 0) {
    return ScheduledRun{pass, MicrobatchId(microbatch), StageId(stage)};
  };
  const Schedule sound = {{run(Pass::Forward, 0), run(Pass::Backward, 0)},
                          {run(Pass::Forward, 1), run(Pass::Backward, 1)}};
  EXPECT_EQ(pipeline_shape(sound, {0, 1}, line).operations.size(), 4U);
  const Schedule crossed = {{run(Pass::Backward, 0), run(Pass::Forward, 0)},
                            {run(Pass::Forward, 1), run(Pass::Backward, 1)}};
  EXPECT_THROW((void)pipeline_shape(crossed, {0, 1}, line), InternalError);
  const Schedule missing = {{run(Pass::Forward, 0), run(Pass::Backward, 0)}, {run(Pass::Forward, 1)}};
  EXPECT_THROW((void)pipeline_shape(missing, {0, 1}, line), InternalError);
  const Schedule twice = {{run(Pass::Forward, 0), run(Pass::Backward, 0), run(Pass::Backward, 0)},
                          {run(Pass::Forward, 1)}};
  EXPECT_THROW((void)pipeline_shape(twice, {0, 1}, line), InternalError);
  const Schedule elsewhere = {{run(Pass::Forward, 1), run(Pass::Backward, 1)},
                              {run(Pass::Forward, 0), run(Pass::Backward, 0)}};
  EXPECT_THROW((void)pipeline_shape(elsewhere, {0, 1}, line), InternalError);
  // One rank: the stage that feeds the other must run first.
  const Schedule backward_first = {{run(Pass::Forward, 1), run(Pass::Forward, 0)}};
  EXPECT_THROW((void)pipeline_shape(backward_first, {0, 0}, line), InternalError);
}

TEST(PipelineShapes, RefuseTimesOfAnother) {
  const PipelineShape shape = pipeline_shape(ScheduleKind::OneFOneB, 2, 4, equal_stages(2, {1}, {2}).edges);
  EXPECT_THROW((void)simulate_pipeline(shape, equal_stages(3, {1}, {2})), InternalError);
  PipelineTimes times = equal_stages(2, {1}, {2});
  times.backward_weight = {{1}, {3}};
  EXPECT_THROW((void)simulate_pipeline(shape, times), InternalError);
  times = equal_stages(2, {1}, {2});
  times.edges.clear();
  EXPECT_THROW((void)simulate_pipeline(shape, times), InternalError);
}

}  // namespace
}  // namespace meshwright::pipeline_graph_test
