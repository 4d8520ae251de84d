// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/resharding.h"

#include <algorithm>
#include <map>
#include <queue>

#include "core/base/errors.h"

namespace meshwright {

namespace {

struct Arc {
  ReshardStep step;
  Seconds time;
};

// Bytes of one device's tile; partial axes do not shrink it.
Bytes tile_bytes(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& spec, const LogicalMesh& mesh) {
  double elements = 1;
  for (const std::int64_t size : local_shape(dims, spec, mesh)) elements *= static_cast<double>(size);
  return Bytes(elements * size_of(dtype));
}

// The innermost cut of a dimension is its highest axis; a new cut must be inside the existing ones to keep tiles
// contiguous.
bool is_innermost(AxisMask mask, int axis) { return (mask >> axis) == 1; }
bool may_cut_inside(AxisMask mask, int axis) { return (mask >> axis) == 0; }

class StepFinder {
 public:
  StepFinder(const std::vector<Dim>& dims, DType dtype, const LogicalMesh& mesh, const CostModel& costs)
      : dims_(dims), dtype_(dtype), mesh_(mesh), costs_(costs) {}

  std::vector<Arc> arcs(const ShardingSpec& spec) const {
    std::vector<Arc> found;
    for (int axis = 0; axis < mesh_.rank(); ++axis) {
      if (mesh_.axes[index(axis)].size() == 1) continue;
      const AxisMask bit = static_cast<AxisMask>(1 << axis);
      if (spec.partial & bit)
        from_partial(spec, axis, found);
      else if (spec.used() & bit)
        from_split(spec, axis, found);
      else
        slices(spec, axis, found);
    }
    return found;
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  Seconds price(CollectiveKind kind, const ShardingSpec& of, int axis) const {
    return costs_.collective(kind, tile_bytes(dims_, dtype_, of, mesh_), mesh_.axes[index(axis)]).time;
  }

  // `spec` with dimension `dim` cut by `axis`, if tiles stay contiguous and whole.
  std::optional<ShardingSpec> cut(ShardingSpec spec, int dim, int axis) const {
    AxisMask& mask = spec.dims[index(dim)];
    if (!may_cut_inside(mask, axis)) return std::nullopt;
    mask = static_cast<AxisMask>(mask | 1 << axis);
    if (!divides(dims_, spec, mesh_)) return std::nullopt;
    return spec;
  }

  void from_partial(const ShardingSpec& spec, int axis, std::vector<Arc>& found) const {
    ShardingSpec summed = spec;
    summed.partial = static_cast<AxisMask>(summed.partial & ~(1 << axis));
    found.push_back(
        {{ReshardStep::Kind::AllReduce, axis, -1, -1, summed}, price(CollectiveKind::AllReduce, spec, axis)});
    for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim)
      if (const auto after = cut(summed, dim, axis))
        found.push_back({{ReshardStep::Kind::ReduceScatter, axis, -1, dim, *after},
                         price(CollectiveKind::ReduceScatter, spec, axis)});
  }

  void from_split(const ShardingSpec& spec, int axis, std::vector<Arc>& found) const {
    for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim) {
      if (!is_innermost(spec.dims[index(dim)], axis)) continue;
      ShardingSpec gathered = spec;
      AxisMask& mask = gathered.dims[index(dim)];
      mask = static_cast<AxisMask>(mask & ~(1 << axis));
      found.push_back(
          {{ReshardStep::Kind::AllGather, axis, dim, -1, gathered}, price(CollectiveKind::AllGather, gathered, axis)});
      for (int to = 0; to < static_cast<int>(dims_.size()); ++to) {
        if (to == dim) continue;
        if (const auto after = cut(gathered, to, axis))
          found.push_back(
              {{ReshardStep::Kind::AllToAll, axis, dim, to, *after}, price(CollectiveKind::AllToAll, spec, axis)});
      }
    }
  }

  void slices(const ShardingSpec& spec, int axis, std::vector<Arc>& found) const {
    for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim)
      if (const auto after = cut(spec, dim, axis))
        found.push_back({{ReshardStep::Kind::Slice, axis, -1, dim, *after}, Seconds(0)});
  }

  const std::vector<Dim>& dims_;
  DType dtype_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
};

// A step is worth a picosecond more than it costs, so that of sequences that are equally cheap up to rounding the
// shortest is found (a ring's all-reduce costs exactly its two halves).
constexpr double kHair = 1e-12;
struct Distance {
  double seconds;
  int steps;
  [[nodiscard]] double length() const { return seconds + kHair * steps; }
  auto operator<=>(const Distance& other) const { return length() <=> other.length(); }
  bool operator==(const Distance& other) const { return length() == other.length(); }
};

struct Reached {
  Distance distance;
  std::optional<std::pair<ShardingSpec, ReshardStep>> by;
};

}  // namespace

std::vector<Resharding> find_reshardings(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from,
                                         const std::vector<ShardingSpec>& targets, const LogicalMesh& mesh,
                                         const CostModel& costs) {
  const StepFinder finder(dims, dtype, mesh, costs);
  std::map<ShardingSpec, Reached> reached = {{from, {{0.0, 0}, std::nullopt}}};
  using Entry = std::pair<Distance, ShardingSpec>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> frontier;
  frontier.push({{0.0, 0}, from});
  while (!frontier.empty()) {
    const auto [distance, spec] = frontier.top();
    frontier.pop();
    if (reached.at(spec).distance < distance) continue;
    for (Arc& arc : finder.arcs(spec)) {
      const Distance next{distance.seconds + arc.time.si(), distance.steps + 1};
      const auto known = reached.find(arc.step.after);
      if (known != reached.end() && known->second.distance <= next) continue;
      const ShardingSpec after = arc.step.after;
      reached.insert_or_assign(after, Reached{next, std::pair{spec, std::move(arc.step)}});
      frontier.push({next, after});
    }
  }

  std::vector<Resharding> found;
  for (const ShardingSpec& target : targets) {
    const auto end = reached.find(target);
    MW_CHECK(end != reached.end(), "no way from {} to {}", from.to_text(), target.to_text());
    Resharding way;
    way.time = Seconds(end->second.distance.seconds);
    for (const Reached* at = &end->second; at->by; at = &reached.at(at->by->first)) way.steps.push_back(at->by->second);
    std::reverse(way.steps.begin(), way.steps.end());
    found.push_back(std::move(way));
  }
  return found;
}

Resharding find_resharding(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from, const ShardingSpec& to,
                           const LogicalMesh& mesh, const CostModel& costs) {
  if (from == to) return {};
  return find_reshardings(dims, dtype, from, {to}, mesh, costs).front();
}

}  // namespace meshwright
