// SPDX-License-Identifier: Apache-2.0
// What a step says of its links, channels, memory and critical path, against a count of every picosecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/random.h"
#include "simulator/report/step_report.h"

namespace meshwright::counted_report_test {
namespace {

// Tasks of any kind on streams of any device, after any two tasks before them, on links of 1, 2 and 4 bytes per
// picosecond. What a task does not take back in the end stays in the memory.
TaskGraph drawn_graph(Random& random) {
  TaskGraph graph;
  graph.devices = 1 + random.below(3);
  for (int s = 1 + random.below(6); s > 0; --s) {
    const DeviceId device(random.below(graph.devices)), peer(random.below(graph.devices));
    const bool is_channel = random.below(2) == 0;
    graph.streams.push_back(
        {is_channel ? Stream::Kind::Channel : Stream::Kind::Compute, device, is_channel ? peer : device});
  }
  graph.links.capacity = {BytesPerSecond(1e12), BytesPerSecond(2e12), BytesPerSecond(4e12)};
  graph.links.routes = {{LinkId(0)}, {LinkId(1), LinkId(2)}, {LinkId(2), LinkId(0)}};
  for (int c = 0; c < 8; ++c) {
    TaskClass& own = graph.classes.emplace_back();
    own.kind = static_cast<TaskKind>(random.below(static_cast<int>(TaskKind::Join) + 1));
    own.stage = StageId(random.below(2));
    own.duration = SimTime{random.below(9)};
    own.memory_at_begin = random.below(2) * random.below(9);
    own.memory_at_end = random.below(2) * (random.below(17) - 8);
    if (!is_communication(own.kind) || random.below(3) == 0) continue;
    own.route = random.below(3);
    own.latency = SimTime{random.below(static_cast<int>(own.duration.ps) + 1)};
  }
  for (int t = random.below(30); t > 0; --t) {
    std::vector<TaskId> after;
    if (graph.size() > 0)
      for (int i = random.below(3); i > 0; --i) after.emplace_back(random.below(static_cast<int>(graph.size())));
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    graph.add(TaskClassId(random.below(8)), StreamId(random.below(static_cast<int>(graph.streams.size()))),
              MicrobatchId(random.below(4)), after);
  }
  return graph;
}

template <class Check>
void for_each_step(Check check) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const TaskGraph graph = drawn_graph(random);
    const LinkDiscipline discipline = random.below(2) == 0 ? LinkDiscipline::Fluid : LinkDiscipline::Fifo;
    SCOPED_TRACE(seed);
    check(graph, run_by_events(graph, {.discipline = discipline}), discipline);
  }
}

template <class Visit>
void for_each_task(const TaskGraph& graph, Visit visit) {
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) visit(TaskId(t), graph.of(TaskId(t)));
}

// Bytes of a route of 1 byte per picosecond are its picoseconds. Under Fifo a flow waits for its links first.
TEST(CountedReport, LinksAreBusyWhileAFlowIsOnThem) {
  for_each_step([](const TaskGraph& graph, const TaskTimes& times, LinkDiscipline discipline) {
    const std::vector<LinkUse> uses = link_use(graph, times, discipline);
    for (std::size_t l = 0; l < uses.size(); ++l) {
      std::vector<char> busy(static_cast<std::size_t>(times.step.ps), 0);
      double bytes = 0.0;
      int flows = 0;
      for_each_task(graph, [&](TaskId task, const TaskClass& own) {
        if (own.route == TaskClass::kNoRoute) return;
        const std::vector<LinkId>& route = graph.links.routes[static_cast<std::size_t>(own.route)];
        if (std::find(route.begin(), route.end(), LinkId(static_cast<int>(l))) == route.end()) return;
        ++flows;
        const std::int64_t begin = times.begin[task.index()].ps, end = times.end[task.index()].ps;
        const std::int64_t on_links = own.duration.ps - own.latency.ps;
        bytes += static_cast<double>(on_links * (own.route == 1 ? 2 : 1));
        for (std::int64_t ps = discipline == LinkDiscipline::Fifo ? end - on_links : begin + own.latency.ps; ps < end;
             ++ps)
          busy[static_cast<std::size_t>(ps)] = 1;
      });
      EXPECT_EQ(uses[l].flows, flows);
      EXPECT_NEAR(uses[l].carried.si(), bytes, 1e-9);
      EXPECT_EQ(uses[l].busy.ps, std::count(busy.begin(), busy.end(), 1));
      const double capacity = std::vector<double>{1, 2, 4}[l] * static_cast<double>(times.step.ps);
      EXPECT_NEAR(uses[l].share, capacity == 0.0 ? 0.0 : bytes / capacity, 1e-9);
    }
  });
}

TEST(CountedReport, ChannelsHaveTheMessagesOfTheirEnds) {
  for_each_step([](const TaskGraph& graph, const TaskTimes& times, LinkDiscipline /*discipline*/) {
    std::map<std::pair<int, int>, std::pair<int, std::int64_t>> known;  // how many, and how long
    for_each_task(graph, [&](TaskId task, const TaskClass& /*own*/) {
      const Stream& stream = graph.streams[graph.stream_of(task).index()];
      if (stream.kind != Stream::Kind::Channel) return;
      auto& [messages, busy] = known[{stream.device.value, stream.peer.value}];
      ++messages;
      busy += (times.end[task.index()] - times.begin[task.index()]).ps;
    });
    std::map<std::pair<int, int>, std::pair<int, std::int64_t>> found;
    for (const ChannelUse& use : channel_use(graph, times))
      found[{use.source.value, use.destination.value}] = {use.messages, use.busy.ps};
    EXPECT_EQ(found, known);
  });
}

// [moment] the bytes of a device after all that changes then, up to the end of the step.
std::vector<std::int64_t> counted_memory(const TaskGraph& graph, const TaskTimes& times, int device) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(times.step.ps) + 1, 0);
  for_each_task(graph, [&](TaskId task, const TaskClass& own) {
    if (graph.streams[graph.stream_of(task).index()].device.value != device) return;
    for (std::int64_t ps = times.begin[task.index()].ps; ps <= times.step.ps; ++ps)
      bytes[static_cast<std::size_t>(ps)] += ps < times.end[task.index()].ps ? own.memory_at_begin : own.memory_at_end;
  });
  return bytes;
}

TEST(CountedReport, MemoryIsWhatTheTasksTakeAndLeave) {
  for_each_step([](const TaskGraph& graph, const TaskTimes& times, LinkDiscipline /*discipline*/) {
    const auto points = memory_over_time(graph, times);
    const std::vector<MemoryPeak> peaks = memory_peaks(graph, times);
    for (int d = 0; d < graph.devices; ++d) {
      const std::vector<std::int64_t> bytes = counted_memory(graph, times, d);
      const std::vector<MemoryPoint>& own = points[static_cast<std::size_t>(d)];
      for (std::size_t p = 0; p < own.size(); ++p) {
        const std::int64_t until = p + 1 < own.size() ? own[p + 1].time.ps : times.step.ps + 1;
        EXPECT_LT(own[p].time.ps, until);
        for (std::int64_t ps = own[p].time.ps; ps < until; ++ps)
          EXPECT_EQ(own[p].bytes, bytes[static_cast<std::size_t>(ps)]) << "device " << d << ", " << ps << " ps";
      }
      const auto most = std::max_element(bytes.begin(), bytes.end());
      const MemoryPeak& peak = peaks[static_cast<std::size_t>(d)];
      EXPECT_EQ(peak.bytes, std::max<std::int64_t>(*most, 0));
      EXPECT_EQ(peak.bytes, times.peak_memory[static_cast<std::size_t>(d)]);
      if (*most <= 0) continue;
      EXPECT_EQ(peak.time.ps, most - bytes.begin());
      // The first task that takes memory then.
      std::optional<TaskId> taker;
      for_each_task(graph, [&](TaskId task, const TaskClass& of) {
        if (taker || graph.streams[graph.stream_of(task).index()].device.value != d) return;
        if ((times.begin[task.index()] == peak.time && of.memory_at_begin > 0) ||
            (times.end[task.index()] == peak.time && of.memory_at_end > of.memory_at_begin))
          taker = task;
      });
      EXPECT_EQ(peak.task, taker) << "device " << d;
    }
  });
}

// Every task of the path waits for the one before it, and ends when the next begins.
TEST(CountedReport, TheCriticalPathIsTheStepByAnyOfItsSums) {
  for_each_step([](const TaskGraph& graph, const TaskTimes& times, LinkDiscipline /*discipline*/) {
    const std::vector<CriticalTask> path = critical_path(graph, times);
    SimTime end{0}, stretched{0};
    for (std::size_t i = 0; i < path.size(); ++i) {
      const TaskId task = path[i].task;
      EXPECT_EQ(times.begin[task.index()], end);
      end = times.end[task.index()];
      stretched += end - times.begin[task.index()] - graph.of(task).duration;
      EXPECT_EQ(path[i].stretched, end - times.begin[task.index()] - graph.of(task).duration);
      if (i == 0) continue;
      const auto before = graph.predecessors(task);
      EXPECT_TRUE(graph.stream_of(path[i - 1].task) == graph.stream_of(task) ||
                  std::find(before.begin(), before.end(), path[i - 1].task.value) != before.end());
    }
    EXPECT_EQ(end, times.step);
    SimTime shares{0}, of_shares{0}, of_segments{0};
    int tasks = 0;
    const std::vector<CriticalShare> by_kind = critical_shares(graph, path, times);
    for (std::size_t i = 0; i < by_kind.size(); ++i) {
      shares += by_kind[i].time;
      of_shares += by_kind[i].stretched;
      tasks += by_kind[i].tasks;
      if (i > 0) {
        EXPECT_GE(by_kind[i - 1].time, by_kind[i].time);
      }
    }
    EXPECT_EQ(shares, times.step);
    EXPECT_EQ(of_shares, stretched);
    EXPECT_EQ(tasks, static_cast<int>(path.size()));
    SimTime at{0};
    const std::vector<CriticalSegment> segments = critical_segments(graph, path, times);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      EXPECT_EQ(segments[i].begin, at);
      at = segments[i].end;
      of_segments += segments[i].stretched;
      if (i == 0) continue;
      const CriticalSegment &own = segments[i], &before = segments[i - 1];
      EXPECT_FALSE(own.kind == before.kind && own.stage == before.stage && own.device == before.device);
    }
    EXPECT_EQ(at, times.step);
    EXPECT_EQ(of_segments, stretched);
  });
}

// The spans of a device's streams and what lies between them: nothing twice, and waits only where a stream of
// computations stands still before a task.
TEST(CountedReport, TheTimelineHasEveryTaskAndEveryWait) {
  for_each_step([](const TaskGraph& graph, const TaskTimes& times, LinkDiscipline /*discipline*/) {
    SimTime worked{0}, waited{0}, in_spans{0}, in_waits{0};
    std::vector<SimTime> free(graph.streams.size());
    for_each_task(graph, [&](TaskId task, const TaskClass& own) {
      const std::size_t stream = graph.stream_of(task).index();
      const SimTime begin = times.begin[task.index()], end = times.end[task.index()];
      if (own.kind != TaskKind::Join) worked += end - begin;
      if (graph.streams[stream].kind == Stream::Kind::Compute) waited += begin - free[stream];
      free[stream] = end;
    });
    for (const Span& span : to_timeline(graph, times).spans) {
      EXPECT_LT(span.begin, span.end);
      (span.kind == Span::Kind::Wait ? in_waits : in_spans) += span.end - span.begin;
    }
    EXPECT_EQ(in_spans, worked);
    EXPECT_EQ(in_waits, waited);
  });
}

}  // namespace
}  // namespace meshwright::counted_report_test
