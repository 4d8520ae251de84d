// SPDX-License-Identifier: Apache-2.0
// A longest path: predecessors have smaller numbers, so each task is timed once, from times that are known.
#include <algorithm>

#include "core/base/errors.h"
#include "simulator/engine/device_memory.h"
#include "simulator/engine/task_durations.h"

namespace meshwright {

namespace {

// What a pass knows of a stream. Its memory is counted as if its device had no other.
struct StreamState {
  std::int64_t free = 0;  // end of its latest task
  std::int64_t level = 0, peak = 0;
  std::int64_t touched = 0;  // not 0 where some task changes the memory
};

template <bool Memory, bool Varies>
void time_tasks(const TaskGraph& graph, const TaskDurations& durations, std::vector<StreamState>& streams,
                TaskTimes& times) {
  const std::int32_t* const class_of = graph.class_numbers().data();
  const std::int32_t* const stream_of = graph.stream_numbers().data();
  const std::uint32_t* const first = graph.first_predecessors().data();
  const std::int32_t* const predecessors = graph.all_predecessors().data();
  const TaskCost* const costs = durations.costs().data();
  SimTime* const begins = times.begin.data();
  SimTime* const ends = times.end.data();
  const std::size_t tasks = graph.size();
  // Edges are stored in the order of tasks, so one counter runs through all of them.
  std::uint32_t edge = 0;
  for (std::size_t t = 0; t < tasks; ++t) {
    StreamState& stream = streams[static_cast<std::size_t>(stream_of[t])];
    const TaskCost& cost = costs[class_of[t]];
    std::int64_t begin = stream.free;
    for (const std::uint32_t last = first[t + 1]; edge < last; ++edge)
      begin = std::max(begin, ends[predecessors[edge]].ps);
    const std::int64_t end = begin + (Varies ? durations.duration(t, class_of[t], stream_of[t]) : cost.duration);
    begins[t].ps = begin;
    ends[t].ps = end;
    if constexpr (Memory) {
      // A level counts once time has passed since it last changed.
      stream.peak = std::max(stream.peak, begin > stream.free ? stream.level : 0);
      stream.level += cost.memory_at_begin;
      stream.peak = std::max(stream.peak, end > begin ? stream.level : 0);
      stream.level += cost.at_end;
      stream.touched |= cost.memory_at_begin | cost.at_end;
    }
    stream.free = end;
  }
}

// Where one stream of a device stands: every task has two moments, its begin and its end.
struct Cursor {
  const std::int32_t *task, *last;
  bool at_end = false;

  [[nodiscard]] std::int64_t time(const TaskTimes& times) const {
    return (at_end ? times.end : times.begin)[static_cast<std::size_t>(*task)].ps;
  }
};

// The streams of one device that touch its memory, merged in the order of time.
std::int64_t merged_peak(const TaskGraph& graph, const std::vector<TaskCost>& costs, const TaskTimes& times,
                         std::vector<Cursor> cursors) {
  DeviceMemory memory;
  while (!cursors.empty()) {
    std::size_t next = 0;
    // A device has few streams that touch its memory: a search, not a heap.
    for (std::size_t c = 1; c < cursors.size(); ++c)
      if (cursors[c].time(times) < cursors[next].time(times)) next = c;
    Cursor& cursor = cursors[next];
    const TaskCost& cost = costs[graph.class_of(TaskId(*cursor.task)).index()];
    memory.change(cursor.time(times), cursor.at_end ? cost.at_end : cost.memory_at_begin);
    if (cursor.at_end) ++cursor.task;
    cursor.at_end = !cursor.at_end;
    if (cursor.task == cursor.last) cursors.erase(cursors.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return memory.peak();
}

// For devices of which several streams touch the memory.
void merge_streams(const TaskGraph& graph, const std::vector<TaskCost>& costs, const std::vector<StreamState>& streams,
                   TaskTimes& times) {
  std::vector<int> sharing(times.peak_memory.size(), 0);  // [device] streams that touch its memory
  for (std::size_t s = 0; s < streams.size(); ++s)
    if (streams[s].touched != 0) ++sharing[graph.streams[s].device.index()];
  // The tasks of those streams, stream after stream.
  std::vector<std::size_t> first(streams.size() + 1, 0);
  std::vector<char> merged(streams.size());
  for (std::size_t s = 0; s < streams.size(); ++s)
    merged[s] = streams[s].touched != 0 && sharing[graph.streams[s].device.index()] > 1;
  for (const std::int32_t s : graph.stream_numbers())
    first[static_cast<std::size_t>(s) + 1] += static_cast<std::size_t>(merged[static_cast<std::size_t>(s)]);
  for (std::size_t s = 0; s < streams.size(); ++s) first[s + 1] += first[s];
  std::vector<std::int32_t> tasks(first.back());
  std::vector<std::size_t> next(first.begin(), first.end() - 1);
  for (std::size_t t = 0; t < graph.size(); ++t) {
    const auto s = static_cast<std::size_t>(graph.stream_numbers()[t]);
    if (merged[s] != 0) tasks[next[s]++] = static_cast<std::int32_t>(t);
  }
  std::vector<std::vector<Cursor>> of_device(sharing.size());
  for (std::size_t s = 0; s < streams.size(); ++s)
    if (merged[s] != 0)
      of_device[graph.streams[s].device.index()].push_back({tasks.data() + first[s], tasks.data() + first[s + 1]});
  for (std::size_t d = 0; d < of_device.size(); ++d)
    if (!of_device[d].empty()) times.peak_memory[d] = merged_peak(graph, costs, times, std::move(of_device[d]));
}

void count_memory(const TaskGraph& graph, const std::vector<TaskCost>& costs, const std::vector<StreamState>& streams,
                  TaskTimes& times) {
  constexpr std::int64_t kNone = -1;
  bool several = false;  // streams touch the memory of one device
  std::fill(times.peak_memory.begin(), times.peak_memory.end(), kNone);
  for (std::size_t s = 0; s < streams.size(); ++s) {
    if (streams[s].touched == 0) continue;
    std::int64_t& peak = times.peak_memory[graph.streams[s].device.index()];
    several = several || peak != kNone;
    // Exact where one stream alone touches the device's memory; the others are merged below.
    peak = std::max({std::int64_t{0}, streams[s].peak, streams[s].level});
  }
  std::replace(times.peak_memory.begin(), times.peak_memory.end(), kNone, std::int64_t{0});
  if (several) merge_streams(graph, costs, streams, times);
}

}  // namespace

void run_in_order(const TaskGraph& graph, const Conditions& conditions, TaskTimes& times) {
  check_run(graph, conditions);
  MW_CHECK(!conditions.interferes(), "what runs beside a task changes its duration: only events tell what does");
  const TaskDurations durations(graph, conditions);
  const bool memory = std::any_of(durations.costs().begin(), durations.costs().end(),
                                  [](const TaskCost& cost) { return (cost.memory_at_begin | cost.at_end) != 0; });
  times.begin.resize(graph.size());
  times.end.resize(graph.size());
  times.events = static_cast<std::int64_t>(graph.size());
  times.peak_memory.assign(static_cast<std::size_t>(graph.devices), 0);
  std::vector<StreamState> streams(graph.streams.size());
  const auto pass = memory ? (durations.varies() ? time_tasks<true, true> : time_tasks<true, false>)
                           : (durations.varies() ? time_tasks<false, true> : time_tasks<false, false>);
  pass(graph, durations, streams, times);
  times.step = SimTime{0};
  for (const StreamState& stream : streams) times.step = std::max(times.step, SimTime{stream.free});
  if (memory) count_memory(graph, durations.costs(), streams, times);
}

TaskTimes run_in_order(const TaskGraph& graph, const Conditions& conditions) {
  TaskTimes times;
  run_in_order(graph, conditions, times);
  return times;
}

}  // namespace meshwright
