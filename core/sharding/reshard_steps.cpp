// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/reshard_steps.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::reshard {

namespace {

// The innermost cut of a dimension is its highest axis; a new cut must be inside the existing ones to keep tiles
// contiguous.
bool is_innermost(AxisMask mask, int axis) { return (mask >> axis) == 1; }
bool may_cut_inside(AxisMask mask, int axis) { return (mask >> axis) == 0; }

}  // namespace

std::optional<ExchangedDims> exchanged_dims(const std::vector<Dim>& dims, const LogicalMesh& mesh) {
  ExchangedDims found;
  if (mesh.contexts.exchanges == 0) return std::nullopt;
  const int parts = shards(mesh.contexts.exchanges, mesh);
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    const Dim& dim = dims[static_cast<std::size_t>(d)];
    if (dim.name == "heads" || dim.name == "kv_heads") found.heads = d;
    if ((dim.name == "seq" || dim.name == kKeySequence) && dim.size % parts == 0) found.sequences.push_back(d);
  }
  if (found.heads < 0 || found.sequences.empty()) return std::nullopt;
  found.axes = mesh.contexts.exchanges;
  return found;
}

StepFinder::StepFinder(const std::vector<Dim>& dims, DType dtype, const std::vector<ShardingSpec>& targets,
                       const LogicalMesh& mesh, const CostModel& costs)
    : dims_(dims), dtype_(dtype), mesh_(mesh), costs_(costs.on(mesh.of.group)) {
  MW_CHECK(dims.size() <= kMaxDims, "a tensor of {} dimensions", dims.size());
  for (int mask = 0; mask < 1 << mesh.rank(); ++mask) shards_.push_back(shards(static_cast<AxisMask>(mask), mesh));
  for (const ShardingSpec& target : targets) allow_padding_of(target);
  for (int d = 0; d < static_cast<int>(dims.size()); ++d)
    if (dims[static_cast<std::size_t>(d)].name == kKeySequence) keys_ = d;
  exchanged_ = exchanged_dims(dims, mesh);
}

Layout StepFinder::layout_of(const ShardingSpec& spec) const {
  MW_CHECK(spec.dims.size() == dims_.size(), "spec {} for a tensor of {} dimensions", spec.to_text(), dims_.size());
  Layout layout;
  std::copy(spec.dims.begin(), spec.dims.end(), layout.dims.begin());
  layout.partial = spec.partial;
  return layout;
}

void StepFinder::arcs(const Layout& layout, std::vector<Arc>& found) const {
  found.clear();
  AxisMask split = 0;
  for (const AxisMask mask : layout.dims) split = static_cast<AxisMask>(split | mask);
  for (int axis = 0; axis < mesh_.rank(); ++axis) {
    if (mesh_.axes[axis].size() == 1) continue;
    if (layout.partial >> axis & 1)
      from_partial(layout, axis, found);
    else if (split >> axis & 1)
      from_split(layout, axis, found);
    else
      slices(layout, axis, found);
  }
}

// Cuts are made from the outermost in: on the way to a padded one are those of its outer axes.
void StepFinder::allow_padding_of(const ShardingSpec& target) {
  for (std::size_t d = 0; d < std::min(dims_.size(), target.dims.size()); ++d)
    for (int axis = 0; axis < mesh_.rank(); ++axis) {
      const auto outer = static_cast<AxisMask>(target.dims[d] & ((2 << axis) - 1));
      if ((target.dims[d] >> axis & 1) != 0 && is_padded(d, outer)) padded_.emplace_back(d, outer);
    }
}

// The bytes of one device's tile; partial axes do not shrink it.
Bytes StepFinder::tile_bytes(const Layout& of) const {
  double elements = 1;
  if (mesh_.expert_load.even())
    for (std::size_t d = 0; d < dims_.size(); ++d) elements *= static_cast<double>(tile(of, d));
  else
    for (const std::int64_t size : local_shape(dims_, spec_of(of), mesh_)) elements *= static_cast<double>(size);
  return Bytes(elements * size_of(dtype_));
}
Seconds StepFinder::cost(CollectiveKind kind, const Layout& of, int axis) const {
  return costs_.collective(kind, tile_bytes(of), mesh_.axes[axis]).time;
}
// For the tiles, with their padding, of all devices of the axis.
Seconds StepFinder::cost_of_tiles(CollectiveKind kind, const Layout& of, int axis) const {
  return costs_.collective(kind, static_cast<double>(mesh_.axes[axis].size()) * tile_bytes(of), mesh_.axes[axis]).time;
}

// `layout` with dimension `dim` split by `axis`, if tiles stay contiguous and divide evenly or may be padded.
std::optional<Layout> StepFinder::cut(Layout layout, int dim, int axis, Padding padding) const {
  AxisMask& mask = layout.dims[dim];
  if (!may_cut_inside(mask, axis) || is_inside_exchange(layout, dim, axis)) return std::nullopt;
  mask = static_cast<AxisMask>(mask | 1 << axis);
  if (!is_padded(dim, mask)) return layout;
  if (padding == Padding::None ||
      std::find(padded_.begin(), padded_.end(), std::pair{static_cast<std::size_t>(dim), mask}) == padded_.end())
    return std::nullopt;
  return layout;
}

// Whether keys and values travel around a ring over this axis, so that they are never gathered or summed over it.
bool StepFinder::is_ring(int axis) const {
  return keys_ >= 0 && (mesh_.contexts.rings >> axis & 1) != 0 &&
         !is_padded(static_cast<std::size_t>(keys_), static_cast<AxisMask>(1 << axis));
}
Seconds StepFinder::ring(const Layout& block, bool sums, int axis) const {
  return ring_time(static_cast<double>(mesh_.axes[axis].size()) * tile_bytes(block), sums, axis, mesh_, costs_);
}
void StepFinder::from_ring(const Layout& layout, int axis, std::vector<Arc>& found) const {
  Layout after = layout;
  if (layout.partial >> axis & 1) {
    after.partial = static_cast<AxisMask>(after.partial & ~(1 << axis));
    if (const auto sum = cut(after, keys_, axis, Padding::None))
      found.push_back({ReshardStep::Kind::ReduceScatter, axis, -1, keys_, *sum, ring(*sum, true, axis), true});
    return;
  }
  AxisMask& mask = after.dims[static_cast<std::size_t>(keys_)];
  if (!is_innermost(mask, axis)) return;
  mask = static_cast<AxisMask>(mask & ~(1 << axis));
  found.push_back({ReshardStep::Kind::AllGather, axis, keys_, -1, after, ring(layout, false, axis), true});
}

// All-to-alls between a sequence and heads that inner axes cut, too.
void StepFinder::exchange_heads(const Layout& layout, int axis, std::vector<Arc>& found) const {
  const int heads = exchanged_->heads;
  const Seconds time = cost(CollectiveKind::AllToAll, layout, axis);
  for (const int sequence : exchanged_->sequences) {
    const bool opens = is_innermost(layout.dims[sequence], axis) && !may_cut_inside(layout.dims[heads], axis);
    const bool closes = (layout.dims[heads] >> axis & 1) != 0 && !is_innermost(layout.dims[heads], axis) &&
                        may_cut_inside(layout.dims[sequence], axis);
    if (!opens && !closes) continue;
    const int from = opens ? sequence : heads, to = opens ? heads : sequence;
    Layout after = layout;
    after.dims[from] = static_cast<AxisMask>(after.dims[from] & ~(1 << axis));
    after.dims[to] = static_cast<AxisMask>(after.dims[to] | 1 << axis);
    if (!is_padded(from, layout.dims[from]) && !is_padded(to, after.dims[to]))
      found.push_back({ReshardStep::Kind::AllToAll, axis, from, to, after, time});
  }
}
// Whether the axis would cut heads inside of an exchange, or join such heads.
bool StepFinder::is_inside_exchange(const Layout& layout, int dim, int axis) const {
  return exchanged_ && dim == exchanged_->heads && (exchanged_->axes >> axis & 1) == 0 &&
         (layout.dims[dim] & exchanged_->axes) != 0;
}

void StepFinder::from_partial(const Layout& layout, int axis, std::vector<Arc>& found) const {
  if (is_ring(axis)) return from_ring(layout, axis, found);
  Layout summed = layout;
  summed.partial = static_cast<AxisMask>(summed.partial & ~(1 << axis));
  found.push_back({ReshardStep::Kind::AllReduce, axis, -1, -1, summed, cost(CollectiveKind::AllReduce, layout, axis)});
  const Seconds scatter = cost(CollectiveKind::ReduceScatter, layout, axis);
  for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim)
    if (const auto after = cut(summed, dim, axis, Padding::WhereAllowed)) {
      const bool padded = is_padded(dim, after->dims[dim]);
      found.push_back({ReshardStep::Kind::ReduceScatter, axis, -1, dim, *after,
                       padded ? cost_of_tiles(CollectiveKind::ReduceScatter, *after, axis) : scatter});
    }
}

void StepFinder::from_split(const Layout& layout, int axis, std::vector<Arc>& found) const {
  if (is_ring(axis) && (layout.dims[static_cast<std::size_t>(keys_)] >> axis & 1) != 0)
    return from_ring(layout, axis, found);
  if (exchanged_ && (exchanged_->axes >> axis & 1) != 0) exchange_heads(layout, axis, found);
  for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim) {
    if (!is_innermost(layout.dims[dim], axis) || is_inside_exchange(layout, dim, axis)) continue;
    Layout gathered = layout;
    AxisMask& mask = gathered.dims[dim];
    mask = static_cast<AxisMask>(mask & ~(1 << axis));
    found.push_back({ReshardStep::Kind::AllGather, axis, dim, -1, gathered,
                     cost_of_tiles(CollectiveKind::AllGather, layout, axis)});
    if (is_padded(dim, layout.dims[dim])) continue;
    const Seconds exchange = cost(CollectiveKind::AllToAll, layout, axis);
    for (int to = 0; to < static_cast<int>(dims_.size()); ++to) {
      if (to == dim) continue;
      if (const auto after = cut(gathered, to, axis, Padding::None)) {
        // The busiest of the devices that share experts gets more than it gives.
        const bool more = !mesh_.expert_load.even() && tile_bytes(*after) > tile_bytes(layout);
        found.push_back({ReshardStep::Kind::AllToAll, axis, dim, to, *after,
                         more ? cost(CollectiveKind::AllToAll, *after, axis) : exchange});
      }
    }
  }
}

void StepFinder::slices(const Layout& layout, int axis, std::vector<Arc>& found) const {
  for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim)
    if (const auto after = cut(layout, dim, axis, Padding::WhereAllowed))
      found.push_back({ReshardStep::Kind::Slice, axis, -1, dim, *after, Seconds(0)});
}

}  // namespace meshwright::reshard
