// SPDX-License-Identifier: Apache-2.0
// Which process runs which devices of a plan, on which host, held against the plan's own hosts.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/mesh/cluster.h"
#include "executor/peers/peers.h"

namespace meshwright {

struct ProcessPlace {
  std::string host_name;
  int host = 0;  // its number
  int first_device = 0, devices = 0;
  std::vector<int> plan_hosts;  // the plan's hosts that its devices belong to
};
// By rank; processes have blocks of neighbouring devices.
[[nodiscard]] std::vector<ProcessPlace> process_places(const Cluster& cluster, const Peers& peers);

// Throws InputError where devices of one host of the plan would run on several hosts: their messages would take the
// network, which the plan has them not take. `path`: of the plan.
void expect_hosts_of_plan(const Cluster& cluster, const std::vector<ProcessPlace>& places, const std::string& path);
// Whether the plan's hosts are as many hosts here, which its prediction supposes.
[[nodiscard]] bool has_hosts_of_plan(const Cluster& cluster, const std::vector<ProcessPlace>& places);

// A line "# process 1 on b: devices 4-7, of the plan's host 1" for each.
[[nodiscard]] std::string places_text(const std::vector<ProcessPlace>& places);
[[nodiscard]] Json places_json(const std::vector<ProcessPlace>& places);

}  // namespace meshwright
