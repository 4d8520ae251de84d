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

void read_plan_constants(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  Degrees& d = job.degrees();
  if (const auto name = s.text("SCHEDULE")) d.schedule = schedule_from_name(*name);
  if (const auto name = s.text("DTYPE")) setup.dtype = dtype_from_name(*name);
  if (const auto name = s.text("RECOMPUTE")) {
    if (*name == "none" || *name == "full" || *name == "selective")
      d.recompute = recompute_from_name(*name);
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
