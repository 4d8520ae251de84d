// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/task_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/errors.h"
#include "tests/unit/task_graph_fixture.h"

namespace meshwright::task_graph_test {
namespace {

// Two devices, a link and a route over it; three tasks one after the other.
HandmadeGraph chain() {
  HandmadeGraph made(2);
  const StreamId channel = made.channel(0, 1);
  const int route = made.route({made.link(1.0)});
  const TaskId first = made.forward(0, 10);
  const TaskId message = made.message(channel, 5, route, {first}, 2);
  made.forward(1, 10, {message});
  return made;
}

std::string fault_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(TaskGraph, KeepsWhatWasAdded) {
  const TaskGraph graph = chain().graph;
  check_task_graph(graph);
  ASSERT_EQ(graph.size(), 3u);
  EXPECT_EQ(graph.of(TaskId(1)).kind, TaskKind::Message);
  EXPECT_EQ(graph.stream_of(TaskId(1)), StreamId(4));
  ASSERT_EQ(graph.predecessors(TaskId(2)).size(), 1u);
  EXPECT_EQ(graph.predecessors(TaskId(2))[0], 1);
  EXPECT_TRUE(graph.predecessors(TaskId(0)).empty());
}

TEST(TaskGraph, LeavesOutWhatTheStreamSaysAnyway) {
  HandmadeGraph made(2);
  const TaskId a = made.forward(0, 1), b = made.forward(1, 1);
  const TaskId c = made.forward(0, 1, {a, b});
  ASSERT_EQ(made.graph.predecessors(c).size(), 1u);
  EXPECT_EQ(made.graph.predecessors(c)[0], b.value);
}

TEST(TaskGraph, RefusesWhatIsNoStep) {
  const auto fault = [](const std::function<void(HandmadeGraph&)>& spoil) {
    HandmadeGraph made = chain();
    spoil(made);
    return fault_of([&] { check_task_graph(made.graph); });
  };
  EXPECT_EQ(fault([](HandmadeGraph&) {}), "");
  EXPECT_NE(fault([](HandmadeGraph& made) { made.graph.classes.pop_back(); }).find("task 2 is of class 2 of 2"),
            std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.graph.streams.pop_back(); }).find("task 1 is on stream 4 of 4"),
            std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.graph.devices = 1; }).find("of device 1 of 1"), std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.graph.links.routes.clear(); }).find("class 1 takes route 0 of 0"),
            std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.route({}); }).find("route 1 uses no link"), std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.route({LinkId(7)}); }).find("route 1 uses link 7 of 1"),
            std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) {
              made.route({LinkId(0), LinkId(0)});
            }).find("route 1 uses link 0 twice"),
            std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.link(0.0); }).find("link 1 carries 0 bytes/s"), std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.graph.classes[1].latency = {6}; }).find("class 1 lasts 5 ps, 6"),
            std::string::npos);
  EXPECT_NE(fault([](HandmadeGraph& made) { made.graph.classes[0].duration = {-1}; }).find("class 0 lasts -1 ps"),
            std::string::npos);
}

TEST(TaskGraph, RefusesConditionsThatCannotBe) {
  const TaskGraph graph = chain().graph;
  const auto fault = [&](const std::function<void(Conditions&)>& spoil) {
    Conditions conditions;
    spoil(conditions);
    return fault_of([&] { static_cast<void>(run_by_events(graph, conditions)); });
  };
  EXPECT_EQ(fault([](Conditions&) {}), "");
  EXPECT_NE(fault([](Conditions& c) { c.compute_slowdown = 0.5; }).find("at least 1"), std::string::npos);
  EXPECT_NE(fault([](Conditions& c) { c.compute_scale = {1.0}; }).find("1 scales for 2 devices"), std::string::npos);
  EXPECT_NE(fault([](Conditions& c) {
              c.compute_scale = {1.0, 0.0};
            }).find("device 1 has a scale of 0"),
            std::string::npos);
  EXPECT_NE(fault([](Conditions& c) { c.jitter = -0.1; }).find("jitter"), std::string::npos);
}

TEST(TaskGraph, TheSinglePassRefusesInterference) {
  Conditions conditions;
  conditions.compute_slowdown = 2.0;
  EXPECT_THROW(static_cast<void>(run_in_order(chain().graph, conditions)), InternalError);
}

}  // namespace
}  // namespace meshwright::task_graph_test
