// SPDX-License-Identifier: Apache-2.0
// The plan file: JSON "meshwright-plan" version 1. Sizes in bytes, times in seconds, specs as text ("S0R"), mesh axes
// as lists of numbers. Doubles are written in the shortest form that reads back to the same bits, maps in the order of
// their keys, so equal plans give equal bytes. A member the format does not know is refused: dropping it could drop a
// constraint.
#include <cmath>

#include "core/base/text.h"
#include "core/graph/import/find_model.h"
#include "core/plan/plan.h"

namespace meshwright {

namespace {

constexpr const char* kFormat = "meshwright-plan";

Json axes_to_json(AxisMask mask) {
  Json list = Json::array();
  for (int axis = 0; axis < 8; ++axis)
    if (mask >> axis & 1) list.push_back(axis);
  return list;
}

Json specs_to_json(const std::map<std::string, ShardingSpec>& specs) {
  Json json = Json::object();
  for (const auto& [name, spec] : specs) json[name] = spec.to_text();
  return json;
}

Json to_json(const RecomputeRange& range) {
  return {{"ops", Json::array({range.first, range.last})}, {"recompute", name_of(range.recompute)}};
}

// What a file may leave out is written only where it differs from the usual value.
Json to_json(const TrainingOptions& training) {
  const Optimizer& optimizer = training.optimizer;
  Json json = {{"batch", training.batch},
               {"microbatches", training.microbatches},
               {"dtype", name_of(training.dtype)},
               {"optimizer", name_of(optimizer.kind)},
               {"learning_rate", optimizer.learning_rate},
               {"recompute", name_of(training.recompute)}};
  if (optimizer.momentum != Optimizer{}.momentum) json["momentum"] = optimizer.momentum;
  if (optimizer.weight_decay != 0.0) json["weight_decay"] = optimizer.weight_decay;
  if (optimizer.max_norm != 0.0) json["max_norm"] = optimizer.max_norm;
  if (optimizer.loss_scale != 0.0) {
    json["loss_scale"] = optimizer.loss_scale;
    json["loss_scale_interval"] = optimizer.loss_scale_interval;
  }
  if (training.loss != LossReduction::Mean) json["loss"] = name_of(training.loss);
  for (const RecomputeRange& range : training.recompute_ranges) json["recompute_ranges"].push_back(to_json(range));
  if (training.recompute_modules != RecomputeModules::None)
    json["recompute_modules"] = name_of(training.recompute_modules);
  if (training.offload != Offload::None) json["offload"] = name_of(training.offload);
  return json;
}

Json to_json(const OpSharding& op) {
  Json axes = Json::object();
  for (const auto& [name, mask] : op.axes) axes[name] = axes_to_json(mask);
  Json json = {{"axes", std::move(axes)}, {"result", op.result.to_text()}};
  if (op.partial != 0) json["partial"] = axes_to_json(op.partial);
  return json;
}

// Group 0 goes without saying.
Json to_json(const Submesh& submesh) {
  Json json = Json::array({submesh.hosts, submesh.devices_per_host});
  if (submesh.group != 0) json.push_back(submesh.group);
  return json;
}

Json to_json(const StagePlan& stage) {
  Json ops = Json::object();
  for (const auto& [name, op] : stage.ops) ops[name] = to_json(op);
  Json parameters = Json::object();
  for (const auto& [name, parameter] : stage.parameters) {
    parameters[name] = {{"weight", parameter.weight.to_text()}, {"state", parameter.state.to_text()}};
    if (parameter.eager) parameters[name]["eager"] = true;
  }
  Json json = {{"layers", Json::array({stage.first_layer, stage.last_layer})},
               {"submesh", to_json(stage.submesh)},
               {"logical_shape", stage.logical_shape},
               {"devices", stage.devices},
               {"forward_s", stage.forward.si()},
               {"backward_s", stage.backward.si()},
               {"update_s", stage.update.si()},
               {"peak_memory_bytes", stage.peak_memory.si()},
               {"inputs", specs_to_json(stage.inputs)},
               {"ops", std::move(ops)},
               {"parameters", std::move(parameters)}};
  if (stage.contexts.rings != 0) json["rings"] = axes_to_json(stage.contexts.rings);
  if (stage.contexts.exchanges != 0) json["exchanges"] = axes_to_json(stage.contexts.exchanges);
  for (const auto& [name, fan_out] : stage.fan_outs)
    json["fan_outs"][name] = {{"copy", fan_out.copy.to_text()}, {"gradient", fan_out.gradient.to_text()}};
  for (const auto& [from, form] : stage.cross_mesh) json["cross_mesh"][std::to_string(from)] = name_of(form);
  return json;
}

// --- reading ---

// "plan.json" -> "plan.json: key"; "plan.json: stages[2]" -> "plan.json: stages[2].key".
std::string at(const std::string& place, std::string_view key) {
  return fmt::format("{}{}{}", place, place.find(": ") == std::string::npos ? ": " : ".", key);
}

// The value for a name, with the place in front of what is wrong with it.
template <class Parse>
auto named(const Json& object, const char* key, const std::string& place, Parse parse) {
  const auto name = get<std::string>(object, key, place);
  try {
    return parse(name);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", at(place, key), error.what()));
  }
}

void expect_only(const Json& object, const std::vector<std::string>& known, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  for (const auto& [key, value] : object.items())
    require(std::find(known.begin(), known.end(), key) != known.end(),
            "{}: '{}' is not a member of a plan; the nearest known are {}.", place, key,
            join(nearest_names(key, known), ", "));
}

const Json& object_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  require(value.is_object(), "{}: an object was expected.", at(place, key));
  return value;
}

int integer(const Json& value, const std::string& place, int low, int high) {
  require(value.is_number_integer(), "{}: a whole number was expected, not {}.", place, brief(value));
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  const std::int64_t number = too_large ? std::int64_t{high} + 1 : value.get<std::int64_t>();
  require(number >= low && number <= high, "{}: {} is out of range; give a number from {} to {}.", place, brief(value),
          low, high);
  return static_cast<int>(number);
}

constexpr int kMax = 1 << 30;

std::vector<int> integers(const Json& object, const char* key, const std::string& place, int low, int high) {
  const Json& list = member(object, key, place);
  require(list.is_array(), "{}: a list of whole numbers was expected.", at(place, key));
  std::vector<int> numbers;
  for (std::size_t i = 0; i < list.size(); ++i)
    numbers.push_back(integer(list[i], fmt::format("{}[{}]", at(place, key), i), low, high));
  return numbers;
}

std::pair<int, int> integer_pair(const Json& object, const char* key, const std::string& place, int low) {
  const std::vector<int> numbers = integers(object, key, place, low, kMax);
  require(numbers.size() == 2, "{}: two numbers were expected, not {}.", at(place, key), numbers.size());
  return {numbers[0], numbers[1]};
}

Submesh submesh_from_json(const Json& object, const std::string& place) {
  const std::vector<int> numbers = integers(object, "submesh", place, 0, kMax);
  const std::string where = at(place, "submesh");
  require(numbers.size() == 2 || numbers.size() == 3,
          "{}: [hosts, devices per host] or [hosts, devices per host, group of hosts] was expected, not {} numbers.",
          where, numbers.size());
  require(numbers[0] >= 1 && numbers[1] >= 1, "{}: {}x{} is not a submesh; give numbers from 1 upwards.", where,
          numbers[0], numbers[1]);
  return {numbers[0], numbers[1], numbers.size() == 3 ? numbers[2] : 0};
}

double not_negative(const Json& object, const char* key, const std::string& place) {
  const double value = get<double>(object, key, place);
  require(std::isfinite(value) && value >= 0.0, "{}: a number from 0 upwards was expected, not {}.", at(place, key),
          value);
  return value;
}

std::int64_t positive(const Json& object, const char* key, const std::string& place) {
  const auto value = get<std::int64_t>(object, key, place);
  require(value >= 1, "{}: a number from 1 upwards was expected, not {}.", at(place, key), value);
  return value;
}

ShardingSpec spec(const Json& object, const std::string& key, const std::string& place) {
  return spec_from_text(get<std::string>(object, key, place), at(place, key));
}

std::vector<RecomputeRange> recompute_ranges_from_json(const Json& list, const std::string& place) {
  require(list.is_array(), "{}: a list of ranges was expected.", place);
  std::vector<RecomputeRange> ranges;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", place, i);
    expect_only(list[i], {"ops", "recompute"}, where);
    const auto [first, last] = integer_pair(list[i], "ops", where, 0);
    require(first <= last && (ranges.empty() || ranges.back().last < first),
            "{}: ops {} to {} are out of order; give ranges in order, without overlap.", where, first, last);
    ranges.push_back({first, last, named(list[i], "recompute", where, recompute_from_name)});
  }
  return ranges;
}

TrainingOptions training_from_json(const Json& json, const std::string& place) {
  expect_only(
      json,
      {"batch", "microbatches", "dtype", "optimizer", "learning_rate", "momentum", "weight_decay", "max_norm",
       "loss_scale", "loss_scale_interval", "recompute", "loss", "recompute_ranges", "recompute_modules", "offload"},
      place);
  TrainingOptions training;
  training.batch = positive(json, "batch", place);
  training.microbatches = positive(json, "microbatches", place);
  require(training.batch % training.microbatches == 0, "{}: a batch of {} cannot be divided into {} micro-batches.",
          place, training.batch, training.microbatches);
  training.dtype = named(json, "dtype", place, dtype_from_name);
  training.optimizer.kind = named(json, "optimizer", place, optimizer_from_name);
  training.optimizer.learning_rate = not_negative(json, "learning_rate", place);
  for (const auto& [key, field] :
       {std::pair{"momentum", &Optimizer::momentum}, std::pair{"weight_decay", &Optimizer::weight_decay},
        std::pair{"max_norm", &Optimizer::max_norm}, std::pair{"loss_scale", &Optimizer::loss_scale}})
    if (json.contains(key)) training.optimizer.*field = not_negative(json, key, place);
  if (json.contains("loss_scale_interval"))
    training.optimizer.loss_scale_interval = positive(json, "loss_scale_interval", place);
  training.recompute = named(json, "recompute", place, recompute_from_name);
  if (json.contains("loss")) training.loss = named(json, "loss", place, loss_reduction_from_name);
  if (json.contains("offload")) training.offload = named(json, "offload", place, offload_from_name);
  if (json.contains("recompute_ranges"))
    training.recompute_ranges = recompute_ranges_from_json(json["recompute_ranges"], at(place, "recompute_ranges"));
  if (json.contains("recompute_modules")) {
    training.recompute_modules = named(json, "recompute_modules", place, recompute_modules_from_name);
    require(training.recompute == Recompute::None && training.recompute_ranges.empty(),
            "{}: modules are recomputed alone; expected recompute none, and no ranges.",
            at(place, "recompute_modules"));
  }
  return training;
}

AxisMask mask_from_json(const Json& json, const char* key, const std::string& place) {
  AxisMask mask = 0;
  for (const int axis : integers(json, key, place, 0, 7)) {
    require((mask >> axis & 1) == 0, "{}: axis {} is given twice; give each mesh axis once.", at(place, key), axis);
    mask = static_cast<AxisMask>(mask | 1 << axis);
  }
  return mask;
}

OpSharding op_from_json(const Json& json, const std::string& place) {
  expect_only(json, {"axes", "result", "partial"}, place);
  OpSharding op;
  const Json& axes = object_member(json, "axes", place);
  for (const auto& item : axes.items())
    op.axes[item.key()] = mask_from_json(axes, item.key().c_str(), at(place, "axes"));
  op.result = spec(json, "result", place);
  if (json.contains("partial")) op.partial = mask_from_json(json, "partial", place);
  return op;
}

std::map<int, CrossMesh> cross_mesh_from_json(const Json& json, const std::string& place) {
  std::map<int, CrossMesh> forms;
  for (const auto& item : json.items()) {
    const auto from = static_cast<int>(parse_integer(item.key(), place + ": the stage that sends", 0, kMax));
    require(std::to_string(from) == item.key(), "{}: '{}' is not the number of a stage.", place, item.key());
    forms[from] = named(json, item.key().c_str(), place, cross_mesh_from_name);
  }
  return forms;
}

StagePlan stage_from_json(const Json& json, const std::string& place) {
  expect_only(json,
              {"layers", "submesh", "logical_shape", "devices", "forward_s", "backward_s", "update_s",
               "peak_memory_bytes", "inputs", "ops", "parameters", "fan_outs", "cross_mesh", "rings", "exchanges"},
              place);
  StagePlan stage{};
  std::tie(stage.first_layer, stage.last_layer) = integer_pair(json, "layers", place, 0);
  stage.submesh = submesh_from_json(json, place);
  stage.logical_shape = integers(json, "logical_shape", place, 1, kMax);
  stage.devices = integers(json, "devices", place, 0, kMax);
  stage.forward = Seconds(not_negative(json, "forward_s", place));
  stage.backward = Seconds(not_negative(json, "backward_s", place));
  stage.update = Seconds(not_negative(json, "update_s", place));
  stage.peak_memory = Bytes(not_negative(json, "peak_memory_bytes", place));
  const Json& inputs = object_member(json, "inputs", place);
  for (const auto& item : inputs.items()) stage.inputs[item.key()] = spec(inputs, item.key(), at(place, "inputs"));
  for (const auto& item : object_member(json, "ops", place).items())
    stage.ops[item.key()] = op_from_json(item.value(), fmt::format("{}['{}']", at(place, "ops"), item.key()));
  for (const auto& item : object_member(json, "parameters", place).items()) {
    const std::string where = fmt::format("{}['{}']", at(place, "parameters"), item.key());
    expect_only(item.value(), {"weight", "state", "eager"}, where);
    stage.parameters[item.key()] = {spec(item.value(), "weight", where), spec(item.value(), "state", where),
                                    item.value().contains("eager") && get<bool>(item.value(), "eager", where)};
  }
  if (json.contains("rings")) stage.contexts.rings = mask_from_json(json, "rings", place);
  if (json.contains("exchanges")) stage.contexts.exchanges = mask_from_json(json, "exchanges", place);
  if (json.contains("fan_outs"))
    for (const auto& item : object_member(json, "fan_outs", place).items()) {
      const std::string where = fmt::format("{}['{}']", at(place, "fan_outs"), item.key());
      expect_only(item.value(), {"copy", "gradient"}, where);
      stage.fan_outs[item.key()] = {spec(item.value(), "copy", where), spec(item.value(), "gradient", where)};
    }
  if (json.contains("cross_mesh"))
    stage.cross_mesh = cross_mesh_from_json(object_member(json, "cross_mesh", place), at(place, "cross_mesh"));
  return stage;
}

// Rows of cells as in the CSV, without those that are idle.
Json schedule_to_json(const Schedule& schedule) {
  Json ranks = Json::array();
  for (const auto& runs : schedule) {
    Json& cells = ranks.emplace_back(Json::array());
    for (const ScheduledRun& run : runs) cells.push_back(text_of(run));
  }
  return ranks;
}

Schedule schedule_from_json(const Json& ranks, const std::string& place) {
  require(ranks.is_array(), "{}: a list of runs for each rank was expected.", place);
  Schedule schedule;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    require(ranks[rank].is_array(), "{}[{}]: a list of runs was expected.", place, rank);
    schedule.emplace_back();
    for (std::size_t i = 0; i < ranks[rank].size(); ++i) {
      const Json& cell = ranks[rank][i];
      const auto run = cell.is_string() ? run_from_text(cell.get<std::string>()) : std::nullopt;
      require(run.has_value(),
              "{}[{}][{}]: {} is not a run; expected stage, F, B, I or W, and microbatch, such as \"0F0\".", place,
              rank, i, brief(cell));
      schedule.back().push_back(*run);
    }
  }
  return schedule;
}

ScheduleKind plan_schedule_from_name(const std::string& name) {
  return name == name_of(ScheduleKind::Custom) ? ScheduleKind::Custom : schedule_from_name(name);
}

// Refuses everything that is not a plan of this version, saying what it is instead.
void expect_plan_format(const Json& json, const std::string& place) {
  require(json.is_object(), "{}: not a plan but JSON of type {}; make a plan with `meshwright plan -o plan.json`.",
          place, json.type_name());
  require(json.contains("format") || !json.contains("traceEvents"),
          "{}: not a plan but a trace; make a plan with `meshwright plan -o plan.json`.", place);
  require(json.contains("format") || !json.contains("verb"),
          "{}: not a plan but the output of --json; the plan is the file written by `meshwright plan -o plan.json`.",
          place);
  const auto format = get<std::string>(json, "format", place);
  require(format == kFormat,
          "{}: not a plan but a file of format '{}'; make a plan with `meshwright plan -o plan.json`.", place, format);
  const auto version = get<std::int64_t>(json, "version", place);
  require(version <= Plan::kVersion,
          "{}: the plan has version {}, but this program reads versions up to {}; use a newer meshwright.", place,
          version, Plan::kVersion);
  require(version >= 1, "{}: version {} does not exist; expected 1 to {}.", place, version, Plan::kVersion);
}

// What they mean is for those who simulate to say.
std::map<std::string, std::string> conditions_from_json(const Json& json, const std::string& place) {
  require(json.is_object(), "{}: expected an object of options and their values.", place);
  std::map<std::string, std::string> conditions;
  for (const auto& [option, value] : json.items()) {
    require(value.is_string(), "{}: '{}' must be a string.", place, option);
    conditions[option] = value.get<std::string>();
  }
  return conditions;
}

}  // namespace

Json to_json(const Plan& plan) {
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) stages.push_back(to_json(stage));
  Json json = {{"format", kFormat},
               {"version", Plan::kVersion},
               {"model", to_json(plan.model)},
               {"training", to_json(plan.training)},
               {"cluster", to_json(plan.cluster)},
               {"method", plan.method},
               {"schedule", name_of(plan.schedule)},
               {"graph_fingerprint", plan.graph_fingerprint},
               {"layer_starts", plan.layer_starts},
               {"predicted",
                {{"step_time_s", plan.predicted.step_time.si()},
                 {"lower_bound_s", plan.predicted.lower_bound.si()},
                 {"peak_memory_bytes", plan.predicted.peak_memory.si()}}},
               {"stages", std::move(stages)}};
  if (!plan.software.empty()) json["software"] = plan.software;
  if (!plan.conditions.empty()) json["conditions"] = plan.conditions;
  if (plan.runs) json["schedule_runs"] = schedule_to_json(*plan.runs);
  return json;
}

Plan plan_from_json(const Json& json, const std::string& place) {
  expect_plan_format(json, place);
  expect_only(json,
              {"format", "version", "model", "training", "cluster", "method", "schedule", "graph_fingerprint",
               "layer_starts", "predicted", "schedule_runs", "software", "stages", "conditions"},
              place);
  Plan plan;
  plan.model = model_of_plan(object_member(json, "model", place), place + ": model");
  plan.training = training_from_json(object_member(json, "training", place), place + ": training");
  plan.cluster = cluster_from_json(object_member(json, "cluster", place), place + ": cluster");
  plan.method = get<std::string>(json, "method", place);
  require_printable(plan.method, place);
  if (json.contains("software")) plan.software = get<std::string>(json, "software", place);
  if (json.contains("conditions")) plan.conditions = conditions_from_json(json["conditions"], place + ": conditions");
  plan.schedule = named(json, "schedule", place, plan_schedule_from_name);
  if (json.contains("schedule_runs"))
    plan.runs = schedule_from_json(json["schedule_runs"], fmt::format("{}: schedule_runs", place));
  plan.graph_fingerprint = get<std::string>(json, "graph_fingerprint", place);
  plan.layer_starts = integers(json, "layer_starts", place, 0, kMax);

  const Json& predicted = object_member(json, "predicted", place);
  const std::string where = place + ": predicted";
  expect_only(predicted, {"step_time_s", "lower_bound_s", "peak_memory_bytes"}, where);
  plan.predicted.step_time = Seconds(not_negative(predicted, "step_time_s", where));
  plan.predicted.lower_bound = Seconds(not_negative(predicted, "lower_bound_s", where));
  plan.predicted.peak_memory = Bytes(not_negative(predicted, "peak_memory_bytes", where));

  const Json& stages = member(json, "stages", place);
  require(stages.is_array() && !stages.empty(), "{}: 'stages' must be a list of at least one stage.", place);
  for (std::size_t s = 0; s < stages.size(); ++s)
    plan.stages.push_back(stage_from_json(stages[s], fmt::format("{}: stages[{}]", place, s)));
  return plan;
}

}  // namespace meshwright
