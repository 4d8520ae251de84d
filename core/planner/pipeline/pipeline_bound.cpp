// SPDX-License-Identifier: Apache-2.0
#include "core/planner/pipeline/pipeline_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/planner/pipeline/stage_dp.h"
#include "core/planner/pipeline/stage_dp_space.h"

namespace meshwright {

namespace {

using stage_dp::kNever;

int count_of(const DeviceSlice& slice) { return std::accumulate(slice.devices.begin(), slice.devices.end(), 0); }

// Calls visit(stage, cost) for the stages that fit with one micro-batch in flight: of spans of one number for the first
// and for those that begin with the first layer.
template <class Visit>
void each_that_fits(const StageTable& table, const Visit& visit) {
  for (int first = 0; first < table.layers(); ++first)
    for (int last = first; last < table.layers(); ++last) {
      if (first > 0 && !table.spans().is_first(first, last)) continue;
      for (int s = 0; s < static_cast<int>(table.slices().size()); ++s) {
        const Bytes memory = table.slices()[static_cast<std::size_t>(s)].memory;
        const std::optional<StageCost>* costs = table.configs_of(first, last, s);
        for (int config = 0; config < table.configs(); ++config) {
          const std::optional<StageCost>& cost = costs[config];
          if (cost && cost->resident + cost->working + cost->saved <= memory)
            visit(TableStage{first, last, s, config}, *cost);
        }
      }
    }
}

// Ranks of like devices, at least two stages on each, share the least sum of any number of stages.
Seconds chunked_bound(const StageSearch& stages, StageSearch::Costs costs) {
  Seconds found(kNever);
  for (int s = 0; s < static_cast<int>(stages.submeshes().size()); ++s) {
    const Submesh& submesh = stages.submeshes()[s];
    // At least two stages on each rank, each with a layer.
    const int ranks =
        std::min(stages.cluster().group(submesh.group).devices() / submesh.devices(), stages.layers() / 2);
    if (ranks < 2) continue;
    // The entries have times alone: memory never binds.
    StageTable alone(stages.layers(), {{{1}, Bytes(1.0)}}, 1);
    for (int first = 0; first < stages.layers(); ++first)
      for (int last = first; last < stages.layers(); ++last) {
        const Seconds fastest = stages.min_time(first, last, s, costs);
        if (std::isfinite(fastest.si())) alone.at(first, last, 0, 0) = StageCost{.time = fastest};
      }
    const auto shared = min_latency(alone, {.devices = {stages.layers()}, .all_devices = false},
                                    Seconds(std::numeric_limits<double>::max()));
    if (shared) found = std::min(found, shared->sum / static_cast<double>(ranks));
  }
  return found;
}

}  // namespace

// The bottleneck of any pipeline is at least the sum over its stages of w d t over the sum over all devices of w, for
// stages of d devices and any weight w of a kind of device.
Seconds pipeline_bound(const StageSearch& stages, StageSearch::Costs costs, Ranks ranks) {
  const double microbatches = static_cast<double>(stages.options().microbatches);
  std::vector<DeviceSlice> slices;
  std::vector<double> weight(stages.submeshes().size(), 1.0);
  StageDpRequest request{.devices = {}, .all_devices = false};
  double whole = 0.0;
  const auto speed = [&](int group) {
    double fastest = 0.0;
    for (const auto& [dtype, peak] : stages.cluster().group(group).device.peak) fastest = std::max(fastest, peak.si());
    return fastest;
  };
  for (int g = 0; g < static_cast<int>(stages.cluster().groups.size()); ++g) {
    request.devices.push_back(stages.cluster().group(g).devices());
    whole += speed(g) / speed(0) * stages.cluster().group(g).devices();
  }
  for (std::size_t s = 0; s < stages.submeshes().size(); ++s) {
    std::vector<int> devices(stages.cluster().groups.size(), 0);
    devices[stages.submeshes()[s].group] = stages.submeshes()[s].devices();
    weight[s] = speed(stages.submeshes()[s].group) / speed(0) * stages.submeshes()[s].devices();
    slices.push_back({std::move(devices), Bytes(1.0)});
  }
  if (stages.options().one_stage) return microbatches * stages.min_time(0, stages.layers() - 1, 0, costs);
  StageTable bottleneck(stages.layers(), slices, 1), area(stages.layers(), slices, 1);
  for (int slice = 0; slice < static_cast<int>(stages.submeshes().size()); ++slice)
    for (int first = 0; first < stages.layers(); ++first)
      for (int last = first; last < stages.layers(); ++last) {
        const Seconds fastest = stages.min_time(first, last, slice, costs);
        if (!std::isfinite(fastest.si())) continue;
        bottleneck.at(first, last, slice, 0) = StageCost{.time = fastest};
        area.at(first, last, slice, 0) = StageCost{.time = weight[slice] * fastest};
      }
  const Seconds no_limit(std::numeric_limits<double>::max());
  const auto steadiest = max_throughput(bottleneck, request, no_limit);
  const auto thriftiest = min_latency(area, request, no_limit);
  Seconds least_time(0.0);
  if (steadiest && thriftiest) least_time = std::max(steadiest->slowest, thriftiest->sum / whole);
  if (ranks == Ranks::AnyStages && steadiest && thriftiest)
    least_time = std::min(least_time, chunked_bound(stages, costs));
  // What is added up in another order may differ in its last bits.
  return (1.0 - 1e-12) * microbatches * least_time;
}

std::optional<Seconds> least_busy_time(const StageTable& table, std::int64_t microbatches) {
  std::vector<double> of_span(static_cast<std::size_t>(table.spans().count()), kNever);  // by number
  each_that_fits(table, [&](const TableStage& stage, const StageCost& cost) {
    const Seconds busy = static_cast<double>(microbatches) * cost.time + cost.step;
    double& least = of_span[static_cast<std::size_t>(table.spans().of(stage.first, stage.last))];
    least = std::min(least, count_of(table.slices()[static_cast<std::size_t>(stage.slice)]) * busy.si());
  });
  std::vector<double> from(static_cast<std::size_t>(table.layers()) + 1, kNever);  // [layer] of it and all after it
  from.back() = 0.0;
  for (int first = table.layers() - 1; first >= 0; --first)
    for (int last = first; last < table.layers(); ++last) {
      double& least = from[static_cast<std::size_t>(first)];
      least = std::min(least, of_span[static_cast<std::size_t>(table.spans().of(first, last))] +
                                  from[static_cast<std::size_t>(last) + 1]);
    }
  // Sums in another order differ in their last bits.
  return std::isfinite(from.front()) ? std::optional((1.0 - 1e-12) * Seconds(from.front())) : std::nullopt;
}

std::vector<Seconds> least_latencies(const StageTable& table, int devices, int most, const LatencyOfStage& latency) {
  const int layers = table.layers();
  // By devices of a stage, the least: [number of the span], and [last] of those from the first layer on.
  struct Times {
    std::vector<double> of_span, from_first;
  };
  std::map<int, Times> times;
  for (const DeviceSlice& slice : table.slices())
    if (count_of(slice) <= devices)
      times[count_of(slice)] = {std::vector<double>(static_cast<std::size_t>(table.spans().count()), kNever),
                                std::vector<double>(static_cast<std::size_t>(layers), kNever)};
  each_that_fits(table, [&](const TableStage& stage, const StageCost&) {
    const auto of_count = times.find(count_of(table.slices()[static_cast<std::size_t>(stage.slice)]));
    if (of_count == times.end()) return;
    double& least = stage.first == 0
                        ? of_count->second.from_first[static_cast<std::size_t>(stage.last)]
                        : of_count->second.of_span[static_cast<std::size_t>(table.spans().of(stage.first, stage.last))];
    least = std::min(least, latency(stage).si());
  });
  // [first layer][devices] of stages from this layer to the last; no stage is left for none.
  using Rows = std::vector<std::vector<double>>;
  const auto rows = [&] {
    return Rows(static_cast<std::size_t>(layers) + 1,
                std::vector<double>(static_cast<std::size_t>(devices) + 1, kNever));
  };
  Rows fewer = rows(), now;
  fewer.back().assign(fewer.back().size(), 0.0);
  std::vector<Seconds> found;
  for (int n = 1; n <= most; ++n) {
    now = rows();
    for (int first = 0; first < layers; ++first)
      for (int last = first; last < layers; ++last) {
        const auto span = static_cast<std::size_t>(table.spans().of(first, last));
        for (const auto& [used, least] : times) {
          const double time = first == 0 ? least.from_first[static_cast<std::size_t>(last)] : least.of_span[span];
          if (time == kNever) continue;
          std::vector<double>& row = now[static_cast<std::size_t>(first)];
          const std::vector<double>& rest = fewer[static_cast<std::size_t>(last) + 1];
          for (int d = used; d <= devices; ++d)
            row[static_cast<std::size_t>(d)] =
                std::min(row[static_cast<std::size_t>(d)], time + rest[static_cast<std::size_t>(d - used)]);
        }
      }
    // Sums in another order differ in their last bits.
    found.emplace_back((1.0 - 1e-12) * now.front().back());
    std::swap(fewer, now);
  }
  return found;
}

bool fit_alike(const StageTable& table, double factor, std::int64_t most) {
  const std::size_t of_span = table.slices().size() * static_cast<std::size_t>(table.configs());
  for (std::size_t entry = 0; entry < table.costs().size(); ++entry) {
    const std::optional<StageCost>& cost = table.costs()[entry];
    if (!cost) continue;
    const std::size_t slice = entry % of_span / static_cast<std::size_t>(table.configs());
    const Bytes memory = table.slices()[slice].memory, always = cost->resident + cost->working;
    const bool never_fits = always > factor * memory;
    if (!never_fits && always + static_cast<double>(most) * (cost->saved + cost->held) > memory) return false;
  }
  return true;
}

}  // namespace meshwright
