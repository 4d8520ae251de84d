// SPDX-License-Identifier: Apache-2.0
#include "launch/read/meshes/mesh_parts.h"

#include <algorithm>

#include "core/base/errors.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

std::vector<ConfigValue> items_of(const ConfigValue& value) {
  return value.is_list() ? value.items : std::vector<ConfigValue>{value};
}

std::vector<std::int64_t> numbers_of(const ConfigValue& value, const std::string& where) {
  std::vector<std::int64_t> numbers;
  for (const ConfigValue& item : items_of(value)) {
    const auto number = whole_number(item.text);
    require(number && *number >= 0 && *number <= kMaxDegree, "{}: '{}' is no whole number of at least 0.", where,
            to_text(item));
    numbers.push_back(*number);
  }
  return numbers;
}

Submesh submesh_of(std::int64_t devices, const LaunchDevices& all, const std::string& where) {
  const int per_host = all.devices_per_host;
  require(devices >= 1 && devices <= all.devices() && (devices <= per_host || devices % per_host == 0),
          "{}: {} devices are no part of {} x {}.", where, devices, all.hosts, per_host);
  Submesh submesh;
  submesh.hosts = devices <= per_host ? 1 : static_cast<int>(devices) / per_host;
  submesh.devices_per_host = devices <= per_host ? static_cast<int>(devices) : per_host;
  return submesh;
}

namespace {

// A custom schedule is its rows, one for each rank.
void read_schedule(ReadingJob& job, const std::string& name) {
  const Setting* rows = job.settings().take("SCHEDULE_RUNS");
  if (name != name_of(ScheduleKind::Custom) || rows == nullptr) {
    job.degrees().schedule = schedule_from_name(name);
    return;
  }
  job.degrees().schedule = ScheduleKind::Custom;
  Schedule& runs = job.reading.setup.meshes->runs.emplace();
  for (const ConfigValue& rank : items_of(rows->value)) {
    runs.emplace_back();
    for (const ConfigValue& cell : items_of(rank)) {
      const auto run = run_from_text(cell.text);
      require(run.has_value(), "{}: '{}' is not a run; expected stage, F, B, I or W, and micro-batch, such as '0F0'.",
              rows->place, to_text(cell));
      runs.back().push_back(*run);
    }
  }
}

void read_ranges(ReadingJob& job, const Setting& ranges) {
  const auto otherwise = job.settings().text("RECOMPUTE_ELSEWHERE");
  require(otherwise.has_value() && ranges.value.is_list(),
          "{}: RECOMPUTE_RANGES is a list, and RECOMPUTE_ELSEWHERE says what holds outside of it.", ranges.place);
  job.degrees().recompute = recompute_from_name(*otherwise);
  for (const ConfigValue& range : ranges.value.items) {
    require(range.is_list() && range.items.size() == 3, "{}: {} is no range; give ('first', 'last', 'full').",
            ranges.place, to_text(range));
    job.reading.setup.meshes->recompute_ranges.push_back(
        {range.items[0].text, range.items[1].text, recompute_from_name(range.items[2].text)});
  }
}

}  // namespace

void read_plan_constants(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  Degrees& d = job.degrees();
  if (const auto name = s.text("SCHEDULE")) read_schedule(job, *name);
  if (const auto name = s.text("DTYPE")) setup.dtype = dtype_from_name(*name);
  if (const auto name = s.text("LOSS")) setup.meshes->loss = loss_reduction_from_name(*name);
  if (const auto name = s.text("OFFLOAD")) setup.offload = offload_from_name(*name);
  if (const auto name = s.text("SOFTWARE")) job.reading.software = *name;
  if (const auto name = s.text("RECOMPUTE")) {
    if (const Setting* ranges = s.take("RECOMPUTE_RANGES"); ranges != nullptr)
      read_ranges(job, *ranges);
    else if (*name == "none" || *name == "full" || *name == "selective")
      d.recompute = recompute_from_name(*name);
    else if (recompute_module(name->substr(0, name->find(','))))
      d.recompute_modules = recompute_modules_from_name(*name);
    else
      job.no_plan(fmt::format("{}: recomputation of single layers ({}) is not read", s.where("RECOMPUTE"), *name));
  }
  if (const Setting* given = s.take("OPTIMIZER"); given != nullptr && given->value.is_map()) {
    Optimizer& o = setup.optimizer;
    const auto number = [&](const char* key, double otherwise) {
      const ConfigValue* value = given->value.find(key);
      if (value == nullptr) return otherwise;
      const auto found = real_number(value->text);
      require(found && *found >= 0.0, "{}: '{}' of OPTIMIZER is no number of at least 0.", given->place, key);
      return *found;
    };
    if (const ConfigValue* kind = given->value.find("kind"); kind != nullptr) o.kind = optimizer_from_name(kind->text);
    o.learning_rate = number("learning_rate", o.learning_rate);
    o.weight_decay = number("weight_decay", o.weight_decay);
    o.max_norm = number("max_norm", o.max_norm);
    o.momentum = number("momentum", o.momentum);
    o.loss_scale = number("loss_scale", o.loss_scale);
    if (const ConfigValue* interval = given->value.find("loss_scale_interval"); interval != nullptr)
      o.loss_scale_interval = numbers_of(*interval, given->place + ": loss_scale_interval").front();
    require(o.momentum < 1.0, "{}: a momentum of {}; give one below 1.", given->place, o.momentum);
  }
  if (const Setting* starts = s.take("LAYER_STARTS"); starts != nullptr && starts->value.is_list())
    for (const ConfigValue& one : starts->value.items) setup.meshes->layer_starts.push_back(one.text);
}

void read_whole_batch(ReadingJob& job, std::optional<std::int64_t> batch, std::int64_t micro_batches) {
  LaunchSetup& setup = job.reading.setup;
  if (job.answers.batch) batch = job.answers.batch;
  require(batch.has_value(), "{}: does not say its batch; give --batch.", job.text.program);
  setup.batch = *batch;
  job.degrees().micro_batches = micro_batches;
  job.degrees().micro_batch = std::max<std::int64_t>(1, *batch / micro_batches);
  if (*batch % micro_batches != 0)
    job.no_plan(fmt::format("a batch of {} is not a multiple of {} micro-batches", *batch, micro_batches));
}

void need_model(ReadingJob& job) {
  require(take_given_model(job, std::nullopt),
          "{}: its model is the user's own program; give --model with a built-in model, sizes or a config.json.",
          job.text.program);
}

}  // namespace meshwright
