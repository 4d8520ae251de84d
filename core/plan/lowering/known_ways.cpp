// SPDX-License-Identifier: Apache-2.0
// Layers repeat: what a tensor has to go through is found once and remembered by all that it depends on.
#include "core/base/errors.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

std::vector<std::int64_t> sizes_of(const Tensor& tensor) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(tensor.dims.size());
  for (const Dim& dim : tensor.dims) sizes.push_back(dim.size);
  return sizes;
}

}  // namespace

const Resharding& LoweringState::way(int stage, TensorId tensor, const ShardingSpec& from, const ShardingSpec& to) {
  const Tensor& whole = graph.tensor(tensor);
  const int mesh_of = like_mesh[static_cast<std::size_t>(stage)];
  const auto [known, is_new] =
      known_ways.try_emplace({mesh_of, whole.dtype, sizes_and_roles(whole.dims, mesh(stage)), from, to});
  if (is_new) known->second = find_resharding(whole.dims, whole.dtype, from, to, mesh(stage), costs);
  return known->second;
}

std::vector<int> LoweringState::hosts_of(int stage) const {
  std::vector<int> hosts;
  for (const int device : stage_plan(stage).devices) hosts.push_back(plan.cluster.host_of_device(device));
  return hosts;
}

CrossMesh LoweringState::form_of(const Crossing& crossing) const {
  if (crossing.phase == Phase::Update || stages.on_one_rank(crossing.from, crossing.to)) return CrossMesh::Send;
  const auto& forms = stage_plan(crossing.to).cross_mesh;
  const auto found = forms.find(crossing.from);
  return found == forms.end() ? CrossMesh::Send : found->second;
}

const std::vector<TileMessage>& LoweringState::messages_of(const Crossing& crossing) {
  const Tensor& whole = graph.tensor(crossing.tensor);
  const LocalTensor& tile = program.buffers[crossing.source.index()].local;
  const ShardingSpec& source = tile.spec;
  const ShardingSpec& destination = program.buffers[crossing.destination.index()].local.spec;
  // Between copies of one stage: every tile, be it a partial sum or end in padding, to the device in its place.
  if (stages.original(crossing.from) == stages.original(crossing.to) && source == destination) {
    const int ranks = mesh(crossing.from).devices();
    std::vector<TileMessage>& between = messages_of_copies[tile.shape][ranks];
    const std::vector<std::int64_t> begin(tile.shape.size(), 0);
    for (int rank = static_cast<int>(between.size()); rank < ranks; ++rank)
      between.push_back({{rank, rank, begin, begin, tile.shape}, 0});
    return between;
  }
  // Tiles are found by their place in the tensor.
  const bool reordered = reorders_heads(whole.dims, source, mesh(crossing.from)) ||
                         reorders_heads(whole.dims, destination, mesh(crossing.to));
  require(!reordered || source == destination,
          "'{}' crosses from stage {} to {} while its heads are exchanged (cp-comm=a2a); give other layers, or "
          "cp-comm=all-gather.",
          whole.name, crossing.from, crossing.to);
  const bool one_rank = stages.on_one_rank(crossing.from, crossing.to);
  const CrossMesh form = form_of(crossing);
  const auto key_of = [&](int stage) {
    return form == CrossMesh::Send ? like_mesh[static_cast<std::size_t>(stage)] : stage;
  };
  const auto [known, is_new] = known_messages.try_emplace(
      {sizes_of(whole), key_of(crossing.from), source, key_of(crossing.to), destination, one_rank, form});
  if (!is_new) return known->second;
  const LogicalMesh &from = mesh(crossing.from), &to = mesh(crossing.to);
  if (form == CrossMesh::Send) {
    for (TileCopy& copy : tile_copies(whole.dims, source, from, destination, to, one_rank))
      known->second.push_back({std::move(copy), 0});
  } else {
    known->second = tile_messages(whole.dims, source, from, destination, to, form,
                                  {hosts_of(crossing.from), hosts_of(crossing.to)});
  }
  return known->second;
}

}  // namespace meshwright
