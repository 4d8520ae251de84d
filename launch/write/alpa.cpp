// SPDX-License-Identifier: Apache-2.0
// Alpa: the stages, their submeshes and logical meshes as a ManualStageOption.
#include <algorithm>
#include <optional>

#include "core/base/errors.h"
#include "launch/write/python_text.h"
#include "launch/write/script.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

// The mesh axis over which all operators of the stage split their batch, and none another; nullopt: there is none.
std::optional<int> batch_axis(const StagePlan& stage) {
  std::optional<AxisMask> common;
  for (const auto& [name, sharding] : stage.ops) {
    const auto found = sharding.axes.find("batch");
    const AxisMask mask = found == sharding.axes.end() ? AxisMask{0} : found->second;
    if (common && mask != *common) return std::nullopt;
    common = mask;
  }
  if (!common) return std::nullopt;
  for (int axis = 0; axis < 8; ++axis)
    if (*common == 1 << axis) return axis;
  return std::nullopt;
}

std::string layer_ids(const StagePlan& stage) {
  std::string text;
  for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layer);
  return "[" + text + "]";
}

std::string stage_option(const Plan& plan) {
  std::string layers, physical, logical, options;
  for (const StagePlan& stage : plan.stages) {
    layers += "        " + layer_ids(stage) + ",\n";
    physical += fmt::format("({}, {}), ", stage.submesh.hosts, stage.submesh.devices_per_host);
    logical += python_tuple(stage.logical_shape) + ", ";
    const auto axis = batch_axis(stage);
    options += axis ? fmt::format("{{'force_batch_dim_to_mesh_dim': {}}}, ", *axis) : "{}, ";
  }
  const auto list = [](std::string text) { return "[" + text.substr(0, text.size() - 2) + "]"; };
  return "STAGE_OPTION = ManualStageOption(\n    forward_stage_layer_ids=[\n" + layers +
         "    ],\n    submesh_physical_shapes=" + list(physical) + ",\n    submesh_logical_shapes=" + list(logical) +
         ",\n    # Over which mesh axis the batch is split, where the plan splits it over one alone.\n"
         "    submesh_autosharding_option_dicts=" +
         list(options) + ",\n)\n";
}

std::string name_in_alpa(ScheduleKind schedule) {
  return schedule == ScheduleKind::EagerOneFOneB ? "1f1b_overlap_friendly" : name_of(schedule);
}

}  // namespace

WrittenJob write_alpa(const LaunchJob& job) {
  const Plan& plan = job.plan;
  require(plan.cluster.uniform(), "alpa: {} has {} kinds of hosts, and Alpa one kind; give a plan of one kind.",
          plan.cluster.name, plan.cluster.groups.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    require(plan.stages[s].logical_shape.size() <= 2,
            "alpa: stage {} has a logical mesh of {} axes, and Alpa's have two; give a plan of `meshwright plan --for "
            "alpa`.",
            s, plan.stages[s].logical_shape.size());
  const bool full = plan.training.recompute == Recompute::Full;
  std::string text = commented(heading(job));
  text += "\"\"\"The plan's stages for Alpa: `@alpa.parallelize(method=alpa_plan.method())`.\"\"\"\n";
  text += "from alpa import AutoLayerOption, ManualLayerOption, ManualStageOption, PipeshardParallel\n\n";
  text += plan_constants(plan, job.graph) + "\n" + stage_option(plan) + "\n";
  text += fmt::format(
      "\ndef method(marked=False):\n"
      "    \"\"\"`marked`: the model calls alpa.mark_pipeline_boundary() before every operator of LAYER_STARTS but "
      "the\n"
      "    first, so that its layers are the plan's; else Alpa cuts it into as many layers of equal work.\"\"\"\n"
      "    layers = (\n        ManualLayerOption(remat_layer={0})\n        if marked\n"
      "        else AutoLayerOption(layer_num={1}, remat_mode=\"{2}\")\n    )\n"
      "    return PipeshardParallel(\n        num_micro_batches={3},\n        pipeline_schedule=\"{4}\",\n"
      "        layer_option=layers,\n        stage_option=STAGE_OPTION,\n    )\n",
      full ? "True" : "False", plan.layer_starts.size(), full ? "coarse_grained_remat" : "none",
      plan.training.microbatches, name_in_alpa(plan.schedule));
  WrittenJob made;
  made.files = {{"alpa_plan.py", text, false, "the stages as a ManualStageOption, and the method that runs them"}};
  made.measure = {"step: `executable.get_execution_time_costs()` after `executable.sync()`, without the first two",
                  "memory: `executable.get_max_memory_allocation()`"};
  made.differences = {
      "Alpa's own solver chooses the shardings within each stage's mesh; the plan's are not told to it, but over which "
      "mesh axis the batch is split"};
  return made;
}

}  // namespace meshwright
