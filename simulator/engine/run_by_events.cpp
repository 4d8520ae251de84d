// SPDX-License-Identifier: Apache-2.0
// A stream runs one task at a time, so it has at most one pending event.
//
// A stream whose next task may not begin yet waits in the list of one predecessor that has not ended, and looks again
// when that predecessor ends. This needs neither counters nor lists of successors. The head of the list is stored where
// the end of the predecessor will be written. All that a stream reads about a task is in one Entry, in the order of
// tasks: tasks near each other in time are mostly near each other in memory.
#include <algorithm>

#include "core/base/errors.h"
#include "simulator/engine/device_memory.h"
#include "simulator/engine/event_lanes.h"
#include "simulator/engine/shared_runs.h"
#include "simulator/engine/task_durations.h"

namespace meshwright {

namespace {

constexpr std::int32_t kNothing = -1;

// One lane for each different duration: events added to a lane come in the order of time, so a lane is a queue, not a
// heap. Lanes pay off only where they are far fewer than the streams.
class DurationLanes {
 public:
  struct Lanes {
    int whole = EventLanes::kNoLane;  // from begin to end
    int latency = EventLanes::kNoLane, work = EventLanes::kNoLane;
  };

  DurationLanes(const TaskGraph& graph, const TaskDurations& durations) : of_(graph.classes.size()) {
    // Drawn durations differ from task to task: there would be as many lanes as tasks.
    if (durations.varies()) return;
    for (const TaskCost& cost : durations.costs())
      for (const std::int64_t time : {cost.duration, cost.latency, cost.duration - cost.latency})
        times_.push_back(time);
    std::sort(times_.begin(), times_.end());
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    if (times_.size() * kStreamsPerLane > graph.streams.size()) times_.clear();
    if (times_.empty()) return;
    for (std::size_t c = 0; c < of_.size(); ++c) {
      const TaskCost& cost = durations.costs()[c];
      of_[c] = {lane_of(cost.duration), lane_of(cost.latency), lane_of(cost.duration - cost.latency)};
    }
  }

  [[nodiscard]] std::size_t count() const { return times_.size(); }
  [[nodiscard]] const Lanes& of(std::size_t task_class) const { return of_[task_class]; }

 private:
  [[nodiscard]] int lane_of(std::int64_t time) const {
    return static_cast<int>(std::lower_bound(times_.begin(), times_.end(), time) - times_.begin());
  }

  static constexpr std::size_t kStreamsPerLane = 16;
  std::vector<std::int64_t> times_;  // [lane]
  std::vector<Lanes> of_;            // [class]
};

// Shares: the speed of some tasks depends on other tasks; otherwise each task takes its duration.
template <bool Shares>
class EventEngine {
 public:
  EventEngine(const TaskGraph& graph, const Conditions& conditions, TaskTimes& times)
      : graph_(graph),
        durations_(graph, conditions),
        streams_(graph.streams.size()),
        devices_(static_cast<std::size_t>(graph.devices)),
        lanes_(graph, durations_),
        pending_(graph.streams.size(), lanes_.count()),
        times_(times) {
    if constexpr (Shares) {
      shared_.emplace(graph, conditions, pending_);
      phases_.resize(graph.streams.size(), Phase::Whole);
      work_.resize(graph.streams.size());
    }
    link_tasks();
    times_.begin.resize(graph.size());
    times_.end.assign(graph.size(), SimTime{kNothing});
  }

  void run() {
    for (std::size_t s = 0; s < streams_.size(); ++s) begin_next(s);
    // All events of one moment come before rates are found anew (settle), as each of them may change the same rates; a
    // task of no duration adds to the same moment, so the inner loop asks again.
    while (true) {
      while (pending_.time() == now_) advance(pending_.take());
      if constexpr (Shares) shared_->settle(now_);
      if (pending_.time() == EventLanes::kNever) break;
      now_ = pending_.time();
    }
    for (std::size_t s = 0; s < streams_.size(); ++s)
      MW_CHECK(streams_[s].next == kNothing, "task {} waits for ever", streams_[s].next);
    times_.step = SimTime{now_};
    times_.events = events_;
    times_.peak_memory.clear();
    for (const DeviceMemory& memory : devices_) times_.peak_memory.push_back(memory.peak());
  }

 private:
  struct Entry {
    std::int32_t following = kNothing;  // the next task of its stream
    std::int32_t task_class = 0;
    std::int32_t predecessor = kNothing;  // its first
    std::uint32_t more = kNoMore;         // edge of its second
  };
  struct StreamState {
    std::int32_t next = kNothing;          // its current or next task
    std::int32_t other_waiter = kNothing;  // the next stream in the list in which this one stands
    std::int32_t device = 0;
    std::uint32_t ended = 0;  // of the predecessors of the next task, as many from the first on
  };

  void link_tasks() {
    for (std::size_t s = 0; s < streams_.size(); ++s) streams_[s].device = graph_.streams[s].device.value;
    std::vector<std::int32_t> latest(streams_.size(), kNothing);  // [stream]
    entries_.reserve(graph_.size());
    const std::uint32_t* const edges = graph_.first_predecessors().data();
    for (std::size_t t = 0; t < graph_.size(); ++t) {
      entries_.push_back({kNothing, graph_.class_numbers()[t],
                          edges[t] == edges[t + 1] ? kNothing : graph_.all_predecessors()[edges[t]],
                          edges[t] + 2 <= edges[t + 1] ? edges[t] + 1 : kNoMore});
      const auto s = static_cast<std::size_t>(graph_.stream_numbers()[t]);
      (latest[s] == kNothing ? streams_[s].next : entries_[static_cast<std::size_t>(latest[s])].following) =
          static_cast<std::int32_t>(t);
      latest[s] = static_cast<std::int32_t>(t);
    }
  }

  // The stream's pending event happens: the end of its task, or the end of the task's latency.
  void advance(std::size_t s) {
    ++events_;
    if constexpr (Shares) {
      if (phases_[s] == Phase::Latency) {
        phases_[s] = Phase::Shared;
        return shared_->arrive(s, streams_[s].next, class_of(streams_[s].next), work_[s],
                               lanes_.of(class_of(streams_[s].next)).work, now_);
      }
      if (phases_[s] == Phase::Shared) shared_->finish(s, now_);
    }
    StreamState& stream = streams_[s];
    const auto task = static_cast<std::size_t>(stream.next);
    const Entry& ended = entries_[task];
    stream.next = ended.following;
    stream.ended = 0;
    devices_[static_cast<std::size_t>(stream.device)].change(
        now_, durations_.costs()[static_cast<std::size_t>(ended.task_class)].at_end);
    std::int64_t waiter = waiter_of(times_.end[task].ps);
    times_.end[task].ps = now_;
    // The own stream first, then the waiting ones: all begin at the same moment, so the order changes no time.
    begin_next(s);
    while (waiter != kNothing) {
      const auto waiting = static_cast<std::size_t>(waiter);
      waiter = streams_[waiting].other_waiter;
      begin_next(waiting);
    }
  }

  // While a task has not ended, the place of its end holds a negative number: the latest stream that waits for it.
  static std::int64_t waiter_of(std::int64_t end) { return -2 - end; }  // -1: nobody
  static std::int64_t waited_by(std::size_t stream) { return -2 - static_cast<std::int64_t>(stream); }

  // Whether the task has ended; if not, the stream waits for it.
  bool has_ended(std::int32_t task, std::size_t s) {
    std::int64_t& end = times_.end[static_cast<std::size_t>(task)].ps;
    if (end >= 0) return true;
    streams_[s].other_waiter = static_cast<std::int32_t>(waiter_of(end));
    end = waited_by(s);
    return false;
  }

  // Continues after the predecessors that were found ended at the last look: a task that has ended stays ended.
  bool may_begin(std::size_t task, std::size_t s) {
    const Entry& entry = entries_[task];
    // The first predecessor is in the Entry, which the stream has at hand; most tasks have no other.
    std::uint32_t& ended = streams_[s].ended;
    if (ended == 0) {
      if (entry.predecessor == kNothing) return true;
      if (!has_ended(entry.predecessor, s)) return false;
      ended = 1;
    }
    if (entry.more == kNoMore) return true;
    const std::uint32_t last = graph_.first_predecessors()[task + 1];
    for (std::uint32_t e = entry.more + ended - 1; e < last; ++e, ++ended)
      if (!has_ended(graph_.all_predecessors()[e], s)) return false;
    return true;
  }

  // Begins the stream's next task now, or leaves the stream waiting for one of its predecessors.
  void begin_next(std::size_t s) {
    StreamState& stream = streams_[s];
    const auto task = static_cast<std::size_t>(stream.next);
    if (stream.next == kNothing || !may_begin(task, s)) return pending_.clear(s);
    const Entry& entry = entries_[task];
    const TaskCost& cost = durations_.costs()[static_cast<std::size_t>(entry.task_class)];
    const std::int64_t duration =
        durations_.varies() ? durations_.duration(task, entry.task_class, static_cast<std::int32_t>(s)) : cost.duration;
    times_.begin[task].ps = now_;
    devices_[static_cast<std::size_t>(stream.device)].change(now_, cost.memory_at_begin);
    if constexpr (Shares) {
      if (shared_->takes(static_cast<std::size_t>(entry.task_class)) && duration > cost.latency)
        return begin_shared(s, stream.next, duration - cost.latency, cost.latency);
      phases_[s] = Phase::Whole;
    }
    pending_.add(s, lanes_.of(static_cast<std::size_t>(entry.task_class)).whole, now_ + duration);
    // What the stream's next task will need.
    const auto following = static_cast<std::size_t>(std::max(entry.following, 0));
    __builtin_prefetch(entries_.data() + following);
    __builtin_prefetch(times_.begin.data() + following, 1);
    __builtin_prefetch(times_.end.data() + following, 1);
  }

  void begin_shared(std::size_t s, int task, std::int64_t work, std::int64_t latency) {
    phases_[s] = latency > 0 ? Phase::Latency : Phase::Shared;
    work_[s] = work;
    if (latency > 0) {
      pending_.add(s, lanes_.of(class_of(task)).latency, now_ + latency);
    } else {
      shared_->arrive(s, task, class_of(task), work, lanes_.of(class_of(task)).work, now_);
    }
  }

  [[nodiscard]] std::size_t class_of(std::int32_t task) const {
    return static_cast<std::size_t>(entries_[static_cast<std::size_t>(task)].task_class);
  }

  const TaskGraph& graph_;
  const TaskDurations durations_;
  static constexpr std::uint32_t kNoMore = UINT32_MAX;
  std::vector<Entry> entries_;         // [task]
  std::vector<StreamState> streams_;   // [stream]
  std::vector<DeviceMemory> devices_;  // [device]
  const DurationLanes lanes_;
  EventLanes pending_;  // [stream] the end of its current task, or of that's latency
  std::int64_t now_ = 0, events_ = 0;
  TaskTimes& times_;

  // Where tasks share:
  enum class Phase : std::uint8_t { Whole, Latency, Shared };
  std::optional<SharedRuns> shared_;
  std::vector<Phase> phases_;       // [stream] of its current task
  std::vector<std::int64_t> work_;  // [stream] ps of it beyond the latency
};

}  // namespace

void run_by_events(const TaskGraph& graph, const Conditions& conditions, TaskTimes& times) {
  check_run(graph, conditions);
  const bool shares =
      conditions.interferes() || std::any_of(graph.classes.begin(), graph.classes.end(),
                                             [](const TaskClass& own) { return own.route != TaskClass::kNoRoute; });
  if (shares) {
    EventEngine<true>(graph, conditions, times).run();
  } else {
    EventEngine<false>(graph, conditions, times).run();
  }
}

TaskTimes run_by_events(const TaskGraph& graph, const Conditions& conditions) {
  TaskTimes times;
  run_by_events(graph, conditions, times);
  return times;
}

}  // namespace meshwright
