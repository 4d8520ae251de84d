// SPDX-License-Identifier: Apache-2.0
#include "simulator/engine/shared_runs.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

SharedRuns::SharedRuns(const TaskGraph& graph, const Conditions& conditions, EventLanes& ends)
    : graph_(graph),
      conditions_(conditions),
      ends_(ends),
      runs_(graph.streams.size()),
      devices_(static_cast<std::size_t>(graph.devices)) {
  if (conditions.discipline == LinkDiscipline::Fluid) fluid_.emplace(graph.links, graph.streams.size());
  if (conditions.discipline == LinkDiscipline::Fifo) queues_.emplace(graph.links, graph.streams.size());
  for (const TaskClass& own : graph.classes) {
    const bool computes = conditions.interferes() && is_compute(own.kind);
    const bool communicates = conditions.interferes() && is_communication(own.kind);
    kinds_.push_back({own.route, own.route != TaskClass::kNoRoute || computes || communicates, computes, communicates});
  }
  if (!conditions.interferes()) return;
  allowed_.resize(graph.streams.size());
  streams_of_.resize(devices_.size());
  for (std::size_t s = 0; s < graph.streams.size(); ++s) {
    const Stream& stream = graph.streams[s];
    streams_of_[stream.device.index()].push_back(static_cast<int>(s));
    // A message counts at both of its ends.
    if (stream.peer != stream.device) streams_of_[stream.peer.index()].push_back(static_cast<int>(s));
  }
}

void SharedRuns::arrive(std::size_t stream, int task, std::size_t task_class, std::int64_t work, int lane,
                        std::int64_t now) {
  const Kind& kind = kinds_[task_class];
  Run& run = runs_[stream];
  run = {static_cast<double>(work), 1.0, now, kind.route, lane, false, kind.computes, kind.communicates};
  // Under Fifo the order of the queue needs all arrivals of the moment: settle() starts the flow.
  if (queues_ && run.route != TaskClass::kNoRoute) {
    ends_.clear(stream);
    arrivals_.push_back({task, static_cast<int>(stream)});
  } else {
    start(stream, now);
  }
}

void SharedRuns::start(std::size_t stream, std::int64_t now) {
  Run& run = runs_[stream];
  run.active = true;
  run.since = now;
  // The end at full speed. settle() runs before time passes and moves the end if something slows the run down.
  ends_.add(stream, run.lane, now + static_cast<std::int64_t>(run.work));
  if (fluid_ && run.route != TaskClass::kNoRoute) fluid_->add(static_cast<int>(stream), run.route, 1.0);
  if (!conditions_.interferes()) return;
  allowed_[stream] = 1.0;
  started_.push_back(static_cast<int>(stream));
  count(stream, 1);
}

void SharedRuns::finish(std::size_t stream, std::int64_t now) {
  Run& run = runs_[stream];
  run.active = false;
  if (conditions_.interferes()) count(stream, -1);
  if (run.route == TaskClass::kNoRoute) return;
  if (queues_) {
    queues_->remove(static_cast<int>(stream), [&](int next) { start(static_cast<std::size_t>(next), now); });
  } else {
    fluid_->remove(static_cast<int>(stream));
  }
}

void SharedRuns::change(Device& device, int& counter, int by, int number) {
  counter += by;
  if (!device.changed) changed_devices_.push_back(number);
  device.changed = true;
}

void SharedRuns::count(std::size_t stream, int by) {
  const Run& run = runs_[stream];
  const Stream& own = graph_.streams[stream];
  Device& device = devices_[own.device.index()];
  if (run.computes) change(device, device.computing, by, own.device.value);
  if (!run.communicates) return;
  change(device, device.communicating, by, own.device.value);
  if (own.peer == own.device) return;
  Device& peer = devices_[own.peer.index()];
  change(peer, peer.communicating, by, own.peer.value);
}

double SharedRuns::allowed(std::size_t stream) const {
  const Run& run = runs_[stream];
  const Device& device = devices_[graph_.streams[stream].device.index()];
  const Device& peer = devices_[graph_.streams[stream].peer.index()];
  // A message slows down, and is slowed down by, the computations at both of its ends.
  if (run.computes && device.communicating > 0) return 1.0 / conditions_.compute_slowdown;
  if (run.communicates && (device.computing > 0 || peer.computing > 0)) return 1.0 / conditions_.communication_slowdown;
  return 1.0;
}

void SharedRuns::allow(std::size_t stream, std::int64_t now) {
  const Run& run = runs_[stream];
  if (!run.active) return;
  const double speed = allowed(stream);
  // The end then stays as it is, to the last bit.
  if (speed == allowed_[stream]) return;
  allowed_[stream] = speed;
  // The links decide the rate, of which this speed is the upper bound: update() tells it.
  if (fluid_ && run.route != TaskClass::kNoRoute) {
    fluid_->set_speed(static_cast<int>(stream), speed);
  } else {
    set_speed(stream, speed, now);
  }
}

void SharedRuns::set_speed(std::size_t stream, double speed, std::int64_t now) {
  Run& run = runs_[stream];
  if (speed == run.speed) return;
  // Work done so far, at the old speed.
  run.work -= static_cast<double>(now - run.since) * run.speed;
  run.since = now;
  run.speed = speed;
  // At least one picosecond: work that rounding left over must not end at a moment that has already been handled.
  ends_.move(stream, now + std::max<std::int64_t>(1, std::llround(run.work / speed)));
}

void SharedRuns::settle(std::int64_t now) {
  if (!arrivals_.empty()) {
    // Flows that arrive at one moment queue in the order of task numbers, whatever the order of their events was.
    std::sort(arrivals_.begin(), arrivals_.end(), [](const Arrival& a, const Arrival& b) { return a.task < b.task; });
    for (const Arrival& arrival : arrivals_)
      if (queues_->add(arrival.stream, runs_[static_cast<std::size_t>(arrival.stream)].route))
        start(static_cast<std::size_t>(arrival.stream), now);
    arrivals_.clear();
  }
  for (const int d : changed_devices_) {
    devices_[static_cast<std::size_t>(d)].changed = false;
    for (const int s : streams_of_[static_cast<std::size_t>(d)]) allow(static_cast<std::size_t>(s), now);
  }
  changed_devices_.clear();
  for (const int s : started_) allow(static_cast<std::size_t>(s), now);
  started_.clear();
  if (!fluid_) return;
  for (const MaxMinLinks::Rate& rate : fluid_->update()) set_speed(static_cast<std::size_t>(rate.flow), rate.rate, now);
}

}  // namespace meshwright
