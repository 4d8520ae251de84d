// SPDX-License-Identifier: Apache-2.0
// meshwright simulate: predict a plan's step, instruction by instruction.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/documents/report.h"
#include "cli/documents/reuse.h"
#include "cli/options/options.h"
#include "cli/step/step_simulation.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/graph/import/find_model.h"
#include "core/plan/ranks.h"
#include "core/schedule/schedule_csv.h"

namespace meshwright {

namespace {

struct SimulateOptions {
  std::string plan, profile, model, trace, schedule;
  ReuseOptions reuse;
  StepOptions step;
  std::string threads = "1";
  bool timeline = false, report = false, json = false;
};

constexpr int kTimelineColumns = 96;
constexpr long kMostThreads = 1024;

// "mlp (layers=2, hidden=64)": the name alone is that of the family where the size is the user's own.
std::string sizes_text(const ModelConfig& model) {
  std::vector<std::string> sizes;
  const Json members = to_json(model);
  for (const auto& [key, value] : members.items())
    if (value.is_number() && key != "default_batch") sizes.push_back(fmt::format("{}={}", key, value.dump()));
  return fmt::format("{} ({})", model.name, join(sizes, ", "));
}

void expect_model(const Plan& plan, const std::string& model, const std::string& path) {
  ModelConfig asked = at_place("--model", [&] { return find_model(model); });
  if (asked.seq > 0 && plan.model.seq > 0) asked.seq = plan.model.seq;  // --seq of `plan` keeps the name
  require(asked == plan.model, "{}: the plan is for model {}, not {}; leave --model out, or give the plan's model.",
          path, sizes_text(plan.model), sizes_text(asked));
}

struct Simulated {
  Plan made, plan;  // as read, as simulated
  LoadedPlan loaded;
  Prediction prediction;
  Reuse reuse;
  StepRequest request;
  std::optional<StepSimulation> step;  // where something is asked beyond the plan's own step
};

// Idle share of a stage's devices: both means over the devices of the stage.
struct StageUse {
  Seconds compute{0.0};
  double idle = 0.0;
};

StageUse stage_use(const Simulated& simulated, std::size_t s) {
  Seconds compute(0.0);
  const std::vector<DeviceId>& devices = simulated.loaded.program.stages[s].devices;
  for (const DeviceId device : devices) compute += simulated.prediction.summary.compute[device.index()];
  compute = compute / static_cast<double>(devices.size());
  return {compute, 1.0 - compute / simulated.prediction.summary.step};
}

std::string document(const Simulated& simulated, const Costs& costs, const SimulateOptions& options) {
  const auto& [made, plan, loaded, prediction, reuse, request, step] = simulated;
  std::string text = header_lines("simulate", plan) + to_text(reuse, "simulated");
  text += cost_line(costs.source, prediction.priced);
  for (const std::string& sentence : to_sentences(request)) text += fmt::format("# {}\n", sentence);
  TextTable table({{"stage", ""},
                   {"devices", ""},
                   {"forward", "(ms)"},
                   {"backward", "(ms)"},
                   {"update", "(ms)"},
                   {"compute", "(ms)"},
                   {"idle", "(%)"},
                   {"memory", "(GiB)"}});
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageTimes& times = prediction.stages[s];
    const StageUse use = stage_use(simulated, s);
    table.add_row({fmt::format("{}", s), fmt::format("{}", plan.stages[s].devices.size()),
                   in_milliseconds(times.forward), in_milliseconds(times.backward), in_milliseconds(times.update),
                   in_milliseconds(use.compute), in_percent(use.idle),
                   in_gibibytes(stage_peak(loaded.program.stages[s], loaded.check.peak_memory))});
  }
  text += table.to_text();
  if (options.timeline) {
    const int devices = static_cast<int>(loaded.program.devices.size());
    text += draw(prediction.simulation.timeline, devices, kTimelineColumns);
  }
  text += fmt::format("# step time {} ms, idle share {} %, pipeline bubble {} %\n", in_milliseconds(prediction.step()),
                      in_percent(prediction.summary.bubble), in_percent(prediction.pipeline_bubble));
  text += fmt::format("# {}\n", to_text(throughput(plan, prediction.step(), request.replicas)));
  text += memory_line(memory_use(plan, loaded.program, loaded.check));
  if (options.report) text += report_text(*step, loaded);
  if (step) text += outcome_text(*step, request);
  text += step && !request.plain()
              ? fmt::format("# {} tasks, {}\n", step->made.graph.size(),
                            step->by_events ? "some share links or slow each other down: simulated by events"
                                            : "none share a link: simulated in order")
              : fmt::format("# {} events; the event simulation and the in-order simulation agree\n",
                            prediction.simulation.events);
  if (!options.schedule.empty()) text += fmt::format("# schedule written to {}\n", options.schedule);
  if (!options.trace.empty()) text += fmt::format("# trace written to {}; open it in ui.perfetto.dev\n", options.trace);
  return text;
}

Json twin(const Simulated& simulated, const Costs& costs) {
  const auto& [made, plan, loaded, prediction, reuse, request, step] = simulated;
  Json json = header_json("simulate", plan);
  add_reuse(json, made, reuse);
  json["costs"] = costs.source;
  json["cost_basis"] = basis_json(prediction.priced);
  json["step_time_s"] = prediction.step().si();
  json["idle_share"] = prediction.summary.bubble;
  json["pipeline_bubble"] = prediction.pipeline_bubble;
  add_throughput(json, throughput(plan, prediction.step(), request.replicas));
  const std::vector<MemoryUse> uses = memory_use(plan, loaded.program, loaded.check);
  add_memory(json, uses);
  json["fits"] = std::all_of(uses.begin(), uses.end(), [](const MemoryUse& use) { return use.fits(); });
  json["events"] = prediction.simulation.events;
  if (step) add_step(json, *step, loaded, request);
  Json& stages = json["stages"] = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageTimes& times = prediction.stages[s];
    const StageUse use = stage_use(simulated, s);
    stages.push_back(
        {{"stage", s},
         {"devices", plan.stages[s].devices},
         {"forward_s", times.forward.si()},
         {"backward_s", times.backward.si()},
         {"update_s", times.update.si()},
         {"compute_s", use.compute.si()},
         {"idle_share", use.idle},
         {"peak_memory_bytes", bytes_json(stage_peak(loaded.program.stages[s], loaded.check.peak_memory))}});
  }
  return json;
}

// What is said of the step is of the one that was asked for.
void replace_step(Prediction& prediction, const StepSimulation& step, const Program& program) {
  prediction.simulation.timeline = to_timeline(step.made.graph, step.times);
  const Timeline& timeline = prediction.simulation.timeline;
  const int steps = static_cast<int>(step.made.first_of_step.size()) - 1;
  prediction.summary = summarize(timeline, static_cast<int>(program.devices.size()));
  for (Seconds& compute : prediction.summary.compute) compute = compute / static_cast<double>(steps);
  prediction.summary.step = prediction.summary.step / static_cast<double>(steps);
  if (steps == 1) prediction.pipeline_bubble = pipeline_bubble(timeline);
  prediction.stages = mean_stage_times(timeline, program, steps);
  prediction.asked = to_seconds(step.step);
}

// The file is of stages that feed one the next.
void write_schedule(const std::string& path, const Plan& plan, const Graph& graph) {
  const StageGraph feeding = stage_graph(plan, graph);
  require(feeding.stages_after == line_of(static_cast<int>(plan.stages.size())),
          "--write-schedule: the file format only describes stages that form a line, and the plan has parallel "
          "branches; give a plan whose stages form a line.");
  write_file(path, schedule_to_csv(schedule_of(plan, feeding)));
}

void simulate_plan(const SimulateOptions& options) {
  Plan made = read_plan(options.plan);
  if (!options.model.empty()) expect_model(made, options.model, options.plan);
  Plan plan = reuse_plan(made, options.plan, options.reuse);
  const std::string& csv = options.reuse.schedule_csv;
  expect_writable(options.trace, {options.plan, options.profile, options.reuse.cluster, csv});
  expect_writable(options.schedule, {options.plan, options.profile, options.reuse.cluster, csv, options.trace});
  const StepRequest request = step_request(options.step);
  const int threads = static_cast<int>(count_from_text(options.threads, "--threads", kMostThreads));
  const Costs costs = costs_for(cluster_of_step(plan.cluster, request), options.profile);
  LoadedPlan loaded = load_plan_of(options.plan, plan, *costs.model);
  if (!options.schedule.empty()) write_schedule(options.schedule, plan, loaded.graph);
  Prediction prediction = predict(loaded.program, *costs.model);
  std::optional<StepSimulation> step;
  if (!request.plain() || options.report || options.json || !options.trace.empty())
    step = simulate_step(plan, loaded, prediction.priced.times, *costs.model, request, threads);
  if (!request.plain()) {
    replace_step(prediction, *step, loaded.program);
    loaded.check.peak_memory = peak_memory(*step, loaded.program);
  }
  Reuse reuse = reuse_of(made, plan, loaded, *costs.model);
  const Simulated simulated{std::move(made),  std::move(plan), std::move(loaded), std::move(prediction),
                            std::move(reuse), request,         std::move(step)};
  if (!options.trace.empty()) {
    const std::string title =
        fmt::format("{} on {}, simulated", simulated.plan.model.name, simulated.plan.cluster.name);
    write_file(options.trace, trace_text(*simulated.step, simulated.loaded, title));
  }
  if (options.json) return print(twin(simulated, costs));
  print(document(simulated, costs, options));
}

}  // namespace

void add_simulate(CLI::App& app, Context& context) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* verb = app.add_subcommand(
      "simulate", "Predict the training step of a plan, or what it would be under other conditions.");
  verb->add_option("plan", options->plan, "plan file, as written by `meshwright plan -o`")->required();
  verb->add_option("--profile", options->profile,
                   "profile database to take measured costs from; what it lacks is modelled (default: all modelled)");
  verb->add_option("--model", options->model, "check that the plan is for this model, otherwise refuse it");
  add_reuse_options(*verb, options->reuse, true);
  verb->add_option("--write-schedule", options->schedule,
                   "write the schedule to this CSV file: a row per rank, a cell per tick, in PyTorch's format");
  verb->add_option("--trace", options->trace, "write a Chrome/Perfetto trace to this file");
  verb->add_flag("--timeline", options->timeline, "draw each device's work over time");
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
  verb->callback([&context, options] { context.action = [options] { simulate_plan(*options); }; });
}

}  // namespace meshwright
