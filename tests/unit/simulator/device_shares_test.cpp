// SPDX-License-Identifier: Apache-2.0
// The shares of devices against a count of every picosecond.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "simulator/report/step_report.h"

namespace meshwright::device_shares_test {
namespace {

struct DrawnStep {
  TaskGraph graph;
  TaskTimes times;
};

// Streams of any device hold tasks of any kind, so that computations of one device may overlap.
DrawnStep drawn_step(Random& random) {
  DrawnStep step;
  TaskGraph& graph = step.graph;
  graph.devices = 1 + random.below(4);
  for (int s = 2 + random.below(6); s > 0; --s)
    graph.streams.push_back(
        {Stream::Kind::Channel, DeviceId(random.below(graph.devices)), DeviceId(random.below(graph.devices))});
  for (const TaskKind kind : {TaskKind::Forward, TaskKind::Update, TaskKind::Message, TaskKind::Collective,
                              TaskKind::Message, TaskKind::Dispatch})
    graph.classes.push_back({kind});
  std::vector<std::int64_t> free(graph.streams.size(), random.below(3));
  for (int t = random.below(60); t > 0; --t) {
    const int stream = random.below(static_cast<int>(free.size()));
    graph.add(TaskClassId(random.below(6)), StreamId(stream), MicrobatchId(0), {});
    std::int64_t& now = free[static_cast<std::size_t>(stream)];
    step.times.begin.push_back({now += random.below(2) * random.below(9)});
    step.times.end.push_back({now += random.below(7)});
    step.times.step = std::max(step.times.step, SimTime{now});
  }
  return step;
}

DeviceShares counted(const DrawnStep& step, int device) {
  const auto time = static_cast<std::size_t>(step.times.step.ps);
  std::vector<char> computes(time, 0), communicates(time, 0);
  for (int t = 0; t < static_cast<int>(step.graph.size()); ++t) {
    const TaskId task(t);
    const Stream& stream = step.graph.streams[step.graph.stream_of(task).index()];
    const TaskKind kind = step.graph.of(task).kind;
    for (std::int64_t ps = step.times.begin[task.index()].ps; ps < step.times.end[task.index()].ps; ++ps) {
      if (is_compute(kind) && stream.device.value == device) computes[static_cast<std::size_t>(ps)] = 1;
      if (is_communication(kind) && (stream.device.value == device || stream.peer.value == device))
        communicates[static_cast<std::size_t>(ps)] = 1;
    }
  }
  const auto first = std::find(computes.begin(), computes.end(), 1);
  const auto last = std::find(computes.rbegin(), computes.rend(), 1).base();
  DeviceShares shares;
  for (auto at = computes.begin(); at != computes.end(); ++at)
    ++(*at != 0                                                             ? shares.compute
       : communicates[static_cast<std::size_t>(at - computes.begin())] != 0 ? shares.communication
       : first <= at && at < last                                           ? shares.bubble
                                                                            : shares.idle)
          .ps;
  return shares;
}

TEST(DeviceShares, AreWhatACountOfEveryPicosecondSays) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const DrawnStep step = drawn_step(random);
    const std::vector<DeviceShares> shares = device_shares(step.graph, step.times);
    for (int d = 0; d < step.graph.devices; ++d) {
      const DeviceShares truth = counted(step, d), &own = shares[static_cast<std::size_t>(d)];
      EXPECT_EQ(own.compute, truth.compute) << "seed " << seed << ", device " << d;
      EXPECT_EQ(own.communication, truth.communication) << "seed " << seed << ", device " << d;
      EXPECT_EQ(own.bubble, truth.bubble) << "seed " << seed << ", device " << d;
      EXPECT_EQ(own.idle, truth.idle) << "seed " << seed << ", device " << d;
    }
  }
}

}  // namespace
}  // namespace meshwright::device_shares_test
