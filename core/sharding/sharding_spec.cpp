// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/sharding_spec.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/errors.h"

namespace meshwright {

AxisMask ShardingSpec::used() const {
  AxisMask all = partial;
  for (const AxisMask mask : dims) all |= mask;
  return all;
}

namespace {

std::string axes_text(AxisMask mask) {
  std::string text;
  for (int axis = 0; axis < 8; ++axis)
    if (mask >> axis & 1) text += static_cast<char>('0' + axis);
  return text;
}

}  // namespace

std::string ShardingSpec::to_text() const {
  std::string text;
  for (const AxisMask mask : dims) text += mask == 0 ? "R" : "S" + axes_text(mask);
  if (partial != 0) text += "+P" + axes_text(partial);
  return text.empty() ? "-" : text;  // a scalar
}

ShardingSpec whole_sums(ShardingSpec spec) {
  spec.partial = 0;
  return spec;
}

ShardingSpec replicated(std::size_t rank) { return ShardingSpec{std::vector<AxisMask>(rank, 0), 0}; }

ShardingSpec spec_from_text(const std::string& text, const std::string& place) {
  const auto refuse = [&] {
    throw InputError(fmt::format(
        "{}: '{}' is not a sharding spec; expected R or S with mesh axes for each dimension, such as S0R or RS01+P2.",
        place, text));
  };
  ShardingSpec spec;
  if (text == "-") return spec;
  bool partial = false;
  bool wants_axis = false;  // S and P need at least one axis
  for (const char c : text) {
    if (c >= '0' && c <= '7') {
      AxisMask* mask = partial ? &spec.partial : spec.dims.empty() ? nullptr : &spec.dims.back();
      const AxisMask bit = static_cast<AxisMask>(1 << (c - '0'));
      // Axes are written as they cut, outermost (lowest) first.
      if (mask == nullptr || (spec.used() & bit) != 0 || *mask >= bit || (!wants_axis && *mask == 0)) refuse();
      *mask = static_cast<AxisMask>(*mask | bit);
      wants_axis = false;
      continue;
    }
    if (wants_axis || partial) {
      if (!(c == 'P' && partial && spec.partial == 0 && !wants_axis)) refuse();
      wants_axis = true;
      continue;
    }
    if (c == 'R' || c == 'S') {
      spec.dims.push_back(0);
      wants_axis = c == 'S';
    } else if (c == '+') {
      partial = true;
    } else {
      refuse();
    }
  }
  if (wants_axis || (partial && spec.partial == 0) || text.empty()) refuse();
  return spec;
}

int shards(AxisMask mask, const LogicalMesh& mesh) {
  int count = 1;
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (mask >> axis & 1) count *= mesh.axes[static_cast<std::size_t>(axis)].size();
  return count;
}

int copies_in_host(const ShardingSpec& spec, const LogicalMesh& mesh) {
  int copies = 1;
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if ((spec.used() >> axis & 1) == 0) copies *= mesh.axes[static_cast<std::size_t>(axis)].inner;
  return copies;
}

bool divides(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh) {
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i].size % shards(spec.dims[i], mesh) != 0) return false;
  return true;
}

namespace {

std::optional<std::size_t> dim_named(const std::vector<Dim>& dims, const char* name) {
  const auto found = std::find_if(dims.begin(), dims.end(), [&](const Dim& dim) { return dim.name == name; });
  if (found == dims.end()) return std::nullopt;
  return static_cast<std::size_t>(found - dims.begin());
}

// Where a ring's axis does not split keys and values, they come and go in blocks.
void keep_two_blocks(std::vector<std::int64_t>& shape, const std::vector<Dim>& dims, const ShardingSpec& spec,
                     const LogicalMesh& mesh) {
  constexpr std::int64_t kBlocks = 2;
  const auto keys = dim_named(dims, kKeySequence);
  if (!keys) return;
  const int blocks = shards(static_cast<AxisMask>(mesh.contexts.rings & ~spec.dims[*keys]), mesh);
  if (blocks > kBlocks) shape[*keys] = kBlocks * tile_size(shape[*keys], blocks);
}

void fill_busiest(std::vector<std::int64_t>& shape, const std::vector<Dim>& dims, const ShardingSpec& spec,
                  const LogicalMesh& mesh) {
  const auto expert = dim_named(dims, kExperts), slots = dim_named(dims, kExpertSlots);
  if (expert && slots) shape[*slots] = busiest_slots(shape[*slots], shards(spec.dims[*expert], mesh), mesh);
}

}  // namespace

std::int64_t busiest_slots(std::int64_t slots, int parts, const LogicalMesh& mesh) {
  constexpr double kRounding = 1e-6;  // of the product, which is no slot
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(slots) * mesh.expert_load.busiest(parts) - kRounding));
}

std::vector<std::int64_t> local_shape(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh) {
  MW_CHECK(dims.size() == spec.dims.size(), "spec {} for a tensor of {} dimensions", spec.to_text(), dims.size());
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < dims.size(); ++i) shape.push_back(tile_size(dims[i].size, shards(spec.dims[i], mesh)));
  if (mesh.contexts.rings != 0) keep_two_blocks(shape, dims, spec, mesh);
  if (!mesh.expert_load.even()) fill_busiest(shape, dims, spec, mesh);
  return shape;
}

Bytes local_bytes(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh) {
  double elements = 1;
  for (const std::int64_t size : local_shape(tensor.dims, spec, mesh)) elements *= static_cast<double>(size);
  return Bytes(elements * size_of(tensor.dtype));
}

int tile_index(AxisMask mask, const LogicalMesh& mesh, const std::vector<int>& coordinates) {
  int index = 0;
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (!(mask >> axis & 1)) continue;
    const std::size_t a = static_cast<std::size_t>(axis);
    index = index * mesh.axes[a].size() + coordinates[a];
  }
  return index;
}

TileRows tile_rows(std::int64_t size, AxisMask mask, const LogicalMesh& mesh, const std::vector<int>& coordinates) {
  TileRows rows{0, size};
  std::int64_t tile = size;  // with padding, after the cuts so far
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (!(mask >> axis & 1)) continue;
    const std::size_t a = static_cast<std::size_t>(axis);
    tile = tile_size(tile, mesh.axes[a].size());
    const std::int64_t skipped = std::min(rows.count, coordinates[a] * tile);
    rows = {rows.begin + skipped, std::min(rows.count - skipped, tile)};
  }
  return rows;
}

std::vector<ShardingSpec> enumerate_specs(const std::vector<Dim>& dims, const LogicalMesh& mesh) {
  std::vector<ShardingSpec> specs = {replicated(dims.size())};
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (mesh.axes[static_cast<std::size_t>(axis)].size() == 1) continue;
    const std::size_t known = specs.size();
    for (std::size_t s = 0; s < known; ++s)
      for (std::size_t d = 0; d < dims.size(); ++d) {
        ShardingSpec spec = specs[s];
        spec.dims[d] = static_cast<AxisMask>(spec.dims[d] | 1 << axis);
        if (divides(dims, spec, mesh)) specs.push_back(std::move(spec));
      }
  }
  return specs;
}

}  // namespace meshwright
