// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs/sweep_points.h"

#include <set>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/report.h"
#include "cli/documents/pages/step_page.h"
#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/ranks.h"
#include "report/page/plan_summary.h"

namespace meshwright {

std::string name_of_point(const SweepPlace& point) {
  return fmt::format("({}, layers {}, micro-batches {})", point.options.schedule, point.options.layers,
                     point.options.micro_batches);
}

namespace {

std::vector<std::string> list(const std::string& text, const char* flag, const char* example) {
  std::vector<std::string> items = split(text, ',');
  for (const std::string& item : items)
    require(!item.empty(), "{}: '{}' has an empty entry; expected a list such as {}.", flag, text, example);
  return items;
}

bool same_point(const PlanRequest& a, const PlanRequest& b) {
  return a.search.schedule == b.search.schedule && a.search.chunks == b.search.chunks &&
         a.search.layers == b.search.layers && a.search.microbatches == b.search.microbatches;
}

}  // namespace

std::vector<SweepPlace> points_of(const SweepGrid& options, const Cluster& cluster) {
  std::vector<SweepPlace> points;
  const std::vector<std::string> schedules =
      options.schedules.empty() ? std::vector<std::string>{""} : list(options.schedules, "--schedule", "1f1b,gpipe");
  for (const std::string& schedule : schedules)
    for (const std::string& layers : list(options.layers, "--layers", "4,8,16"))
      for (const std::string& micro_batches : list(options.micro_batches, "--micro-batches", "8,16,32")) {
        PlanningOptions point = options.planning;
        point.schedule = schedule;
        point.layers = layers;
        point.micro_batches = micro_batches;
        PlanRequest request = request_from_options(point, cluster);
        if (schedule.empty()) point.schedule = usual_schedule(request.search);
        for (const SweepPlace& known : points)
          require(
              !same_point(known.request, request),
              "the sweep has the point (--schedule {}, --layers {}, --micro-batches {}) twice; list every value once.",
              point.schedule, layers, micro_batches);
        points.push_back({std::move(point), std::move(request), Json()});
      }
  return points;
}

namespace {

Json forced_json(const ForcedSpecs& forced) {
  Json specs = Json::object();
  for (const auto& [tensor, spec] : forced) specs[tensor] = spec.to_text();
  return specs;
}

// Options that a point does not use are not mentioned: a database that was made before they existed is read on.
void add_used_options(Json& key, const PlanRequest& request) {
  const Optimizer& optimizer = request.training.optimizer;
  const SearchOptions& search = request.search;
  if (is_auto(search.layers)) key["any_layers"] = true;
  if (request.any_schedule()) key["any_schedule"] = true;
  if (!is_auto(search.chunks)) key["chunks"] = std::get<int>(search.chunks);
  if (!search.recompute_layers.empty()) key["recompute_layers"] = to_text(search.recompute_layers);
  if (search.recompute_modules != RecomputeModules::None) key["recompute_modules"] = name_of(search.recompute_modules);
  if (search.layer_cut != LayerOptions{}) key["layer_cut"] = to_json(search.layer_cut);
  if (search.logical_mesh) key["logical_mesh"] = *search.logical_mesh;
  if (search.batch_axis) key["batch_axis"] = *search.batch_axis;
  if (!is_auto(search.cross_mesh)) key["cross_mesh"] = name_of(std::get<CrossMesh>(search.cross_mesh));
  if (!request.conditions.empty()) key["conditions"] = request.conditions;
  if (search.launch_for != nullptr) key["for"] = search.launch_for->name;
  if (!search.forced.empty()) key["forced"] = forced_json(search.forced);
  if (!search.method.forced.empty()) key["specs"] = forced_json(search.method.forced);
  if (optimizer.kind == Optimizer::Kind::Momentum && optimizer.momentum != Optimizer{}.momentum)
    key["momentum"] = optimizer.momentum;
  if (optimizer.weight_decay != 0.0) key["weight_decay"] = optimizer.weight_decay;
  if (optimizer.max_norm != 0.0) key["max_norm"] = optimizer.max_norm;
  if (optimizer.loss_scale != 0.0) {
    key["loss_scale"] = optimizer.loss_scale;
    key["loss_scale_interval"] = optimizer.loss_scale_interval;
  }
  if (request.training.loss != LossReduction::Mean) key["loss"] = name_of(request.training.loss);
  if (search.any_offload) key["offload"] = "auto";
  if (request.training.offload != Offload::None) key["offload"] = name_of(request.training.offload);
}

}  // namespace

std::string key_of(const SweepPlace& point, const Costs& costs) {
  const PlanRequest& request = point.request;
  const SearchOptions& search = request.search;
  // 0 stands for numbers that the search finds.
  const auto* layers = std::get_if<int>(&search.layers);
  const auto* microbatches = std::get_if<std::int64_t>(&search.microbatches);
  Json stages = Json::array();
  for (const Method::ManualStage& stage : search.method.stages) {
    stages.push_back({stage.first_layer, stage.last_layer, stage.submesh.hosts, stage.submesh.devices_per_host,
                      stage.logical_shape, stage.batch_axis ? Json(*stage.batch_axis) : Json()});
    if (stage.submesh.group != 0) stages.back().push_back(stage.submesh.group);
  }
  Json key = {{"version", MESHWRIGHT_VERSION},
              {"results", 4},  // which members a result has, and what they mean
              {"model", to_json(request.model)},
              {"cluster", to_json(request.cluster)},
              {"batch", request.training.batch},
              {"micro_batches", microbatches != nullptr ? *microbatches : 0},
              {"layers", layers != nullptr ? *layers : 0},
              {"dtype", name_of(request.training.dtype)},
              {"optimizer", name_of(request.training.optimizer.kind)},
              {"learning_rate", request.training.optimizer.learning_rate},
              {"recompute", request.any_recompute() ? "auto" : name_of(std::get<Recompute>(search.recompute))},
              {"schedule", name_of(request.first_schedule())},
              {"method", search.method.text},
              {"stages", std::move(stages)},
              {"submesh_space", point.options.submesh_space},
              {"logical_mesh_space", point.options.logical_mesh_space},
              {"profile", costs.fingerprint + (costs.profile_as.empty() ? "" : " as " + costs.profile_as)}};
  add_used_options(key, request);
  return json_text(key);
}

namespace {

// [host group] how many of its devices the plan uses.
std::vector<int> devices_of_groups(const Plan& plan) {
  std::vector<int> counts(plan.cluster.groups.size());
  std::set<int> devices;
  for (const StagePlan& stage : plan.stages) devices.insert(stage.devices.begin(), stage.devices.end());
  for (const int device : devices) ++counts[static_cast<std::size_t>(plan.cluster.group_of_device(device))];
  return counts;
}

// The step again with the names of its tasks, which a search does without.
Json summary_of(const Plan& plan, const Costs& costs) {
  StepRequest request = conditions_of(conditions_from_plan(plan.conditions));
  request.name_tasks = true;
  const SimulatedPlan simulated = simulated_plan(plan, "sweep", costs, request, DeviceFolding::WherePossible);
  const Breakdown breakdown = find_breakdown(simulated, plan, costs);
  return plan_summary(step_of_page(plan, simulated, breakdown));
}

Json result_of(const PredictedPlan& planned, const Costs& costs) {
  const Plan& plan = planned.plan;
  Json json = {{"feasible", true},
               {"step_time_s", plan.predicted.step_time.si()},
               {"lower_bound_s", plan.predicted.lower_bound.si()},
               {"gap", relative_gap(plan.predicted.step_time, plan.predicted.lower_bound)},
               {"lower_bound_within_layers_s", planned.result.lower_bound_within_layers.si()},
               {"schedule", name_of(plan.schedule)},
               {"num_layers", plan.layer_starts.size()},
               {"num_micro_batches", plan.training.microbatches},
               {"num_stages", plan.stages.size()},
               {"num_devices", used_devices(plan)},
               {kDevicesOfGroups, devices_of_groups(plan)},
               {"longest_stage_wait_share", planned.prediction.stage_waits.longest},
               {"mean_stage_wait_share", planned.prediction.stage_waits.mean},
               {"peak_memory_bytes", bytes_json(planned.loaded.check.largest_peak())},
               {"simulations", planned.result.log.simulations}};
  add_throughput(json, throughput(plan, plan.predicted.step_time));
  const auto uncertainty = uncertainty_of_plan(plan, planned.loaded.program, planned.alike(), costs);
  add_forecast(json, forecast_of(plan, planned.result.graph, uncertainty, costs, plan.predicted.step_time));
  if (uncertainty) json[kUncertainty] = to_json(*uncertainty);
  json["plan"] = summary_of(plan, costs);
  return json;
}

}  // namespace

std::optional<Json> plan_point(const SweepPlace& point, const Costs& costs, const std::string& lead,
                               const std::function<bool()>& stop, std::optional<Plan>* plan) {
  try {
    PlanRequest request = point.request;
    request.stop = stop;
    PlanningOutcome outcome = search_plan(std::move(request), costs, lead);
    if (outcome.interrupted) return std::nullopt;
    if (!outcome.planned) return Json{{"feasible", false}, {"refused", false}, {"reason", outcome.reason}};
    Json result = result_of(*outcome.planned, costs);
    *plan = std::move(outcome.planned->plan);
    return result;
  } catch (const InputError& error) {
    return Json{{"feasible", false}, {"refused", true}, {"reason", error.what()}};
  }
}

std::string interval_of(const Json& result, const std::string& place) {
  if (!result.contains("interval_s") || result.at("interval_s").is_null()) return "-";
  const auto ends = get<std::vector<double>>(result, "interval_s", place);
  require(ends.size() == 2, "{}: 'interval_s' must have two ends.", place);
  return fmt::format("{} to {}", in_milliseconds(Seconds(ends[0])), in_milliseconds(Seconds(ends[1])));
}

namespace {

constexpr const char* kReals[] = {
    "step_time_s",       "lower_bound_s",    "gap", "longest_stage_wait_share", "mean_stage_wait_share",
    "peak_memory_bytes", "tflops_per_device"};
constexpr const char* kCounts[] = {"num_layers", "num_micro_batches", "num_stages", "num_devices"};

}  // namespace

Json stored_result(const std::string& text, const std::string& db) {
  const std::string place = db + ": a stored sweep point";
  try {
    Json result = parse_json(text, place);
    if (get<bool>(result, "feasible", place)) {
      for (const char* key : kReals) (void)get<double>(result, key, place);
      for (const char* key : kCounts) (void)get<std::int64_t>(result, key, place);
      (void)get<std::string>(result, "schedule", place);
      (void)get<std::vector<int>>(result, kDevicesOfGroups, place);
      (void)plan_summary_html(member(result, "plan", place), place);
      if (result.contains(kUncertainty)) {
        (void)uncertainty_from_json(result.at(kUncertainty), place);
        (void)interval_of(result, place);
      }
    } else {
      (void)get<bool>(result, "refused", place);
      (void)get<std::string>(result, "reason", place);
    }
    return result;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} Another program has changed the database; give another --db.", error.what()));
  }
}

}  // namespace meshwright
