// SPDX-License-Identifier: Apache-2.0
// A step whose logical devices share physical ones: what they compute at the same time on one of these takes turns in
// slices too short to matter, so each gets its share of the speed (processor sharing), and what they compute alone has
// all of it. A task that keeps only a part of a device busy uses no more than that part: two halves go on side by side
// at full speed. What is on no compute stream (messages, collectives) takes what it takes.
#pragma once

#include <vector>

#include "simulator/engine/task_graph.h"

namespace meshwright {

// The graph with the same tasks, under the same numbers. `physical` [device]: numbers from 0 on. `occupancy` [class]:
// the part of a device that its tasks keep busy, in (0, 1]; empty: all of it. REQUIRES: no compute task has a route.
[[nodiscard]] TaskGraph share_devices(const TaskGraph& graph, const std::vector<int>& physical,
                                      const std::vector<double>& occupancy = {});

}  // namespace meshwright
