// SPDX-License-Identifier: Apache-2.0
// A step simulated many times with jitter, and clusters with slower links.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/mesh/cluster.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

// Steps of `samples` simulations with the seeds conditions.seed, conditions.seed + 1, ..., sorted. `step_of` reads the
// step off a simulation. The same for every number of threads. REQUIRES: samples >= 1, threads >= 1.
[[nodiscard]] std::vector<SimTime> sample_steps(const TaskGraph& graph, const Conditions& conditions, int samples,
                                                int threads, const std::function<SimTime(const TaskTimes&)>& step_of);
// Rounded to a picosecond. REQUIRES: not empty.
[[nodiscard]] SimTime mean_of(const std::vector<SimTime>& steps);

// The smallest sample that at least `share` of all are not above (0 < share <= 1). REQUIRES: sorted, not empty.
[[nodiscard]] SimTime quantile(const std::vector<SimTime>& sorted, double share);

// The cluster with links of the given kind ("within-host" or "between-hosts") at `speed` times their bandwidth, in all
// groups. Throws InputError for another kind or a speed that is not positive.
[[nodiscard]] Cluster with_slower_links(Cluster cluster, const std::string& kind, double speed);

}  // namespace meshwright
