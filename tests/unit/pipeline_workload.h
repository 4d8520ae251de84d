// SPDX-License-Identifier: Apache-2.0
// The training step that simulators of clusters are compared on: 1f1b, forward 10 ms, backward 20 ms, 32 MB to each
// neighbour, and at the end the gradients of every stage, 400 MB, around a ring of its replicas. Links of 25 GB/s + 5
// us: one per pair of neighbours and direction ("pair"), or one in and one out per device ("nic").
#pragma once

#include <vector>

#include "tests/truth/pipeline_graph.h"

namespace meshwright {

enum class Links { Pair, Nic };

inline PipelineStep workload(int stages, int replicas = 1, Links links = Links::Pair, Bytes message = Bytes(32e6)) {
  const BytesPerSecond rate = gigabytes_per_second(25);
  const auto time_of = [&](Bytes bytes) { return to_sim_time(bytes / rate + microseconds(5)); };
  const auto n = static_cast<std::size_t>(stages);
  const auto all = [n](SimTime time) { return std::vector<SimTime>(n, time); };
  PipelineStep step{{all(to_sim_time(Seconds(10e-3))), all(to_sim_time(Seconds(20e-3))), all({0}), {}}};
  for (int s = 0; s + 1 < stages; ++s) step.times.edges.push_back({s, s + 1, time_of(message), time_of(message)});
  step.times.replicas = replicas;
  if (replicas > 1) step.times.ring_step = all(time_of(Bytes(400e6 / replicas)));
  step.activations.assign(n, Bytes(64e6));
  step.folded = false;
  if (links == Links::Nic) step.nics = SharedNics{rate, to_sim_time(microseconds(5))};
  return step;
}

inline PipelineShape workload_shape(int stages, int microbatches) {
  return pipeline_shape(ScheduleKind::OneFOneB, stages, microbatches, workload(stages).times.edges);
}

// Runs, messages and steps of rings; updates, which take no time here, are not counted.
constexpr std::int64_t workload_tasks(std::int64_t stages, std::int64_t microbatches, std::int64_t replicas) {
  return 2 * stages * microbatches * replicas + 2 * (stages - 1) * microbatches * replicas +
         2 * (replicas - 1) * replicas * stages;
}

// The same with messages that do not wait for one another on their channel: each has a stream of its own, so that those
// of a channel share its links, as flows of SimGrid do. Only where messages take longer than passes does it differ.
inline TaskGraph with_messages_at_once(const TaskGraph& graph) {
  TaskGraph made;
  made.classes = graph.classes;
  made.streams = graph.streams;
  made.links = graph.links;
  made.devices = graph.devices;
  for (std::size_t t = 0; t < graph.size(); ++t) {
    const TaskId task(static_cast<int>(t));
    std::vector<TaskId> predecessors;
    for (const std::int32_t predecessor : graph.predecessors(task)) predecessors.emplace_back(predecessor);
    StreamId stream = graph.stream_of(task);
    if (graph.streams[stream.index()].kind == Stream::Kind::Channel) {
      made.streams.push_back(graph.streams[stream.index()]);
      stream = StreamId(static_cast<int>(made.streams.size()) - 1);
    }
    made.add(graph.class_of(task), stream, graph.microbatch_of(task), predecessors);
  }
  return made;
}

// What several independent simulators say (a longest path, SimGrid, ASTRA-sim, LogGOPSim), to 0.01 ms.
struct PublishedStep {
  int stages, microbatches, replicas;
  Links links;
  double milliseconds;
};
inline const std::vector<PublishedStep>& published_steps() {
  static const std::vector<PublishedStep> steps = {
      {4, 16, 1, Links::Pair, 605.98},     {8, 64, 1, Links::Pair, 2289.34},  {16, 128, 1, Links::Pair, 4634.38},
      {64, 512, 1, Links::Pair, 18704.62}, {8, 64, 8, Links::Pair, 2317.41},  {16, 128, 8, Links::Pair, 4662.45},
      {8, 64, 8, Links::Nic, 2326.37},     {16, 128, 8, Links::Nic, 4681.65},
  };
  return steps;
}

}  // namespace meshwright
