// SPDX-License-Identifier: Apache-2.0
// The messages that bring a tensor from mesh to mesh by CrossMesh::Gather and Broadcast.
//
// In round 0 the source mesh sends; in the rounds after it the devices of the destination mesh pass on what they have.
// A tile that g devices of one host need is cut into g parts along its first dimension with as many rows: part j is
// sent to the j-th of them, and goes round a ring of g - 1 rounds (Gather). Where h hosts have g such devices each, it
// is cut into h g parts: part j h + i is sent to the j-th device of the i-th host and goes round a ring of the j-th
// devices of all hosts in h - 1 rounds, then the h parts of each device together round that of its host (Broadcast).
#pragma once

#include <vector>

#include "core/plan/cross_mesh.h"
#include "core/plan/lowering/tile_copies.h"

namespace meshwright {

struct TileMessage {
  TileCopy copy;  // in rounds after 0 both ranks are of the destination mesh, and so are the offsets in its tiles
  int round = 0;  // of a device: what it sends in a round has come in those before
  bool operator==(const TileMessage&) const = default;
};

// The hosts of the devices of both meshes, [rank].
struct HostsOfRanks {
  std::vector<int> source, destination;
};

// Every element of every destination tile is received once. A tile that one device needs, that one device of each host
// needs (Gather), or that has too few rows is sent whole; one that hosts need unequally often, or one host alone, is
// not broadcast but gathered. Of several devices that hold a part, one on the receiver's host sends it, of these the
// one that has sent the least so far, of these the first. REQUIRES: form is not Send (tile_copies).
[[nodiscard]] std::vector<TileMessage> tile_messages(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                                     const LogicalMesh& source, const ShardingSpec& destination_spec,
                                                     const LogicalMesh& destination, CrossMesh form,
                                                     const HostsOfRanks& hosts);

// Whether some tile of the spec is on several devices of the mesh: where none is, all forms are the same.
[[nodiscard]] bool has_replicas(const ShardingSpec& spec, const LogicalMesh& mesh);

}  // namespace meshwright
