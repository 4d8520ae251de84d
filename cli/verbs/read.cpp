// SPDX-License-Identifier: Apache-2.0
// meshwright read: what a framework's launch file stands for, and what is predicted of it.
#include <CLI/CLI.hpp>

#include "cli/documents/figures/report.h"
#include "cli/documents/launch/launch_input.h"
#include "cli/documents/search/planning.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "launch/syntax/shell.h"

namespace meshwright {

namespace {

struct ReadOptions {
  LaunchOptions launch;
  std::string output;
};

// The plan as the file gives it, or why there is none.
struct ReadPlan {
  std::optional<PredictedLaunch> predicted;
  std::string why;
  std::string costs;
};

ReadPlan plan_of(const OpenedLaunch& opened) {
  if (!opened.reading.why_no_plan.empty()) return {{}, opened.reading.why_no_plan, ""};
  try {
    expect_setup_of(opened.software, opened.reading.setup.dtype);
    const Costs costs = costs_for(opened.cluster, {}, opened.software);
    return {predict_launch(opened, costs), "", costs.source};
  } catch (const InputError& error) {
    return {{}, error.what(), ""};
  }
}

std::string unresolved_text(const LaunchText& text) {
  std::vector<std::string> names;
  for (const auto& [name, line] : text.unresolved) names.push_back(fmt::format("{} (line {})", name, line));
  return names.empty()
             ? ""
             : fmt::format("# variables that nothing sets: {}; --set NAME=VALUE gives one\n", join(names, ", "));
}

std::string settings_text(const Settings& settings) {
  using State = Setting::State;
  std::string text =
      fmt::format("# settings: {} understood, {} without effect on the plan, {} not understood\n",
                  settings.count(State::Understood), settings.count(State::NoEffect), settings.count(State::Unread));
  for (const Setting& setting : settings.all())
    if (setting.state == State::Unread)
      text += fmt::format("# not understood: {}: {}{}\n", setting.place, shown(setting.shown),
                          setting.value.kind == ConfigValue::Kind::Null || setting.key == "(word)"
                              ? ""
                              : " = " + shown(to_text(setting.value)));
  return text;
}

const char* on_host_text(Offload offload) {
  const bool states = has(offload, Offload::Optimizer), weights = has(offload, Offload::Weights);
  return states && weights ? ", optimizer state and weights on the host"
         : states          ? ", optimizer state on the host"
         : weights         ? ", weights on the host"
                           : "";
}

std::string setup_words(const SoftwareSetup& setup) {
  std::string text;
  if (setup.narrow_states) text += ", states of 16 bits";
  if (setup.moment_bits < 32) text += fmt::format(", moments of {} bits", setup.moment_bits);
  if (setup.fused_attention == false) text += ", unfused attention";
  if (setup.dispatch == TokenDispatch::ToHosts) text += ", tokens once to each host";
  if (setup.dispatch == TokenDispatch::ToAll) text += ", tokens to all devices";
  if (setup.loss_chunks == kFittingLossChunks)
    text += ", a loss in chunks";
  else if (setup.loss_chunks != 1)
    text += fmt::format(", a loss in {} chunks", setup.loss_chunks);
  return text;
}

std::string recompute_words(const LaunchSetup& setup) {
  return setup.recompute_layers.empty() ? recompute_text(setup.degrees) : to_text(setup.recompute_layers);
}

Json json_of(const SoftwareSetup& setup) {
  Json json = Json::object();
  if (setup.narrow_states) json["state_bits"] = 16;
  if (setup.moment_bits < 32) json["moment_bits"] = setup.moment_bits;
  if (setup.fused_attention) json["fused_attention"] = *setup.fused_attention;
  if (setup.dispatch != TokenDispatch::ToExperts)
    json["token_dispatch"] = setup.dispatch == TokenDispatch::ToHosts ? "hosts" : "all";
  if (setup.loss_chunks != 1)
    json["loss_chunks"] = setup.loss_chunks == kFittingLossChunks ? Json("auto") : Json(setup.loss_chunks);
  return json;
}

std::string heading(const OpenedLaunch& opened) {
  const LaunchSetup& setup = opened.reading.setup;
  const HostGroup& hosts = opened.cluster.only();
  std::string text = fmt::format(
      "# meshwright {}  read  {}  {} for {}\n", MESHWRIGHT_VERSION, shown(opened.text.program),
      opened.text.variant.empty() || setup.release.starts_with(opened.text.variant) ? "launches" : opened.text.variant,
      setup.release);
  text += fmt::format("# model {}: {} layers, hidden {}, {} heads, seq {}, vocabulary {}\n", setup.model.name,
                      setup.model.layers, setup.model.hidden, setup.model.heads, setup.model.seq, setup.model.vocab);
  text += fmt::format("# cluster {} ({} x {} {})\n", opened.cluster.name, hosts.hosts, hosts.devices_per_host,
                      hosts.device.name);
  text += fmt::format("# {}\n", degrees_words(setup));
  text +=
      fmt::format("# batch {} in {} micro-batch{} of {}, {}{}{}, recompute {}, {}{}\n", setup.global_batch(),
                  setup.degrees.micro_batches, setup.degrees.micro_batches == 1 ? "" : "es", setup.degrees.micro_batch,
                  name_of(setup.dtype), setup.matmul_dtype.empty() ? "" : " with products in " + setup.matmul_dtype,
                  setup_words(setup.software_setup), recompute_words(setup), name_of(setup.optimizer.kind),
                  on_host_text(setup.offload));
  return text;
}

std::string lists(const OpenedLaunch& opened) {
  std::string text;
  for (const std::string& sentence : opened.reading.broken)
    text += fmt::format("# breaks a rule of {}: {}\n", opened.reading.setup.release, sentence);
  for (const std::string& note : opened.notes) text += fmt::format("# {}\n", note);
  if (!opened.reading.assumed.empty()) text += fmt::format("# assumed: {}\n", join(opened.reading.assumed, "; "));
  for (const std::string& note : opened.text.notes) text += fmt::format("# {}\n", shown(note));
  return text + unresolved_text(opened.text) + settings_text(opened.reading.settings);
}

std::string stage_rows(const PredictedLaunch& predicted) {
  TextTable table({{"stage", ""}, {"layers", ""}, {"submesh", ""}, {"logical", ""}, {"memory", "(GiB)"}});
  const Plan& plan = predicted.plan;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    table.add_row({fmt::format("{}", s), layers_text(stage), submesh_text(stage), logical_text(stage),
                   in_gibibytes(stage_peak(predicted.program.stages[s], predicted.check.peak_memory))});
  }
  return table.to_text();
}

std::string prediction_text(const OpenedLaunch& opened, const ReadPlan& read) {
  if (!read.predicted) return fmt::format("# no step is predicted: {}\n", read.why);
  const PredictedLaunch& predicted = *read.predicted;
  const Plan& plan = predicted.plan;
  const std::int64_t parameters = parameter_count(*predicted.graph), active = active_parameter_count(*predicted.graph);
  std::string text = fmt::format(
      "# {:.4g} billion parameters{}\n", static_cast<double>(parameters) * 1e-9,
      active == parameters ? "" : fmt::format(", of which a token meets {:.4g}", static_cast<double>(active) * 1e-9));
  text += fmt::format("# costs: {}\n", read.costs) + stage_rows(predicted);
  text += fmt::format("# step time {} ms{}\n", in_milliseconds(plan.predicted.step_time),
                      interval_text(predicted.forecast));
  const Throughput rate = throughput(plan, plan.predicted.step_time);
  text += fmt::format("# {}", to_text(rate));
  const std::string& products = opened.reading.setup.matmul_dtype;
  if (const auto mfu = mfu_of(plan, products); mfu && !rate.mfu && rate.why_none.empty())
    text += fmt::format(", MFU {} %", in_percent(*mfu));
  else if (mfu && products == "fp8")
    text += fmt::format(", MFU of products in fp8 {} %", in_percent(*mfu));
  text += "\n" + memory_line(memory_use(plan, predicted.program, predicted.check), plan.software) +
          memory_line(predicted.forecast);
  const std::string as =
      predicted.forecast.memory ? fmt::format(", as {} keeps its memory", predicted.forecast.software) : "";
  text += predicted.fits() ? fmt::format("# it fits{}\n", as)
                           : fmt::format("# it does not fit{}: the fullest device needs {} GiB of {} GiB\n", as,
                                         in_gibibytes(predicted.needs), in_gibibytes(predicted.usable));
  return text;
}

Json settings_json(const Settings& settings) {
  Json unread = Json::array();
  for (const Setting& setting : settings.all())
    if (setting.state == Setting::State::Unread)
      unread.push_back(
          {{"place", setting.place}, {"name", shown(setting.shown)}, {"value", shown(to_text(setting.value))}});
  return {{"understood", settings.count(Setting::State::Understood)},
          {"without_effect", settings.count(Setting::State::NoEffect)},
          {"not_understood", std::move(unread)}};
}

Json json_of(const OpenedLaunch& opened, const ReadPlan& read) {
  const LaunchSetup& setup = opened.reading.setup;
  Json json = {{"version", MESHWRIGHT_VERSION},
               {"verb", "read"},
               {"program", shown(opened.text.program)},
               {"framework", setup.target},
               {"release", setup.release}};
  if (!opened.text.variant.empty()) json["variant"] = opened.text.variant;
  json["model"] = to_json(setup.model);
  json["cluster"] = opened.cluster.name;
  json["hosts"] = setup.hosts;
  json["devices_per_host"] = setup.devices_per_host;
  json["degrees"] = degrees_json(setup);
  json["batch"] = setup.global_batch();
  json["dtype"] = name_of(setup.dtype);
  if (!setup.matmul_dtype.empty()) json["matmul_dtype"] = setup.matmul_dtype;
  if (Json own = json_of(setup.software_setup); !own.empty()) json["software_setup"] = std::move(own);
  json["offload"] = name_of(setup.offload);
  json["broken_rules"] = opened.reading.broken;
  Json notes = opened.notes;
  for (const std::string& note : opened.text.notes) notes.push_back(shown(note));
  json["notes"] = std::move(notes);
  json["assumed"] = opened.reading.assumed;
  Json& unresolved = json["unresolved"] = Json::array();
  for (const auto& [name, line] : opened.text.unresolved) unresolved.push_back({{"name", name}, {"line", line}});
  json["settings"] = settings_json(opened.reading.settings);
  if (!read.predicted) {
    json["no_step"] = read.why;
    return json;
  }
  const PredictedLaunch& predicted = *read.predicted;
  const Plan& plan = predicted.plan;
  json["parameters"] = parameter_count(*predicted.graph);
  json["active_parameters"] = active_parameter_count(*predicted.graph);
  json["costs"] = read.costs;
  json["step_time_s"] = plan.predicted.step_time.si();
  add_forecast(json, predicted.forecast);
  const Throughput rate = throughput(plan, plan.predicted.step_time);
  add_throughput(json, rate);
  const auto mfu = rate.why_none.empty() ? mfu_of(plan, "") : std::nullopt;
  const auto of_products = mfu_of(plan, setup.matmul_dtype);
  json["mfu"] = mfu ? Json(*mfu) : Json(nullptr);
  if (setup.matmul_dtype == "fp8") json["mfu_of_fp8_peak"] = of_products ? Json(*of_products) : Json(nullptr);
  add_memory(json, memory_use(plan, predicted.program, predicted.check));
  json["fits"] = predicted.fits();
  json["needs_bytes"] = bytes_json(predicted.needs);
  json["room_bytes"] = bytes_json(predicted.usable);
  Json& stages = json["stages"] = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    stages.push_back(
        {{"stage", s},
         {"layers", Json::array({plan.stages[s].first_layer, plan.stages[s].last_layer})},
         {"submesh", submesh_json(plan.stages[s])},
         {"logical_shape", plan.stages[s].logical_shape},
         {"peak_memory_bytes", bytes_json(stage_peak(predicted.program.stages[s], predicted.check.peak_memory))}});
  return json;
}

void read_launch_files(const ReadOptions& options) {
  expect_writable(options.output, options.launch.files);
  const OpenedLaunch opened = open_launch(options.launch);
  const ReadPlan read = plan_of(opened);
  if (read.predicted && !options.output.empty()) write_plan(read.predicted->plan, options.output);
  if (options.launch.json) {
    Json json = json_of(opened, read);
    if (read.predicted && !options.output.empty()) json["output"] = options.output;
    print(json);
  } else {
    print(heading(opened) + lists(opened) + prediction_text(opened, read) +
          (read.predicted && !options.output.empty() ? fmt::format("# written to {}\n", options.output) : ""));
  }
  if (!read.predicted)
    throw NoFeasiblePlan(fmt::format("{}: no plan has what it asks for: {}", options.launch.files.front(), read.why));
}

}  // namespace

void add_read(CLI::App& app, Context& context) {
  auto options = std::make_shared<ReadOptions>();
  CLI::App* verb = app.add_subcommand("read", "Read a framework's launch file, and predict what it launches.");
  add_launch_options(*verb, options->launch);
  verb->add_option("-o,--output", options->output, "write the plan to this file");
  verb->footer("Example:\n  meshwright read train.sh --cluster dgx-h100 --set NNODES=16 -o plan.json");
  verb->callback([&context, options] { context.action = [options] { read_launch_files(*options); }; });
}

}  // namespace meshwright
