// SPDX-License-Identifier: Apache-2.0
// Which degrees to plan first when a search is stopped before it has a plan.
#pragma once

#include <vector>

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/planner/method/framework.h"

namespace meshwright {

// What all devices of one replica hold together.
struct ReplicaBytes {
  Bytes weights{0.0}, states{0.0};  // gradients are as large as the weights
};

// Without what lies on hosts.
[[nodiscard]] ReplicaBytes bytes_of_replica(const Graph& graph);

// The bytes of weights, gradients and optimizer state on a device, where all divide evenly. With experts nearly all
// weights are theirs.
[[nodiscard]] Bytes state_estimate(const Degrees& degrees, const ReplicaBytes& replica);

// The degrees in the order in which a person would try them: first those whose state takes at most half of the memory,
// of these those that recompute the most and have the smallest micro-batches, then those with the most replicas, and
// of equal replicas with the most tensor parallelism. So the first mostly fits. Equal ones stay as they are.
[[nodiscard]] std::vector<Degrees> in_order_of_trial(std::vector<Degrees> degrees, const ReplicaBytes& replica,
                                                     Bytes usable);

}  // namespace meshwright
