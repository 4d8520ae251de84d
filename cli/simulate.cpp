// SPDX-License-Identifier: Apache-2.0
// meshwright simulate: predict a plan's step, instruction by instruction.
#include "simulator/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/reuse.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"

namespace meshwright {

namespace {

struct SimulateOptions {
  std::string plan, profile, model, trace;
  ReuseOptions reuse;
  bool timeline = false, json = false;
};

constexpr int kTimelineColumns = 96;

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
  require(asked == plan.model, "{}: the plan is for model {}, not {}; leave --model out or give that one's.", path,
          sizes_text(plan.model), sizes_text(asked));
}

struct Simulated {
  Plan made, plan;  // as read, as simulated
  LoadedPlan loaded;
  Prediction prediction;
  Reuse reuse;
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
  const auto& [made, plan, loaded, prediction, reuse] = simulated;
  std::string text = header_lines("simulate", plan) + to_text(reuse, "simulated");
  text += cost_line(costs.source, prediction.priced);
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
  text += fmt::format("# {}\n", to_text(throughput(plan, prediction.step())));
  text += memory_line(memory_use(plan, loaded.program, loaded.check));
  text += fmt::format("# {} events; the event engine and the pass in order agree\n", prediction.simulation.events);
  if (!options.trace.empty()) text += fmt::format("# trace written to {}; open it in ui.perfetto.dev\n", options.trace);
  return text;
}

Json twin(const Simulated& simulated, const Costs& costs) {
  const auto& [made, plan, loaded, prediction, reuse] = simulated;
  Json json = header_json("simulate", plan);
  add_reuse(json, made, reuse);
  json["costs"] = costs.source;
  json["cost_basis"] = basis_json(prediction.priced);
  json["step_time_s"] = prediction.step().si();
  json["idle_share"] = prediction.summary.bubble;
  json["pipeline_bubble"] = prediction.pipeline_bubble;
  add_throughput(json, throughput(plan, prediction.step()));
  const std::vector<MemoryUse> uses = memory_use(plan, loaded.program, loaded.check);
  add_memory(json, uses);
  json["fits"] = std::all_of(uses.begin(), uses.end(), [](const MemoryUse& use) { return use.fits(); });
  json["events"] = prediction.simulation.events;
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

void simulate_plan(const SimulateOptions& options) {
  Plan made = read_plan(options.plan);
  if (!options.model.empty()) expect_model(made, options.model, options.plan);
  Plan plan = reuse_plan(made, options.plan, options.reuse);
  expect_writable(options.trace, {options.plan, options.profile, options.reuse.cluster});
  const Costs costs = costs_for(plan.cluster, options.profile);
  LoadedPlan loaded = load_plan_of(options.plan, plan, *costs.model);
  Prediction prediction = predict(loaded.program, loaded.check, *costs.model);
  Reuse reuse = reuse_of(made, plan, loaded, *costs.model);
  const Simulated simulated{std::move(made), std::move(plan), std::move(loaded), std::move(prediction),
                            std::move(reuse)};
  if (!options.trace.empty())
    write_file(options.trace, to_chrome_trace(simulated.prediction.simulation.timeline,
                                              fmt::format("{} on {}, simulated", simulated.plan.model.name,
                                                          simulated.plan.cluster.name)));
  if (options.json) return print(twin(simulated, costs));
  print(document(simulated, costs, options));
}

}  // namespace

void add_simulate(CLI::App& app, Context& context) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* verb = app.add_subcommand("simulate", "Predict the step of a plan.");
  verb->add_option("plan", options->plan, "plan file, as written by `meshwright plan -o`")->required();
  verb->add_option("--profile", options->profile, "take costs from this profile database first");
  verb->add_option("--model", options->model, "refuse the plan unless it is for this model");
  add_reuse_options(*verb, options->reuse, true);
  verb->add_option("--trace", options->trace, "write a Chrome/Perfetto trace to this file");
  verb->add_flag("--timeline", options->timeline, "draw what each device does over time");
  verb->add_flag("--json", options->json, "print the document as JSON");
  verb->footer(
      "Examples:\n  meshwright simulate plan.json --timeline --trace trace.json\n"
      "  meshwright simulate plan.json --batch 512 --cluster dgx-h100:2");
  verb->callback([&context, options] { context.action = [options] { simulate_plan(*options); }; });
}

}  // namespace meshwright
