// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/step_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr std::int32_t kNone = -1;

struct Interval {
  SimTime begin, end;
};

// Sorted, overlapping and touching ones made one, empty ones left out.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  std::vector<Interval> whole;
  for (const Interval& interval : intervals) {
    if (interval.begin == interval.end) continue;
    if (!whole.empty() && interval.begin <= whole.back().end) {
      whole.back().end = std::max(whole.back().end, interval.end);
    } else {
      whole.push_back(interval);
    }
  }
  return whole;
}

SimTime total(const std::vector<Interval>& intervals) {
  SimTime sum{0};
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

Interval of(const TaskTimes& times, TaskId task) { return {times.begin[task.index()], times.end[task.index()]}; }

// The bytes a flow takes over each link of its route.
Bytes bytes_of(const TaskGraph& graph, const TaskClass& flow) {
  // A route is as fast as its narrowest link, and the duration less the latency is the time at that rate.
  BytesPerSecond narrowest(0.0);
  for (const LinkId link : graph.links.routes[static_cast<std::size_t>(flow.route)]) {
    const BytesPerSecond capacity = graph.links.capacity[link.index()];
    if (narrowest == BytesPerSecond(0.0) || capacity < narrowest) narrowest = capacity;
  }
  return Bytes(narrowest.si() * to_seconds(flow.duration - flow.latency).si());
}

// [task] the task before it on its stream.
std::vector<std::int32_t> stream_predecessors(const TaskGraph& graph) {
  std::vector<std::int32_t> before(graph.size(), kNone), last(graph.streams.size(), kNone);
  const std::vector<std::int32_t>& streams = graph.stream_numbers();
  for (std::size_t t = 0; t < graph.size(); ++t) {
    std::int32_t& latest = last[static_cast<std::size_t>(streams[t])];
    before[t] = latest;
    latest = static_cast<std::int32_t>(t);
  }
  return before;
}

template <class Visit>
void for_each_task(const TaskGraph& graph, Visit visit) {
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) visit(TaskId(t));
}

}  // namespace

std::vector<CriticalTask> critical_path(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<CriticalTask> path;
  if (graph.size() == 0) return path;
  const std::vector<std::int32_t> before = stream_predecessors(graph);
  const auto end_of = [&](std::int32_t task) { return times.end[static_cast<std::size_t>(task)]; };
  // From the task that ends last back to the start.
  auto current = static_cast<std::int32_t>(std::max_element(times.end.begin(), times.end.end()) - times.end.begin());
  while (current != kNone) {
    const TaskId task(current);
    path.push_back({task, times.end[task.index()] - times.begin[task.index()] - graph.of(task).duration});
    std::int32_t cause = before[task.index()];
    // Among equal ends the task with the smaller number counts, so that the path does not depend on the order of the
    // edges.
    for (const std::int32_t predecessor : graph.predecessors(task))
      if (cause == kNone || end_of(predecessor) > end_of(cause) ||
          (end_of(predecessor) == end_of(cause) && predecessor < cause))
        cause = predecessor;
    MW_CHECK(times.begin[task.index()] == (cause == kNone ? SimTime{0} : end_of(cause)),
             "task {} begins when nothing before it ends", current);
    current = cause;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<CriticalShare> critical_shares(const TaskGraph& graph, const std::vector<CriticalTask>& path,
                                           const TaskTimes& times) {
  std::map<std::pair<StageId, TaskKind>, CriticalShare> shares;
  for (const CriticalTask& critical : path) {
    const TaskClass& own = graph.of(critical.task);
    CriticalShare& share =
        shares.try_emplace({own.stage, own.kind}, CriticalShare{.kind = own.kind, .stage = own.stage}).first->second;
    ++share.tasks;
    share.time += times.end[critical.task.index()] - times.begin[critical.task.index()];
    share.stretched += critical.stretched;
  }
  std::vector<CriticalShare> sorted;
  for (const auto& [key, share] : shares) sorted.push_back(share);
  // Equal shares stay in the order of stages and kinds.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CriticalShare& a, const CriticalShare& b) { return a.time > b.time; });
  return sorted;
}

std::vector<CriticalSegment> critical_segments(const TaskGraph& graph, const std::vector<CriticalTask>& path,
                                               const TaskTimes& times) {
  std::vector<CriticalSegment> segments;
  for (const CriticalTask& critical : path) {
    const TaskId task = critical.task;
    const Interval when = of(times, task);
    if (when.begin == when.end) continue;  // where tasks meet
    const TaskClass& own = graph.of(task);
    const DeviceId device = graph.streams[graph.stream_of(task).index()].device;
    const MicrobatchId microbatch = graph.microbatch_of(task);
    const bool goes_on = !segments.empty() && segments.back().kind == own.kind && segments.back().stage == own.stage &&
                         segments.back().device == device;
    if (!goes_on) segments.push_back({own.kind, own.stage, device, microbatch, microbatch, 0, when.begin, when.end});
    CriticalSegment& segment = segments.back();
    segment.last = microbatch;
    ++segment.tasks;
    segment.end = when.end;
    segment.stretched += critical.stretched;
  }
  return segments;
}

std::vector<LinkUse> link_use(const TaskGraph& graph, const TaskTimes& times, LinkDiscipline discipline) {
  const std::size_t links = graph.links.capacity.size();
  std::vector<LinkUse> uses(links);
  std::vector<std::vector<Interval>> busy(links);
  for_each_task(graph, [&](TaskId task) {
    const TaskClass& own = graph.of(task);
    if (own.route == TaskClass::kNoRoute) return;
    const Bytes bytes = bytes_of(graph, own);
    const Interval whole = of(times, task);
    // A flow that holds its links alone holds them for as long as its bytes take, at the end of it.
    const SimTime begin = discipline == LinkDiscipline::Fifo
                              ? std::max(whole.begin, whole.end - (own.duration - own.latency))
                              : std::min(whole.end, whole.begin + own.latency);
    for (const LinkId link : graph.links.routes[static_cast<std::size_t>(own.route)]) {
      uses[link.index()].carried += bytes;
      ++uses[link.index()].flows;
      busy[link.index()].push_back({begin, whole.end});
    }
  });
  for (std::size_t l = 0; l < links; ++l) {
    uses[l].busy = total(united(std::move(busy[l])));
    if (times.step > SimTime{0})
      uses[l].share = uses[l].carried / Bytes(graph.links.capacity[l].si() * to_seconds(times.step).si());
  }
  return uses;
}

std::vector<ChannelUse> channel_use(const TaskGraph& graph, const TaskTimes& times) {
  std::map<std::pair<DeviceId, DeviceId>, ChannelUse> uses;
  for_each_task(graph, [&](TaskId task) {
    const Stream& stream = graph.streams[graph.stream_of(task).index()];
    if (stream.kind != Stream::Kind::Channel) return;
    ChannelUse& use =
        uses.try_emplace({stream.device, stream.peer}, ChannelUse{stream.device, stream.peer, 0, {0}}).first->second;
    ++use.messages;
    use.busy += times.end[task.index()] - times.begin[task.index()];
  });
  std::vector<ChannelUse> sorted;
  for (const auto& [pair, use] : uses) sorted.push_back(use);
  return sorted;
}

namespace {

struct MemoryChange {
  SimTime time;
  TaskId task;
  std::int64_t bytes;
};

// [device] in the order of time, then of tasks.
std::vector<std::vector<MemoryChange>> memory_changes(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<std::vector<MemoryChange>> changes(static_cast<std::size_t>(graph.devices));
  for_each_task(graph, [&](TaskId task) {
    const TaskClass& own = graph.of(task);
    if (own.memory_at_begin == 0 && own.memory_at_end == 0) return;
    const Interval when = of(times, task);
    std::vector<MemoryChange>& device = changes[graph.streams[graph.stream_of(task).index()].device.index()];
    device.push_back({when.begin, task, own.memory_at_begin});
    // memory_at_begin is taken for the task's own time; memory_at_end is the change that stays.
    device.push_back({when.end, task, own.memory_at_end - own.memory_at_begin});
  });
  for (std::vector<MemoryChange>& device : changes)
    std::stable_sort(device.begin(), device.end(), [](const MemoryChange& a, const MemoryChange& b) {
      return std::tie(a.time, a.task) < std::tie(b.time, b.task);
    });
  return changes;
}

}  // namespace

std::vector<std::vector<MemoryPoint>> memory_over_time(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<std::vector<MemoryPoint>> points;
  for (const std::vector<MemoryChange>& changes : memory_changes(graph, times)) {
    std::vector<MemoryPoint>& device = points.emplace_back();
    device.push_back({SimTime{0}, 0});
    for (const MemoryChange& change : changes) {
      // Changes of one moment are one point.
      if (device.back().time < change.time) device.push_back({change.time, device.back().bytes});
      device.back().bytes += change.bytes;
    }
  }
  return points;
}

std::vector<MemoryPeak> memory_peaks(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<MemoryPeak> peaks;
  for (const std::vector<MemoryChange>& changes : memory_changes(graph, times)) {
    MemoryPeak& peak = peaks.emplace_back();
    std::int64_t now = 0;
    std::optional<TaskId> taker;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      now += changes[i].bytes;
      if (!taker && changes[i].bytes > 0) taker = changes[i].task;
      // Changes of one moment count together: no time passes between them.
      if (i + 1 < changes.size() && changes[i + 1].time == changes[i].time) continue;
      // The first of equal peaks counts.
      if (now > peak.bytes) peak = {now, changes[i].time, taker};
      taker.reset();
    }
  }
  return peaks;
}

namespace {

Span::Kind span_kind(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return Span::Kind::Forward;
    case TaskKind::Backward:
      return Span::Kind::Backward;
    case TaskKind::BackwardInput:
      return Span::Kind::BackwardInput;
    case TaskKind::BackwardWeight:
      return Span::Kind::BackwardWeight;
    case TaskKind::Update:
      return Span::Kind::Update;
    case TaskKind::Message:
      return Span::Kind::Send;
    case TaskKind::Collective:
    case TaskKind::HostCopy:  // bytes that move beside the computation, too
      return Span::Kind::Collective;
    case TaskKind::Dispatch:
      return Span::Kind::Dispatch;
    case TaskKind::Join:
      break;
  }
  throw InternalError("a join has no span");
}

}  // namespace

Timeline to_timeline(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<Span> spans;
  spans.reserve(graph.size());
  std::vector<SimTime> free(graph.streams.size());  // [stream] end of its latest task
  for_each_task(graph, [&](TaskId task) {
    const TaskClass& own = graph.of(task);
    const Interval when = of(times, task);
    const std::size_t stream = graph.stream_of(task).index();
    const bool in_collective = own.kind == TaskKind::Join && own.part_of != TaskKind::Join;
    if (free[stream] < when.begin && (in_collective || graph.streams[stream].kind == Stream::Kind::Compute)) {
      Span& span = spans.emplace_back(Span{in_collective ? Span::Kind::Collective : Span::Kind::Wait,
                                           graph.streams[stream].device, own.stage, graph.microbatch_of(task),
                                           free[stream], when.begin});
      if (in_collective) span.part_of = span_kind(own.part_of);
    }
    free[stream] = when.end;
    if (own.kind == TaskKind::Join || when.begin == when.end) return;
    Span& span = spans.emplace_back(Span{span_kind(own.kind), graph.streams[stream].device, own.stage,
                                         graph.microbatch_of(task), when.begin, when.end});
    if (own.part_of != TaskKind::Join) span.part_of = span_kind(own.part_of);
  });
  return make_timeline(std::move(spans));
}

}  // namespace meshwright
