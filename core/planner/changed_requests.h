// SPDX-License-Identifier: Apache-2.0
// Requests with one thing changed, so that a plan may take less memory (ways_out.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/planner/ways_out.h"

namespace meshwright {

struct RequestChange {
  std::string change;  // as WayOut has it
  PlanRequest request;
};
// Ever larger changes of one sort: the first that fits is the way out.
struct ChangeLadder {
  WayOut::Kind kind;
  std::vector<RequestChange> steps;
  std::optional<std::size_t> way = {};  // the smallest change known to fit, in WaysOut::ways
};

// Those that find_ways_out lists, without what cannot fit, as the weights and the optimizer state that stay on the
// devices are too large by themselves.
[[nodiscard]] std::vector<ChangeLadder> change_ladders(const PlanRequest& request);

}  // namespace meshwright
