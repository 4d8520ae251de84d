// SPDX-License-Identifier: Apache-2.0
// Which devices are in a collective together when all of a stage come to it.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "simulator/program/program_tasks.h"

namespace meshwright {

class CollectiveGroups {
 public:
  struct Group {
    std::vector<std::size_t> members;  // numbers among the places, in order
    int route = TaskClass::kNoRoute;
    SimTime on_links{0};  // of the piece's time, with a route
  };

  explicit CollectiveGroups(const ProgramTasks& tasks) : tasks_(tasks) {}

  // The groups of piece number `p` of an executable: those of its flow if it is on links, otherwise those along its
  // mesh axis. Devices of one class have groups of one class, so the representatives of a group's devices are a group.
  // REQUIRES: `places` are those of all representatives of the stage, in order.
  [[nodiscard]] const std::vector<Group>& of(std::span<const AtStop> places, int executable, std::size_t p, int axis);
  // Whether piece number `p` is on links.
  [[nodiscard]] bool on_links(int executable, std::size_t p) const { return flow_of(executable, p) != nullptr; }

 private:
  [[nodiscard]] const CollectiveFlow* flow_of(int executable, std::size_t p) const;
  [[nodiscard]] std::vector<Group> along(std::span<const AtStop> places, const ProgramStage& stage, int axis) const;
  [[nodiscard]] std::size_t place_of(std::span<const AtStop> places, DeviceId device) const;

  const ProgramTasks& tasks_;
  std::map<std::pair<StageId, int>, std::vector<Group>> along_axis_;
  std::map<std::pair<int, SimTime>, std::vector<Group>> on_links_;  // by ProgramFlows::groups and time
};

}  // namespace meshwright
