// SPDX-License-Identifier: Apache-2.0
// Every set of degrees that a framework can launch for a request.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/planner/method/framework.h"
#include "core/planner/plan_request.h"

namespace meshwright {

struct AllDegrees {
  std::vector<Degrees> legal;
  std::int64_t tried = 0;
  std::map<std::string, std::int64_t> broken;  // how many of the others break this rule first
};

// tp x cp x pp x dp is the number of devices, with tp within a host; micro-batches of up to kMaxMicroBatch samples that
// divide the batch, or the request's number of them; the request's schedule, number of stages per rank and
// recomputation, or all of the framework's. The sequence is split over tp wherever it can be: that keeps less and moves
// as much. ZeRO levels above 0 only where there are several replicas.
// REQUIRES: the request's cluster is uniform.
[[nodiscard]] AllDegrees all_degrees(const Framework& framework, const PlanRequest& request);

inline constexpr std::int64_t kMaxMicroBatch = 16;

}  // namespace meshwright
