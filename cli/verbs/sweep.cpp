// SPDX-License-Identifier: Apache-2.0
// meshwright sweep: plan every point of a grid; finished points are kept in a database, so a sweep that was killed or
// interrupted goes on where it was.
#include <CLI/CLI.hpp>
#include <set>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/price.h"
#include "cli/documents/pages/step_page.h"
#include "cli/documents/search/planning.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/plan/ranks.h"
#include "report/charts/document_charts.h"
#include "report/page/document_pages.h"
#include "report/page/plan_summary.h"

namespace meshwright {

namespace {

struct SweepOptions {
  PlanningOptions planning;
  std::string layers = "default", micro_batches = "auto", schedules;
  std::string db, output;
  std::string html, svg, chart = "heat-map", axes = "step,memory";
};

struct Point {
  PlanningOptions options;  // those of the sweep with this point's layers, micro-batches and schedule
  PlanRequest request;
  Json result;  // as stored: {"feasible": true, ...} or {"feasible": false, "refused": wrong input, "reason": ...}
  [[nodiscard]] bool feasible() const { return result.at("feasible").get<bool>(); }
  [[nodiscard]] std::string reason() const { return result.at("reason").get<std::string>(); }
  [[nodiscard]] double step() const { return result.at("step_time_s").get<double>(); }
};

// The point as the progress and the sentence about rivals name it.
std::string name_of_point(const Point& point) {
  return fmt::format("({}, layers {}, micro-batches {})", point.options.schedule, point.options.layers,
                     point.options.micro_batches);
}

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

std::vector<Point> grid(const SweepOptions& options, const Cluster& cluster) {
  std::vector<Point> points;
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
        for (const Point& known : points)
          require(
              !same_point(known.request, request),
              "the sweep has the point (--schedule {}, --layers {}, --micro-batches {}) twice; list every value once.",
              point.schedule, layers, micro_batches);
        points.push_back({std::move(point), std::move(request), Json()});
      }
  return points;
}

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

// Everything the result depends on, in a fixed order. Files may change under their names: a manual method's stages,
// given specs and the layers of --layer-starts and follow are spelled out.
std::string key_of(const Point& point, const Costs& costs) {
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

// What points are compared by; kept in the database, and no part of the output.
constexpr const char* kUncertainty = "uncertainty";

constexpr const char* kDevicesOfGroups = "devices_of_groups";  // what a price is made of; no part of the output
constexpr double kSecondsPerHour = 3600.0;

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
  const std::optional<Breakdown> breakdown = find_breakdown(simulated, plan, costs);
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

// A request that makes no sense at this point of the grid (more layers than ops) is a row with its reason, like one
// that does not fit. nullopt: `stop` ended the search before it was done.
std::optional<Json> plan_point(const Point& point, const Costs& costs, const std::string& lead,
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

constexpr const char* kReals[] = {
    "step_time_s",       "lower_bound_s",    "gap", "longest_stage_wait_share", "mean_stage_wait_share",
    "peak_memory_bytes", "tflops_per_device"};
constexpr const char* kCounts[] = {"num_layers", "num_micro_batches", "num_stages", "num_devices"};

// Reads what result_of or plan_point wrote; every member that is used later is looked at here.
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

// `intervals`: with a column of them.
std::string table_text(const std::vector<Point>& points, std::optional<std::size_t> best, bool intervals) {
  constexpr std::ptrdiff_t kAfterStep = 5;
  std::vector<TextTable::Column> columns = {
      {"best", ""},   {"schedule", ""}, {"layers", ""},          {"micro-batches", ""}, {"step", "(ms)"},
      {"gap", "(%)"}, {"stages", ""},   {"longest wait", "(%)"}, {"memory", "(GiB)"},   {"per device", "(TFLOPS)"},
      {"remark", ""}};
  if (intervals) columns.insert(columns.begin() + kAfterStep, {"90 %", "(ms)"});
  TextTable table(columns);
  const auto add = [&](std::vector<std::string> row, const std::string& interval) {
    if (intervals) row.insert(row.begin() + kAfterStep, interval);
    table.add_row(row);
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const Json& r = point.result;
    if (!point.feasible()) {
      add({"", point.options.schedule, point.options.layers, point.options.micro_batches, "-", "-", "-", "-", "-", "-",
           point.reason()},
          "-");
      continue;
    }
    const auto number = [&](const char* key) { return r.at(key).get<double>(); };
    add({best == i ? "*" : "", r.at("schedule").get<std::string>(),
         fmt::format("{}", r.at("num_layers").get<std::int64_t>()),
         fmt::format("{}", r.at("num_micro_batches").get<std::int64_t>()),
         in_milliseconds(Seconds(number("step_time_s"))), in_percent(number("gap")),
         fmt::format("{}", r.at("num_stages").get<std::int64_t>()), in_percent(number("longest_stage_wait_share")),
         in_gibibytes(Bytes(number("peak_memory_bytes"))), fmt::format("{:.4g}", number("tflops_per_device")), ""},
        interval_of(r, "a point"));
  }
  return table.to_text();
}

// `prices`: of a device of each host group for an hour; empty: not known.
Json points_json(const std::vector<Point>& points, const DevicePrices& prices) {
  Json rows = Json::array();
  for (const Point& point : points) {
    Json row = {{"schedule", point.options.schedule},
                {"layers", point.options.layers},
                {"micro_batches", point.options.micro_batches}};
    for (const auto& [key, value] : point.result.items())
      if (key != kUncertainty && key != kDevicesOfGroups) row[key] = value;
    if (!prices.empty() && point.feasible()) {
      double per_hour = 0.0;
      for (std::size_t g = 0; g < prices.size(); ++g)
        per_hour += prices[g] * point.result.at(kDevicesOfGroups).at(g).get<double>();
      row["price_per_step"] = per_hour * point.step() / kSecondsPerHour;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

struct Sweep {
  std::vector<Point> points;  // those that are finished, in the order of the grid
  std::size_t left = 0;       // others: a signal came before they were
  std::optional<std::size_t> best;
  std::optional<Plan> plan;  // of the best; unset when the point came from the database
};

// Fills in the points' results, from the database or by planning; each is committed before the next begins. A signal
// ends it; the point whose search it cuts short is as unfinished as those after it.
Sweep finish(std::vector<Point> points, const Costs& costs, const std::string& db_path) {
  const Interruption interruption;
  const auto stop = [&] { return interruption.requested(); };
  ProfileDb db(db_path, ProfileDb::Mode::ReadWrite);
  Sweep sweep;
  const Seconds begin = now();
  std::size_t searched = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Point& point = points[i];
    const std::string number = fmt::format("point {}/{}", i + 1, points.size());
    const std::string name = fmt::format(" {}: ", name_of_point(point));
    const std::string key = key_of(point, costs);
    std::optional<Plan> plan;
    if (const std::optional<std::string> stored = db.sweep_result(key)) {
      Progress()(number + name + "stored");
      point.result = stored_result(*stored, db_path);
    } else {
      std::optional<Json> result;
      // Points that are stored take no time: those that were searched tell how long the rest may take.
      const std::string left =
          searched == 0 ? ""
                        : fmt::format(" (about {} left)", roughly(static_cast<double>(points.size() - i) /
                                                                  static_cast<double>(searched) * (now() - begin)));
      if (!stop()) result = plan_point(point, costs, number + left + name, stop, &plan);
      ++searched;
      if (!result) continue;
      point.result = *std::move(result);
      db.put_sweep_point({key, json_text(point.result)});
    }
    sweep.points.push_back(std::move(point));
    const Point& done = sweep.points.back();
    if (!done.feasible() || (sweep.best && sweep.points[*sweep.best].step() <= done.step())) continue;
    sweep.best = sweep.points.size() - 1;
    sweep.plan = std::move(plan);
  }
  sweep.left = points.size() - sweep.points.size();
  return sweep;
}

// Points that cannot be told from the best one. Points of a database from before points had an interval are left out.
std::vector<Rival> rivals_of(const Sweep& sweep) {
  std::vector<Rival> rivals;
  if (!sweep.best || !sweep.points[*sweep.best].result.contains(kUncertainty)) return rivals;
  const auto uncertainty_of_point = [&](std::size_t i) {
    return uncertainty_from_json(sweep.points[i].result.at(kUncertainty), "a point");
  };
  const StepUncertainty best = uncertainty_of_point(*sweep.best);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const Point& point = sweep.points[i];
    if (i == *sweep.best || !point.feasible() || !point.result.contains(kUncertainty)) continue;
    const StepComparison comparison = compare_steps(best, uncertainty_of_point(i));
    if (!comparison.decided()) rivals.push_back({name_of_point(point), comparison});
  }
  return rivals;
}

// Planning is deterministic: searching a stored point again gives the plan its figures came from.
void write_best(const Sweep& sweep, const Costs& costs, const SweepOptions& options) {
  const Point& point = sweep.points[*sweep.best];
  std::optional<Plan> plan = sweep.plan;
  if (!plan) (void)plan_point(point, costs, "best point: ", nullptr, &plan);
  require(plan && plan->predicted.step_time.si() == point.step(),
          "{}: the best point is stored with a step time of {} s, but planning it again gives another one; the "
          "database comes from another build or was changed. Give another --db.",
          options.db, point.step());
  write_plan(*plan, options.output);
}

Json to_json(const Sweep& sweep, const PlanRequest& request, const Costs& costs, const DevicePrices& prices) {
  Json json = {{"program", "meshwright"},
               {"version", MESHWRIGHT_VERSION},
               {"verb", "sweep"},
               {"model", request.model.name},
               {"cluster", request.cluster.name},
               {"batch", request.training.batch},
               {"method", request.search.method.text},
               {"costs", costs.source},
               {"points", points_json(sweep.points, prices)}};
  json["best"] = sweep.best ? Json(*sweep.best) : Json(nullptr);
  if (sweep.best) json["step_time_s"] = sweep.points[*sweep.best].step();
  json["undecided"] = rivals_json(rivals_of(sweep), request.software);
  json["interrupted"] = sweep.left > 0;
  json["points_left"] = sweep.left;
  return json;
}

std::string picture_of_sweep(const Json& document, const SweepOptions& options) {
  if (options.chart == "heat-map") return sweep_heat_map(document).file();
  const Json& points = document.at("points");
  const std::string title = fmt::format("Plans of {} on {}", document.at("model").get<std::string>(),
                                        document.at("cluster").get<std::string>());
  return front_chart(points, axes_from_text(options.axes, points, "--axes"), title).file();
}

std::string document(const Sweep& sweep, const PlanRequest& request, const Costs& costs, const SweepOptions& options) {
  const std::string left = sweep.left > 0 ? fmt::format("# interrupted: {} points are missing\n", sweep.left) : "";
  const std::string drawn = options.svg.empty() ? "" : fmt::format("# {} drawn in {}\n", options.chart, options.svg);
  return fmt::format("# meshwright {}  sweep  model {}  cluster {}  batch {}  method {}\n# costs: {}\n",
                     MESHWRIGHT_VERSION, request.model.name, request.cluster.name, request.training.batch,
                     request.search.method.text, costs.source) +
         condition_lines(request.conditions) + table_text(sweep.points, sweep.best, costs.software.has_value()) +
         (sweep.best ? rivals_line("the best point", rivals_of(sweep), request.software) : "") + drawn +
         (options.html.empty() ? "" : html_line(options.html)) + left;
}

void sweep(SweepOptions options, const std::string& command_line) {
  complete(options.planning);
  require(!options.db.empty(), "--db is missing; give the database for the finished points, such as --db sweep.db.");
  (void)seed_from_text(options.planning.seed);
  const Cluster cluster = cluster_from_options(options.planning);
  const Costs costs = costs_for(cluster, options.planning.profile, options.planning.software);
  const DevicePrices prices = device_prices_from_text(options.planning.price, cluster);
  require(options.chart == "heat-map" || options.chart == "front",
          "--chart: '{}' is neither heat-map nor front; give one of them.", options.chart);
  std::vector<Point> points = grid(options, cluster);
  std::vector<std::string> others = files_read(options.planning);
  others.push_back(options.db);
  expect_writable(options.output, others);
  others.push_back(options.output);
  expect_writable(options.svg, others);
  others.push_back(options.svg);
  expect_writable(options.html, others);
  const PlanRequest request = points.front().request;  // what does not change over the grid
  const Sweep done = finish(std::move(points), costs, options.db);
  const Json json = to_json(done, request, costs, prices);
  const bool all_refused =
      done.left == 0 && std::all_of(done.points.begin(), done.points.end(), [](const Point& point) {
        return !point.feasible() && point.result.at("refused").get<bool>();
      });
  if (all_refused) throw InputError(done.points.front().reason());
  if (done.left == 0 && done.best && !options.output.empty()) write_best(done, costs, options);
  if (!options.html.empty()) {
    Page page = sweep_page(json);
    add_provenance(page, command_line, options.planning.profile);
    write_file(options.html, to_html(page));
  }
  if (!options.svg.empty()) write_file(options.svg, picture_of_sweep(json, options));
  options.planning.json ? print(json) : print(document(done, request, costs, options));
  if (done.left > 0)
    throw Interrupted(
        fmt::format("the sweep was interrupted with {} of {} points finished; they are stored in {}, and the same "
                    "command plans the others.",
                    done.points.size(), done.points.size() + done.left, options.db));
  if (!done.best)
    throw NoFeasiblePlan(fmt::format("no point of the sweep has a feasible plan; reason of the first: {}",
                                     done.points.front().reason()));
}

}  // namespace

void add_sweep(CLI::App& app, Context& context) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* verb = app.add_subcommand("sweep", "Plan every point of a grid of layers, micro-batches and schedules.");
  add_planning_options(*verb, options->planning, GridOptions::Lists);
  verb->add_option("--layers", options->layers, "numbers of layers, such as 4,8,16, or auto")->capture_default_str();
  verb->add_option("--micro-batches", options->micro_batches, "numbers of micro-batches, such as 8,16,32, or auto")
      ->capture_default_str();
  verb->add_option("--schedule", options->schedules,
                   "schedules, such as 1f1b,zb-h1,interleaved:2, or auto (default: as for plan)")
      ->capture_default_str();
  add_software_option(*verb, options->planning.software, kNoSoftware);
  add_matmul_option(*verb, options->planning.matmul_dtype);
  add_profile_options(*verb, options->planning.profile, kProfileHelp);
  verb->add_option("--db", options->db,
                   "database for the finished points, required; a rerun of the same command resumes from it");
  verb->add_option("-o,--output", options->output, "write the best plan of the whole grid to this file");
  verb->add_option(
      "--html", options->html,
      "write a report to this HTML file: one file that opens from disk, with heat maps, fronts and all points");
  verb->add_option("--svg", options->svg, "draw the points as an SVG picture in this file");
  verb->add_option(
          "--chart", options->chart,
          "what --svg draws: heat-map (a grid of layers and micro-batches per schedule) or front (points by two "
          "numbers, and those that no other beats)")
      ->capture_default_str();
  verb->add_option(
      "--price-per-device-hour", options->planning.price,
      "price of one device for one hour, such as 2.5, one per host group where the cluster has several: plans "
      "then have a price per step");
  verb->add_option("--axes", options->axes, "of --chart front: two of step, memory, devices and price")
      ->capture_default_str();
  verb->footer(
      "Example:\n  meshwright sweep --model gpt-1.3b --cluster p3.16xlarge:1 --layers 4,8 --micro-batches 16,32 --db "
      "sweep.db");
  verb->callback(
      [&context, options] { context.action = [&context, options] { sweep(*options, context.command_line); }; });
}

}  // namespace meshwright
