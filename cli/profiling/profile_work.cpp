// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/profile_work.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/mesh/submesh.h"

namespace meshwright {

std::vector<std::vector<int>> logical_shapes(const Cluster& cluster) {
  std::set<std::vector<int>> shapes;
  for (const Submesh& submesh : enumerate_submeshes(cluster, SubmeshSpace::All))
    for (const std::vector<int>& shape : enumerate_logical_shapes(submesh, LogicalMeshSpace::All)) shapes.insert(shape);
  return {shapes.begin(), shapes.end()};
}

namespace {

using Sizes = std::vector<std::int64_t>;

// Adds to `found` what becomes of `sizes` when the mesh axes from `axis` on are given out.
void split_further(const IterationSpace& space, const std::vector<int>& shape, std::size_t axis, const Sizes& sizes,
                   std::set<Sizes>& found) {
  if (axis == shape.size()) {
    found.insert(sizes);
    return;
  }
  split_further(space, shape, axis + 1, sizes, found);
  if (shape[axis] == 1) return;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!space.axes[i].splittable || sizes[i] % shape[axis] != 0) continue;
    Sizes smaller = sizes;
    smaller[i] /= shape[axis];
    split_further(space, shape, axis + 1, smaller, found);
  }
}

std::set<Sizes> local_sizes_of(const IterationSpace& space, const std::vector<std::vector<int>>& shapes) {
  Sizes whole;
  for (const IterationAxis& axis : space.axes) whole.push_back(axis.size);
  std::set<Sizes> found;
  for (const std::vector<int>& shape : shapes) split_further(space, shape, 0, whole, found);
  return found;
}

}  // namespace

std::vector<OpToMeasure> ops_to_measure(const std::vector<std::shared_ptr<const Graph>>& graphs,
                                        const std::vector<std::vector<int>>& shapes) {
  std::vector<OpToMeasure> ops;
  std::set<std::string> known;
  for (const auto& graph : graphs)
    for (const Op& op : graph->ops())
      for (const Sizes& sizes : local_sizes_of(iteration_space(*graph, op), shapes)) {
        OpWork work = op_work(*graph, op, sizes);
        if (known.insert(work.signature).second) ops.push_back({graph, op.id, sizes, std::move(work)});
      }
  std::sort(ops.begin(), ops.end(), [](const OpToMeasure& a, const OpToMeasure& b) {
    return std::tie(a.work.flops, a.work.bytes, a.work.signature) <
           std::tie(b.work.flops, b.work.bytes, b.work.signature);
  });
  return ops;
}

std::vector<int> collective_ranks(const std::vector<std::vector<int>>& shapes, int devices) {
  std::set<int> ranks;
  for (int n = 2; n <= std::min(devices, 8); ++n) ranks.insert(n);
  for (const std::vector<int>& shape : shapes)
    for (const int size : shape)
      if (size > 1) ranks.insert(size);
  return {ranks.begin(), ranks.end()};
}

}  // namespace meshwright
