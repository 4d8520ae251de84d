// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/collective_groups.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// Several members may be folded onto one device, which is in the group once.
void keep_once(std::vector<std::size_t>& members) {
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
}

}  // namespace

const CollectiveFlow* CollectiveGroups::flow_of(int executable, std::size_t p) const {
  const ProgramFlows* flows = tasks_.options.flows;
  if (flows == nullptr || flows->collective.empty()) return nullptr;
  const std::vector<CollectiveFlow>& own = flows->collective[static_cast<std::size_t>(executable)];
  MW_CHECK(p < own.size(), "executable {} has {} flows and a piece {}", executable, own.size(), p);
  return own[p].groups == CollectiveFlow::kOnNoLink ? nullptr : &own[p];
}

std::size_t CollectiveGroups::place_of(std::span<const AtStop> places, DeviceId device) const {
  // Places come in the order of devices (ProgramWalk::meet).
  const auto place = std::lower_bound(places.begin(), places.end(), tasks_.representative(device),
                                      [](const AtStop& other, DeviceId wanted) { return other.device < wanted; });
  MW_CHECK(place != places.end() && place->device == tasks_.representative(device),
           "device {} stands for one of another stage", device.value);
  return static_cast<std::size_t>(place - places.begin());
}

std::vector<CollectiveGroups::Group> CollectiveGroups::along(std::span<const AtStop> places, const ProgramStage& stage,
                                                             int axis) const {
  std::vector<Group> groups;
  std::vector<bool> grouped(places.size(), false);
  for (std::size_t rank = 0; rank < stage.devices.size(); ++rank) {
    if (!tasks_.represents_itself(stage.devices[rank]) || grouped[place_of(places, stage.devices[rank])]) continue;
    Group group;
    for (const int member : stage.mesh.group(static_cast<int>(rank), axis))
      group.members.push_back(place_of(places, stage.devices[static_cast<std::size_t>(member)]));
    keep_once(group.members);
    for (const std::size_t member : group.members) grouped[member] = true;
    groups.push_back(std::move(group));
  }
  return groups;
}

const std::vector<CollectiveGroups::Group>& CollectiveGroups::of(std::span<const AtStop> places, int executable,
                                                                 std::size_t p, int axis) {
  const StageId stage = tasks_.program.executables[static_cast<std::size_t>(executable)].stage;
  const CollectiveFlow* flow = flow_of(executable, p);
  if (flow == nullptr) {
    std::vector<Group>& known = along_axis_[{stage, axis}];
    // The stage's mesh alone decides the groups, so that all its executables share them.
    if (known.empty()) known = along(places, tasks_.program.stages[stage.index()], axis);
    return known;
  }
  std::vector<Group>& known = on_links_[{flow->groups, flow->on_links}];
  // With links, groups that share some are one: ProgramFlows has joined them.
  if (!known.empty()) return known;
  std::vector<bool> grouped(places.size(), false);
  for (const CollectiveGroup& group : tasks_.options.flows->groups[static_cast<std::size_t>(flow->groups)]) {
    Group made{{}, group.route, flow->on_links};
    for (const DeviceId device : group.devices) made.members.push_back(place_of(places, device));
    keep_once(made.members);
    // Folded groups are those of a class: they have the same members.
    if (grouped[made.members.front()]) continue;
    for (const std::size_t member : made.members) grouped[member] = true;
    known.push_back(std::move(made));
  }
  return known;
}

}  // namespace meshwright
