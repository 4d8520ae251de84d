// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/step_report.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/base/json.h"

namespace meshwright::step_report_test {
namespace {

// Two devices. Device 0: forward 0..10, backward 50..70. The message 10..15, device 1: forward 15..35, update 35..40;
// the message back 35..50.
//   device 0 | FF........BBBB
//   device 1 | ...FFFFU......
struct TwoStages {
  TaskGraph graph;
  TaskTimes times;

  TwoStages() {
    graph.devices = 2;
    graph.streams = {{Stream::Kind::Compute, DeviceId(0), DeviceId(0)},
                     {Stream::Kind::Compute, DeviceId(1), DeviceId(1)},
                     {Stream::Kind::Channel, DeviceId(0), DeviceId(1)},
                     {Stream::Kind::Channel, DeviceId(1), DeviceId(0)}};
    const int forward0 = add(TaskKind::Forward, 0, 0, 0, 10, 100, 40, {});
    const int down = add(TaskKind::Message, 0, 2, 10, 15, 0, 0, {forward0});
    const int forward1 = add(TaskKind::Forward, 1, 1, 15, 35, 7, 0, {down});
    const int up = add(TaskKind::Message, 1, 3, 35, 50, 0, 0, {forward1});
    add(TaskKind::Update, 1, 1, 35, 40, 0, 0, {forward1});
    add(TaskKind::Backward, 0, 0, 50, 70, 60, -40, {up});
    times.step = SimTime{70};
  }

  int add(TaskKind kind, int stage, int stream, std::int64_t begin, std::int64_t end, std::int64_t at_begin,
          std::int64_t at_end, const std::vector<int>& after) {
    graph.classes.push_back({.kind = kind,
                             .stage = StageId(stage),
                             .duration = SimTime{end - begin},
                             .memory_at_begin = at_begin,
                             .memory_at_end = at_end});
    std::vector<TaskId> predecessors;
    for (const int task : after) predecessors.emplace_back(task);
    times.begin.push_back({begin});
    times.end.push_back({end});
    return graph
        .add(TaskClassId(static_cast<int>(graph.classes.size()) - 1), StreamId(stream), MicrobatchId(0), predecessors)
        .value;
  }
};

TEST(DeviceShares, AddUpToTheStep) {
  const TwoStages step;
  for (const DeviceShares& device : device_shares(step.graph, step.times))
    EXPECT_EQ(device.compute + device.communication + device.bubble + device.idle, step.times.step);
}

TEST(DeviceShares, CallABubbleWhatLiesBetweenTheFirstAndTheLastComputation) {
  const TwoStages step;
  const std::vector<DeviceShares> shares = device_shares(step.graph, step.times);
  EXPECT_EQ(shares[0].compute.ps, 10 + 20);
  EXPECT_EQ(shares[0].communication.ps, 5 + 15);
  EXPECT_EQ(shares[0].bubble.ps, 20);  // 15..35
  EXPECT_EQ(shares[0].idle.ps, 0);
  EXPECT_EQ(shares[1].compute.ps, 20 + 5);
  EXPECT_EQ(shares[1].communication.ps, 5 + 10);  // 10..15, and 40..50 of 35..50
  EXPECT_EQ(shares[1].bubble.ps, 0);
  EXPECT_EQ(shares[1].idle.ps, 10 + 20);  // 0..10 and 50..70
}

TEST(CriticalPath, LeadsFromTheBeginOfTheStepToItsEnd) {
  const TwoStages step;
  const std::vector<CriticalTask> path = critical_path(step.graph, step.times);
  ASSERT_EQ(path.size(), 5u);
  for (std::size_t i = 0; i < path.size(); ++i) {
    EXPECT_EQ(path[i].task.value, (std::vector<int>{0, 1, 2, 3, 5})[i]);
    EXPECT_EQ(path[i].stretched.ps, 0);
  }
}

TEST(CriticalPath, KnowsWhatTookLongerThanItWouldAlone) {
  TwoStages step;
  step.graph.classes[3].duration = SimTime{12};  // the message back takes 15
  EXPECT_EQ(critical_path(step.graph, step.times)[3].stretched.ps, 3);
}

TEST(CriticalShares, AreTheStepByKindAndStage) {
  const TwoStages step;
  const auto shares = critical_shares(step.graph, critical_path(step.graph, step.times), step.times);
  SimTime sum{0};
  for (const CriticalShare& share : shares) sum += share.time;
  EXPECT_EQ(sum, step.times.step);
  ASSERT_EQ(shares.size(), 5u);
  EXPECT_EQ(shares[0].time.ps, 20);  // of two with 20 stage 0's first
  EXPECT_EQ(shares[0].kind, TaskKind::Backward);
  EXPECT_EQ(shares[1].kind, TaskKind::Forward);
  EXPECT_EQ(shares[1].stage, StageId(1));
}

TEST(CriticalSegments, FollowEachOtherFromTheBeginToTheEndOfTheStep) {
  TwoStages step;
  // Device 0 goes on with a second backward, which joins the segment of the first.
  const TaskId last(step.add(TaskKind::Backward, 0, 0, 70, 80, 0, 0, {}));
  step.times.step = SimTime{80};
  const auto segments = critical_segments(step.graph, critical_path(step.graph, step.times), step.times);
  ASSERT_EQ(segments.size(), 5u);
  SimTime end{0};
  for (const CriticalSegment& segment : segments) {
    EXPECT_EQ(segment.begin, end);
    end = segment.end;
  }
  EXPECT_EQ(end, step.times.step);
  EXPECT_EQ(segments[1].kind, TaskKind::Message);
  EXPECT_EQ(segments[1].begin.ps, 10);
  EXPECT_EQ(segments[1].end.ps, 15);
  EXPECT_EQ(segments[4].tasks, 2);
  EXPECT_EQ(segments[4].device, DeviceId(0));
  EXPECT_EQ(step.times.end[last.index()], segments[4].end);
}

// Device 0 goes on with a forward of another of its stages, as under interleaved schedules.
TEST(CriticalSegments, EndWhereTheStageChanges) {
  TwoStages step;
  step.add(TaskKind::Backward, 2, 0, 70, 80, 0, 0, {});
  step.add(TaskKind::Forward, 2, 0, 80, 85, 0, 0, {});
  step.times.step = SimTime{85};
  const auto segments = critical_segments(step.graph, critical_path(step.graph, step.times), step.times);
  ASSERT_EQ(segments.size(), 7u);
  EXPECT_EQ(segments[4].stage, StageId(0));
  EXPECT_EQ(segments[4].end.ps, 70);
  EXPECT_EQ(segments[5].stage, StageId(2));
  EXPECT_EQ(segments[5].kind, TaskKind::Backward);
  EXPECT_EQ(segments[6].kind, TaskKind::Forward);
  EXPECT_EQ(segments[6].tasks, 1);
}

TEST(CriticalPath, OfNothingIsEmpty) { EXPECT_TRUE(critical_path(TaskGraph(), TaskTimes()).empty()); }

TEST(CriticalPath, RefusesTimesOfAnotherGraph) {
  TwoStages step;
  step.times.begin[5] = SimTime{49};
  EXPECT_THROW((void)critical_path(step.graph, step.times), InternalError);
}

TEST(ChannelUse, CountsMessagesByTheirEnds) {
  const TwoStages step;
  const std::vector<ChannelUse> uses = channel_use(step.graph, step.times);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].source, DeviceId(0));
  EXPECT_EQ(uses[0].busy.ps, 5);
  EXPECT_EQ(uses[1].source, DeviceId(1));
  EXPECT_EQ(uses[1].busy.ps, 15);
  EXPECT_EQ(uses[1].messages, 1);
}

// One link of 1 byte per picosecond: 4 of the message's 5 ps pass on it.
TEST(LinkUse, CountsWhatFlowsCarryAndWhenTheyAreOn) {
  TwoStages step;
  step.graph.links.capacity = {BytesPerSecond(1e12)};
  step.graph.links.routes = {{LinkId(0)}};
  step.graph.classes[1].route = 0;
  step.graph.classes[1].latency = SimTime{1};
  for (const LinkDiscipline discipline : {LinkDiscipline::Fluid, LinkDiscipline::Fifo}) {
    const std::vector<LinkUse> uses = link_use(step.graph, step.times, discipline);
    ASSERT_EQ(uses.size(), 1u);
    EXPECT_DOUBLE_EQ(uses[0].carried.si(), 4.0);
    EXPECT_EQ(uses[0].flows, 1);
    EXPECT_EQ(uses[0].busy.ps, 4);
    EXPECT_DOUBLE_EQ(uses[0].share, 4.0 / 70.0);
  }
}

TEST(Memory, GoesUpAndDownWithTasks) {
  const TwoStages step;
  const auto points = memory_over_time(step.graph, step.times);
  std::vector<std::pair<std::int64_t, std::int64_t>> device0;
  for (const MemoryPoint& point : points[0]) device0.emplace_back(point.time.ps, point.bytes);
  EXPECT_EQ(device0, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 100}, {10, 40}, {50, 100}, {70, 0}}));
  ASSERT_EQ(points[1].size(), 3u);
  EXPECT_EQ(points[1][1].bytes, 7);
  EXPECT_EQ(points[1].back().bytes, 0);
}

TEST(Memory, PeaksWhenItIsFirstAsFull) {
  const TwoStages step;
  const std::vector<MemoryPeak> peaks = memory_peaks(step.graph, step.times);
  EXPECT_EQ(peaks[0].bytes, 100);
  EXPECT_EQ(peaks[0].time.ps, 0);  // again at 50
  EXPECT_EQ(peaks[0].task, TaskId(0));
  EXPECT_EQ(peaks[1].bytes, 7);
  EXPECT_EQ(peaks[1].time.ps, 15);
}

TEST(Memory, OfWhatEndsGoesBeforeWhatBeginsThenComes) {
  TwoStages step;
  step.add(TaskKind::Forward, 1, 1, 40, 50, 8, 0, {});
  step.add(TaskKind::Forward, 1, 1, 50, 60, 8, 0, {});
  EXPECT_EQ(memory_peaks(step.graph, step.times)[1].bytes, 8);
}

// Device 0 waits from 10 to 50, device 1 from 0 to 15.
TEST(StepTimeline, HasASpanForEveryTaskThatTakesTimeAndForEveryWait) {
  TwoStages step;
  step.add(TaskKind::Join, 0, 0, 70, 70, 0, 0, {});
  const Timeline timeline = to_timeline(step.graph, step.times);
  EXPECT_EQ(timeline.spans.size(), 6u + 2u);
  SimTime waited{0};
  for (const Span& span : timeline.spans)
    if (span.kind == Span::Kind::Wait) waited += span.end - span.begin;
  EXPECT_EQ(waited.ps, 40 + 15);
  EXPECT_EQ(timeline.end.ps, 70);
}

TEST(StepTrace, HasAboutTheSizeThatIsSaidBefore) {
  TwoStages step;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t begin = 70 + 1234567890 * std::int64_t{i};
    step.add(i % 2 == 0 ? TaskKind::Forward : TaskKind::Backward, 0, 0, begin, begin + 987654321, 1 << 30, 1 << 29, {});
  }
  const double size = static_cast<double>(to_chrome_trace(step.graph, step.times, {1 << 30, 1 << 30}, "").size());
  EXPECT_NEAR(size_of_chrome_trace(step.graph, step.times, {1 << 30, 1 << 30}).si() / size, 1.0, 0.15);
}

// Lines of the trace: what takes no time has none, and what changes memory at one moment has one.
TEST(StepTrace, IsExpectedToHaveALinePerTaskThatTakesTimeAndPerMomentThatMemoryChanges) {
  const auto growth = [](TaskKind kind, std::int64_t begin, std::int64_t end, std::int64_t at_begin,
                         std::int64_t at_end) {
    TwoStages step;
    const double before = size_of_chrome_trace(step.graph, step.times, {}).si();
    step.add(kind, 0, 0, begin, end, at_begin, at_end, {});
    return size_of_chrome_trace(step.graph, step.times, {}).si() - before;
  };
  const double task = growth(TaskKind::Forward, 80, 90, 0, 0);
  EXPECT_GT(task, 0.0);
  EXPECT_EQ(growth(TaskKind::Forward, 80, 80, 0, 0), 0.0);
  EXPECT_EQ(growth(TaskKind::Join, 80, 90, 0, 0), 0.0);
  // The backward before it ends at 70 and gives memory back: together one moment less.
  const double apart = growth(TaskKind::Forward, 80, 90, 1, -1) - task;
  const double following = growth(TaskKind::Forward, 70, 80, 1, -1) - task;
  EXPECT_GT(apart, 0.0);
  EXPECT_EQ(apart, 2 * following);
}

TEST(StepTrace, HasATrackPerStreamAndMemoryAsACounter) {
  const TwoStages step;
  const Json trace = parse_json(to_chrome_trace(step.graph, step.times, {1000, 2000}, "a \"step\""), "the trace");
  EXPECT_EQ(trace["otherData"]["title"], "a \"step\"");
  int complete = 0, tracks = 0;
  std::int64_t most = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++complete;
    if (event["ph"] == "M" && event["name"] == "thread_name") ++tracks;
    if (event["ph"] == "C") most = std::max(most, event["args"]["bytes"].get<std::int64_t>());
  }
  EXPECT_EQ(complete, 6);
  EXPECT_EQ(tracks, 4);
  EXPECT_EQ(most, 2007);
}

}  // namespace
}  // namespace meshwright::step_report_test
