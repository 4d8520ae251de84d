// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/planning.h"

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/gpu_memory.h"
#include "cli/documents/pages/step_page.h"
#include "cli/documents/pages/what_if_points.h"
#include "cli/documents/search/dump.h"
#include "cli/documents/search/failure.h"
#include "cli/documents/search/front.h"
#include "cli/documents/search/lost.h"
#include "cli/documents/search/step_times.h"
#include "cli/documents/step/breakdown_text.h"
#include "cli/documents/step/step_text.h"
#include "cli/options/stage_profiles.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/plan/lowering/adapt_plan.h"
#include "core/planner/method/uneven_parameters.h"
#include "core/planner/search/plan_program.h"
#include "report/charts/document_charts.h"
#include "report/page/lost_section.h"
#include "simulator/what_if/evaluator.h"

namespace meshwright {

// The search adds up ops; a program's Runs have overheads and messages besides.
void take_stage_times(Plan& plan, const Prediction& prediction) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageTimes& times = prediction.stages[s];
    plan.stages[s].forward = times.forward;
    plan.stages[s].backward = times.backward;
    plan.stages[s].update = times.update;
  }
}

PlanningOutcome search_plan(PlanRequest request, const Costs& costs, const std::string& lead) {
  Progress progress;
  if (request.steps == nullptr) request.progress = [&](const std::string& text) { progress(lead + text); };
  const StepRequest conditions = conditions_of(conditions_from_plan(request.conditions));
  expect_software_can(conditions, costs);
  SimulatedEvaluator evaluator(*costs.model, costs.software ? &*costs.software : nullptr, conditions,
                               memory_beside_tensors);
  const Seconds begin = now();
  PlanningResult result = make_plan(request, *costs.model, evaluator);
  const Seconds wall = now() - begin;
  const bool interrupted = result.log.interrupted;
  if (!result.plan) return {std::nullopt, result.reason, interrupted, std::move(result)};
  Plan plan = *std::move(result.plan);
  const std::shared_ptr<const Graph> graph(std::shared_ptr<const Graph>(), &result.graph);  // which outlives this
  StepOfPlan of = predict({plan, graph}, *costs.model, conditions);
  MW_CHECK(to_sim_time(of.prediction.step) == to_sim_time(plan.predicted.step_time),
           "the plan promises a step of {} s, its program takes {} s", plan.predicted.step_time.si(),
           of.prediction.step.si());
  take_stage_times(plan, of.prediction);
  std::optional<Seconds> latency;
  if (plan.schedule == ScheduleKind::Inference) latency = latency_of(plan, graph, evaluator);
  of.loaded.graph.reset();  // the result has it
  return {PredictedPlan{std::move(plan), std::move(result), std::move(of.loaded), std::move(of.folded),
                        std::move(of.prediction), wall, latency},
          "", interrupted};
}

namespace {

std::string stage_table(const PredictedPlan& planned) {
  TextTable table({{"stage", ""},
                   {"layers", ""},
                   {"submesh", ""},
                   {"logical", ""},
                   {"forward", "(ms)"},
                   {"backward", "(ms)"},
                   {"update", "(ms)"},
                   {"memory", "(GiB)"},
                   {"in-flight", ""}});
  const Plan& plan = planned.plan;
  const int stages = static_cast<int>(plan.stages.size());
  const std::vector<StageFit> fits = stage_fits(plan, planned.loaded.program, planned.loaded.check);
  for (int s = 0; s < stages; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const StagePlan& stage = plan.stages[i];
    const StageTimes& times = planned.prediction.stages[i];
    const Bytes peak = stage_peak(planned.loaded.program.stages[i], planned.loaded.check.peak_memory);
    table.add_row({fmt::format("{}", s), layers_text(stage), submesh_text(stage), logical_text(stage),
                   in_milliseconds(times.forward), in_milliseconds(times.backward), in_milliseconds(times.update),
                   in_gibibytes(peak), fmt::format("{}", fits[i].in_flight)});
  }
  return table.to_text();
}

std::string search_line(const SearchLog& log) {
  return fmt::format(
      "# search: {} points evaluated ({} stage options), {} ruled out; {} pipelines ranked, {} programs simulated; "
      "{}\n",
      log.points, log.stages_costed, log.points_ruled_out, log.ranked, log.simulations, log.how);
}

void add_search(Json& json, const SearchLog& log) {
  json["points"] = log.points;
  json["points_ruled_out"] = log.points_ruled_out;
  json["stages_priced"] = log.stages_costed;
  json["pipelines_ranked"] = log.ranked;
  json["simulations"] = log.simulations;
  json["search"] = log.how;
  json["interrupted"] = log.interrupted;
}

// What is shown besides the plan.
struct Extras {
  DevicePrices prices;
  bool front = false;
  std::string front_folder;
  PlanForecast forecast = {};
  UnevenParameters uneven = {};
  std::vector<Rival> rivals = {};  // on the front
  // With a framework: the best step known without its restrictions.
  struct FreePlan {
    std::string framework;
    Seconds step{0.0};
  };
  std::optional<FreePlan> free = {};
  std::string within = "within these layers";  // of which plans the second lower bound is
  std::string report_lines = {};               // where the time of a step goes, where that is asked for
};

// What the restricted plan loses to the free one, as a share of the free step.
double restriction_cost(const PredictedPlan& planned, const Extras::FreePlan& free) {
  return planned.plan.predicted.step_time / free.step - 1.0;
}

std::string free_line(const PredictedPlan& planned, const Extras& extras) {
  if (!extras.free) return "";
  const double cost = restriction_cost(planned, *extras.free);
  if (cost <= 0.0)
    return fmt::format("# no faster plan was found without the restrictions of {}\n", extras.free->framework);
  return fmt::format("# without the restrictions of {}: {} ms; they cost {} %\n", extras.free->framework,
                     in_milliseconds(extras.free->step), in_percent(cost));
}

// The plan that any stages, meshes and shardings make, with the micro-batches of the restricted one. That one is free
// to be chosen, too.
Extras::FreePlan find_free_plan(PlanRequest request, const PredictedPlan& restricted, const Costs& costs) {
  Extras::FreePlan free{request.search.launch_for->name, restricted.plan.predicted.step_time};
  request.search.launch_for = nullptr;
  request.search.schedule = ScheduleKind::OneFOneB;
  request.search.recompute = Auto{};
  request.search.microbatches = restricted.plan.training.microbatches;
  if (const auto found = search_plan(std::move(request), costs, "without restrictions: ").planned)
    free.step = std::min(free.step, found->plan.predicted.step_time);
  return free;
}

// What devices hold because sizes do not divide; "" where they all do.
std::string uneven_lines(const UnevenParameters& uneven) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  if (uneven.padding > Bytes(0.0))
    text += fmt::format("# sizes that do not divide are padded: {} of each device\n", human_bytes(uneven.padding));
  if (uneven.unsplit.empty()) return text;
  const std::vector<std::string> named(uneven.unsplit.begin(),
                                       uneven.unsplit.begin() + std::min(kNamed, uneven.unsplit.size()));
  const std::size_t more = uneven.unsplit.size() - named.size();
  return text + fmt::format("# no dimension can be split as the method asks: {}{}, {} of each device\n",
                            join(named, ", "), more == 0 ? "" : fmt::format(" and {} more", more),
                            human_bytes(uneven.unsplit_bytes));
}

void add_uneven(Json& json, const UnevenParameters& uneven) {
  if (uneven.padding > Bytes(0.0)) json["padding_bytes"] = uneven.padding.si();
  if (!uneven.unsplit.empty())
    json["unsplit_parameters"] = {{"names", uneven.unsplit}, {"bytes", bytes_json(uneven.unsplit_bytes)}};
}

std::string document(const PredictedPlan& planned, const Costs& costs, const PlanReport& report, const Extras& extras) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = planned.prediction;
  std::string text = header_lines(report.verb, plan) + report.provenance + cost_line(costs.source, prediction.costs) +
                     condition_lines(plan.conditions);
  text += stage_table(planned);
  const Seconds step = plan.predicted.step_time, within = planned.result.lower_bound_within_layers;
  text +=
      fmt::format("# step time {} ms{}; no plan takes less than {} ms, gap {} %; none {} less than {} ms, gap {} %\n",
                  in_milliseconds(step), interval_text(extras.forecast), in_milliseconds(plan.predicted.lower_bound),
                  in_percent(relative_gap(step, plan.predicted.lower_bound)), extras.within, in_milliseconds(within),
                  in_percent(relative_gap(step, within)));
  if (planned.result.sharding)
    text += fmt::format(
        "# sharding cost {} ms per micro-batch; lower bound of this method in this memory {} ms, gap {} %\n",
        in_milliseconds(planned.result.sharding->cost), in_milliseconds(planned.result.sharding->bound),
        in_percent(planned.result.sharding->gap()));
  text += free_line(planned, extras);
  text += fmt::format("# {}, {}; {} events simulated\n", to_text(prediction.waiting), to_text(prediction.stage_waits),
                      prediction.events);
  text += fmt::format("# {}\n", to_text(throughput(plan, plan.predicted.step_time)));
  if (planned.latency) text += fmt::format("# latency of a micro-batch {} ms\n", in_milliseconds(*planned.latency));
  text += memory_line(memory_use(plan, planned.loaded.program, planned.loaded.check), plan.software);
  text += gpu_memory_line(gpu_memory_use(plan, planned.result.graph, planned.loaded.program, planned.alike()));
  text += memory_line(extras.forecast);
  text += extras.report_lines;
  text += uneven_lines(extras.uneven);
  if (!extras.prices.empty()) text += fmt::format("# price {}\n", to_text(price_of(plan, extras.prices)));
  text += search_line(planned.result.log);
  if (!report.output.empty()) text += fmt::format("# written to {}\n", report.output);
  if (!report.dump.empty()) text += fmt::format("# search and program written to {}\n", report.dump);
  if (!report.html.empty()) text += html_line(report.html);
  if (extras.front) text += front_table(planned.result.front, extras.prices, extras.front_folder);
  if (!report.svg.empty()) text += fmt::format("# front drawn in {}\n", report.svg);
  if (report.note) text += report.note(plan).text;
  return text + rivals_line("front 1", extras.rivals, plan.software);
}

Json stages_json(const PredictedPlan& planned) {
  Json stages = Json::array();
  const Plan& plan = planned.plan;
  const std::vector<StageFit> fits = stage_fits(plan, planned.loaded.program, planned.loaded.check);
  const int count = static_cast<int>(plan.stages.size());
  for (int s = 0; s < count; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const StagePlan& stage = plan.stages[i];
    const StageTimes& times = planned.prediction.stages[i];
    stages.push_back({{"stage", s},
                      {"layers", Json::array({stage.first_layer, stage.last_layer})},
                      {"submesh", submesh_json(stage)},
                      {"logical_shape", stage.logical_shape},
                      {"devices", stage.devices},
                      {"forward_s", times.forward.si()},
                      {"backward_s", times.backward.si()},
                      {"update_s", times.update.si()},
                      {"peak_memory_bytes",
                       bytes_json(stage_peak(planned.loaded.program.stages[i], planned.loaded.check.peak_memory))},
                      {"in_flight", fits[i].in_flight}});
  }
  return stages;
}

Json to_json(const PredictedPlan& planned, const Costs& costs, const PlanReport& report, const Extras& extras,
             std::uint64_t seed, const ConsideredPlans& considered) {
  const Plan& plan = planned.plan;
  const Prediction& prediction = planned.prediction;
  Json json = header_json(report.verb, plan);
  json["seed"] = seed;
  json["costs"] = costs.source;
  json["cost_basis"] = basis_json(prediction.costs);
  if (!plan.conditions.empty()) {
    json["conditions"] = plan.conditions;
    json["circumstances"] = to_sentences(conditions_of(conditions_from_plan(plan.conditions)));
  }
  json["step_time_s"] = plan.predicted.step_time.si();
  add_forecast(json, extras.forecast);
  json["lower_bound_s"] = plan.predicted.lower_bound.si();
  json["gap"] = relative_gap(plan.predicted.step_time, plan.predicted.lower_bound);
  json["lower_bound_within_layers_s"] = planned.result.lower_bound_within_layers.si();
  json["gap_within_layers"] = relative_gap(plan.predicted.step_time, planned.result.lower_bound_within_layers);
  if (const auto& sharding = planned.result.sharding) {
    json["sharding_cost_s"] = sharding->cost.si();
    json["sharding_bound_s"] = sharding->bound.si();
    json["sharding_gap"] = sharding->gap();
  }
  add_waiting(json, prediction.waiting);
  add_stage_waits(json, prediction.stage_waits);
  add_throughput(json, throughput(plan, plan.predicted.step_time));
  if (planned.latency) json["latency_s"] = planned.latency->si();
  add_memory(json, memory_use(plan, planned.loaded.program, planned.loaded.check));
  add_gpu_memory(json, gpu_memory_use(plan, planned.result.graph, planned.loaded.program, planned.alike()));
  if (extras.free) {
    json["free_step_time_s"] = extras.free->step.si();
    json["restriction_cost"] = restriction_cost(planned, *extras.free);
  }
  add_uneven(json, extras.uneven);
  if (!extras.prices.empty()) add_price(json, price_of(plan, extras.prices));
  add_search(json, planned.result.log);
  json["events"] = prediction.events;
  json["stages"] = stages_json(planned);
  if (extras.front) {
    json["front"] = front_json(planned.result.front, extras.prices, extras.front_folder);
    json["undecided"] = rivals_json(extras.rivals, plan.software);
  }
  json["lost"] = lost_json(considered);
  for (const auto& [key, value] : report.extra.items()) json[key] = value;
  if (report.note) {
    const PlanNote note = report.note(plan);
    for (const auto& [key, value] : note.json.items()) json[key] = value;
  }
  if (!report.output.empty()) json["output"] = report.output;
  if (!report.dump.empty()) json["dump"] = report.dump;
  json["planning_wall_s"] = planned.wall.si();
  return json;
}

struct StepApart {
  StepRequest request;
  SimulatedPlan simulated = {};
  Breakdown breakdown = {};
};

// The step again with the names of its tasks, which a search does without.
StepApart take_apart(const Plan& plan, const Costs& costs) {
  StepApart apart{.request = conditions_of(conditions_from_plan(plan.conditions))};
  apart.request.name_tasks = true;
  apart.simulated = simulated_plan(plan, "the plan", costs, apart.request, DeviceFolding::WherePossible);
  apart.breakdown = find_breakdown(apart.simulated, plan, costs);
  return apart;
}

void write_page(const PredictedPlan& planned, const Costs& costs, const PlanReport& report, Json document,
                const ConsideredPlans& considered, const ProfileSource& profile, const StepApart& apart) {
  const auto& [request, simulated, breakdown] = apart;
  document.erase("planning_wall_s");  // the only member that differs from run to run
  Page page{.verb = report.verb, .document = std::move(document)};
  add_step_page(page, planned.plan, simulated, breakdown);
  add_sharding(page, planned.plan, *simulated.loaded.graph, costs);
  page.sections.push_back(lost_section(considered, planned.plan));
  const CostChoice choice{profile, planned.plan.software};
  if (auto what_if = what_if_section(page, what_if_axes(planned.plan, simulated, costs, request, choice)))
    page.sections.push_back(*std::move(what_if));
  add_provenance(page, report.command_line, profile);
  write_file(report.html, to_html(page));
}

}  // namespace

void write_plan(const Plan& plan, const std::string& path) { write_file(path, json_text(to_json(plan), 1) + "\n"); }

namespace {

Prediction prediction_of_plan(const Plan& plan, const Costs& costs) {
  const auto graph = std::make_shared<const Graph>(build_step_graph(plan.model, plan.training, plan.schedule));
  return predict({plan, graph}, *costs.model, conditions_of(conditions_from_plan(plan.conditions))).prediction;
}

}  // namespace

void plan_and_report(const PlanningOptions& options, const Cluster& cluster, const Costs& costs,
                     const PlanReport& report) {
  const std::uint64_t seed = seed_from_text(options.seed);
  PlanRequest request = request_from_options(options, cluster);
  std::optional<Extras::FreePlan> free;
  Extras extras{device_prices_from_text(options.price, cluster), request.goal.front, options.front_folder};
  std::vector<std::string> files = files_read(options);
  expect_writable(report.output, files);
  files.push_back(report.output);
  const StageProfileUse stage_profiles(options, cluster, costs, files);
  stage_profiles.put_into(request);
  expect_new_folder(extras.front_folder, report.output);
  expect_writable(report.html, files);
  files.push_back(report.html);
  expect_dump_folder(report.dump, files);
  require(report.svg.empty() || request.goal.front,
          "--svg: draws the front of plans, which only --pareto finds; add --pareto, or draw the plan with simulate "
          "--svg.");
  expect_writable(report.svg, files);
  const auto considered = report.finished ? report.finished->considered : std::make_shared<ConsideredPlans>();
  request.record = considered.get();
  if (!report.dump.empty()) request.stage_profile.keep = true;
  const PlanningOutcome outcome = [&] {
    const Interruption interruption;
    std::optional<StepTimes> steps;
    if (options.log_steps) request.steps = &steps.emplace();
    request.stop = [&] { return interruption.requested(); };
    PlanningOutcome found = report.finished ? std::move(report.finished->outcome) : search_plan(request, costs, "");
    request.record = nullptr;  // what follows are other searches
    if (found.planned && report.free_plan && request.search.launch_for != nullptr && !found.interrupted)
      free = find_free_plan(request, *found.planned, costs);
    if (!found.planned && !found.interrupted) found.reason = explain_failure(request, *found.failed, costs);
    return found;
  }();
  if (!outcome.planned && !report.dump.empty()) write_candidates(report.dump, *considered);
  if (!outcome.planned)
    throw NoFeasiblePlan(outcome.interrupted
                             ? "no plan: the search was interrupted before it found one; let it run for longer."
                             : fmt::format("no feasible plan: {}", outcome.reason));
  if (outcome.interrupted) warn("interrupted: this is the best plan found so far");
  const PredictedPlan& planned = *outcome.planned;
  extras.forecast = forecast_of(planned.plan, planned.result.graph, planned.loaded.program, planned.alike(), costs,
                                planned.plan.predicted.step_time);
  extras.free = std::move(free);
  if (request.search.launch_for != nullptr)
    extras.within = fmt::format("{}that {} launches", request.search.launch_for->splits_ends ? "of even stages " : "",
                                request.search.launch_for->name);
  extras.rivals = rivals_of_front(planned.result.front, costs);
  extras.uneven = uneven_parameters(request.search.method, planned.plan, planned.result.graph);
  if (!report.output.empty()) write_plan(planned.plan, report.output);
  stage_profiles.store(planned.result);
  if (!report.dump.empty()) write_dump(report.dump, planned, *considered, *costs.model);
  if (!extras.front_folder.empty()) {
    std::vector<FrontPoint> front = planned.result.front;
    for (FrontPoint& point : front) take_stage_times(point.plan, prediction_of_plan(point.plan, costs));
    write_front(front, extras.front_folder);
  }
  if (!report.svg.empty()) {
    const Json points = front_json(planned.result.front, extras.prices, "");
    const std::string title = fmt::format("Plans of {} on {}", planned.plan.model.name, planned.plan.cluster.name);
    write_file(report.svg, front_chart(points, axes_from_text(report.axes, points, "--axes"), title).file());
  }
  // With thousands of layers, making either form takes a second.
  const bool in_json = options.json || !report.html.empty();
  Json json = in_json ? to_json(planned, costs, report, extras, seed, *considered) : Json();
  if (report.report || !report.html.empty()) {
    const StepApart apart = take_apart(planned.plan, costs);
    const SimulatedPlan& simulated = apart.simulated;
    if (report.report) {
      if (in_json) add_breakdown(json, apart.breakdown, simulated.loaded.program, simulated.alike());
      extras.report_lines = breakdown_text(apart.breakdown, simulated.loaded.program) +
                            report_text(simulated.step, simulated.loaded, simulated.alike());
    }
    if (!report.html.empty()) write_page(planned, costs, report, json, *considered, options.profile, apart);
  }
  if (options.json) return print(json);
  print(document(planned, costs, report, extras));
  tell(fmt::format("planning took {:.3f} s", planned.wall.si()));
}

}  // namespace meshwright
