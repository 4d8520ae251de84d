// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/stage_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/planner/method/method.h"

namespace meshwright {

namespace {

// The options with the request's own constraint after the method's.
StageSearchOptions options_for(const StageSearch::MeshRequest& request, const HostGroup& hosts,
                               const StageSearchOptions& options) {
  StageSearchOptions own = options;
  if (own.usable_memory.si() == 0) own.usable_memory = hosts.usable_memory();
  if (!request.batch_axis) return own;
  own.rules = [before = options.rules, axis = *request.batch_axis](const LogicalMesh& mesh) {
    IntraOpRules rules = before ? before(mesh) : IntraOpRules{};
    hold_batch_to_axis(rules, mesh.shape(), axis);
    return rules;
  };
  return own;
}

// No worse in time and in every kind of bytes.
bool dominates(const StageCost& a, const StageCost& b) {
  constexpr double kSame = 1.0 + 1e-9;
  return a.time <= kSame * b.time && a.step <= kSame * b.step && a.resident <= kSame * b.resident &&
         a.saved <= kSame * b.saved && a.working <= kSame * b.working;
}

// Of prices that dominate each other the first stays.
void drop_dominated(StageTable& prices, int first, int last, int slice) {
  for (int c = 0; c < prices.configs(); ++c) {
    auto& own = prices.at(first, last, slice, c);
    for (int other = 0; own && other < prices.configs(); ++other) {
      if (other == c) continue;
      const auto& rival = prices.at(first, last, slice, other);
      if (rival && dominates(*rival, *own) && (other < c || !dominates(*own, *rival))) own.reset();
    }
  }
}

}  // namespace

StageSearch::StageSearch(const StepStructure& structure, const Cluster& cluster, const CostModel& costs,
                         std::vector<Submesh> submeshes, std::vector<MeshRequest> wanted,
                         const StageSearchOptions& options)
    : structure_(structure),
      cluster_(cluster),
      options_(options),
      submeshes_(std::move(submeshes)),
      wanted_(std::move(wanted)),
      meshes_(wanted_.size()),
      replaced_(wanted_.size()),
      meshes_of_(submeshes_.size()) {
  // The largest meshes have the most strategies; starting with them keeps the threads evenly busy.
  std::atomic<bool> stopped{false};
  for_each_index(wanted_.size(), options.threads, [&](std::size_t i) {
    const std::size_t w = wanted_.size() - 1 - i;
    if (stopped || (options.stop && options.stop())) {
      stopped = true;
      return;
    }
    const Submesh& submesh = submeshes_[static_cast<std::size_t>(wanted_[w].submesh)];
    meshes_[w].emplace(structure, make_logical_mesh(cluster, submesh, wanted_[w].shape), costs.on(submesh.group),
                       options_for(wanted_[w], cluster.group(submesh.group), options));
  });
  interrupted_ = stopped;
  const std::int64_t spans = options.one_stage ? 1 : layers() * (layers() + 1) / 2;
  for (std::size_t w = 0; w < wanted_.size(); ++w) {
    if (!meshes_[w]) continue;
    if (meshes_[w]->impossible()) {
      reasons_.push_back(*meshes_[w]->impossible());
      continue;
    }
    meshes_of_[static_cast<std::size_t>(wanted_[w].submesh)].push_back(static_cast<int>(w));
    if (options.stage_costs.replace()) replaced_[w].emplace(span_costs(w, options.stage_costs));
    prices_per_mesh_ = std::max(prices_per_mesh_, meshes_[w]->prices());
    entries_ += spans * meshes_[w]->prices();
  }
}

StageTable StageSearch::prices(double memory_share, Keep keep, const Allowed& allowed) const {
  std::vector<DeviceSlice> slices;
  std::size_t most_meshes = 0;
  for (std::size_t s = 0; s < submeshes_.size(); ++s) {
    std::vector<int> devices(cluster_.groups.size(), 0);
    devices[static_cast<std::size_t>(submeshes_[s].group)] = submeshes_[s].devices();
    slices.push_back({std::move(devices), memory_share * cluster_.group(submeshes_[s].group).usable_memory()});
    most_meshes = std::max(most_meshes, meshes_of_[s].size());
  }
  StageTable table(layers(), std::move(slices), std::max(1, static_cast<int>(most_meshes) * prices_per_mesh_));
  for (int slice = 0; slice < static_cast<int>(submeshes_.size()); ++slice)
    for (int first = 0; first < (options_.one_stage ? 1 : layers()); ++first)
      for (int last = options_.one_stage ? layers() - 1 : first; last < layers(); ++last) {
        const auto& own = meshes_of_[static_cast<std::size_t>(slice)];
        for (int c = 0; c < static_cast<int>(own.size()) * prices_per_mesh_; ++c) {
          const StageChoice chosen = choice(slice, c);
          if (chosen.price >= meshes_[static_cast<std::size_t>(chosen.mesh)]->prices()) continue;
          if (allowed && !allowed(first, last, wanted_[static_cast<std::size_t>(chosen.mesh)])) continue;
          const StepCost& spent = cost(first, last, chosen);
          table.at(first, last, slice, c) = StageCost{spent.forward + spent.backward,
                                                      spent.step,
                                                      spent.resident,
                                                      spent.saved,
                                                      spent.working + spent.repeated,
                                                      first == 0 ? Bytes(0.0) : spent.held};
        }
        if (keep == Keep::Best) drop_dominated(table, first, last, slice);
      }
  return table;
}

StageChoice StageSearch::choice(int slice, int config) const {
  const auto& own = meshes_of_[static_cast<std::size_t>(slice)];
  if (static_cast<std::size_t>(config / prices_per_mesh_) >= own.size()) return {-1, 0};
  return {own[static_cast<std::size_t>(config / prices_per_mesh_)], config % prices_per_mesh_};
}

std::optional<int> StageSearch::config_of(int slice, const StageChoice& choice) const {
  const auto& own = meshes_of_[static_cast<std::size_t>(slice)];
  const auto at = std::find(own.begin(), own.end(), choice.mesh);
  if (at == own.end() || choice.price >= prices_per_mesh_) return std::nullopt;
  return static_cast<int>(at - own.begin()) * prices_per_mesh_ + choice.price;
}

SpanCosts StageSearch::span_costs(std::size_t mesh, const StageCostOptions& options) const {
  const MeshRequest& request = wanted_[mesh];
  const StagePlace place{0, 0, submeshes_[static_cast<std::size_t>(request.submesh)], request.shape,
                         request.batch_axis};
  return {*meshes_[mesh], place, layers(), options_.one_stage, options};
}

StageProfileTable StageSearch::profile(const StageProfileKey& key) const {
  StageProfileTable table(key);
  for (std::size_t w = 0; w < meshes_.size(); ++w)
    if (usable(w)) (replaced_[w] ? *replaced_[w] : span_costs(w, {})).add_to(table, structure_);
  return table;
}

const StepCost& StageSearch::cost(int first, int last, const StageChoice& choice) const {
  if (const auto& replaced = replaced_[static_cast<std::size_t>(choice.mesh)])
    return replaced->cost(first, last, choice.price);
  return meshes_[static_cast<std::size_t>(choice.mesh)]->cost(first, last, choice.price);
}

StagePlan StageSearch::plan(int first, int last, const StageChoice& choice) const {
  return meshes_[static_cast<std::size_t>(choice.mesh)]->plan(first, last, choice.price);
}

Bytes StageSearch::estimate(const StepCost& cost) const {
  const double in_flight = options_.schedule == ScheduleKind::GPipe ? static_cast<double>(options_.microbatches) : 1.0;
  return cost.resident + in_flight * cost.saved + cost.working + cost.repeated;
}

Seconds StageSearch::sharding_bound() const {
  std::optional<Seconds> least_bound;
  for (std::size_t w = 0; w < meshes_.size(); ++w)
    if (usable(w)) least_bound = std::min(least_bound.value_or(meshes_[w]->bound()), meshes_[w]->bound());
  MW_CHECK(least_bound.has_value(), "no mesh can hold the model's ops");
  return *least_bound;
}

Seconds StageSearch::least(int first, int last, int submesh, Costs costs) const {
  double fastest = std::numeric_limits<double>::infinity();
  for (const int w : meshes_of_[static_cast<std::size_t>(submesh)])
    fastest = std::min(fastest, meshes_[static_cast<std::size_t>(w)]->least(first, last).si());
  // What is known of an option may be less than any sharding is modelled to take.
  for (const int w : meshes_of_[static_cast<std::size_t>(submesh)])
    for (int price = 0; costs == Costs::Known && replaced_[static_cast<std::size_t>(w)] &&
                        price < meshes_[static_cast<std::size_t>(w)]->prices();
         ++price)
      fastest = std::min(fastest, per_microbatch(cost(first, last, {w, price})).si());
  return Seconds(fastest);
}

}  // namespace meshwright
