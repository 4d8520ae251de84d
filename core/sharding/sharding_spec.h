// SPDX-License-Identifier: Apache-2.0
// ShardingSpec: the layout of one tensor on a logical mesh. Each dimension is split over a set of mesh axes (ascending
// axes, the lowest is the outermost cut); the tensor may also be a partial result still to be summed (or maximised)
// over some axes.
//
// A dimension of d that is split into n tiles has ceil(d / n) rows in each: where n does not divide d, the last tiles
// end in padding, or are padding alone. The tiles of several axes are nested: each axis cuts the tiles of the axes
// outside of it. Padding is zero wherever a tensor is kept; it is never read as part of the tensor, but moved with its
// tile. Only parameters, their gradients and their optimizer state may be split so; ops are split evenly.
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
// How many devices of one host hold the same tile.
[[nodiscard]] int copies_in_host(const ShardingSpec& spec, const LogicalMesh& mesh);
// Rows of a tile when `size` are split into `parts`: rounded up.
[[nodiscard]] constexpr std::int64_t tile_size(std::int64_t size, std::int64_t parts) {
  return (size + parts - 1) / parts;
}
// The dimension of keys and values along their sequence; of experts; of the slots that each has for tokens.
inline constexpr const char *kKeySequence = "kv_seq", *kExperts = "expert", *kExpertSlots = "capacity";
// Sizes of one device's tile, with its padding. Of slots of experts that several devices share, those of the busiest
// (ExpertLoad); of keys, values and their gradients that travel around a ring instead of being gathered, two blocks.
[[nodiscard]] std::vector<std::int64_t> local_shape(const std::vector<Dim>& dims, const ShardingSpec& spec,
                                                    const LogicalMesh& mesh);
[[nodiscard]] bool divides(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh);
// The slots for tokens that experts have on the busiest of `parts` devices, where they have `slots` on average.
[[nodiscard]] std::int64_t busiest_slots(std::int64_t slots, int parts, const LogicalMesh& mesh);
// The bytes of one device's tile, with its padding.
[[nodiscard]] Bytes local_bytes(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh);
// Which tile of a dim split by `mask` the device at `coordinates` holds.
[[nodiscard]] int tile_index(AxisMask mask, const LogicalMesh& mesh, const std::vector<int>& coordinates);
// The rows of a dimension of `size` that the device at `coordinates` holds when `mask` splits it: `count` from `begin`
// on, at the head of its tile; the rest of the tile is padding.
struct TileRows {
  std::int64_t begin, count;
  bool operator==(const TileRows&) const = default;
};
[[nodiscard]] TileRows tile_rows(std::int64_t size, AxisMask mask, const LogicalMesh& mesh,
                                 const std::vector<int>& coordinates);
// Every spec without partial sums that divides, each mesh axis used at most once; replicated first.
[[nodiscard]] std::vector<ShardingSpec> enumerate_specs(const std::vector<Dim>& dims, const LogicalMesh& mesh);

}  // namespace meshwright
