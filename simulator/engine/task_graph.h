// SPDX-License-Identifier: Apache-2.0
// What a step is to the engines: tasks, the streams they occupy, and what each of them waits for.
//
// A stream runs one task at a time, in the order of their numbers: the compute or the communication of a device, the
// channel from one device to another, a controller that issues work. A task begins when all of its predecessors have
// ended and the task before it on its stream has. Predecessors have smaller numbers, so the numbers are an order in
// which every task can be timed.
//
// What tasks have in common (duration, bytes, memory, what they are) stands once in their class; a step of a thousand
// micro-batches has a few classes per stage. Two steps of one shape differ in their classes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace meshwright {

using TaskId = Id<struct TaskTag>;
using StreamId = Id<struct StreamTag>;
using TaskClassId = Id<struct TaskClassTag>;
using RouteId = Id<struct RouteTag>;
using LinkId = Id<struct LinkTag>;

enum class TaskKind : std::uint8_t {
  Forward,
  Backward,        // both gradients at once
  BackwardInput,   // that of the input
  BackwardWeight,  // those of the weights
  Update,
  Message,     // from one device to another
  Collective,  // a group of devices at once
  HostCopy,    // between a device and the memory of its host
  Dispatch,    // a controller, or a host, that issues work
  Join,        // nothing: where several tasks meet
};
[[nodiscard]] const char* name_of(TaskKind kind);  // "forward", "backward", "backward-input", ...

// Whether such a task is work of a device's own, which a slow device does slowly.
[[nodiscard]] constexpr bool is_compute(TaskKind kind) { return kind <= TaskKind::Update; }
// Whether such a task moves bytes from or to other devices, or the host.
[[nodiscard]] constexpr bool is_communication(TaskKind kind) {
  return kind == TaskKind::Message || kind == TaskKind::Collective || kind == TaskKind::HostCopy;
}

struct TaskClass {
  TaskKind kind;
  StageId stage{0};
  // Alone: no other flow on its links, nothing beside it on its device.
  SimTime duration{0};
  // Messages and collectives that use links which others use, too: `route`, and the part of `duration` that passes
  // before its first byte is on a link. The rest is what the bytes take at the rate of the narrowest link of the route;
  // where there is no rest, the task never is on a link.
  int route = kNoRoute;
  SimTime latency{0};
  // Bytes that appear on the stream's device when the task begins, and that are left of them (or of others: negative)
  // when it has ended, relative to what lay there before the task: a forward that needs W bytes beside the A that it
  // keeps has W + A and A, the backward that gives them back W and -A. So at the end the device has memory_at_end -
  // memory_at_begin more than during the task.
  std::int64_t memory_at_begin = 0;
  std::int64_t memory_at_end = 0;
  // A collective has the kind of the Run that it is part of here, and so does a Join that keeps a member in a
  // collective until the flow of its group ends.
  TaskKind part_of = TaskKind::Join;

  static constexpr int kNoRoute = -1;
};

struct Stream {
  enum class Kind : std::uint8_t { Compute, Communication, Channel, Controller } kind;
  DeviceId device{0};  // whose memory and time it is; of a channel the source; of a controller the first it serves
  DeviceId peer{0};    // of a channel: the destination; else `device`
};

// The links that flows share. Several links of a route are used at the same time, at one rate.
struct SharedLinks {
  std::vector<BytesPerSecond> capacity;     // [link], positive
  std::vector<std::vector<LinkId>> routes;  // [route] the links, without repetition; not empty
};

class TaskGraph {
 public:
  std::vector<TaskClass> classes;
  std::vector<Stream> streams;
  SharedLinks links;
  int devices = 0;

  [[nodiscard]] std::size_t size() const { return class_of_.size(); }
  [[nodiscard]] TaskClassId class_of(TaskId task) const { return TaskClassId(class_of_[task.index()]); }
  [[nodiscard]] const TaskClass& of(TaskId task) const {
    return classes[static_cast<std::size_t>(class_of_[task.index()])];
  }
  [[nodiscard]] StreamId stream_of(TaskId task) const { return StreamId(stream_of_[task.index()]); }
  [[nodiscard]] MicrobatchId microbatch_of(TaskId task) const { return MicrobatchId(microbatch_of_[task.index()]); }
  // Without the task before it on its stream.
  [[nodiscard]] std::span<const std::int32_t> predecessors(TaskId task) const {
    return {predecessors_.data() + first_predecessor_[task.index()],
            predecessors_.data() + first_predecessor_[task.index() + 1]};
  }

  void reserve(std::size_t tasks, std::size_t predecessors);
  // Appends a task. REQUIRES: stream and class exist (checked by check_task_graph, not here); predecessors are tasks
  // added before. Predecessors that are on the same stream are left out, as its order says as much.
  TaskId add(TaskClassId task_class, StreamId stream, MicrobatchId microbatch, std::span<const TaskId> predecessors);

  // The arrays themselves, for the engines: [task], [task], [task], [task + 1], [edge].
  [[nodiscard]] const std::vector<std::int32_t>& class_numbers() const { return class_of_; }
  [[nodiscard]] const std::vector<std::int32_t>& stream_numbers() const { return stream_of_; }
  [[nodiscard]] const std::vector<std::uint32_t>& first_predecessors() const { return first_predecessor_; }
  [[nodiscard]] const std::vector<std::int32_t>& all_predecessors() const { return predecessors_; }

 private:
  std::vector<std::int32_t> class_of_, stream_of_, microbatch_of_;  // [task]
  std::vector<std::uint32_t> first_predecessor_ = {0};              // [task + 1]
  std::vector<std::int32_t> predecessors_;
};

// Throws InternalError, naming the task, where a class, stream, route, link or predecessor does not exist or comes
// later, a duration or latency is negative, a latency is longer than its duration, or a rate is not positive.
void check_task_graph(const TaskGraph& graph);

// When each task begins and ends.
struct TaskTimes {
  std::vector<SimTime> begin, end;  // [task]
  SimTime step{0};                  // the last end
  std::int64_t events = 0;          // tasks, and in the event engine what else had a time of its own
  // [device] bytes above what lay there before the step. What begins and ends at one moment counts together.
  std::vector<std::int64_t> peak_memory;
};

// How flows that meet on a link share it.
enum class LinkDiscipline : std::uint8_t {
  Fluid,  // max-min fair rates, all at once
  Fifo,   // one at a time, each with all links of its route, in the order in which they came
};

// What differs from one simulation of a graph to another without changing what it is.
struct Conditions {
  LinkDiscipline discipline = LinkDiscipline::Fluid;
  // While a device's compute and one of its messages (as source or destination) or collectives run at the same time,
  // its compute proceeds at 1 / compute_slowdown of its speed and they at 1 / communication_slowdown of theirs. At
  // least 1. A message or collective runs when its latency has passed and, under Fifo, its links are its own.
  double compute_slowdown = 1.0, communication_slowdown = 1.0;
  // [device] durations of its compute are multiplied by this (2 = half as fast); empty: 1 everywhere. Positive.
  std::vector<double> compute_scale = {};
  // Every duration is multiplied by a factor of its own with median 1, lognormal of this sigma: a function of seed and
  // task number. 0: none. Latencies stay what they are.
  double jitter = 0.0;
  std::uint64_t seed = 0;

  // Whether what runs beside a task changes its duration.
  [[nodiscard]] bool interferes() const { return compute_slowdown != 1.0 || communication_slowdown != 1.0; }
};

// Throws InternalError where a slow-down is below 1, a device's scale is missing or not positive, or jitter is
// negative.
void check_conditions(const TaskGraph& graph, const Conditions& conditions);
// What the engines check before they run a graph: the conditions, and in builds without NDEBUG the graph.
void check_run(const TaskGraph& graph, const Conditions& conditions);

// Tier one: a single pass over the tasks in their order. The links are taken for as wide as they need to be.
// REQUIRES: no interference (Conditions::interferes()).
[[nodiscard]] TaskTimes run_in_order(const TaskGraph& graph, const Conditions& conditions = {});
// The same; the storage of `times`, those of an earlier run, is used again.
void run_in_order(const TaskGraph& graph, const Conditions& conditions, TaskTimes& times);

// Whether `times` have no link on which flows meet so that one of them would be slower (Fluid: the sum of the rates of
// those on a link exceeds its capacity; Fifo: two at once): then they are the times of the event engine to the
// picosecond. Otherwise two tasks that do, at the first such moment.
struct Meeting {
  TaskId first, second;
  LinkId link;
};
[[nodiscard]] std::optional<Meeting> find_meeting(const TaskGraph& graph, const TaskTimes& times,
                                                  LinkDiscipline discipline);

// Tier two: events in the order of their times.
[[nodiscard]] TaskTimes run_by_events(const TaskGraph& graph, const Conditions& conditions = {});
void run_by_events(const TaskGraph& graph, const Conditions& conditions, TaskTimes& times);

// Tier one where nothing is shared, else tier two: what everybody calls.
struct SimulatedTasks {
  TaskTimes times;
  bool by_events = false;
};
[[nodiscard]] SimulatedTasks run_tasks(const TaskGraph& graph, const Conditions& conditions = {});
// The same; the storage of `simulated`, an earlier run's, is used again.
void run_tasks(const TaskGraph& graph, const Conditions& conditions, SimulatedTasks& simulated);

}  // namespace meshwright
