// SPDX-License-Identifier: Apache-2.0
// meshwright simulate: predict a plan's step, instruction by instruction.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/gpu_memory.h"
#include "cli/documents/figures/report.h"
#include "cli/documents/pages/step_page.h"
#include "cli/documents/pages/what_if_points.h"
#include "cli/documents/step/breakdown_text.h"
#include "cli/documents/step/reuse.h"
#include "cli/documents/step/simulated_plan.h"
#include "cli/documents/step/step_text.h"
#include "cli/options/options.h"
#include "cli/options/step_options.h"
#include "cli/terminal/look.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/graph/import/find_model.h"
#include "core/graph/import/model_file.h"
#include "core/plan/ranks.h"
#include "core/schedule/schedule_csv.h"
#include "report/charts/memory_svg.h"
#include "report/charts/terminal_timeline.h"
#include "report/charts/timeline_svg.h"

namespace meshwright {

namespace {

struct SimulateOptions {
  ProfileSource profile;
  std::string plan, software, model, trace, schedule, html, svg;
  std::string color = "auto", chart = "timeline", trace_limit = "500";
  SoftwareSetupOptions software_setup;
  ReuseOptions reuse;
  StepOptions step;
  std::string threads = "1";
  bool timeline = false, report = false, json = false;
};

constexpr long kMaxTrace = 1'000'000;  // megabytes

// "mlp (layers=2, hidden=64)": the name alone is that of the family where the size is the user's own.
std::string sizes_text(const ModelConfig& model) {
  std::vector<std::string> sizes;
  const Json members = to_json(model);
  for (const auto& [key, value] : members.items())
    if (value.is_number() && key != "default_batch") sizes.push_back(fmt::format("{}={}", key, brief(value)));
  return sizes.empty() ? model.name : fmt::format("{} ({})", model.name, join(sizes, ", "));
}

void expect_model(const Plan& plan, const std::string& model, const std::string& path) {
  const bool same_kind = plan.model.file && is_model_file(model);
  ModelConfig asked =
      at_place("--model", [&] { return same_kind ? find_model(model, plan.model.file->dims) : find_model(model); });
  if (asked.seq > 0 && plan.model.seq > 0) asked.seq = plan.model.seq;  // --seq of `plan` keeps the name
  require(asked == plan.model, "{}: the plan is for model {}, not {}; leave --model out, or give the plan's model.",
          path, sizes_text(plan.model), sizes_text(asked));
}

struct Result {
  Plan made, plan;  // as read, as simulated
  StepRequest request;
  SimulatedPlan simulated = {};
  std::optional<Goodput> goodput = {};
  Reuse reuse = {};
  PlanForecast forecast = {};
  std::optional<Breakdown> breakdown = {};  // where it is asked for
};

// How long a stage's devices compute and what share of the step they wait: both means over the devices of the stage.
struct StageUse {
  Seconds compute{0.0};
  double waiting = 0.0;
};

StageUse stage_use(const Result& result, std::size_t s) {
  Seconds compute(0.0);
  const std::vector<DeviceId>& devices = result.simulated.loaded.program.stages[s].devices;
  for (const DeviceId device : devices) compute += result.simulated.prediction.summary.compute[device.index()];
  compute = compute / static_cast<double>(devices.size());
  return {compute, 1.0 - compute / result.simulated.prediction.summary.step};
}

TimelineTracks tracks_of_step(const Result& result, ShownMessages messages) {
  const SimulatedPlan& simulated = result.simulated;
  const Timeline& timeline = simulated.prediction.timeline;
  const auto devices = static_cast<int>(simulated.loaded.program.devices.size());
  return timeline_tracks(tracks_of(timeline, row_devices(timeline, devices, simulated.alike()), messages));
}

std::string picture(const Result& result, const std::string& chart) {
  const Plan& plan = result.plan;
  const auto& [loaded, folded, step, prediction] = result.simulated;
  const std::string title = fmt::format("{} on {}, simulated", plan.model.name, plan.cluster.name);
  if (chart == "timeline") return timeline_svg(tracks_of_step(result, ShownMessages::All), title).file();
  std::vector<Bytes> usable;  // [device]
  for (const StageId stage : loaded.program.stage_of_device)
    usable.push_back(plan.cluster.group(plan.stages[stage.index()].submesh.group).usable_memory());
  return memory_svg(memory_tracks_of(step.tasks.graph, step.times, loaded.program, usable, result.simulated.alike()),
                    prediction.timeline.end, title)
      .file();
}

// The lines up to the table of the stages.
std::string stages_text(const Result& result, const Costs& costs) {
  const auto& [made, plan, request, simulated, goodput, reuse, forecast, breakdown] = result;
  const auto& [loaded, folded, step, prediction] = simulated;
  std::string text = header_lines("simulate", plan) + to_text(reuse, "simulated");
  text += cost_line(costs.source, prediction.costs);
  for (const std::string& sentence : to_sentences(request)) text += fmt::format("# {}\n", sentence);
  if (folded && static_cast<std::size_t>(folded->classes) < folded->representative.size())
    text += fmt::format("# folded: {} devices as {}\n", folded->representative.size(), folded->classes);
  TextTable table({{"stage", ""},
                   {"devices", ""},
                   {"forward", "(ms)"},
                   {"backward", "(ms)"},
                   {"update", "(ms)"},
                   {"compute", "(ms)"},
                   {"waiting", "(%)"},
                   {"memory", "(GiB)"}});
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageTimes& times = prediction.stages[s];
    const StageUse use = stage_use(result, s);
    table.add_row({fmt::format("{}", s), fmt::format("{}", plan.stages[s].devices.size()),
                   in_milliseconds(times.forward), in_milliseconds(times.backward), in_milliseconds(times.update),
                   in_milliseconds(use.compute), in_percent(use.waiting),
                   in_gibibytes(stage_peak(loaded.program.stages[s], loaded.check.peak_memory))});
  }
  return text + table.to_text();
}

// The lines after it.
std::string summary_text(const Result& result, const SimulateOptions& options) {
  const auto& [made, plan, request, simulated, goodput, reuse, forecast, breakdown] = result;
  const auto& [loaded, folded, step, prediction] = simulated;
  std::string text = fmt::format("# step time {} ms{}, {}, {}\n", in_milliseconds(prediction.step),
                                 interval_text(forecast), to_text(prediction.waiting), to_text(prediction.stage_waits));
  text += fmt::format("# {}\n", to_text(throughput(plan, prediction.step, request.replicas)));
  text += memory_line(memory_use(plan, loaded.program, loaded.check), plan.software);
  text +=
      gpu_memory_line(gpu_memory_use(plan, *loaded.graph, loaded.program, simulated.alike())) + memory_line(forecast);
  if (options.report) text += breakdown_text(*breakdown, loaded.program) + report_text(step, loaded, simulated.alike());
  text += outcome_text(step, request, goodput);
  text += !request.plain()
              ? fmt::format("# {} tasks, {}\n", step.tasks.graph.size(),
                            step.by_events ? "some share links or slow each other down: simulated by events"
                                           : "none share a link: simulated in order")
              : fmt::format("# {} events; the event simulation and the in-order simulation agree\n", prediction.events);
  if (!options.schedule.empty()) text += fmt::format("# schedule written to {}\n", options.schedule);
  if (!options.svg.empty()) text += fmt::format("# {} drawn in {}\n", options.chart, options.svg);
  if (!options.trace.empty()) text += fmt::format("# trace written to {}; open it in ui.perfetto.dev\n", options.trace);
  if (!options.html.empty()) text += html_line(options.html);
  return text;
}

Json to_json(const Result& result, const Costs& costs) {
  const auto& [made, plan, request, simulated, goodput, reuse, forecast, breakdown] = result;
  const auto& [loaded, folded, step, prediction] = simulated;
  Json json = header_json("simulate", plan);
  add_reuse(json, made, reuse);
  json["costs"] = costs.source;
  json["cost_basis"] = basis_json(prediction.costs);
  json["step_time_s"] = prediction.step.si();
  add_forecast(json, forecast);
  add_waiting(json, prediction.waiting);
  add_stage_waits(json, prediction.stage_waits);
  add_throughput(json, throughput(plan, prediction.step, request.replicas));
  const std::vector<MemoryUse> uses = memory_use(plan, loaded.program, loaded.check);
  add_memory(json, uses);
  add_gpu_memory(json, gpu_memory_use(plan, *loaded.graph, loaded.program, simulated.alike()));
  json["fits"] = std::all_of(uses.begin(), uses.end(), [](const MemoryUse& use) { return use.fits(); });
  json["events"] = prediction.events;
  add_step(json, step, loaded, simulated.alike(), request, goodput);
  if (breakdown) add_breakdown(json, *breakdown, loaded.program, simulated.alike());
  Json& stages = json["stages"] = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageTimes& times = prediction.stages[s];
    const StageUse use = stage_use(result, s);
    stages.push_back(
        {{"stage", s},
         {"devices", plan.stages[s].devices},
         {"forward_s", times.forward.si()},
         {"backward_s", times.backward.si()},
         {"update_s", times.update.si()},
         {"compute_s", use.compute.si()},
         {"waiting_share", use.waiting},
         {"peak_memory_bytes", bytes_json(stage_peak(loaded.program.stages[s], loaded.check.peak_memory))}});
  }
  return json;
}

// The file is of stages that feed one the next.
void write_schedule(const std::string& path, const Plan& plan, const Graph& graph) {
  const StageGraph feeding = stage_graph(plan, graph);
  const int copies = traits_of(plan.schedule).copies;
  require(feeding.stages_after == line_of(static_cast<int>(plan.stages.size()), copies),
          "--write-schedule: the file format only describes stages that form a line, and the plan has parallel "
          "branches; give a plan whose stages form a line.");
  write_file(path, schedule_to_csv(schedule_of(plan, feeding), copies));
}

// Lists of all devices, for what is said of each of them.
bool asks_for_all_devices(const SimulateOptions& options) { return options.json || !options.trace.empty(); }

// The plan's own, unless measured costs take its place.
std::string software_of(const SimulateOptions& options, const Plan& plan) {
  const std::string own = options.profile.empty() ? plan.software : "";
  const std::string software = options.software.empty() ? own : options.software == kNoSoftware ? "" : options.software;
  const std::string with = with_token_dispatch(with_setup(software, options.software_setup),
                                               options.software_setup.token_dispatch, plan.model);
  expect_setup_of(with, plan.training.dtype);
  return with;
}

// The plan's own, unless any is given.
StepOptions conditions_with(StepOptions step, const Plan& plan) {
  if (!step.conditions.given()) step.conditions = conditions_from_plan(plan.conditions);
  // The spread of single steps is asked for, not the mean that the plan was judged by.
  if (!step.jitter.empty()) step.conditions.jitter.clear();
  return step;
}

void write_page(const Result& result, const Costs& costs, const SimulateOptions& options,
                const std::string& command_line) {
  const SimulatedPlan& simulated = result.simulated;
  Page page{.verb = "simulate", .document = with_devices_together(to_json(result, costs))};
  add_step_page(page, result.plan, simulated, *result.breakdown);
  add_sharding(page, result.plan, *simulated.loaded.graph, costs);
  const CostChoice choice{options.profile, software_of(options, result.plan)};
  if (auto what_if = what_if_section(page, what_if_axes(result.plan, simulated, costs, result.request, choice)))
    page.sections.push_back(*std::move(what_if));
  add_provenance(page, command_line, options.profile);
  write_file(options.html, to_html(page));
}

void simulate_plan(const SimulateOptions& options, const std::string& command_line) {
  Plan made = read_plan(options.plan);
  if (!options.model.empty()) expect_model(made, options.model, options.plan);
  Plan plan = reuse_plan(made, options.plan, options.reuse);
  const std::string& csv = options.reuse.schedule_csv;
  expect_writable(options.trace, {options.plan, options.profile.path, options.reuse.cluster, csv});
  expect_writable(options.schedule, {options.plan, options.profile.path, options.reuse.cluster, csv, options.trace});
  const std::vector<std::string> given = {options.plan, options.profile.path, options.reuse.cluster,
                                          csv,          options.trace,        options.schedule};
  expect_writable(options.html, given);
  expect_writable(options.svg, given);
  require(options.svg.empty() || options.svg != options.html,
          "--svg: {} is also what --html writes; give another file.", options.svg);
  require(options.chart == "timeline" || options.chart == "memory",
          "--chart: unknown chart '{}'; give timeline or memory.", options.chart);
  const Bytes trace_limit(1e6 *
                          static_cast<double>(count_from_text(options.trace_limit, "--trace-limit-mb", kMaxTrace)));
  const int threads = static_cast<int>(count_from_text(options.threads, "--threads", kMaxThreads));
  StepRequest request = step_request(conditions_with(options.step, plan));
  request.name_tasks = options.report || options.json || !options.html.empty();
  Result result{.made = std::move(made), .plan = std::move(plan), .request = request};
  expect_experts(request.expert_load, result.plan.model);
  result.plan.cluster.expert_load = request.expert_load;
  const Costs costs = costs_for(cluster_of_step(result.plan.cluster, result.request), options.profile,
                                software_of(options, result.plan));
  expect_software_can(result.request, costs);
  result.simulated =
      simulated_plan(result.plan, options.plan, costs, result.request,
                     asks_for_all_devices(options) ? DeviceFolding::Never : DeviceFolding::WherePossible, threads);
  const SimulatedPlan& simulated = result.simulated;
  if (request.failures)
    result.goodput =
        at_place("--failures", [&] { return goodput_of(simulated.step, simulated.loaded.program, request); });
  if (request.name_tasks) result.breakdown = find_breakdown(simulated, result.plan, costs);
  if (!options.schedule.empty()) write_schedule(options.schedule, result.plan, *simulated.loaded.graph);
  result.reuse = reuse_of(result.made, result.plan, simulated.loaded, *costs.model);
  result.forecast = forecast_of(result.plan, *simulated.loaded.graph, simulated.loaded.program, simulated.alike(),
                                costs, simulated.prediction.step);
  if (!options.trace.empty()) {
    const std::string title = fmt::format("{} on {}, simulated", result.plan.model.name, result.plan.cluster.name);
    write_file(options.trace, trace_text(simulated.step, simulated.loaded, title, trace_limit));
  }
  if (!options.svg.empty()) write_file(options.svg, picture(result, options.chart));
  if (!options.html.empty()) write_page(result, costs, options, command_line);
  if (options.json) return print(to_json(result, costs));
  // All is known before any of it is printed: what is refused prints nothing.
  const std::string stages = stages_text(result, costs), summary = summary_text(result, options);
  std::string drawing;
  if (options.timeline)
    drawing = terminal_timeline(tracks_of_step(result, ShownMessages::None), look_of_stdout(options.color));
  print(stages);
  print_drawing(drawing);
  print(summary);
}

}  // namespace

void add_simulate(CLI::App& app, Context& context) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* verb = app.add_subcommand(
      "simulate", "Predict the training step of a plan, or what it would be under other conditions.");
  verb->add_option("plan", options->plan, "plan file, as written by `meshwright plan -o`")->required();
  add_software_option(*verb, options->software, "the plan's");
  add_software_setup_options(*verb, options->software_setup);
  add_profile_options(*verb, options->profile, kProfileHelp);
  verb->add_option("--model", options->model, "check that the plan is for this model, otherwise refuse it");
  add_reuse_options(*verb, options->reuse, true);
  verb->add_option("--write-schedule", options->schedule,
                   "write the schedule to this CSV file: a row per rank, a cell per tick, in PyTorch's format");
  verb->add_option("--trace", options->trace, "write a Chrome/Perfetto trace to this file");
  verb->add_option("--trace-limit-mb", options->trace_limit,
                   "with --trace: refuse a longer file, before it is written (default: 500)");
  verb->add_option("--html", options->html, kHtmlHelp);
  verb->add_flag("--timeline", options->timeline, "draw the work of the devices over time, equal ones as one row");
  add_color_option(*verb, options->color);
  verb->get_option("--color")->needs(verb->get_option("--timeline"));
  verb->add_option("--svg", options->svg, "draw the step as an SVG picture in this file");
  verb->add_option("--chart", options->chart, "what --svg draws: timeline or memory (default: timeline)")
      ->needs(verb->get_option("--svg"));
  verb->add_flag("--report", options->report,
                 "print where the time goes, the critical path, the busiest links and the memory peak");
  add_step_options(*verb, options->step);
  verb->add_option("--threads", options->threads, "with --jitter: simulations at the same time (default: 1)");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer(
      "Examples:\n  meshwright simulate plan.json --timeline --trace trace.json\n"
      "  meshwright simulate plan.json --batch 512 --cluster dgx-h100:2\n"
      "  meshwright simulate plan.json --schedule zb-h1 --write-schedule zb-h1.csv\n"
      "  meshwright simulate plan.json --network fluid --overlap --report\n"
      "  meshwright simulate plan.json --slow-device 3=0.8 --jitter 0.05 --failures 50000");
  verb->callback(
      [&context, options] { context.action = [&context, options] { simulate_plan(*options, context.command_line); }; });
}

}  // namespace meshwright
