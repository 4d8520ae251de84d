// SPDX-License-Identifier: Apache-2.0
// A physical device is a link, and what is computed on it flows: max-min fair shares of one link are equal ones.
#include "simulator/engine/shared_devices.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

TaskGraph share_devices(const TaskGraph& graph, const std::vector<int>& physical,
                        const std::vector<double>& occupancy) {
  MW_CHECK(physical.size() == static_cast<std::size_t>(graph.devices), "{} places of {} devices", physical.size(),
           graph.devices);
  MW_CHECK(occupancy.empty() || occupancy.size() == graph.classes.size(), "{} occupancies of {} classes",
           occupancy.size(), graph.classes.size());
  std::map<int, int> devices_on;
  for (const int place : physical) ++devices_on[place];
  TaskGraph made;
  made.classes = graph.classes;
  made.streams = graph.streams;
  made.links = graph.links;
  made.devices = graph.devices;
  std::map<int, int> route_of;  // of physical devices that are shared
  std::map<int, LinkId> link_of;
  for (const auto& [place, devices] : devices_on) {
    if (devices == 1) continue;
    route_of[place] = static_cast<int>(made.links.routes.size());
    link_of.emplace(place, LinkId(static_cast<int>(made.links.capacity.size())));
    made.links.routes.push_back({link_of.at(place)});
    // The unit does not matter: a task alone on its device runs at full speed, n tasks at 1 / n of it.
    made.links.capacity.push_back(BytesPerSecond(1.0));
  }
  made.reserve(graph.size(), graph.all_predecessors().size());
  // A logical device does one task at a time: a link of its own, behind the shared one, is as wide as the task's part.
  std::map<std::tuple<int, int, double>, int> narrow;  // by place, device and part
  const auto route_for = [&](int place, DeviceId device, double part) {
    if (part >= 1.0) return route_of.at(place);
    const auto [known, is_new] =
        narrow.try_emplace({place, device.value, part}, static_cast<int>(made.links.routes.size()));
    if (is_new) {
      made.links.routes.push_back({link_of.at(place), LinkId(static_cast<int>(made.links.capacity.size()))});
      made.links.capacity.push_back(BytesPerSecond(part));
    }
    return known->second;
  };
  std::map<std::pair<int, int>, TaskClassId> shared;  // by class and route
  std::vector<TaskId> after;
  for (int t = 0; t < static_cast<int>(graph.size()); ++t) {
    const TaskId task(t);
    const Stream& stream = graph.streams[graph.stream_of(task).index()];
    TaskClassId own = graph.class_of(task);
    const auto route = route_of.find(physical[stream.device.index()]);
    // Communication does not use the device's arithmetic: it keeps its own route.
    if (is_compute(graph.of(task).kind) && route != route_of.end()) {
      MW_CHECK(graph.of(task).route == TaskClass::kNoRoute, "task {} computes on a route of its own", t);
      const double part = occupancy.empty() ? 1.0 : occupancy[own.index()];
      const int through = route_for(route->first, stream.device, part);
      const auto [known, is_new] =
          shared.try_emplace({own.value, through}, TaskClassId(static_cast<int>(made.classes.size())));
      if (is_new) {
        made.classes.push_back(graph.of(task));
        made.classes.back().route = through;
        made.classes.back().latency = SimTime{0};
      }
      own = known->second;
    }
    after.clear();
    for (const std::int32_t before : graph.predecessors(task)) after.emplace_back(before);
    (void)made.add(own, graph.stream_of(task), graph.microbatch_of(task), after);
  }
  return made;
}

}  // namespace meshwright
