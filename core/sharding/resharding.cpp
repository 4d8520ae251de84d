// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/resharding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <map>
#include <queue>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// A ShardingSpec of at most kMaxDims dimensions that is copied and compared without touching the heap: the search
// makes thousands. Orders as the spec does.
constexpr std::size_t kMaxDims = 15;
struct Layout {
  std::array<AxisMask, kMaxDims> dims{};
  AxisMask partial = 0;
  bool operator==(const Layout&) const = default;
  // Byte by byte, as two big-endian words: comparing is most of the search.
  std::strong_ordering operator<=>(const Layout& other) const {
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(*this);
    const auto others = std::bit_cast<std::array<std::uint64_t, 2>>(other);
    if (words[0] != others[0]) return __builtin_bswap64(words[0]) <=> __builtin_bswap64(others[0]);
    return __builtin_bswap64(words[1]) <=> __builtin_bswap64(others[1]);
  }
};
static_assert(sizeof(Layout) == 16 && std::endian::native == std::endian::little);

struct Arc {
  ReshardStep::Kind kind;
  int axis, from_dim, to_dim;
  Layout after;
  Seconds time;
  bool ring = false;
};

// The dimensions of heads and of sequences in a tensor that has both, and the axes that exchange them.
struct Exchanged {
  int heads = -1;
  std::vector<int> sequences = {};
  AxisMask axes = 0;
};
std::optional<Exchanged> exchanged_dims(const std::vector<Dim>& dims, const LogicalMesh& mesh) {
  Exchanged found;
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

// The innermost cut of a dimension is its highest axis; a new cut must be inside the existing ones to keep tiles
// contiguous.
bool is_innermost(AxisMask mask, int axis) { return (mask >> axis) == 1; }
bool may_cut_inside(AxisMask mask, int axis) { return (mask >> axis) == 0; }

class StepFinder {
 public:
  StepFinder(const std::vector<Dim>& dims, DType dtype, const std::vector<ShardingSpec>& targets,
             const LogicalMesh& mesh, const CostModel& costs)
      : dims_(dims), dtype_(dtype), mesh_(mesh), costs_(costs.on(mesh.of.group)) {
    MW_CHECK(dims.size() <= kMaxDims, "a tensor of {} dimensions", dims.size());
    for (int mask = 0; mask < 1 << mesh.rank(); ++mask) shards_.push_back(shards(static_cast<AxisMask>(mask), mesh));
    for (const ShardingSpec& target : targets) allow_padding_of(target);
    for (int d = 0; d < static_cast<int>(dims.size()); ++d)
      if (dims[static_cast<std::size_t>(d)].name == kKeySequence) keys_ = d;
    exchanged_ = exchanged_dims(dims, mesh);
  }

  [[nodiscard]] Layout layout_of(const ShardingSpec& spec) const {
    MW_CHECK(spec.dims.size() == dims_.size(), "spec {} for a tensor of {} dimensions", spec.to_text(), dims_.size());
    Layout layout;
    std::copy(spec.dims.begin(), spec.dims.end(), layout.dims.begin());
    layout.partial = spec.partial;
    return layout;
  }
  [[nodiscard]] ShardingSpec spec_of(const Layout& layout) const {
    return {{layout.dims.begin(), layout.dims.begin() + static_cast<std::ptrdiff_t>(dims_.size())}, layout.partial};
  }

  void arcs(const Layout& layout, std::vector<Arc>& found) const {
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

 private:
  [[nodiscard]] std::int64_t tile(const Layout& layout, std::size_t dim) const {
    return tile_size(dims_[dim].size, shards_[layout.dims[dim]]);
  }
  [[nodiscard]] bool is_padded(std::size_t dim, AxisMask mask) const { return dims_[dim].size % shards_[mask] != 0; }

  // Cuts are made from the outermost in: on the way to a padded one are those of its outer axes.
  void allow_padding_of(const ShardingSpec& target) {
    for (std::size_t d = 0; d < std::min(dims_.size(), target.dims.size()); ++d)
      for (int axis = 0; axis < mesh_.rank(); ++axis) {
        const auto outer = static_cast<AxisMask>(target.dims[d] & ((2 << axis) - 1));
        if ((target.dims[d] >> axis & 1) != 0 && is_padded(d, outer)) padded_.emplace_back(d, outer);
      }
  }

  // The bytes of one device's tile; partial axes do not shrink it.
  [[nodiscard]] Bytes tile_bytes(const Layout& of) const {
    double elements = 1;
    if (mesh_.expert_load.even())
      for (std::size_t d = 0; d < dims_.size(); ++d) elements *= static_cast<double>(tile(of, d));
    else
      for (const std::int64_t size : local_shape(dims_, spec_of(of), mesh_)) elements *= static_cast<double>(size);
    return Bytes(elements * size_of(dtype_));
  }
  Seconds cost(CollectiveKind kind, const Layout& of, int axis) const {
    return costs_.collective(kind, tile_bytes(of), mesh_.axes[axis]).time;
  }
  // For the tiles, with their padding, of all devices of the axis.
  Seconds cost_of_tiles(CollectiveKind kind, const Layout& of, int axis) const {
    return costs_.collective(kind, static_cast<double>(mesh_.axes[axis].size()) * tile_bytes(of), mesh_.axes[axis])
        .time;
  }

  // `layout` with dimension `dim` split by `axis`, if tiles stay contiguous and divide evenly or may be padded.
  enum class Padding { None, WhereAllowed };
  std::optional<Layout> cut(Layout layout, int dim, int axis, Padding padding) const {
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
  [[nodiscard]] bool is_ring(int axis) const {
    return keys_ >= 0 && (mesh_.contexts.rings >> axis & 1) != 0 &&
           !is_padded(static_cast<std::size_t>(keys_), static_cast<AxisMask>(1 << axis));
  }
  [[nodiscard]] Seconds ring(const Layout& block, bool sums, int axis) const {
    return ring_time(static_cast<double>(mesh_.axes[axis].size()) * tile_bytes(block), sums, axis, mesh_, costs_);
  }
  void from_ring(const Layout& layout, int axis, std::vector<Arc>& found) const {
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
  void exchange_heads(const Layout& layout, int axis, std::vector<Arc>& found) const {
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
  [[nodiscard]] bool is_inside_exchange(const Layout& layout, int dim, int axis) const {
    return exchanged_ && dim == exchanged_->heads && (exchanged_->axes >> axis & 1) == 0 &&
           (layout.dims[dim] & exchanged_->axes) != 0;
  }

  void from_partial(const Layout& layout, int axis, std::vector<Arc>& found) const {
    if (is_ring(axis)) return from_ring(layout, axis, found);
    Layout summed = layout;
    summed.partial = static_cast<AxisMask>(summed.partial & ~(1 << axis));
    found.push_back(
        {ReshardStep::Kind::AllReduce, axis, -1, -1, summed, cost(CollectiveKind::AllReduce, layout, axis)});
    const Seconds scatter = cost(CollectiveKind::ReduceScatter, layout, axis);
    for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim)
      if (const auto after = cut(summed, dim, axis, Padding::WhereAllowed)) {
        const bool padded = is_padded(dim, after->dims[dim]);
        found.push_back({ReshardStep::Kind::ReduceScatter, axis, -1, dim, *after,
                         padded ? cost_of_tiles(CollectiveKind::ReduceScatter, *after, axis) : scatter});
      }
  }

  void from_split(const Layout& layout, int axis, std::vector<Arc>& found) const {
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

  void slices(const Layout& layout, int axis, std::vector<Arc>& found) const {
    for (int dim = 0; dim < static_cast<int>(dims_.size()); ++dim)
      if (const auto after = cut(layout, dim, axis, Padding::WhereAllowed))
        found.push_back({ReshardStep::Kind::Slice, axis, -1, dim, *after, Seconds(0)});
  }

  const std::vector<Dim>& dims_;
  DType dtype_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  std::vector<std::int64_t> shards_;                      // [mask]
  std::vector<std::pair<std::size_t, AxisMask>> padded_;  // dimensions and cuts of them that may be padded
  int keys_ = -1;                                         // dimension kKeySequence; -1: the tensor has none
  std::optional<Exchanged> exchanged_;
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

struct Destination {
  Distance distance;
  std::optional<std::pair<Layout, Arc>> by;
};

// The cheapest sequences of steps from `start`, to all of `ends` at least: the search ends with the last of them. No
// step has a negative cost, so what the search has taken from the frontier does not change any more, nor does any
// layout on the way there; what it has not taken may be in the result with a longer way.
std::map<Layout, Destination> reach(const StepFinder& finder, const Layout& start, std::vector<Layout> ends) {
  std::map<Layout, Destination> reached = {{start, {{0.0, 0}, std::nullopt}}};
  using Entry = std::pair<Distance, Layout>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> frontier;
  frontier.push({{0.0, 0}, start});
  std::vector<Arc> arcs;
  while (!frontier.empty()) {
    const auto [distance, layout] = frontier.top();
    frontier.pop();
    if (reached.at(layout).distance < distance) continue;
    std::erase(ends, layout);
    if (ends.empty()) break;
    finder.arcs(layout, arcs);
    for (const Arc& arc : arcs) {
      const Distance next{distance.seconds + arc.time.si(), distance.steps + 1};
      const auto [known, is_new] = reached.try_emplace(arc.after);
      if (!is_new && known->second.distance <= next) continue;
      known->second = {next, std::pair{layout, arc}};
      frontier.push({next, arc.after});
    }
  }
  return reached;
}

std::map<Layout, Destination> reach(const StepFinder& finder, const ShardingSpec& from,
                                    const std::vector<ShardingSpec>& targets) {
  std::vector<Layout> ends;
  for (const ShardingSpec& target : targets) ends.push_back(finder.layout_of(target));
  return reach(finder, finder.layout_of(from), std::move(ends));
}

const Destination& way_to(const ShardingSpec& target, const std::map<Layout, Destination>& reached,
                          const StepFinder& finder, const ShardingSpec& from) {
  const auto end = reached.find(finder.layout_of(target));
  MW_CHECK(end != reached.end(), "no way from {} to {}", from.to_text(), target.to_text());
  return end->second;
}

}  // namespace

std::vector<std::int64_t> sizes_and_roles(const std::vector<Dim>& dims, const LogicalMesh& mesh) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(dims.size());
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  if (mesh.contexts == ContextAxes{} && mesh.expert_load.even()) return sizes;
  constexpr std::array kNames = {kKeySequence, "seq", "kv_heads", "heads", kExperts, kExpertSlots};
  for (const Dim& dim : dims) sizes.push_back(kNames.end() - std::find(kNames.begin(), kNames.end(), dim.name));
  return sizes;
}

bool reorders_heads(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh) {
  const auto exchanged = exchanged_dims(dims, mesh);
  if (!exchanged) return false;
  const AxisMask mask = spec.dims[static_cast<std::size_t>(exchanged->heads)];
  const auto others = static_cast<AxisMask>(mask & ~exchanged->axes);
  return (mask & exchanged->axes) != 0 && others > (mask & exchanged->axes);
}

Seconds ring_time(Bytes whole, bool sums, int axis, const LogicalMesh& mesh, const CostModel& costs) {
  MeshAxis of = mesh.axes[static_cast<std::size_t>(axis)];
  const double devices = of.size();
  // One device of a host sends to the next host, and all wait for that block: as if every device were on a host alone.
  if (of.outer > 1) {
    of.outer = of.size();
    of.inner = 1;
  }
  const CollectiveKind like = sums ? CollectiveKind::ReduceScatter : CollectiveKind::AllGather;
  return (sums ? devices : devices - 1.0) / (devices - 1.0) * costs.collective(like, whole, of).time;
}

std::vector<Resharding> find_reshardings(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from,
                                         const std::vector<ShardingSpec>& targets, const LogicalMesh& mesh,
                                         const CostModel& costs) {
  const StepFinder finder(dims, dtype, targets, mesh, costs);
  const std::map<Layout, Destination> reached = reach(finder, from, targets);
  std::vector<Resharding> found;
  for (const ShardingSpec& target : targets) {
    const Destination& end = way_to(target, reached, finder, from);
    Resharding way;
    way.time = Seconds(end.distance.seconds);
    for (const Destination* at = &end; at->by; at = &reached.at(at->by->first)) {
      const Arc& arc = at->by->second;
      way.steps.push_back({arc.kind, arc.axis, arc.from_dim, arc.to_dim, finder.spec_of(arc.after), arc.ring});
    }
    std::reverse(way.steps.begin(), way.steps.end());
    found.push_back(std::move(way));
  }
  return found;
}

std::vector<Seconds> resharding_times(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from,
                                      const std::vector<ShardingSpec>& targets, const LogicalMesh& mesh,
                                      const CostModel& costs) {
  const StepFinder finder(dims, dtype, targets, mesh, costs);
  const std::map<Layout, Destination> reached = reach(finder, from, targets);
  std::vector<Seconds> times;
  for (const ShardingSpec& target : targets) times.emplace_back(way_to(target, reached, finder, from).distance.seconds);
  return times;
}

Resharding find_resharding(const std::vector<Dim>& dims, DType dtype, const ShardingSpec& from, const ShardingSpec& to,
                           const LogicalMesh& mesh, const CostModel& costs) {
  if (from == to) return {};
  return find_reshardings(dims, dtype, from, {to}, mesh, costs).front();
}

}  // namespace meshwright
