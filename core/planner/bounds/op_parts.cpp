// SPDX-License-Identifier: Apache-2.0
#include "core/planner/bounds/op_parts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/divisors.h"

namespace meshwright {

namespace {

constexpr const char* kSamplesAxis = "batch";

std::vector<std::int64_t> part_counts(const HostGroup& hosts) {
  std::set<std::int64_t> counts;
  for (std::int64_t d = 1; d <= hosts.devices_per_host; ++d) counts.insert(d);
  for (std::int64_t h = 1; h <= hosts.hosts; ++h)
    for (const std::int64_t d : divisors(h * hosts.devices_per_host)) counts.insert(d);
  return {counts.begin(), counts.end()};
}

std::vector<std::int64_t> whole_sizes(const IterationSpace& space) {
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
  return sizes;
}

}  // namespace

OpParts::OpParts(const Graph& graph, const HostGroup& hosts, const CostModel& costs)
    : graph_(graph), hosts_(hosts), costs_(costs), counts_(part_counts(hosts)) {
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Contract) continue;
    const IterationSpace space = iteration_space(graph, op);
    const OpWork whole = op_work(graph, op, space, whole_sizes(space));
    fuses_ = costs.as_one_product({&whole, &whole}, false).has_value();
    break;
  }
}

std::optional<std::int64_t> OpParts::devices(const Parts& of, const OpPart& part, std::int64_t samples) const {
  if (samples % part.samples != 0) return std::nullopt;
  const std::int64_t across = samples / part.samples;
  if (across > 1 && (!of.splits_samples || !std::binary_search(counts_.begin(), counts_.end(), across)))
    return std::nullopt;
  return across * part.parts <= hosts_.devices() ? std::optional(across * part.parts) : std::nullopt;
}

std::string OpParts::key(const Op& op) const {
  const IterationSpace space = iteration_space(graph_, op);
  std::string key = op_work(graph_, op, space, whole_sizes(space)).signature + name_of(op.phase);
  for (const IterationAxis& axis : space.axes) key += (axis.splittable ? '/' : '|') + axis.name;
  return key;
}

OpParts::Parts OpParts::samples_of(const Op& op) const {
  const IterationSpace space = iteration_space(graph_, op);
  const auto batch = space.find(kSamplesAxis);
  if (!batch || op.phase == Phase::Update) return {};
  const IterationAxis& axis = space.axes[static_cast<std::size_t>(*batch)];
  return {axis.size, axis.splittable, true};
}

const OpParts::Parts& OpParts::of(const Op& op) {
  const auto [known, is_new] = known_.try_emplace(key(op));
  Parts& parts = known->second;
  if (!is_new) return parts;
  parts = samples_of(op);
  const IterationSpace space = iteration_space(graph_, op);
  Splits splits{op, space, whole_sizes(space), 1, {}};
  try_splits(splits, 0, 1);
  for (const auto& [part, time] : splits.found) parts.all.push_back({part.first, part.second, time});
  return parts;
}

void OpParts::try_splits(Splits& splits, std::size_t axis_number, std::int64_t parts) const {
  if (axis_number == splits.space.axes.size()) {
    const double time = time_of(op_work(graph_, splits.op, splits.space, splits.sizes));
    const auto [known, is_new] = splits.found.try_emplace({splits.samples, parts}, time);
    if (!is_new) known->second = std::min(known->second, time);
    return;
  }
  const IterationAxis& axis = splits.space.axes[axis_number];
  if (axis.name == kSamplesAxis && splits.op.phase != Phase::Update) {
    for (const std::int64_t samples : divisors(axis.size)) {
      splits.sizes[axis_number] = splits.samples = samples;
      try_splits(splits, axis_number + 1, parts);
    }
    splits.sizes[axis_number] = axis.size;
    splits.samples = 1;
    return;
  }
  try_splits(splits, axis_number + 1, parts);
  for (const std::int64_t count : counts_) {
    if (!axis.splittable || parts * count > hosts_.devices()) break;
    if (count == 1 || axis.size % count != 0) continue;
    splits.sizes[axis_number] = axis.size / count;
    try_splits(splits, axis_number + 1, parts * count);
  }
  splits.sizes[axis_number] = axis.size;
}

// Software may compute several products as one, and their sum with them: then no rate is sure but the device's peak.
double OpParts::time_of(const OpWork& work) const {
  const double time = costs_.compute(work).time.si();
  if (!fuses_) return time;
  if (work.kind == OpKind::Add) return 0.0;
  if (work.kind != OpKind::Contract) return time;
  const auto peak = hosts_.device.peak.find(name_of(work.dtype));
  return peak == hosts_.device.peak.end() ? 0.0 : std::min(time, (work.flops / peak->second).si());
}

}  // namespace meshwright
