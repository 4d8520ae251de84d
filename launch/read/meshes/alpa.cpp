// SPDX-License-Identifier: Apache-2.0
// Programs for Alpa: the options of its PipeshardParallel.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/meshes/mesh_parts.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

std::vector<ConfigValue> list_of(const Setting* setting, const char* what) {
  require(setting != nullptr && setting->value.is_list(), "{} of ManualStageOption is {}.", what,
          setting == nullptr ? "missing" : "no list");
  return setting->value.items;
}

void read_manual_stages(ReadingJob& job) {
  Settings& s = job.settings();
  GivenMeshes& meshes = *job.reading.setup.meshes;
  const Setting* ids = s.take("ManualStageOption.forward_stage_layer_ids");
  const std::vector<ConfigValue> layers = list_of(ids, "forward_stage_layer_ids");
  const std::vector<ConfigValue> physical =
      list_of(s.take("ManualStageOption.submesh_physical_shapes"), "submesh_physical_shapes");
  const std::vector<ConfigValue> logical =
      list_of(s.take("ManualStageOption.submesh_logical_shapes"), "submesh_logical_shapes");
  const Setting* options = s.take("ManualStageOption.submesh_autosharding_option_dicts");
  const std::size_t count = layers.size();
  require(count > 0 && physical.size() == count && logical.size() == count &&
              (options == nullptr || options->value.items.size() == count),
          "{}: ManualStageOption has {} stages, {} submeshes and {} logical shapes; give as many of each.", ids->place,
          count, physical.size(), logical.size());
  std::int64_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string where = fmt::format("{}: stage {}", ids->place, i);
    const std::vector<std::int64_t> own = numbers_of(layers[i], where), hosts = numbers_of(physical[i], where),
                                    shape = numbers_of(logical[i], where);
    for (const std::int64_t layer : own) {
      require(layer == next, "{}: layer {} stands where {} is next; stages are whole runs of layers.", where, layer,
              next);
      ++next;
    }
    require(!own.empty() && hosts.size() == 2 && hosts[0] >= 1 && hosts[1] >= 1 && !shape.empty() && shape.size() <= 2,
            "{}: needs layers, a submesh of hosts and devices, and a logical shape of at most two axes.", where);
    std::int64_t devices = 1;
    for (const std::int64_t size : shape) devices = std::min<std::int64_t>(devices * size, kMaxDegree);
    require(hosts[0] * hosts[1] == devices, "{}: a submesh of {} x {} devices and a logical shape of {}.", where,
            hosts[0], hosts[1], devices);
    (void)submesh_of(devices, job.devices, where);
    Method::ManualStage stage;
    stage.first_layer = static_cast<int>(own.front());
    stage.last_layer = static_cast<int>(own.back());
    stage.submesh.hosts = static_cast<int>(hosts[0]);
    stage.submesh.devices_per_host = static_cast<int>(hosts[1]);
    stage.logical_shape.assign(shape.begin(), shape.end());
    if (options != nullptr)
      if (const ConfigValue* axis = options->value.items[i].find("force_batch_dim_to_mesh_dim"); axis != nullptr) {
        const auto number = whole_number(axis->text);
        require(number && *number >= 0 && *number < static_cast<std::int64_t>(shape.size()),
                "{}: force_batch_dim_to_mesh_dim is '{}', no axis of its mesh.", where, to_text(*axis));
        stage.batch_axis = static_cast<int>(*number);
      }
    meshes.stages.push_back(stage);
  }
  if (!meshes.layer_starts.empty() && static_cast<std::int64_t>(meshes.layer_starts.size()) != next)
    job.broken_without_plan(
        fmt::format("the stages have {} layers, and LAYER_STARTS {}", next, meshes.layer_starts.size()));
  if (meshes.layer_starts.empty())
    job.assume(fmt::format("{} layers of equal work, as AutoLayerOption cuts them", next));
}

}  // namespace

void read_alpa(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  setup.meshes.emplace();
  need_model(job);
  job.degrees().schedule = ScheduleKind::OneFOneB;
  if (const auto schedule = s.text("PipeshardParallel.pipeline_schedule"))
    job.degrees().schedule =
        *schedule == "1f1b_overlap_friendly" ? ScheduleKind::EagerOneFOneB : schedule_from_name(*schedule);
  read_plan_constants(job);
  if (!setup.meshes->recompute_ranges.empty())
    job.no_plan("Alpa recomputes all layers or none, and RECOMPUTE_RANGES some");
  for (const char* layer : {"AutoLayerOption.remat_mode", "ManualLayerOption.remat_layer"})
    if (const auto mode = s.text(layer); mode && !s.has("RECOMPUTE"))
      job.degrees().recompute = *mode == "none" || *mode == "False" ? Recompute::None : Recompute::Full;
  const auto micro = s.integer("PipeshardParallel.num_micro_batches");
  const auto told = s.integer("MICRO_BATCHES");
  if (micro && told && *micro != *told)
    job.broken_without_plan(fmt::format("num_micro_batches is {}, and MICRO_BATCHES {}", *micro, *told));
  read_whole_batch(job, s.integer("BATCH"), micro.value_or(told.value_or(1)));
  if (s.has("ManualStageOption()")) {
    read_manual_stages(job);
  } else {
    job.no_plan("its stages are for Alpa to choose as it runs; `meshwright plan --for alpa` searches as it does");
  }
  job.degrees().pp = std::max<int>(1, static_cast<int>(setup.meshes->stages.size()));
  job.reading.why_no_advice = "its stages have meshes of their own";
  s.no_effect_where([](const Setting& setting) {
    return setting.key.ends_with("()") || setting.key.starts_with("AutoLayerOption.layer_num") ||
           setting.key.starts_with("ManualLayerOption") || setting.key == "STAGE_OPTION" ||
           setting.key == "PipeshardParallel.layer_option" || setting.key == "PipeshardParallel.stage_option";
  });
}

}  // namespace meshwright
