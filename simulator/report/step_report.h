// SPDX-License-Identifier: Apache-2.0
// What a simulated step says when asked: where the time of each device went, which tasks the step could not have been
// shorter without, how full links and memories were.
//
// Everything here is read off a TaskGraph and the times an engine gave it; nothing is simulated again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/program/timeline.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

// The whole step of one device in four parts; their sum is the step.
struct DeviceShares {
  SimTime compute{0};        // its compute stream works
  SimTime communication{0};  // it does not, but a message from or to it, or a collective of it, is on its way
  SimTime bubble{0};         // neither, between the begin of its first and the end of its last computation
  SimTime idle{0};           // neither, before the first or after the last
};
[[nodiscard]] std::vector<DeviceShares> device_shares(const TaskGraph& graph, const TaskTimes& times);  // [device]

// Tasks each of which ends when the next begins, from the begin of the step to its end: the step is the sum of their
// times. If a task waited for several tasks until the same moment, the path takes the one with the smallest number.
struct CriticalTask {
  TaskId task;
  SimTime stretched{0};  // what it took beyond its class's duration: shared links, overlap, a slow device, jitter
};
[[nodiscard]] std::vector<CriticalTask> critical_path(const TaskGraph& graph, const TaskTimes& times);

// The critical path summed up: how much of the step each kind of task of each stage is.
struct CriticalShare {
  TaskKind kind;
  StageId stage;
  int tasks = 0;
  SimTime time{0};  // stretching included
  SimTime stretched{0};
};
// By time, largest first; equal ones by stage and kind.
[[nodiscard]] std::vector<CriticalShare> critical_shares(const TaskGraph& graph, const std::vector<CriticalTask>& path,
                                                         const TaskTimes& times);

// A stretch of the critical path: tasks of one kind, one after the other on one device. The segments follow each other
// without a gap from 0 to the end of the step.
struct CriticalSegment {
  TaskKind kind;
  StageId stage;
  DeviceId device;           // of a message its source
  MicrobatchId first, last;  // of the first and the last task
  int tasks = 0;
  SimTime begin{0}, end{0};
  SimTime stretched{0};
};
[[nodiscard]] std::vector<CriticalSegment> critical_segments(const TaskGraph& graph,
                                                             const std::vector<CriticalTask>& path,
                                                             const TaskTimes& times);

struct LinkUse {
  Bytes carried{0.0};
  int flows = 0;
  SimTime busy{0};     // at least one flow is on it
  double share = 0.0;  // carried / (capacity * step)
};
// [link]. `discipline`: that of the simulation.
[[nodiscard]] std::vector<LinkUse> link_use(const TaskGraph& graph, const TaskTimes& times, LinkDiscipline discipline);

// Channels, which are private: bytes are not known of them, only time.
struct ChannelUse {
  DeviceId source, destination;
  int messages = 0;
  SimTime busy{0};
};
// By (source, destination).
[[nodiscard]] std::vector<ChannelUse> channel_use(const TaskGraph& graph, const TaskTimes& times);

// Bytes on one device beyond those before the step, from `time` on until the next entry.
struct MemoryPoint {
  SimTime time{0};
  std::int64_t bytes = 0;
};
// [device] -> points with different times, in order; the first at 0. What changes at one moment counts together.
[[nodiscard]] std::vector<std::vector<MemoryPoint>> memory_over_time(const TaskGraph& graph, const TaskTimes& times);

struct MemoryPeak {
  std::int64_t bytes = 0;
  SimTime time{0};             // when it is first reached
  std::optional<TaskId> task;  // the first of those that take memory there
};
[[nodiscard]] std::vector<MemoryPeak> memory_peaks(const TaskGraph& graph, const TaskTimes& times);  // [device]

// The Timeline of the step: a span per task that is not a Join and takes time, messages on their source; a Collective
// where a member waits for the flow of its group to end (TaskClass::part_of); and a Wait wherever else the compute of a
// device stands still before something it does.
[[nodiscard]] Timeline to_timeline(const TaskGraph& graph, const TaskTimes& times);

// Chrome/Perfetto trace with a track per stream and a counter per device for its memory (on top of `base_bytes`
// [device]: what lies there all the time; empty: nothing).
// `base_bytes` as above. About how long the trace would be, without making it: within a tenth.
[[nodiscard]] Bytes size_of_chrome_trace(const TaskGraph& graph, const TaskTimes& times,
                                         const std::vector<std::int64_t>& base_bytes);
[[nodiscard]] std::string to_chrome_trace(const TaskGraph& graph, const TaskTimes& times,
                                          const std::vector<std::int64_t>& base_bytes, const std::string& title);

}  // namespace meshwright
