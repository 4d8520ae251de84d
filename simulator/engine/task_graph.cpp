// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/task_graph.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

const char* name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return "forward";
    case TaskKind::Backward:
      return "backward";
    case TaskKind::BackwardInput:
      return "backward-input";
    case TaskKind::BackwardWeight:
      return "backward-weight";
    case TaskKind::Update:
      return "update";
    case TaskKind::Message:
      return "message";
    case TaskKind::Collective:
      return "collective";
    case TaskKind::HostCopy:
      return "host-copy";
    case TaskKind::Dispatch:
      return "dispatch";
    case TaskKind::Join:
      return "join";
  }
  throw InternalError("a kind of task without a name");
}

void TaskGraph::reserve(std::size_t tasks, std::size_t predecessors) {
  class_of_.reserve(tasks);
  stream_of_.reserve(tasks);
  microbatch_of_.reserve(tasks);
  first_predecessor_.reserve(tasks + 1);
  predecessors_.reserve(predecessors);
}

TaskId TaskGraph::add(TaskClassId task_class, StreamId stream, MicrobatchId microbatch,
                      std::span<const TaskId> predecessors) {
  const TaskId task(static_cast<int>(class_of_.size()));
  class_of_.push_back(task_class.value);
  stream_of_.push_back(stream.value);
  microbatch_of_.push_back(microbatch.value);
  for (const TaskId predecessor : predecessors)
    // A stream runs its tasks in order: edges within it say nothing, and are left out.
    if (stream_of_[predecessor.index()] != stream.value) predecessors_.push_back(predecessor.value);
  first_predecessor_.push_back(static_cast<std::uint32_t>(predecessors_.size()));
  return task;
}

void check_task_graph(const TaskGraph& graph) {
  for (std::size_t l = 0; l < graph.links.capacity.size(); ++l)
    MW_CHECK(graph.links.capacity[l] > BytesPerSecond(0.0), "link {} carries {} bytes/s", l,
             graph.links.capacity[l].si());
  for (std::size_t r = 0; r < graph.links.routes.size(); ++r) {
    MW_CHECK(!graph.links.routes[r].empty(), "route {} uses no link", r);
    std::vector<LinkId> own = graph.links.routes[r];
    for (const LinkId link : own)
      MW_CHECK(0 <= link.value && link.index() < graph.links.capacity.size(), "route {} uses link {} of {}", r,
               link.value, graph.links.capacity.size());
    std::sort(own.begin(), own.end());
    const auto twice = std::adjacent_find(own.begin(), own.end());
    MW_CHECK(twice == own.end(), "route {} uses link {} twice", r, twice->value);
  }
  for (std::size_t s = 0; s < graph.streams.size(); ++s)
    // Engines add and take off demands link by link: a route that named one twice would count twice.
    for (const DeviceId device : {graph.streams[s].device, graph.streams[s].peer})
      MW_CHECK(0 <= device.value && device.value < graph.devices, "stream {} is of device {} of {}", s, device.value,
               graph.devices);
  for (std::size_t c = 0; c < graph.classes.size(); ++c) {
    const TaskClass& own = graph.classes[c];
    MW_CHECK(SimTime{0} <= own.latency && own.latency <= own.duration, "class {} lasts {} ps, {} ps of them latency", c,
             own.duration.ps, own.latency.ps);
    MW_CHECK(TaskClass::kNoRoute <= own.route && own.route < static_cast<int>(graph.links.routes.size()),
             "class {} takes route {} of {}", c, own.route, graph.links.routes.size());
  }
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const TaskId task(t);
    MW_CHECK(0 <= graph.class_of(task).value && graph.class_of(task).index() < graph.classes.size(),
             "task {} is of class {} of {}", t, graph.class_of(task).value, graph.classes.size());
    MW_CHECK(0 <= graph.stream_of(task).value && graph.stream_of(task).index() < graph.streams.size(),
             "task {} is on stream {} of {}", t, graph.stream_of(task).value, graph.streams.size());
    // Numbers are a topological order, on which run_in_order relies.
    for (const std::int32_t predecessor : graph.predecessors(task))
      MW_CHECK(0 <= predecessor && predecessor < t, "task {} waits for task {}, which is not before it", t,
               predecessor);
  }
}

void check_conditions(const TaskGraph& graph, const Conditions& conditions) {
  MW_CHECK(conditions.compute_slowdown >= 1.0 && conditions.communication_slowdown >= 1.0,
           "slow-downs of {} and {}: they are at least 1", conditions.compute_slowdown,
           conditions.communication_slowdown);
  MW_CHECK(conditions.jitter >= 0.0, "a jitter of {}", conditions.jitter);
  MW_CHECK(
      conditions.compute_scale.empty() || conditions.compute_scale.size() == static_cast<std::size_t>(graph.devices),
      "{} scales for {} devices", conditions.compute_scale.size(), graph.devices);
  for (std::size_t d = 0; d < conditions.compute_scale.size(); ++d)
    MW_CHECK(conditions.compute_scale[d] > 0.0, "device {} has a scale of {}", d, conditions.compute_scale[d]);
}

void check_run(const TaskGraph& graph, const Conditions& conditions) {
// A walk over all edges: for debug builds.
#ifndef NDEBUG
  check_task_graph(graph);
#endif
  check_conditions(graph, conditions);
}

void run_tasks(const TaskGraph& graph, const Conditions& conditions, SimulatedTasks& simulated) {
  // Interference changes durations as tasks run: only events tell them.
  simulated.by_events = conditions.interferes();
  if (!simulated.by_events) {
    // The pass in order is exact as long as no flow comes to a link without room; else events decide.
    run_in_order(graph, conditions, simulated.times);
    simulated.by_events = find_meeting(graph, simulated.times, conditions.discipline).has_value();
  }
  if (simulated.by_events) run_by_events(graph, conditions, simulated.times);
}

SimulatedTasks run_tasks(const TaskGraph& graph, const Conditions& conditions) {
  SimulatedTasks simulated;
  run_tasks(graph, conditions, simulated);
  return simulated;
}

}  // namespace meshwright
