// SPDX-License-Identifier: Apache-2.0
// Task graphs for tests: written by hand, one class per task, or drawn at random.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

// A graph of some devices, each with a compute and a communication stream. Times are in ps, rates in bytes/ps.
class HandmadeGraph {
 public:
  explicit HandmadeGraph(int devices) {
    graph.devices = devices;
    for (int d = 0; d < devices; ++d) {
      graph.streams.push_back({Stream::Kind::Compute, DeviceId(d), DeviceId(d)});
      graph.streams.push_back({Stream::Kind::Communication, DeviceId(d), DeviceId(d)});
    }
  }

  [[nodiscard]] static StreamId compute(int device) { return StreamId(2 * device); }
  [[nodiscard]] static StreamId communication(int device) { return StreamId(2 * device + 1); }
  StreamId channel(int source, int destination) {
    graph.streams.push_back({Stream::Kind::Channel, DeviceId(source), DeviceId(destination)});
    return StreamId(static_cast<int>(graph.streams.size()) - 1);
  }
  StreamId controller() {
    graph.streams.push_back({Stream::Kind::Controller, DeviceId(0), DeviceId(0)});
    return StreamId(static_cast<int>(graph.streams.size()) - 1);
  }

  LinkId link(double bytes_per_ps) {
    graph.links.capacity.push_back(BytesPerSecond(bytes_per_ps * 1e12));
    return LinkId(static_cast<int>(graph.links.capacity.size()) - 1);
  }
  int route(std::vector<LinkId> links) {
    graph.links.routes.push_back(std::move(links));
    return static_cast<int>(graph.links.routes.size()) - 1;
  }

  TaskId add(TaskClass own, StreamId stream, std::vector<TaskId> predecessors = {}) {
    graph.classes.push_back(own);
    return graph.add(TaskClassId(static_cast<int>(graph.classes.size()) - 1), stream, MicrobatchId(0), predecessors);
  }
  TaskId forward(int device, std::int64_t ps, std::vector<TaskId> predecessors = {}) {
    return add({TaskKind::Forward, StageId(device), {ps}}, compute(device), std::move(predecessors));
  }
  TaskId message(StreamId stream, std::int64_t ps, int route_number, std::vector<TaskId> predecessors = {},
                 std::int64_t latency = 0) {
    return add({TaskKind::Message, StageId(0), {ps}, route_number, {latency}}, stream, std::move(predecessors));
  }

  TaskGraph graph;
};

struct RandomGraphShape {
  int devices = 3, channels = 4, links = 3, routes = 4, classes = 12, tasks = 40;
  std::int64_t longest = 20;  // ps; small: many things happen at one moment
  double narrowest = 1.0;     // links are of `narrowest` to `narrowest` + 3 bytes/ps
  bool latencies = true;
};

// Everything a graph may have; passes check_task_graph.
inline TaskGraph random_graph(const RandomGraphShape& shape, Random& random) {
  HandmadeGraph made(shape.devices);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(n));
  };
  for (int c = 0; c < shape.channels; ++c) made.channel(random.below(shape.devices), random.below(shape.devices));
  made.controller();
  for (int l = 0; l < shape.links; ++l) made.link(shape.narrowest + random.below(4));
  for (int r = 0; r < shape.routes && shape.links > 0; ++r) {
    std::vector<LinkId> links;
    for (int l = 0; l < shape.links; ++l)
      if (random.below(2) == 0) links.push_back(LinkId(l));
    if (links.empty()) links.push_back(LinkId(random.below(shape.links)));
    made.route(links);
  }
  TaskGraph graph = std::move(made.graph);
  for (int c = 0; c < shape.classes; ++c) {
    TaskClass own{static_cast<TaskKind>(random.below(9)), StageId(0), {below(shape.longest + 1)}};
    if (random.below(2) == 0) own.kind = TaskKind::Message;
    if (is_communication(own.kind)) {
      if (shape.routes > 0 && random.below(4) != 0) own.route = random.below(shape.routes);
      if (shape.latencies && random.below(2) == 0) own.latency = {below(own.duration.ps + 1)};
    }
    own.memory_at_begin = random.below(100);
    own.memory_at_end = random.below(100) - 50;
    graph.classes.push_back(own);
  }
  const auto fits = [](TaskKind kind, Stream::Kind stream) {
    if (is_compute(kind)) return stream == Stream::Kind::Compute;
    if (kind == TaskKind::Message) return stream == Stream::Kind::Channel;
    if (kind == TaskKind::Collective) return stream == Stream::Kind::Communication;
    return true;
  };
  for (int t = 0; t < shape.tasks; ++t) {
    const TaskClassId own(random.below(shape.classes));
    StreamId stream(random.below(static_cast<int>(graph.streams.size())));
    while (!fits(graph.classes[own.index()].kind, graph.streams[stream.index()].kind))
      stream = StreamId(random.below(static_cast<int>(graph.streams.size())));
    std::vector<TaskId> predecessors;
    for (int p = random.below(4); p > 0 && t > 0; --p)
      predecessors.push_back(TaskId(t - 1 - random.below(std::min(t, 8))));
    graph.add(own, stream, MicrobatchId(0), predecessors);
  }
  return graph;
}

}  // namespace meshwright
