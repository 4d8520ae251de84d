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
//
// Over the axes of LogicalMesh::contexts two steps are others. Keys and values travel around a ring in the place of an
// all-gather, their gradients in that of a reduce-scatter, and in no other way. And heads of a tensor that has a
// sequence are cut by an exchange's axis inside of all others: each device exchanges the heads that it has. Ops do not
// tell heads from each other, so that their order matters to nothing but to reshardings, which all keep it.
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
  bool ring = false;   // in blocks, from each device to the next: of an all-gather, or of a reduce-scatter
  bool operator==(const ReshardStep&) const = default;
};

struct Resharding {
  std::vector<ReshardStep> steps;
  Seconds time{0.0};
};

[[nodiscard]] Resharding find_resharding(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from,
                                         const ShardingSpec& to, const LogicalMesh& mesh, const CostModel& costs);

// All that a resharding on the mesh depends on of the tensor's dimensions: their sizes, and behind them, where the mesh
// tells some by their names, which of them they are.
[[nodiscard]] std::vector<std::int64_t> sizes_and_roles(const std::vector<Dim>& dims, const LogicalMesh& mesh);

// Whether the tensor's tiles do not come in the order of its heads, because an exchange's axis cuts them inside of
// others that are inner axes of the mesh.
[[nodiscard]] bool reorders_heads(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh);

// What a ring takes for all its steps: keys or values of `whole` bytes, of all devices of the axis together, n - 1
// steps; their gradients (`sums`), which come back to where they began, n. In a host a step is one of the collective,
// which goes around a ring, too; between hosts it is a message from one device to another, over its adapter, where a
// collective uses the adapters of all devices.
[[nodiscard]] Seconds ring_time(Bytes whole, bool sums, int axis, const LogicalMesh& mesh, const CostModel& costs);

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
