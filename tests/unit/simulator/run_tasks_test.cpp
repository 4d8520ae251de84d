// SPDX-License-Identifier: Apache-2.0
// Steps whose times are known by eye, and what must hold for every step.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "simulator/engine/max_min.h"
#include "simulator/engine/winner_tree.h"
#include "tests/unit/task_graph_fixture.h"

namespace meshwright::run_tasks_test {
namespace {

std::vector<std::int64_t> ends_of(const TaskTimes& times) {
  std::vector<std::int64_t> ends;
  for (const SimTime end : times.end) ends.push_back(end.ps);
  return ends;
}

std::vector<std::int64_t> ends(const TaskGraph& graph, const Conditions& conditions = {}) {
  check_task_graph(graph);
  return ends_of(run_tasks(graph, conditions).times);
}

Conditions fifo() {
  Conditions conditions;
  conditions.discipline = LinkDiscipline::Fifo;
  return conditions;
}

using Ends = std::vector<std::int64_t>;

TEST(RunTasks, APipelineOfTwoStagesTakesWhatItsLongestPathTakes) {
  HandmadeGraph made(2);
  const StreamId channel = made.channel(0, 1);
  for (int m = 0; m < 3; ++m)
    made.forward(1, 4, {made.message(channel, 2, TaskClass::kNoRoute, {made.forward(0, 10)})});
  // Stage 0 ends at 10, 20, 30; a message takes 2, stage 1 takes 4.
  EXPECT_EQ(ends(made.graph), (Ends{10, 12, 16, 20, 22, 26, 30, 32, 36}));
}

TEST(RunTasks, TwoFlowsShareALinkOrComeOneAfterTheOther) {
  HandmadeGraph made(2);
  const int route = made.route({made.link(1.0)});
  made.message(made.channel(0, 1), 10, route);
  made.message(made.channel(0, 1), 10, route);
  EXPECT_EQ(ends(made.graph), (Ends{20, 20}));
  EXPECT_EQ(ends(made.graph, fifo()), (Ends{10, 20}));
}

TEST(RunTasks, AFlowThatComesLaterFindsLessOfTheFirst) {
  HandmadeGraph made(2);
  const int route = made.route({made.link(1.0)});
  made.message(made.channel(0, 1), 10, route);
  made.message(made.channel(0, 1), 10, route, {made.forward(0, 6)});
  // From 6 on they share: the first has 4 left and ends at 14; the second has 6 left then.
  EXPECT_EQ(ends(made.graph), (Ends{14, 6, 20}));
  EXPECT_EQ(ends(made.graph, fifo()), (Ends{10, 6, 20}));
}

TEST(RunTasks, ALatencyDelaysAndUsesNoLink) {
  HandmadeGraph made(2);
  const int route = made.route({made.link(1.0)});
  made.message(made.channel(0, 1), 10, route);
  made.message(made.channel(0, 1), 15, route, {}, 5);  // 10 on the link, from 5 on
  EXPECT_EQ(ends(made.graph), (Ends{15, 20}));
  EXPECT_EQ(ends(made.graph, fifo()), (Ends{10, 20}));
  HandmadeGraph apart(2);
  const int other = apart.route({apart.link(1.0)});
  apart.message(apart.channel(0, 1), 10, other);
  apart.message(apart.channel(0, 1), 25, other, {}, 10);
  EXPECT_FALSE(run_tasks(apart.graph).by_events);
  EXPECT_EQ(ends(apart.graph), (Ends{10, 25}));
}

// A link as wide as both flows together: each is limited by its own narrower link.
TEST(RunTasks, FlowsMeetOnAWideLinkWithoutHarm) {
  HandmadeGraph made(2);
  const LinkId wide = made.link(2.0), left = made.link(1.0), right = made.link(1.0);
  made.message(made.channel(0, 1), 10, made.route({left, wide}));
  made.message(made.channel(1, 0), 10, made.route({right, wide}));
  EXPECT_FALSE(run_tasks(made.graph).by_events);
  EXPECT_EQ(ends(made.graph), (Ends{10, 10}));
  EXPECT_EQ(ends(made.graph, fifo()), (Ends{10, 20}));
}

// Three flows and two links (Bertsekas and Gallager's figure): the long one meets each short one. Links of 1 and 2.
TEST(RunTasks, TheLongFlowLeavesToTheWideLinkWhatItCannotUse) {
  HandmadeGraph made(3);
  const LinkId narrow = made.link(1.0), wide = made.link(2.0);
  made.message(made.channel(0, 2), 30, made.route({narrow, wide}));  // 30 bytes
  made.message(made.channel(0, 1), 30, made.route({narrow}));        // 30 bytes
  made.message(made.channel(1, 2), 60, made.route({wide}));          // 120 bytes
  // 1/2, 1/2 and 3/2 until 60, when the first two have their 30 bytes; the third has 30 left and 2 of rate.
  EXPECT_EQ(ends(made.graph), (Ends{60, 60, 75}));
}

TEST(RunTasks, AQueueIsKeptByThoseThatWaitForSeveralLinks) {
  HandmadeGraph made(3);
  const LinkId a = made.link(1.0), b = made.link(1.0);
  made.message(made.channel(0, 1), 10, made.route({a}));
  made.message(made.channel(0, 2), 10, made.route({a, b}));  // waits for a
  made.message(made.channel(1, 2), 10, made.route({b}));     // b is free, but the second was there before
  EXPECT_EQ(ends(made.graph, fifo()), (Ends{10, 20, 30}));
}

TEST(RunTasks, ASlowDeviceComputesSlowlyAndSendsAsEver) {
  HandmadeGraph made(2);
  made.forward(1, 10, {made.message(made.channel(0, 1), 10, TaskClass::kNoRoute, {made.forward(0, 10)})});
  Conditions conditions;
  conditions.compute_scale = {2.0, 1.0};
  EXPECT_EQ(ends(made.graph, conditions), (Ends{20, 30, 40}));
}

TEST(RunTasks, WhatRunsBesideATaskSlowsIt) {
  HandmadeGraph made(2);
  made.forward(0, 10);
  made.message(made.channel(0, 1), 10, TaskClass::kNoRoute);
  made.forward(1, 5);
  Conditions conditions;
  conditions.compute_slowdown = 2.0;
  // The message runs to 10; beside it device 0 does 5 of its 10, device 1 all of its 5.
  EXPECT_EQ(ends(made.graph, conditions), (Ends{15, 10, 10}));
  conditions.compute_slowdown = 1.0;
  conditions.communication_slowdown = 2.0;
  // Both devices compute to 5, device 0 to 10: the message has done 5 then.
  EXPECT_EQ(ends(made.graph, conditions), (Ends{10, 15, 5}));
}

TEST(RunTasks, MemoryIsCountedOverAllStreamsOfADevice) {
  HandmadeGraph made(1);
  const TaskId a = made.add({TaskKind::Forward, StageId(0), {10}, -1, {0}, 7, 5}, made.compute(0));
  made.add({TaskKind::Collective, StageId(0), {5}, -1, {0}, 100, 0}, made.communication(0), {a});
  made.add({TaskKind::Forward, StageId(0), {10}, -1, {0}, 30, -5}, made.compute(0));
  // 7 to 10, 5 + 100 + 30 to 15, 5 + 30 to 20, 0 after.
  EXPECT_EQ(run_in_order(made.graph).peak_memory, (Ends{135}));
  EXPECT_EQ(run_by_events(made.graph).peak_memory, (Ends{135}));
}

// One buffer that is freed when the next is taken is one buffer.
TEST(RunTasks, WhatEndsMakesRoomForWhatBegins) {
  HandmadeGraph made(1);
  for (int t = 0; t < 3; ++t) made.add({TaskKind::Forward, StageId(0), {10}, -1, {0}, 8, 0}, made.compute(0));
  EXPECT_EQ(run_in_order(made.graph).peak_memory, (Ends{8}));
  EXPECT_EQ(run_by_events(made.graph).peak_memory, (Ends{8}));
}

TEST(RunTasks, JitterHasTheQuantilesOfItsDistribution) {
  HandmadeGraph made(1);
  for (int t = 0; t < 20'000; ++t) made.add({TaskKind::Forward, StageId(0), {1'001'000}, -1, {1'000}}, made.compute(0));
  Conditions conditions;
  conditions.jitter = 0.1;
  conditions.seed = 7;
  const TaskTimes times = run_in_order(made.graph, conditions);
  EXPECT_EQ(ends_of(times), ends_of(run_by_events(made.graph, conditions)));
  std::vector<double> factors;  // of what lies beyond the latency
  for (std::size_t t = 0; t < times.end.size(); ++t)
    factors.push_back(static_cast<double>((times.end[t] - times.begin[t]).ps - 1'000) / 1e6);
  std::sort(factors.begin(), factors.end());
  EXPECT_NEAR(factors[10'000], 1.0, 0.005);
  EXPECT_NEAR(factors[16'827], std::exp(0.1), 0.005);  // one sigma above: 84.13 %
  EXPECT_NEAR(factors[3'173], std::exp(-0.1), 0.005);
  conditions.seed = 8;
  EXPECT_NE(ends_of(run_in_order(made.graph, conditions)), ends_of(times));
}

TEST(RunTasks, TimesOfAnEarlierRunMayBeUsedAgain) {
  Random random(3);
  RandomGraphShape shape;
  const TaskGraph first = random_graph(shape, random);
  shape.tasks = 20;
  shape.devices = 2;
  const TaskGraph second = random_graph(shape, random);
  using Engine = void (*)(const TaskGraph&, const Conditions&, TaskTimes&);
  for (const Engine run : {Engine(&run_in_order), Engine(&run_by_events)}) {
    TaskTimes times;
    run(first, Conditions{}, times);
    run(second, Conditions{}, times);
    TaskTimes fresh;
    run(second, Conditions{}, fresh);
    EXPECT_EQ(times.begin, fresh.begin);
    EXPECT_EQ(times.end, fresh.end);
    EXPECT_EQ(times.step, fresh.step);
    EXPECT_EQ(times.peak_memory, fresh.peak_memory);
  }
}

// What must hold of random steps.
class AnyStep : public testing::TestWithParam<LinkDiscipline> {
 protected:
  static Conditions drawn_conditions(Random& random) {
    Conditions conditions;
    conditions.discipline = GetParam();
    if (random.below(2) == 0) conditions.compute_slowdown = 1.0 + random.unit();
    if (random.below(2) == 0) conditions.communication_slowdown = 1.0 + random.unit();
    return conditions;
  }
  static RandomGraphShape shape(std::uint64_t seed) {
    RandomGraphShape shape;
    shape.longest = 1 + static_cast<std::int64_t>(seed) * 10;
    return shape;
  }
};

TEST_P(AnyStep, KeepsStreamsAndPredecessorsInOrderAndIsNoShorterThanItsBounds) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const TaskGraph graph = random_graph(shape(seed), random);
    const Conditions conditions = drawn_conditions(random);
    const TaskTimes times = run_tasks(graph, conditions).times;
    std::vector<SimTime> stream_free(graph.streams.size()), busy(graph.streams.size());
    for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
      const TaskId task(t);
      const SimTime begin = times.begin[task.index()], end = times.end[task.index()];
      EXPECT_GE(begin, stream_free[graph.stream_of(task).index()]);
      for (const std::int32_t p : graph.predecessors(task)) EXPECT_GE(begin, times.end[static_cast<std::size_t>(p)]);
      EXPECT_GE(end - begin, graph.of(task).duration);
      stream_free[graph.stream_of(task).index()] = end;
      busy[graph.stream_of(task).index()] += graph.of(task).duration;
    }
    for (const SimTime time : busy) EXPECT_GE(times.step, time);
    EXPECT_GE(times.step, run_in_order(graph).step) << "less than the critical path, seed " << seed;
  }
}

TEST_P(AnyStep, TakesNoLessThanItsBusiestLink) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const TaskGraph graph = random_graph(shape(seed), random);
    Conditions conditions;
    conditions.discipline = GetParam();
    const TaskTimes times = run_tasks(graph, conditions).times;
    std::vector<double> bytes(graph.links.capacity.size(), 0.0);
    for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
      const TaskClass& own = graph.of(TaskId(t));
      if (own.route == TaskClass::kNoRoute) continue;
      const std::vector<LinkId>& route = graph.links.routes[static_cast<std::size_t>(own.route)];
      double narrowest = INFINITY;
      for (const LinkId link : route) narrowest = std::min(narrowest, graph.links.capacity[link.index()].si());
      for (const LinkId link : route) bytes[link.index()] += narrowest * to_seconds(own.duration - own.latency).si();
    }
    // Fluid ends are rounded: half a picosecond per flow.
    const double slack = 0.5e-12 * static_cast<double>(graph.size());
    for (std::size_t l = 0; l < bytes.size(); ++l)
      EXPECT_GE(to_seconds(times.step).si() + slack, bytes[l] / graph.links.capacity[l].si()) << "seed " << seed;
  }
}

// Of those that come at once the one with the lower number is there first.
TEST(FindMeeting, NamesTheFlowThatIsThereAndTheOneThatComes) {
  HandmadeGraph at_once(2);
  const LinkId link = at_once.link(1.0);
  const int route = at_once.route({link});
  for (int i = 0; i < 2; ++i) at_once.message(at_once.channel(0, 1), 10, route);
  HandmadeGraph later(2);
  const int other = later.route({later.link(1.0)});
  const TaskId before = later.forward(0, 6);
  later.message(later.channel(0, 1), 10, other, {before});
  later.message(later.channel(0, 1), 10, other);
  for (const LinkDiscipline discipline : {LinkDiscipline::Fluid, LinkDiscipline::Fifo}) {
    const auto first = find_meeting(at_once.graph, run_in_order(at_once.graph), discipline);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->first, TaskId(0));
    EXPECT_EQ(first->second, TaskId(1));
    EXPECT_EQ(first->link, link);
    const auto second = find_meeting(later.graph, run_in_order(later.graph), discipline);
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->first, TaskId(2));   // since 0
    EXPECT_EQ(second->second, TaskId(1));  // at 6
  }
}

// 20 pipelines of 4 devices, whose tasks have few durations: a lane for each. Without links there is nothing to meet.
TEST(RunByEvents, OfManyStreamsWithFewDurationsIsTheStepInOrder) {
  constexpr int kPipelines = 20, kStages = 4;
  HandmadeGraph made(kPipelines * kStages);
  std::vector<TaskClass> classes;
  for (int s = 0; s < kStages; ++s) classes.push_back({TaskKind::Forward, StageId(s), {7 + s % 2}});
  classes.push_back({TaskKind::Message, StageId(0), {3}, TaskClass::kNoRoute, {2}});
  made.graph.classes = classes;
  for (int p = 0; p < kPipelines; ++p) {
    std::vector<StreamId> channels;
    for (int s = 0; s + 1 < kStages; ++s) channels.push_back(made.channel(p * kStages + s, p * kStages + s + 1));
    for (int m = 0; m < 3 + p % 3; ++m) {
      std::vector<TaskId> before;
      for (int s = 0; s < kStages; ++s) {
        const TaskId run =
            made.graph.add(TaskClassId(s), HandmadeGraph::compute(p * kStages + s), MicrobatchId(m), before);
        if (s + 1 < kStages)
          before = {
              made.graph.add(TaskClassId(kStages), channels[static_cast<std::size_t>(s)], MicrobatchId(m), {{run}})};
      }
    }
  }
  check_task_graph(made.graph);
  const TaskTimes in_order = run_in_order(made.graph);
  EXPECT_EQ(ends_of(run_by_events(made.graph)), ends_of(in_order));
  // The longest has 5 micro-batches: 7 + 8 + 7 + 8 and 3 messages, then 4 more at the slowest.
  EXPECT_EQ(in_order.step.ps, 30 + 9 + 4 * 8);
}

TEST_P(AnyStep, IsThatOfTheOtherDisciplineWhereNothingMeets) {
  int free = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    RandomGraphShape few = shape(seed);
    few.tasks = 10;
    const TaskGraph graph = random_graph(few, random);
    if (find_meeting(graph, run_in_order(graph), LinkDiscipline::Fifo)) continue;
    ++free;
    Conditions conditions;
    conditions.discipline = GetParam();
    EXPECT_EQ(ends_of(run_by_events(graph, conditions)), ends_of(run_in_order(graph))) << "seed " << seed;
  }
  EXPECT_GT(free, 20);
}

INSTANTIATE_TEST_SUITE_P(RunTasks, AnyStep, testing::Values(LinkDiscipline::Fluid, LinkDiscipline::Fifo),
                         [](const auto& of) {
                           return std::string(of.param == LinkDiscipline::Fifo ? "fifo" : "fluid");
                         });

TEST(RunTasks, ALinkThatNeverRestsCarriesExactlyWhatIsSent) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    HandmadeGraph made(2);
    const LinkId link = made.link(4.0), slow = made.link(1.0);
    const int alone = made.route({link}), through_slow = made.route({slow, link});
    double bytes = 0.0;
    for (int stream = 0; stream < 4; ++stream) {
      const StreamId channel = made.channel(0, 1);
      for (int m = random.below(5); m >= 0; --m) {
        const int ps = 1 + random.below(1000);
        // Those of the first channel fill the link to the end, whatever the others leave of it.
        const bool fills = stream == 0 || random.below(2) == 0;
        made.message(channel, stream == 0 ? 100'000 : ps, fills ? alone : through_slow);
        bytes += (stream == 0 ? 100'000 : ps) * (fills ? 4.0 : 1.0);
      }
    }
    // Rounded to the picosecond at every end.
    EXPECT_NEAR(static_cast<double>(run_by_events(made.graph).step.ps), bytes / 4.0,
                static_cast<double>(made.graph.size()));
  }
}

TEST(RunTasks, BothEnginesAgreeOnSlowDevicesAndJitter) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    RandomGraphShape shape;
    shape.links = shape.routes = 0;
    shape.longest = 1'000'000;
    const TaskGraph graph = random_graph(shape, random);
    Conditions conditions;
    conditions.jitter = 0.3;
    conditions.seed = seed;
    for (int d = 0; d < graph.devices; ++d) conditions.compute_scale.push_back(0.5 + random.unit());
    const TaskTimes in_order = run_in_order(graph, conditions), by_events = run_by_events(graph, conditions);
    EXPECT_EQ(in_order.begin, by_events.begin);
    EXPECT_EQ(in_order.end, by_events.end);
    EXPECT_EQ(in_order.peak_memory, by_events.peak_memory);
    EXPECT_NE(in_order.end, run_in_order(graph).end);
  }
}

TEST(RunTasks, TakeNoLessTimeWhereATaskTakesMore) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    RandomGraphShape shape;
    shape.links = shape.routes = 0;
    TaskGraph graph = random_graph(shape, random);
    const TaskTimes before = run_by_events(graph);
    graph.classes[static_cast<std::size_t>(random.below(shape.classes))].duration += SimTime{7};
    const TaskTimes after = run_by_events(graph);
    for (std::size_t t = 0; t < graph.size(); ++t) EXPECT_GE(after.end[t], before.end[t]);
  }
}

TEST(WinnerTree, GivesTheLeastOfKeysThatChange) {
  for (const std::size_t slots : {1u, 2u, 5u, 8u, 33u}) {
    Random random(slots);
    WinnerTree tree(slots);
    EXPECT_EQ(tree.least().key, WinnerTree::kNever);
    std::vector<std::int64_t> keys(slots, WinnerTree::kNever);
    for (int change = 0; change < 500; ++change) {
      const auto slot = static_cast<std::size_t>(random.below(static_cast<int>(slots)));
      keys[slot] = random.below(4) == 0 ? WinnerTree::kNever : random.below(20);
      tree.set(slot, keys[slot]);
      const auto least = std::min_element(keys.begin(), keys.end());  // of equal ones the first
      EXPECT_EQ(tree.least().key, *least);
      EXPECT_EQ(tree.least().slot, least - keys.begin());
      EXPECT_EQ(tree.key(slot), keys[slot]);
    }
  }
}

// Rates fill no link beyond its capacity, and hold back only where a link is full on which nobody has more.
TEST(MaxMin, RatesAreFairAfterEveryChange) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    RandomGraphShape shape;
    shape.links = 1 + random.below(5);
    shape.routes = 6;
    const SharedLinks links = random_graph(shape, random).links;
    constexpr std::size_t kFlows = 12;
    MaxMinLinks fair(links, kFlows);
    std::vector<int> route(kFlows, TaskClass::kNoRoute);
    std::vector<double> rate(kFlows, 0.0), speed(kFlows, 1.0);
    for (int change = 0; change < 60; ++change) {
      const auto f = static_cast<std::size_t>(random.below(kFlows));
      if (route[f] == TaskClass::kNoRoute) {
        route[f] = random.below(6);
        speed[f] = 1.0 / (1 + random.below(3));
        fair.add(static_cast<int>(f), route[f], speed[f]);
        rate[f] = speed[f];
      } else if (random.below(3) == 0) {
        speed[f] = 1.0 / (1 + random.below(3));
        fair.set_speed(static_cast<int>(f), speed[f]);
      } else {
        fair.remove(static_cast<int>(f));
        route[f] = TaskClass::kNoRoute;
      }
      for (const MaxMinLinks::Rate& changed : fair.update())
        rate[static_cast<std::size_t>(changed.flow)] = changed.rate;
      EXPECT_TRUE(fair.update().empty());

      std::vector<double> used(links.capacity.size(), 0.0), most(links.capacity.size(), 0.0), bytes(kFlows, 0.0);
      for (std::size_t g = 0; g < kFlows; ++g) {
        if (route[g] == TaskClass::kNoRoute) continue;
        bytes[g] = INFINITY;
        for (const LinkId l : links.routes[static_cast<std::size_t>(route[g])])
          bytes[g] = std::min(bytes[g], rate[g] * links.capacity[l.index()].si());
        for (const LinkId l : links.routes[static_cast<std::size_t>(route[g])]) {
          used[l.index()] += bytes[g];
          most[l.index()] = std::max(most[l.index()], bytes[g]);
        }
      }
      for (std::size_t l = 0; l < used.size(); ++l) EXPECT_LE(used[l], links.capacity[l].si() * (1.0 + 1e-9));
      for (std::size_t g = 0; g < kFlows; ++g) {
        if (route[g] == TaskClass::kNoRoute || rate[g] == speed[g]) continue;
        EXPECT_LT(rate[g], speed[g]);
        bool held = false;
        for (const LinkId l : links.routes[static_cast<std::size_t>(route[g])])
          held = held || (used[l.index()] >= links.capacity[l.index()].si() * (1.0 - 1e-9) &&
                          bytes[g] >= most[l.index()] * (1.0 - 1e-9));
        EXPECT_TRUE(held) << "flow " << g << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace meshwright::run_tasks_test
