// SPDX-License-Identifier: Apache-2.0
#include "core/planner/changed_requests.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr int kMaxHosts = 4096;
constexpr int kMaxHostDoublings = 4;  // beyond the hosts that hold weights and state alone

template <class Change>
RequestChange step(const PlanRequest& request, std::string text, const Change& change) {
  RequestChange made{std::move(text), request};
  made.request.goal.front = false;
  made.request.stage_profile.keep = false;
  made.request.stage_profile.file = nullptr;  // of other spans
  made.request.steps = nullptr;               // these searches are not the one that was asked for
  change(made.request);
  return made;
}

// Bytes held throughout the step, whatever the sharding: weights and optimizer state, each counted once.
struct HeldBytes {
  Bytes weights{0.0}, state{0.0};
};

HeldBytes held_by(const PlanRequest& request) {
  const Graph graph = build_step_graph(request.model, request.training_with(1), request.first_schedule());
  HeldBytes held;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Parameter) held.weights += tensor.bytes();
    if (tensor.kind == TensorKind::OptimizerState) held.state += tensor.bytes();
  }
  return held;
}

// Without what the request keeps on the hosts, or may keep there.
HeldBytes on_devices(HeldBytes held, const PlanRequest& request) {
  if (request.search.any_offload) return {};
  if (has(request.training.offload, Offload::Weights)) held.weights = Bytes(0.0);
  if (has(request.training.offload, Offload::Optimizer)) held.state = Bytes(0.0);
  return held;
}

// False: too large by these bytes alone. `of_all`: held_by.
bool may_fit(const HeldBytes& of_all, const PlanRequest& request) {
  const HeldBytes held = on_devices(of_all, request);
  Bytes total(0.0), smallest = request.cluster.groups.front().usable_memory();
  for (const HostGroup& group : request.cluster.groups) {
    total += static_cast<double>(group.devices()) * group.usable_memory();
    smallest = std::min(smallest, group.usable_memory());
  }
  const double devices = request.cluster.devices();
  switch (request.search.method.kind) {
    case Method::Kind::Data:
      return held.weights + held.state <= smallest;
    case Method::Kind::Zero1:
    case Method::Kind::Zero2:
      return held.weights + held.state / devices <= smallest;
    default:
      return held.weights + held.state <= total;
  }
}

std::vector<ChangeLadder> recomputations(const PlanRequest& request) {
  if (!request.trains() || request.any_recompute()) return {};
  const Recompute asked = std::get<Recompute>(request.search.recompute);
  ChangeLadder ladder{WayOut::Kind::Recomputation, {}};
  for (const Recompute more : {Recompute::Selective, Recompute::Full}) {
    if (more == asked || asked == Recompute::Full) continue;
    ladder.steps.push_back(step(request, fmt::format("--recompute {}", name_of(more)), [&](PlanRequest& changed) {
      changed.search.recompute = more;
      changed.search.recompute_layers.clear();
      changed.search.recompute_modules = RecomputeModules::None;
    }));
  }
  const RequestChange each = step(request, "--recompute auto", [](PlanRequest& changed) {
    changed.search.recompute = Auto{};
    changed.search.recompute_layers.clear();
    changed.search.recompute_modules = RecomputeModules::None;
  });
  return {std::move(ladder), {WayOut::Kind::Recomputation, {each}}};
}

ChangeLadder methods(const PlanRequest& request, WayOut::Kind kind, const std::vector<const char*>& names) {
  ChangeLadder ladder{kind, {}};
  for (const char* name : names)
    ladder.steps.push_back(step(request, fmt::format("--method {}", name),
                                [&](PlanRequest& changed) { changed.search.method = method_from_text(name); }));
  return ladder;
}

std::vector<ChangeLadder> methods(const PlanRequest& request) {
  std::vector<ChangeLadder> ladders;
  std::vector<const char*> next = {"zero1", "zero2", "zero3"};
  switch (request.search.method.kind) {
    case Method::Kind::Pipeshard:
      return {};
    case Method::Kind::Data:
      break;
    case Method::Kind::Zero1:
      next = {"zero2", "zero3"};
      break;
    case Method::Kind::Zero2:
      next = {"zero3"};
      break;
    default:
      next.clear();
  }
  // What is copied between groups may be split over all devices first.
  if (request.search.method.shard)
    next.insert(next.begin(), request.search.method.kind == Method::Kind::Zero1   ? "zero1"
                              : request.search.method.kind == Method::Kind::Zero2 ? "zero2"
                                                                                  : "zero3");
  // A mesh given for one stage suits its method: other methods use its axes for something else.
  ladders.push_back(methods(request, WayOut::Kind::ZeroLevel, next));
  if (request.search.logical_mesh) return ladders;
  if (request.search.method.one_stage() && request.search.method.kind != Method::Kind::Shard)
    ladders.push_back(methods(request, WayOut::Kind::FreerMethod, {"shard"}));
  ladders.push_back(methods(request, WayOut::Kind::FreerMethod, {"pipeshard"}));
  return ladders;
}

// About twice, four and eight times as many, then one sample each, where the search was held to a number.
// Smaller micro-batches hold fewer activations; counts have to divide the batch.
ChangeLadder more_microbatches(const PlanRequest& request) {
  ChangeLadder ladder{WayOut::Kind::MoreMicrobatches, {}};
  const auto* asked = std::get_if<std::int64_t>(&request.search.microbatches);
  if (asked == nullptr) return ladder;
  const std::int64_t batch = request.training.batch;
  std::int64_t last = *asked;
  for (const std::int64_t times : {std::int64_t{2}, std::int64_t{4}, std::int64_t{8}, batch}) {
    std::int64_t count = times == batch ? std::max(batch, last + 1) : std::max(times * *asked, last + 1);
    while (count <= batch && batch % count != 0) ++count;
    if (count > batch) break;
    last = count;
    ladder.steps.push_back(step(request, fmt::format("--micro-batches {}", count),
                                [&](PlanRequest& changed) { changed.search.microbatches = count; }));
  }
  return ladder;
}

ChangeLadder other_schedule(const PlanRequest& request) {
  if (request.first_schedule() != ScheduleKind::GPipe) return {WayOut::Kind::OtherSchedule, {}};
  return {WayOut::Kind::OtherSchedule, {step(request, "--schedule 1f1b", [](PlanRequest& changed) {
            changed.search.schedule = ScheduleKind::OneFOneB;
          })}};
}

ChangeLadder smaller_batches(const PlanRequest& request) {
  ChangeLadder ladder{WayOut::Kind::SmallerBatch, {}};
  for (const std::int64_t part : {2, 4}) {
    const std::int64_t batch = request.training.batch / part;
    const auto* given = std::get_if<std::int64_t>(&request.search.microbatches);
    const std::int64_t microbatches = given != nullptr ? *given : 1;
    if (request.training.batch % part != 0 || batch % microbatches != 0) break;
    ladder.steps.push_back(
        step(request, fmt::format("--batch {}", batch), [&](PlanRequest& changed) { changed.training.batch = batch; }));
  }
  return ladder;
}

// Launch files of frameworks keep optimizer state alone on the hosts.
ChangeLadder offloads(const PlanRequest& request) {
  ChangeLadder ladder{WayOut::Kind::Offload, {}};
  const auto& groups = request.cluster.groups;
  const bool told = std::all_of(groups.begin(), groups.end(), [](const HostGroup& group) {
    return group.device.host_memory.si() > 0 && group.device.host_bandwidth.si() > 0;
  });
  if (!request.trains() || request.search.any_offload || !told) return ladder;
  std::vector<Offload> parts = {Offload::Optimizer};
  if (request.search.launch_for == nullptr && request.software.empty())
    parts.push_back(Offload::Optimizer | Offload::Activations | Offload::Weights);
  for (const Offload part : parts) {
    const Offload more = request.training.offload | part;
    if (more == request.training.offload) continue;
    ladder.steps.push_back(step(request, fmt::format("--offload {}", name_of(more)),
                                [&](PlanRequest& changed) { changed.training.offload = more; }));
  }
  return ladder;
}

ChangeLadder richer_meshes(const PlanRequest& request) {
  const Method::Kind kind = request.search.method.kind;
  const bool open = (kind == Method::Kind::Pipeshard || kind == Method::Kind::Shard) && !request.search.logical_mesh;
  if (!open || request.search.logical_mesh_space == LogicalMeshSpace::ThreeDimensional)
    return {WayOut::Kind::RicherMeshes, {}};
  return {WayOut::Kind::RicherMeshes,
          {step(request, "--logical-mesh-space three_dimensional",
                [](PlanRequest& changed) { changed.search.logical_mesh_space = LogicalMeshSpace::ThreeDimensional; })}};
}

// The name of the preset of the group's hosts, such as "p3.16xlarge" for the second group of
// "dgx-a100:1+p3.16xlarge:2"; "": the cluster is not named like that.
std::string family_of(const Cluster& cluster, std::size_t group) {
  const std::vector<std::string> parts = split(cluster.name, '+');
  return parts.size() == cluster.groups.size() ? parts[group].substr(0, parts[group].find(':')) : "";
}

// "--cluster p3.16xlarge:3" where that is just the cluster with `hosts` hosts in the group, else in words.
RequestChange with_hosts(const PlanRequest& request, std::size_t group, int hosts) {
  Cluster cluster = request.cluster;
  const int more = hosts - cluster.groups[group].hosts;
  cluster.groups[group].hosts = hosts;
  std::string text = fmt::format("{} more {}{}", more, more == 1 ? "host" : "hosts",
                                 cluster.uniform() ? "" : " of " + cluster.groups[group].device.name);
  std::vector<std::string> parts = split(cluster.name, '+');
  if (const std::string family = family_of(cluster, group); !family.empty())
    parts[group] = fmt::format("{}:{}", family, hosts);
  cluster.name = join(parts, "+");
  try {
    if (to_json(find_cluster(cluster.name)) == to_json(cluster)) text = "--cluster " + cluster.name;
  } catch (const std::runtime_error&) {
    // Not a preset, or not for so many hosts; a file that is not there.
  }
  if (!text.starts_with("--")) cluster.name = fmt::format("{} and {}", request.cluster.name, text);
  return step(request, text, [&](PlanRequest& changed) { changed.cluster = cluster; });
}

std::vector<ChangeLadder> more_hosts(const PlanRequest& request, const HeldBytes& held) {
  // Stages and meshes that are given leave other devices idle.
  if (request.search.method.kind == Method::Kind::Manual || request.search.logical_mesh) return {};
  std::vector<ChangeLadder> ladders;
  for (std::size_t g = 0; g < request.cluster.groups.size(); ++g) {
    const HostGroup& group = request.cluster.groups[g];
    if (family_of(request.cluster, g) == "cpu") continue;  // threads of this machine: there is no second one
    std::set<int> hosts = {group.hosts + 1, 2 * group.hosts};
    if (request.cluster.uniform()) {
      const double host = group.devices_per_host * group.usable_memory().si();
      const double min_hosts = std::ceil((held.weights + held.state).si() / host);
      int power = 1;
      while (power < min_hosts && power < kMaxHosts) power *= 2;
      // Activations may need more hosts than that.
      for (int doublings = 0; power > 2 * group.hosts && doublings < kMaxHostDoublings; ++doublings, power *= 2)
        hosts.insert(power);
    }
    ChangeLadder ladder{WayOut::Kind::MoreDevices, {}};
    for (const int count : hosts)
      if (count <= kMaxHosts) ladder.steps.push_back(with_hosts(request, g, count));
    ladders.push_back(std::move(ladder));
  }
  return ladders;
}

}  // namespace

std::vector<ChangeLadder> change_ladders(const PlanRequest& request) {
  const HeldBytes held = held_by(request);
  std::vector<ChangeLadder> ladders = recomputations(request);
  const auto add = [&](std::vector<ChangeLadder> more) {
    std::move(more.begin(), more.end(), std::back_inserter(ladders));
  };
  add(methods(request));
  add({more_microbatches(request), other_schedule(request), smaller_batches(request), offloads(request)});
  add(more_hosts(request, on_devices(held, request)));
  add({richer_meshes(request)});
  for (ChangeLadder& ladder : ladders)
    ladder.steps.erase(std::remove_if(ladder.steps.begin(), ladder.steps.end(),
                                      [&](const RequestChange& s) { return !may_fit(held, s.request); }),
                       ladder.steps.end());
  return ladders;
}

}  // namespace meshwright
