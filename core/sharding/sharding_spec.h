// SPDX-License-Identifier: Apache-2.0
// ShardingSpec: the layout of one tensor on a logical mesh. Each dimension is split over a set of mesh axes (ascending
// axes, the lowest is the outermost cut); the tensor may also be a partial result still to be summed (or maximised)
// over some axes.
//
// Text form: one letter group per dimension, R or S with the axes, then the partial axes: "S0R", "RS01", "RR+P0".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/mesh/submesh.h"

namespace meshwright {

using AxisMask = std::uint8_t;  // bit a = mesh axis a

struct ShardingSpec {
  std::vector<AxisMask> dims;
  AxisMask partial = 0;

  auto operator<=>(const ShardingSpec&) const = default;
  [[nodiscard]] AxisMask used() const;  // every axis that splits or is partial
  [[nodiscard]] std::string to_text() const;
};

[[nodiscard]] ShardingSpec replicated(std::size_t rank);
// Split as `spec`, its partial sums summed.
[[nodiscard]] ShardingSpec whole_sums(ShardingSpec spec);
// Throws InputError naming `place` when the text is not a spec.
[[nodiscard]] ShardingSpec spec_from_text(const std::string& text, const std::string& place);

// Number of shards a mask makes on a mesh.
[[nodiscard]] int shards(AxisMask mask, const LogicalMesh& mesh);
// Sizes of one device's tile. REQUIRES: every dim divides.
[[nodiscard]] std::vector<std::int64_t> local_shape(const std::vector<Dim>& dims, const ShardingSpec& spec,
                                                    const LogicalMesh& mesh);
[[nodiscard]] bool divides(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh);
[[nodiscard]] Bytes local_bytes(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh);
// Which tile of a dim split by `mask` the device at `coordinates` holds.
[[nodiscard]] int tile_index(AxisMask mask, const LogicalMesh& mesh, const std::vector<int>& coordinates);
// Every spec without partial sums that divides, each mesh axis used at most once; replicated first.
[[nodiscard]] std::vector<ShardingSpec> enumerate_specs(const std::vector<Dim>& dims, const LogicalMesh& mesh);

}  // namespace meshwright
