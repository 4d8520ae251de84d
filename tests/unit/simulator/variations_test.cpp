// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/variations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::variations_test {
namespace {

// One device computes 100 ps ten times over.
TaskGraph ten_tasks() {
  TaskGraph graph;
  graph.devices = 1;
  graph.streams = {{Stream::Kind::Compute, DeviceId(0), DeviceId(0)}};
  graph.classes = {{.kind = TaskKind::Forward, .duration = SimTime{100}}};
  for (int m = 0; m < 10; ++m) graph.add(TaskClassId(0), StreamId(0), MicrobatchId(m), {});
  return graph;
}

SimTime whole(const TaskTimes& times) { return times.step; }

TEST(SampleSteps, AreTheSameForEveryNumberOfThreads) {
  const TaskGraph graph = ten_tasks();
  const Conditions shaky{.jitter = 0.2, .seed = 5};
  const std::vector<SimTime> one = sample_steps(graph, shaky, 50, 1, whole);
  EXPECT_EQ(sample_steps(graph, shaky, 50, 3, whole), one);
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  EXPECT_LT(one.front(), one.back());
}

TEST(SampleSteps, AreAllTheStepWithoutJitter) {
  EXPECT_EQ(sample_steps(ten_tasks(), {}, 3, 1, whole), (std::vector<SimTime>(3, SimTime{1000})));
}

TEST(SampleSteps, OfMoreSamplesHoldThoseOfFewer) {
  const Conditions shaky{.jitter = 0.1, .seed = 9};
  const std::vector<SimTime> few = sample_steps(ten_tasks(), shaky, 10, 1, whole),
                             more = sample_steps(ten_tasks(), shaky, 20, 1, whole);
  EXPECT_TRUE(std::includes(more.begin(), more.end(), few.begin(), few.end()));
}

TEST(SampleSteps, AreWhatIsReadOffEachSimulation) {
  const auto half = [](const TaskTimes& times) { return SimTime{times.step.ps / 2}; };
  EXPECT_EQ(sample_steps(ten_tasks(), {}, 2, 1, half), (std::vector<SimTime>(2, SimTime{500})));
}

TEST(Mean, IsRoundedToAPicosecond) {
  EXPECT_EQ(mean_of({{10}, {20}, {31}}).ps, 20);
  EXPECT_EQ(mean_of({{10}, {21}}).ps, 16);
  EXPECT_THROW((void)mean_of({}), InternalError);
}

TEST(Quantile, IsASample) {
  const std::vector<SimTime> steps = {{10}, {20}, {30}, {40}};
  EXPECT_EQ(quantile(steps, 0.25).ps, 10);
  EXPECT_EQ(quantile(steps, 0.26).ps, 20);
  EXPECT_EQ(quantile(steps, 0.5).ps, 20);
  EXPECT_EQ(quantile(steps, 1.0).ps, 40);
  EXPECT_THROW((void)quantile({}, 0.5), InternalError);
}

TEST(SlowerLinks, OfAClusterAreThoseOfEveryGroup) {
  Cluster cluster;
  cluster.groups = {{}, {}};
  for (HostGroup& group : cluster.groups) {
    group.within_host = {Seconds(1e-6), SecondsPerByte(1e-11)};
    group.between_hosts = {Seconds(1e-5), SecondsPerByte(1e-10)};
  }
  for (const HostGroup& group : with_slower_links(cluster, "between-hosts", 0.5).groups) {
    EXPECT_DOUBLE_EQ(group.between_hosts.beta.si(), 2e-10);
    EXPECT_DOUBLE_EQ(group.between_hosts.alpha.si(), 1e-5);
    EXPECT_DOUBLE_EQ(group.within_host.beta.si(), 1e-11);
  }
  EXPECT_DOUBLE_EQ(with_slower_links(cluster, "within-host", 2.0).groups[0].within_host.beta.si(), 5e-12);
}

TEST(SlowerLinks, RefuseWhatIsNoLinkAndNoSpeed) {
  EXPECT_THROW((void)with_slower_links({}, "everywhere", 0.5), InputError);
  EXPECT_THROW((void)with_slower_links({}, "within-host", 0.0), InputError);
  EXPECT_THROW((void)with_slower_links({}, "within-host", -1.0), InputError);
}

}  // namespace
}  // namespace meshwright::variations_test
