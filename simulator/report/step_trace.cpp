// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <iterator>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "simulator/report/step_report.h"

namespace meshwright {

namespace {

std::string title_of(const Stream& stream) {
  switch (stream.kind) {
    case Stream::Kind::Compute:
      return "compute";
    case Stream::Kind::Communication:
      return "communication";
    case Stream::Kind::Channel:
      return fmt::format("to device {}", stream.peer.value);
    case Stream::Kind::Controller:
      return "controller";
  }
  throw InternalError("a kind of stream without a title");
}

class TraceWriter {
 public:
  TraceWriter(const TaskGraph& graph, const TaskTimes& times) : graph_(graph), times_(times) {}

  std::string write(const std::vector<std::int64_t>& base_bytes, const std::string& title) {
    // Chrome's trace event format: a process for each device, a thread for each stream, times in microseconds.
    name_tracks();
    for (int t = 0; t < static_cast<int>(graph_.size()); ++t) add_task(TaskId(t));
    add_memory(base_bytes);
    return fmt::format("{{\"otherData\":{{\"title\":{}}},\"displayTimeUnit\":\"ms\",\"traceEvents\":[{}\n]}}\n",
                       json_text(title), events_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> event, Args&&... args) {
    events_ += events_.empty() ? "\n" : ",\n";
    fmt::format_to(std::back_inserter(events_), event, std::forward<Args>(args)...);
  }

  void name_tracks() {
    for (int device = 0; device < graph_.devices; ++device)
      add(R"json({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"device {0}"}}}})json", device);
    // A stream without tasks would be an empty track.
    std::vector<bool> used(graph_.streams.size(), false);
    for (const std::int32_t stream : graph_.stream_numbers()) used[static_cast<std::size_t>(stream)] = true;
    for (std::size_t s = 0; s < graph_.streams.size(); ++s)
      if (used[s])
        add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})",
            graph_.streams[s].device.value, s, title_of(graph_.streams[s]));
  }

  // A stream does one thing at a time, so its tasks are complete events of one track.
  void add_task(TaskId task) {
    const TaskClass& own = graph_.of(task);
    const SimTime begin = times_.begin[task.index()], end = times_.end[task.index()];
    // What takes no time cannot be seen.
    if (own.kind == TaskKind::Join || begin == end) return;
    const StreamId stream = graph_.stream_of(task);
    const int microbatch = graph_.microbatch_of(task).value;
    add(R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":"{} {}","ts":{},"dur":{},"args":{{"stage":{},"microbatch":{}}}}})",
        graph_.streams[stream.index()].device.value, stream.value, name_of(own.kind), name_of(own.kind), microbatch,
        in_microseconds(begin), in_microseconds(end - begin), own.stage.value, microbatch);
  }

  void add_memory(const std::vector<std::int64_t>& base_bytes) {
    MW_CHECK(base_bytes.empty() || base_bytes.size() == static_cast<std::size_t>(graph_.devices),
             "{} devices have something in memory before a step of {}", base_bytes.size(), graph_.devices);
    const auto points = memory_over_time(graph_, times_);
    for (std::size_t d = 0; d < points.size(); ++d) {
      if (points[d].size() == 1 && base_bytes.empty()) continue;  // nobody said what lies there
      const std::int64_t base = base_bytes.empty() ? 0 : base_bytes[d];
      for (const MemoryPoint& point : points[d])
        add(R"({{"ph":"C","pid":{},"name":"memory","ts":{},"args":{{"bytes":{}}}}})", d, in_microseconds(point.time),
            base + point.bytes);
    }
  }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  std::string events_;
};

// The writer's lines without their numbers, and the digits of a usual one.
constexpr double kTaskLine = 140.0, kMemoryLine = 86.0, kTrackLine = 80.0;

}  // namespace

Bytes size_of_chrome_trace(const TaskGraph& graph, const TaskTimes& times,
                           const std::vector<std::int64_t>& base_bytes) {
  double size = kTrackLine * static_cast<double>(graph.streams.size() + static_cast<std::size_t>(graph.devices));
  std::vector<SimTime> changed(graph.streams.size());  // [stream] when its latest task gave memory back
  for (std::size_t t = 0; t < graph.size(); ++t) {
    const TaskId task(static_cast<int>(t));
    const TaskClass& own = graph.of(task);
    if (own.kind != TaskKind::Join && times.begin[t] != times.end[t]) size += kTaskLine;
    if (own.memory_at_begin == 0 && own.memory_at_end == 0) continue;
    // What changes at one moment is one point.
    SimTime& before = changed[graph.stream_of(task).index()];
    size += before == times.begin[t] ? kMemoryLine : 2 * kMemoryLine;
    before = times.end[t];
  }
  return Bytes(size + (base_bytes.empty() ? 0.0 : kMemoryLine * graph.devices));
}

std::string to_chrome_trace(const TaskGraph& graph, const TaskTimes& times, const std::vector<std::int64_t>& base_bytes,
                            const std::string& title) {
  return TraceWriter(graph, times).write(base_bytes, title);
}

}  // namespace meshwright
