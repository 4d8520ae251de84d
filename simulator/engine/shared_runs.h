// SPDX-License-Identifier: Apache-2.0
// Tasks whose speed depends on what runs beside them: flows on shared links, and, under interference, compute and
// communication of one device.
//
// What is left of a task is kept in picoseconds at full speed. Speeds change only when everything that happens at a
// moment has happened (settle); what keeps the speed 1 ends at its begin plus its duration exactly.
#pragma once

#include <optional>
#include <vector>

#include "simulator/engine/event_lanes.h"
#include "simulator/engine/link_queues.h"
#include "simulator/engine/max_min.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

class SharedRuns {
 public:
  // Keeps the references. `ends`: [stream] where it writes the end of the stream's task as far as it is known.
  SharedRuns(const TaskGraph& graph, const Conditions& conditions, EventLanes& ends);

  // Whether tasks of the class run here. The others take their duration whatever else happens.
  [[nodiscard]] bool takes(std::size_t task_class) const { return kinds_[task_class].taken; }

  // The latency of a task of the class has passed: `work` ps are left, which at full speed end in the order of that
  // lane. REQUIRES: takes the class, work > 0, nothing of the stream is pending but what happens now.
  void arrive(std::size_t stream, int task, std::size_t task_class, std::int64_t work, int lane, std::int64_t now);
  void finish(std::size_t stream, std::int64_t now);
  // Gives everything its speed, after all that happens at `now`. All ends that it sets are later.
  void settle(std::int64_t now);

 private:
  struct Run {
    double work = 0.0;  // ps at full speed, at `since`
    double speed = 1.0;
    std::int64_t since = 0;
    int route = TaskClass::kNoRoute;
    int lane = EventLanes::kNoLane;
    bool active = false;                          // its work proceeds
    bool computes = false, communicates = false;  // if tasks interfere
  };
  struct Kind {
    int route;
    bool taken, computes, communicates;
  };
  struct Device {
    int computing = 0, communicating = 0;
    bool changed = false;
  };

  void start(std::size_t stream, std::int64_t now);
  void count(std::size_t stream, int by);
  void change(Device& device, int& counter, int by, int number);
  [[nodiscard]] double allowed(std::size_t stream) const;
  void allow(std::size_t stream, std::int64_t now);
  void set_speed(std::size_t stream, double speed, std::int64_t now);

  const TaskGraph& graph_;
  const Conditions& conditions_;
  EventLanes& ends_;
  std::vector<Kind> kinds_;           // [class]
  std::optional<MaxMinLinks> fluid_;  // one of these two
  std::optional<LinkQueues> queues_;
  std::vector<Run> runs_;                     // [stream]
  std::vector<double> allowed_;               // [stream] speed, if tasks interfere
  std::vector<Device> devices_;               // [device]
  std::vector<std::vector<int>> streams_of_;  // [device] if tasks interfere
  std::vector<int> changed_devices_;
  std::vector<int> started_;  // streams whose work has begun at this moment
  struct Arrival {
    int task, stream;
  };
  std::vector<Arrival> arrivals_;  // at queues, at this moment
};

}  // namespace meshwright
