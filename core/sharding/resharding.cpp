// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/resharding.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>

#include "core/base/errors.h"
#include "core/sharding/reshard_steps.h"

namespace meshwright {

using reshard::Arc, reshard::Distance, reshard::Layout, reshard::StepFinder;

namespace {

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
  const auto exchanged = reshard::exchanged_dims(dims, mesh);
  if (!exchanged) return false;
  const AxisMask mask = spec.dims[static_cast<std::size_t>(exchanged->heads)];
  const auto others = static_cast<AxisMask>(mask & ~exchanged->axes);
  return (mask & exchanged->axes) != 0 && others > (mask & exchanged->axes);
}

Seconds ring_time(Bytes whole, bool sums, int axis, const LogicalMesh& mesh, const CostModel& costs) {
  MeshAxis of = mesh.axes[static_cast<std::size_t>(axis)];
  const double devices = of.size();
  // One device of a host sends to the next host, and all wait for that block: as if every device were on a host alone,
  // but with the adapters of its own.
  if (of.outer > 1) {
    of.outer_link.beta = of.alone * of.outer_link.beta;
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
