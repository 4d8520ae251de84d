// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_plans.h"
#include "launch/read/launch_reading.h"

namespace meshwright {

namespace {

// One mesh for each stage, ranks in order; an axis of experts lies beside that of the replicas.
void set_stages(PlanRequest& request, const LaunchSetup& setup) {
  Method method;
  method.kind = Method::Kind::Manual;
  method.text = "manual";
  int layer = 0;
  const int per_host = setup.devices_per_host;
  for (const StageSetup& stage : setup.stages) {
    const int devices = stage.dp * stage.tp * stage.cp;
    Submesh submesh;
    submesh.hosts = devices <= per_host ? 1 : devices / per_host;
    submesh.devices_per_host = devices <= per_host ? devices : per_host;
    method.stages.push_back({layer, layer + stage.blocks - 1, submesh, {stage.dp, stage.tp}, 0});
    for (int block = 0; stage.recompute != Recompute::None && block < stage.blocks; ++block)
      request.search.recompute_layers.push_back({layer + block, layer + block, stage.recompute});
    layer += stage.blocks;
  }
  request.search.method = method;
  if (request.search.recompute_layers.empty()) request.search.recompute_modules = setup.degrees.recompute_modules;
  request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
  request.search.microbatches = setup.degrees.micro_batches;
  request.search.schedule = setup.degrees.schedule;
}

void set_recomputed_layers(PlanRequest& request, const LaunchSetup& setup) {
  if (setup.recompute_layers.empty()) return;
  LayerOptions::Cut& cut = request.search.layer_cut.cut;
  const bool apart = cut == LayerOptions::Cut::BlocksApart || request.search.method.split.uneven();
  if (cut == LayerOptions::Cut::Default && !apart) cut = LayerOptions::Cut::Blocks;
  request.search.recompute_layers = setup.recompute_layers;
  // The embedding is the first layer then.
  for (LayerRecompute& range : request.search.recompute_layers) {
    range.first += apart ? 1 : 0;
    range.last += apart ? 1 : 0;
  }
}

void set_meshes(PlanRequest& request, const LaunchSetup& setup) {
  const GivenMeshes& given = *setup.meshes;
  SearchOptions& search = request.search;
  search.method.kind = Method::Kind::Manual;
  search.method.text = "manual";
  search.method.stages = given.stages;
  if (given.layer_starts.empty()) {
    search.layers = given.stages.back().last_layer + 1;
  } else {
    search.layer_cut.cut = LayerOptions::Cut::Starts;
    search.layer_cut.starts = given.layer_starts;
  }
  search.forced = given.specs;
  search.microbatches = setup.degrees.micro_batches;
  search.schedule = setup.degrees.schedule;
  search.recompute = setup.degrees.recompute;
  search.recompute_modules = setup.degrees.recompute_modules;
}

}  // namespace

PlanRequest request_of(const LaunchSetup& setup, const Cluster& cluster) {
  PlanRequest request;
  request.model = setup.model;
  request.cluster = cluster;
  request.training.batch = setup.global_batch();
  request.training.dtype = setup.dtype;
  request.training.optimizer = setup.optimizer;
  request.training.offload = setup.offload;
  if (setup.meshes) {
    request.training.loss = setup.meshes->loss;
    set_meshes(request, setup);
    return request;
  }
  if (!setup.stages.empty()) {
    set_stages(request, setup);
    return request;
  }
  const Degrees degrees = degrees_with_layout(setup);
  request = request_of(request, degrees);
  const bool data_alone = degrees.tp * degrees.pp * degrees.cp * degrees.ep == 1;
  if (setup.shard && data_alone && degrees.zero > 0 && *setup.shard < degrees.dp)
    request.search.method = method_from_text(fmt::format("zero{}:shard={}", degrees.zero, *setup.shard));
  set_recomputed_layers(request, setup);
  return request;
}

}  // namespace meshwright
