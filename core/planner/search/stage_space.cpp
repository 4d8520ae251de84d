// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/stage_space.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

StageSpace whole_cluster(const HostGroup& hosts, const std::vector<std::vector<int>>& shapes) {
  StageSpace space;
  space.submeshes = {{hosts.hosts, hosts.devices_per_host}};
  for (const auto& shape : shapes) space.meshes.push_back({0, shape});
  space.stages = 1;
  return space;
}

// The logical meshes of a method that puts every device into one stage.
StageSpace one_stage(const PlanRequest& request) {
  const Cluster& cluster = request.cluster;
  require(
      cluster.uniform(),
      "method '{}' makes one stage of all devices, but {} has {} kinds of hosts; choose pipeshard, megatron or manual.",
      request.search.method.text, cluster.name, cluster.groups.size());
  const HostGroup& hosts = cluster.only();
  // The user's mesh comes first, then the mesh that the method's degrees give. Else all shapes are searched.
  if (request.search.logical_mesh) return whole_cluster(hosts, {*request.search.logical_mesh});
  if (const auto shape = logical_shape_of(request.search.method, cluster.devices(), cluster.name))
    return whole_cluster(hosts, {*shape});
  return whole_cluster(
      hosts, enumerate_logical_shapes({hosts.hosts, hosts.devices_per_host}, request.search.logical_mesh_space));
}

std::string in_words(const Cluster& cluster, int group) {
  return cluster.uniform() ? cluster.name : fmt::format("group {} of {}", group, cluster.name);
}

// With several stages on each rank the first ones have a rank of their own.
StageSpace fixed_stages(const Cluster& cluster, std::vector<Method::ManualStage> stages, int chunks) {
  StageSpace space;
  const std::size_t ranks = stages.size() / static_cast<std::size_t>(chunks);
  require(stages.size() % static_cast<std::size_t>(chunks) == 0,
          "the method gives {} stages, but the schedule has {} on each rank; give a multiple of {} stages.",
          stages.size(), chunks, chunks);
  std::vector<int> devices(cluster.groups.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Method::ManualStage& stage = stages[s];
    const int group = stage.submesh.group;
    require(group < static_cast<int>(cluster.groups.size()),
            "the method asks for hosts of group {}, but {} has groups 0..{}.", group, cluster.name,
            cluster.groups.size() - 1);
    const HostGroup& hosts = cluster.group(group);
    require(stage.submesh.hosts <= hosts.hosts && stage.submesh.devices_per_host <= hosts.devices_per_host,
            "the method asks for a {}x{} submesh, but {} is {}x{}.", stage.submesh.hosts,
            stage.submesh.devices_per_host, in_words(cluster, group), hosts.hosts, hosts.devices_per_host);
    if (s < ranks) devices[group] += stage.submesh.devices();
    // Stages with the same submesh and logical mesh share one slice and one mesh of the table.
    auto at = std::find(space.submeshes.begin(), space.submeshes.end(), stage.submesh);
    if (at == space.submeshes.end()) at = space.submeshes.insert(at, stage.submesh);
    const int number = static_cast<int>(at - space.submeshes.begin());
    const bool known = std::any_of(space.meshes.begin(), space.meshes.end(), [&](const StageSearch::MeshRequest& mesh) {
      return mesh.submesh == number && mesh.shape == stage.logical_shape && mesh.batch_axis == stage.batch_axis;
    });
    if (!known) space.meshes.push_back({number, stage.logical_shape, stage.batch_axis});
  }
  for (std::size_t g = 0; g < devices.size(); ++g)
    require(devices[g] <= cluster.groups[g].devices(), "the method's stages take {} devices, but {} has {}.",
            devices[g], in_words(cluster, static_cast<int>(g)), cluster.groups[g].devices());
  space.fixed = std::move(stages);
  return space;
}

// Runs of layers, equal unless the method says other, over equal submeshes of dp x cp x ep x tp devices, `chunks` of
// them on each submesh, of `copies` of all stages. `further`: modules of the model behind its blocks that predict
// further tokens.
std::vector<Method::ManualStage> megatron_stages(const Method& method, const Cluster& cluster, int layers, int chunks,
                                                 int copies, std::int64_t further) {
  const int devices = cluster.devices();
  const int model = method.tp * method.cp * method.expert_axis();
  require(devices % (model * method.pp) == 0, "method '{}': {} devices do not divide into tp={} x pp={}{}.",
          method.text, devices, method.tp, method.pp,
          model == method.tp ? "" : fmt::format(" x cp={} x ep={}", method.cp, method.expert_axis()));
  // Data parallelism as people count it: experts are spread over it.
  const int dp = devices / (method.tp * method.cp * method.pp);
  require(method.dp == 0 || method.dp == dp, "method '{}': dp={} x tp={} x pp={} is not the {} devices of {}.",
          method.text, method.dp, method.tp, method.pp, devices, cluster.name);
  require(method.chunks == 1 || method.chunks == chunks,
          "method '{}': vpp={} needs a schedule with {} stages on each rank, and this one has {}.", method.text,
          method.chunks, method.chunks, chunks);
  const int all = method.pp * chunks / copies;
  require(layers >= all, "method '{}': {} layers cannot make {} stages; give --layers of at least {}.", method.text,
          layers, all, chunks == copies ? "pp" : "pp times the stages of each rank");
  const int per_stage = devices / method.pp;
  std::vector<Method::ManualStage> stages;
  for (int g = 0; g < static_cast<int>(cluster.groups.size()); ++g) {
    const HostGroup& hosts = cluster.group(g);
    require(hosts.devices() % per_stage == 0, "method '{}': {} has {} devices, which are not stages of {}.",
            method.text, in_words(cluster, g), hosts.devices(), per_stage);
    Submesh submesh{1, per_stage, g};
    // A submesh is a rectangle: it is inside one host, or it fills whole hosts.
    if (per_stage > hosts.devices_per_host) {
      require(per_stage % hosts.devices_per_host == 0,
              "method '{}': a stage of {} devices does not fill whole hosts of {}.", method.text, per_stage,
              hosts.devices_per_host);
      submesh = {per_stage / hosts.devices_per_host, hosts.devices_per_host, g};
    }
    for (int i = 0; i < hosts.devices() / per_stage; ++i)
      stages.push_back({0, 0, submesh, *logical_shape_of(method, per_stage, cluster.name)});
  }
  require(chunks == 1 || cluster.uniform(),
          "method '{}': several stages on each rank need ranks that are alike, but {} has {} kinds of hosts; choose "
          "another schedule.",
          method.text, cluster.name, cluster.groups.size());
  stages.resize(static_cast<std::size_t>(all), stages.front());
  if (method.split.uneven()) {
    // The embedding and the loss are layers of their own.
    const std::vector<std::string> broken =
        broken_split_rules(method.split, layers - 2 - further, method.pp, chunks / copies, further);
    require(broken.empty(), "method '{}': {}; give the model's blocks to the stages, and leave --layers out.",
            method.text, broken.empty() ? "" : broken.front());
  }
  const std::vector<int> starts = first_layers_of_stages(method.split, layers, method.pp, chunks / copies);
  for (int s = 0; s < all; ++s) {
    stages[static_cast<std::size_t>(s)].first_layer = starts[static_cast<std::size_t>(s)];
    stages[static_cast<std::size_t>(s)].last_layer = starts[static_cast<std::size_t>(s) + 1] - 1;
  }
  return stages;
}

// The submeshes and logical meshes of a request with these spaces.
void fill(StageSpace& space, std::vector<Submesh> submeshes, LogicalMeshSpace logical) {
  space.submeshes = std::move(submeshes);
  for (std::size_t s = 0; s < space.submeshes.size(); ++s)
    for (const auto& shape : enumerate_logical_shapes(space.submeshes[s], logical))
      space.meshes.push_back({static_cast<int>(s), shape});
}

// What is asked for where nothing is said, and all that lies between that and the request.
void note_narrower(const PlanRequest& request, StageSpace& space) {
  const LogicalMeshSpace logical = request.search.logical_mesh_space;
  std::vector<LogicalMeshSpace> logicals;
  for (const auto each : {LogicalMeshSpace::SingleNodeModelParallel, LogicalMeshSpace::All})
    if (logical == LogicalMeshSpace::ThreeDimensional ||
        (logical == LogicalMeshSpace::All && each != LogicalMeshSpace::All))
      logicals.push_back(each);
  logicals.push_back(logical);
  std::vector<std::vector<Submesh>> submeshes;
  const auto* named = std::get_if<SubmeshSpace>(&request.search.submeshes);
  if (named != nullptr && *named == SubmeshSpace::All)
    submeshes.push_back(enumerate_submeshes(request.cluster, SubmeshSpace::PowerOfTwo));
  submeshes.push_back(space.submeshes);
  for (const auto& own : submeshes)
    for (const LogicalMeshSpace each : logicals) {
      StageSpace narrow;
      fill(narrow, own, each);
      if (narrow.meshes.size() >= space.meshes.size()) continue;
      std::vector<bool>& marks = space.narrower.emplace_back();
      for (const StageSearch::MeshRequest& mesh : space.meshes)
        marks.push_back(std::any_of(narrow.meshes.begin(), narrow.meshes.end(), [&](const auto& other) {
          return narrow.submeshes[other.submesh] == space.submeshes[mesh.submesh] && other.shape == mesh.shape;
        }));
    }
}

}  // namespace

bool is_small(const PlanRequest& request) {
  constexpr std::int64_t kMaxRuns = 2048;  // devices times samples
  constexpr std::size_t kMaxOps = 1500;    // of the step's graph
  // On three axes an op is split in so many times as many ways that each point takes several times as long.
  constexpr std::size_t kThirdAxis = 3;
  const bool third_axis = request.search.logical_mesh_space == LogicalMeshSpace::ThreeDimensional;
  return request.cluster.devices() * request.training.batch <= kMaxRuns &&
         build_step_graph(request.model, request.training_with(1), request.first_schedule()).ops().size() <=
             (third_axis ? kMaxOps / kThirdAxis : kMaxOps);
}

std::vector<Submesh> whole_host_submeshes(const Cluster& cluster, const std::vector<int>& multiples) {
  constexpr int kMaxStages = 12;
  std::vector<Submesh> submeshes;
  for (int g = 0; g < static_cast<int>(cluster.groups.size()); ++g) {
    const HostGroup& group = cluster.group(g);
    int hosts = 1;
    while (kMaxStages * hosts < group.hosts) hosts *= 2;
    for (const int times : multiples)
      if (times * hosts <= group.hosts) submeshes.push_back({times * hosts, group.devices_per_host, g});
  }
  return submeshes;
}

std::optional<std::string> unmet_by(const PlanRequest& request, ScheduleKind schedule, std::int64_t microbatches) {
  const Method& method = request.search.method;
  const int per_copy = std::max(1, chunks_of(request) / traits_of(schedule).copies);
  const int ranks = method.kind == Method::Kind::Megatron ? method.pp
                    : method.kind == Method::Kind::Manual ? static_cast<int>(method.stages.size()) / per_copy
                                                          : 2;
  return unmet_by(schedule, ranks, microbatches);
}

int chunks_of(const PlanRequest& request) {
  if (request.any_schedule()) return 1;
  if (const auto given = traits_of(request.first_schedule()).chunks) return *given;
  return is_auto(request.search.chunks) ? 2 : std::get<int>(request.search.chunks);
}

StageSpace stage_space(const PlanRequest& request, int layers) {
  const Cluster& cluster = request.cluster;
  if (request.search.method.one_stage()) return one_stage(request);
  const int copies = request.any_schedule() ? 1 : traits_of(request.first_schedule()).copies;
  const auto repeated = [&](std::vector<Method::ManualStage> stages) {
    const std::vector<Method::ManualStage> once = stages;
    for (int copy = 1; copy < copies; ++copy) stages.insert(stages.end(), once.begin(), once.end());
    return stages;
  };
  switch (request.search.method.kind) {
    case Method::Kind::Megatron:
      return fixed_stages(cluster,
                          repeated(megatron_stages(request.search.method, cluster, layers, chunks_of(request), copies,
                                                   shape_of(request.model).further)),
                          chunks_of(request));
    case Method::Kind::Manual:
      require(request.search.method.stages.back().last_layer + 1 == layers,
              "method '{}': the stages hold layers 0..{}, but there are {} layers; cut the model into {}.",
              request.search.method.text, request.search.method.stages.back().last_layer, layers,
              request.search.method.stages.back().last_layer + 1);
      return fixed_stages(cluster, repeated(request.search.method.stages), chunks_of(request));
    default:
      break;
  }
  StageSpace space;
  const auto& submeshes = request.search.submeshes;
  const auto* given = std::get_if<std::vector<Submesh>>(&submeshes);
  fill(space, given != nullptr ? *given : enumerate_submeshes(cluster, std::get<SubmeshSpace>(submeshes)),
       request.search.logical_mesh_space);
  note_narrower(request, space);
  return space;
}

}  // namespace meshwright
