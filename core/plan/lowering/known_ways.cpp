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

const std::vector<TileCopy>& LoweringState::copies_of(const Crossing& crossing) {
  const Tensor& whole = graph.tensor(crossing.tensor);
  const ShardingSpec& source = program.buffers[crossing.source.index()].local.spec;
  const ShardingSpec& destination = program.buffers[crossing.destination.index()].local.spec;
  // Tiles are found by their place in the tensor.
  const bool reordered = reorders_heads(whole.dims, source, mesh(crossing.from)) ||
                         reorders_heads(whole.dims, destination, mesh(crossing.to));
  require(!reordered || source == destination,
          "'{}' crosses from stage {} to {} while its heads are exchanged (cp-comm=a2a); give other layers, or "
          "cp-comm=all-gather.",
          whole.name, crossing.from, crossing.to);
  const bool one_rank = stages.on_one_rank(crossing.from, crossing.to);
  const auto [known, is_new] =
      known_copies.try_emplace({sizes_of(whole), like_mesh[static_cast<std::size_t>(crossing.from)], source,
                                like_mesh[static_cast<std::size_t>(crossing.to)], destination, one_rank});
  if (is_new)
    known->second = tile_copies(whole.dims, source, mesh(crossing.from), destination, mesh(crossing.to), one_rank);
  return known->second;
}

}  // namespace meshwright
