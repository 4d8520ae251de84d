// SPDX-License-Identifier: Apache-2.0
// What `meshwright profile` measures: every op of a model's training graph at every local shape that a plan on the
// cluster could give it, each kind of work once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/mesh/cluster.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

struct OpToMeasure {
  std::shared_ptr<const Graph> graph;
  OpId op;
  std::vector<std::int64_t> local_sizes;
  OpWork work;
};

// Logical mesh shapes of every submesh of the cluster, each shape once, in ascending order.
[[nodiscard]] std::vector<std::vector<int>> logical_shapes(const Cluster& cluster);

// Every op of the graphs, split in every way in which each axis of a logical mesh splits one splittable axis of the op
// evenly (or none); one per OpWork::signature, cheapest first: by flops, then bytes, then signature.
[[nodiscard]] std::vector<OpToMeasure> ops_to_measure(const std::vector<std::shared_ptr<const Graph>>& graphs,
                                                      const std::vector<std::vector<int>>& shapes);

// Sizes of the mesh axes that collectives run over: those of the shapes, and every number of ranks up to eight.
[[nodiscard]] std::vector<int> collective_ranks(const std::vector<std::vector<int>>& shapes, int devices);

}  // namespace meshwright
