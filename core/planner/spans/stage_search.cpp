// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/stage_search.h"

#include <algorithm>
#include <atomic>
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
  // 0 stands for the memory that each kind of device has.
  if (own.usable_memory.si() == 0) own.usable_memory = hosts.usable_memory();
  if (!request.batch_axis) return own;
  own.rules = [before = options.rules, axis = *request.batch_axis](const LogicalMesh& mesh) {
    IntraOpRules rules = before ? before(mesh) : IntraOpRules{};
    hold_batch_to_axis(rules, mesh.shape(), axis);
    return rules;
  };
  return own;
}

// Tells a mesh from the others of all searches with the same rules; no two of one search share a name.
std::string name_of_mesh(const StageSearch::MeshRequest& request, const Submesh& submesh, std::size_t number) {
  return fmt::format("{} {} {} {}", number, to_text(submesh), fmt::join(request.shape, "x"),
                     request.batch_axis.value_or(-1));
}

// No worse in time and in every kind of bytes. `splits_backward`: among them those held between its halves.
bool dominates(const StageCost& a, const StageCost& b, bool splits_backward) {
  constexpr double kSame = 1.0 + 1e-9;
  return a.time <= kSame * b.time && a.step <= kSame * b.step && a.resident <= kSame * b.resident &&
         a.saved <= kSame * b.saved && a.working <= kSame * b.working && (!splits_backward || a.held <= kSame * b.held);
}

// Costs that dominate each other are nearly equal: the first stays.
void drop_dominated(StageTable& table, int first, int last, int slice, bool splits_backward) {
  for (int c = 0; c < table.configs(); ++c) {
    auto& own = table.at(first, last, slice, c);
    for (int other = 0; own && other < table.configs(); ++other) {
      if (other == c) continue;
      const auto& rival = table.at(first, last, slice, other);
      if (rival && dominates(*rival, *own, splits_backward) && (other < c || !dominates(*own, *rival, splits_backward)))
        own.reset();
    }
  }
}

// As a stage that begins with layer `first`. The first stage of a model computes gradients of parameters alone: its
// whole backward is the second half where schedules split backwards in two, and nothing is held between the halves.
StageCost stage_cost(const StepCost& cost, int first) {
  const Bytes held = first == 0 ? Bytes(0.0) : cost.held;
  return {cost.forward + cost.backward,           cost.step, cost.resident, cost.saved,
          cost.working + cost.recomputed_at_once, held};
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
      meshes_of_(submeshes_.size()),
      spans_(structure.layers().count) {
  solve_meshes(costs);
  for (int mesh = 0; mesh < meshes_.count(); ++mesh)
    if (meshes_[mesh]) note_mesh(mesh);
  spans_ = number_spans();
}

SpanNumbers StageSearch::number_spans() const {
  const bool solved = !options_.one_stage && options_.only_from.empty();
  if (!solved || has_known_costs()) return SpanNumbers(layers());
  SpanNumbers numbers = SpanNumbers::all_alike(layers());
  // Stages that begin with the first layer hold nothing between the halves of a backward (stage_cost).
  std::vector<int> marks;
  for (int first = 0; first < layers(); ++first) marks.insert(marks.end(), layers() - first, first == 0 ? 0 : 1);
  numbers.tell_apart(marks);
  for (int mesh = 0; mesh < meshes_.count(); ++mesh)
    if (usable(mesh)) numbers.tell_apart(meshes_[mesh]->span_marks());
  return numbers;
}

void StageSearch::solve_meshes(const CostModel& costs) {
  std::atomic<bool> stopped{false};
  for_each_index(wanted_.size(), options_.threads, [&](std::size_t i) {
    // The largest meshes have the most strategies; starting with them keeps the threads evenly busy.
    const std::size_t w = wanted_.size() - 1 - i;
    if (stopped || (options_.stop && options_.stop())) {
      stopped = true;
      return;
    }
    const MeshRequest& request = wanted_[w];
    const Submesh& submesh = submeshes_[request.submesh];
    StageSearchOptions own = options_for(request, cluster_.group(submesh.group), options_);
    own.only_whole = options_.only_possible && submesh.devices() == cluster_.devices();
    LogicalMesh mesh = make_logical_mesh(cluster_, submesh, request.shape);
    if (own.rules) mesh.contexts = own.rules(mesh).contexts;
    if (options_.known_ops != nullptr)
      own.known_on_mesh = &options_.known_ops->on(name_of_mesh(request, submesh, w), mesh, costs.on(submesh.group));
    meshes_[static_cast<int>(w)].emplace(structure_, std::move(mesh), costs.on(submesh.group), own);
  });
  interrupted_ = stopped;
}

// In the order of the requests, so that results do not depend on threads.
void StageSearch::note_mesh(int mesh) {
  const MeshSpans& spans = *meshes_[mesh];
  if (spans.impossible()) {
    reasons_.push_back(*spans.impossible());
    return;
  }
  meshes_of_[wanted_[mesh].submesh].push_back(mesh);
  if (options_.stage_costs.replace()) replaced_[mesh].emplace(span_costs(mesh, options_.stage_costs));
  options_per_mesh_ = std::max(options_per_mesh_, spans.options());
  entries_ += spans.spans_with_costs() * spans.options();
}

StageTable StageSearch::table(double memory_share, Keep keep, const Allowed& allowed, const Given& given) const {
  std::vector<DeviceSlice> slices;
  std::size_t max_meshes = 0;
  for (int s = 0; s < meshes_of_.count(); ++s) {
    const Submesh& submesh = submeshes_[s];
    std::vector<int> devices(cluster_.groups.size(), 0);
    devices[submesh.group] = submesh.devices();
    slices.push_back({std::move(devices), memory_share * cluster_.group(submesh.group).usable_memory()});
    max_meshes = std::max(max_meshes, meshes_of_[s].size());
  }
  const int configs = std::max(1, static_cast<int>(max_meshes) * options_per_mesh_);
  StageTable table(layers(), std::move(slices), configs, given ? SpanNumbers(layers()) : spans_);
  // Side by side where that is worth a thread: slices have entries of their own.
  constexpr std::size_t kManyEntries = std::size_t{1} << 16;
  const int threads = table.costs().size() >= kManyEntries ? options_.threads : 1;
  for_each_index(static_cast<std::size_t>(meshes_of_.count()), threads, [&](std::size_t s) {
    const int slice = static_cast<int>(s);
    for (int first = 0; first < (options_.one_stage ? 1 : layers()); ++first)
      for (int last = options_.one_stage ? layers() - 1 : first; last < layers(); ++last) {
        if (!table.spans().is_first(first, last)) continue;
        for (int c = 0; c < static_cast<int>(meshes_of_[slice].size()) * options_per_mesh_; ++c) {
          const StageChoice chosen = choice(slice, c);
          // Meshes of one slice may have different numbers of options: the entries beyond stay empty.
          if (chosen.option >= meshes_[chosen.mesh]->options()) continue;
          if (!meshes_[chosen.mesh]->has_costs(first, last)) continue;
          if ((allowed && !allowed(chosen)) || (given && !given(first, last, chosen))) continue;
          table.at(first, last, slice, c) = stage_cost(cost(first, last, chosen), first);
        }
        if (keep == Keep::Best) drop_dominated(table, first, last, slice, options_.splits_backward);
      }
  });
  return table;
}

StageChoice StageSearch::choice(int slice, int config) const {
  const std::vector<int>& own = meshes_of_[slice];
  // No mesh can be used: there are no options to divide by.
  if (own.empty()) return {-1, 0};
  // A configuration is the mesh's position in the slice times options_per_mesh_, plus the option.
  const std::size_t position = config / options_per_mesh_;
  if (position >= own.size()) return {-1, 0};
  return {own[position], config % options_per_mesh_};
}

std::optional<int> StageSearch::config_of(int slice, const StageChoice& choice) const {
  const std::vector<int>& own = meshes_of_[slice];
  const auto at = std::find(own.begin(), own.end(), choice.mesh);
  if (at == own.end() || choice.option >= options_per_mesh_) return std::nullopt;
  return static_cast<int>(at - own.begin()) * options_per_mesh_ + choice.option;
}

SpanCosts StageSearch::span_costs(int mesh, const StageCostOptions& options) const {
  const MeshRequest& request = wanted_[mesh];
  const StagePlace place{0, 0, submeshes_[request.submesh], request.shape, request.batch_axis};
  return {*meshes_[mesh], place, layers(), options_.one_stage, options};
}

StageProfileTable StageSearch::profile(const StageProfileKey& key) const {
  StageProfileTable table(key);
  for (int mesh = 0; mesh < meshes_.count(); ++mesh)
    if (usable(mesh)) (replaced_[mesh] ? *replaced_[mesh] : span_costs(mesh, {})).add_to(table, structure_);
  return table;
}

const StepCost& StageSearch::cost(int first, int last, const StageChoice& choice) const {
  if (const auto& replaced = replaced_[choice.mesh]) return replaced->cost(first, last, choice.option);
  return meshes_[choice.mesh]->cost(first, last, choice.option);
}

Bytes StageSearch::estimate(const StepCost& cost) const {
  // One stage keeps one micro-batch in flight, but GPipe keeps all.
  const double in_flight = options_.schedule == ScheduleKind::GPipe ? static_cast<double>(options_.microbatches) : 1.0;
  return cost.resident + in_flight * cost.saved + cost.working + cost.recomputed_at_once;
}

Seconds StageSearch::sharding_bound() const {
  std::optional<Seconds> bound;
  for (int mesh = 0; mesh < meshes_.count(); ++mesh)
    if (usable(mesh)) bound = std::min(bound.value_or(meshes_[mesh]->bound()), meshes_[mesh]->bound());
  MW_CHECK(bound.has_value(), "no mesh can hold the model's ops");
  return *bound;
}

Seconds StageSearch::min_time(int first, int last, int submesh, Costs costs) const {
  double fastest = std::numeric_limits<double>::infinity();
  for (const int mesh : meshes_of_[submesh]) {
    fastest = std::min(fastest, meshes_[mesh]->min_time(first, last).si());
    if (costs == Costs::Modelled || !replaced_[mesh]) continue;
    // A known cost may be less than any sharding is modelled to take.
    for (int option = 0; option < meshes_[mesh]->options(); ++option)
      fastest = std::min(fastest, per_microbatch(cost(first, last, {mesh, option})).si());
  }
  return Seconds(fastest);
}

}  // namespace meshwright
