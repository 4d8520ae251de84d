// SPDX-License-Identifier: Apache-2.0
// Resharding within a mesh: the cheapest sequence of collectives that turns one ShardingSpec of a tensor into another.
//
// Dijkstra's algorithm: the nodes are specs, the arcs single steps over one mesh axis, the weights their costs.
// Planner, simulator and executor use the same sequence. Steps split and join only the innermost cut of a dimension, so
// tiles stay contiguous.
//
// Where a cut does not divide, a step moves whole tiles with their padding, and costs that: a reduce-scatter or slice
// appends zeros, an all-gather leaves the padding out. Only reduce-scatters, slices and all-gathers do so, and only on
// the way to a spec that is padded there, or away from one.
#pragma once

#include <vector>

#include "core/sharding/cost_model.h"
#include "core/sharding/sharding_spec.h"

namespace meshwright {

struct ReshardStep {
  enum class Kind {
    AllReduce,      // partial over axis -> summed everywhere
    ReduceScatter,  // partial over axis -> summed, dim `to_dim` split by axis
    AllGather,      // dim `from_dim` split by axis (innermost) -> whole
    AllToAll,       // dim `from_dim` split by axis -> dim `to_dim` split by axis
    Slice,          // dim `to_dim` split by axis: every device keeps its part; free
  } kind;
  int axis;
  int from_dim = -1;
  int to_dim = -1;
  ShardingSpec after;  // the spec once the step is done
  bool operator==(const ReshardStep&) const = default;
};

struct Resharding {
  std::vector<ReshardStep> steps;
  Seconds time{0.0};
};

[[nodiscard]] Resharding find_resharding(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from,
                                         const ShardingSpec& to, const LogicalMesh& mesh, const CostModel& costs);

// For several targets: result[t] is the cheapest sequence from `from` to `targets[t]`.
[[nodiscard]] std::vector<Resharding> find_reshardings(const std::vector<Dim>& dims, DType dtype,
                                                       const ShardingSpec& from,
                                                       const std::vector<ShardingSpec>& targets,
                                                       const LogicalMesh& mesh, const CostModel& costs);

// Their times alone.
[[nodiscard]] std::vector<Seconds> resharding_times(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from,
                                                    const std::vector<ShardingSpec>& targets, const LogicalMesh& mesh,
                                                    const CostModel& costs);

}  // namespace meshwright
