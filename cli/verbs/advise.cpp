// SPDX-License-Identifier: Apache-2.0
// meshwright advise: which settings of a launch file to change, and what each gains.
#include <CLI/CLI.hpp>

#include "cli/documents/figures/report.h"
#include "cli/documents/launch/launch_input.h"
#include "cli/documents/search/planning.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/planner/given_plan.h"
#include "launch/advise/advice.h"
#include "launch/advise/kernel_changes.h"
#include "launch/syntax/shell.h"
#include "simulator/what_if/evaluator.h"

namespace meshwright {

namespace {

struct AdviseOptions {
  LaunchOptions launch;
  std::string output;
  bool no_free_plan = false;
};

// What advise found.
struct Found {
  Advice advice;
  Degrees best;
  Plan plan;                                                        // the best one
  std::vector<std::pair<std::string, LaunchOutcome>> kernels = {};  // what other kernels make of the file's own plan
  std::optional<Seconds> free = {};
};

LaunchOutcome judge(const LaunchSetup& setup, const OpenedLaunch& opened, const Costs& costs) {
  LaunchOutcome outcome;
  try {
    PlanRequest request = request_of(setup, opened.cluster);
    request.software = opened.software;
    PlanOfGraph made = given_plan(request, *costs.model);
    made.plan.software = request.software;
    const SimulatedEvaluator evaluator(*costs.model, costs.software ? &*costs.software : nullptr);
    const PlanOutcome of = evaluator.outcome(made);
    outcome.step = of.step;
    outcome.needs = of.peak;
    outcome.usable = made.plan.cluster.usable_memory();
    if (const auto memory = evaluator.software_memory(made.plan, *made.graph)) {
      outcome.needs = memory->needs;
      outcome.usable = memory->usable;
    }
  } catch (const InputError&) {  // no plan has these degrees
  }
  return outcome;
}

// What the file itself launches. REQUIRES: it has a plan.
Plan plan_of_file(const OpenedLaunch& opened, const Costs& costs, Seconds step) {
  PlanRequest request = request_of(opened.reading.setup, opened.cluster);
  request.software = opened.software;
  Plan plan = given_plan(request, *costs.model).plan;
  plan.software = request.software;
  plan.predicted.step_time = step;
  return plan;
}

// A kernel that changes little is not worth a line.
constexpr double kLeastGain = 0.01, kLeastRoom = 0.1;

std::vector<std::pair<std::string, LaunchOutcome>> other_kernels(const OpenedLaunch& opened, const LaunchOutcome& now) {
  std::vector<std::pair<std::string, LaunchOutcome>> found;
  if (!now.step || opened.software.empty()) return found;
  for (const KernelChange& change : kernel_changes(opened.reading.setup)) {
    OpenedLaunch other = opened;
    other.software = software_of(opened.reading.software, change.setup);
    const LaunchOutcome outcome = judge(change.setup, other, costs_for(opened.cluster, {}, other.software));
    if (!outcome.step) continue;
    const bool saves = *outcome.step < (1.0 - kLeastGain) * *now.step || outcome.needs < (1.0 - kLeastRoom) * now.needs;
    if (saves || (outcome.fits() && !now.fits())) found.emplace_back(change.to, outcome);
  }
  return found;
}

PlanRequest best_request(const OpenedLaunch& opened, const AdviseOptions& options) {
  const LaunchSetup& setup = opened.reading.setup;
  PlanRequest request;
  request.model = setup.model;
  request.cluster = opened.cluster;
  request.software = opened.software;
  request.training.batch = setup.global_batch();
  request.training.dtype = setup.dtype;
  request.training.optimizer = setup.optimizer;
  request.training.offload = setup.offload;
  request.search.launch_for = &opened.reading.framework;
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  request.threads = threads_from_text(options.launch.threads);
  return request;
}

Degrees degrees_of_plan(const Plan& plan) {
  Degrees degrees = degrees_of(method_from_text(plan.method), plan.cluster.devices());
  degrees.schedule = plan.schedule;
  degrees.recompute = plan.training.recompute;
  degrees.recompute_modules = plan.training.recompute_modules;
  degrees.micro_batches = plan.training.microbatches;
  degrees.micro_batch = plan.training.batch / plan.training.microbatches / degrees.dp;
  return degrees;
}

std::optional<Seconds> free_step(PlanRequest request, const Plan& best, const Costs& costs) {
  request.search.launch_for = nullptr;
  request.search.schedule = ScheduleKind::OneFOneB;
  request.search.recompute = Auto{};
  request.search.microbatches = best.training.microbatches;
  const auto found = search_plan(std::move(request), costs, "without restrictions: ").planned;
  if (!found) return best.predicted.step_time;
  return std::min(best.predicted.step_time, found->plan.predicted.step_time);
}

Found find(const OpenedLaunch& opened, const AdviseOptions& options) {
  require(opened.reading.why_no_advice.empty(),
          "{}: {}; `meshwright plan --for fsdp` finds the best plan of any degrees.", shown(opened.text.program),
          opened.reading.why_no_advice);
  require(opened.reading.setup.stages.empty(),
          "{}: its stages have degrees of their own, which are not compared setting by setting; `meshwright plan --for "
          "megatron` "
          "finds the best plan of one set of degrees.",
          options.launch.files.front());
  expect_setup_of(opened.software, opened.reading.setup.dtype);
  const Costs costs = costs_for(opened.cluster, {}, opened.software);
  const Interruption interruption;
  PlanRequest request = best_request(opened, options);
  request.stop = [&] { return interruption.requested(); };
  PlanningOutcome searched = search_plan(request, costs, "");
  if (!searched.planned)
    throw NoFeasiblePlan(
        fmt::format("no plan that {} launches fits: {}", opened.reading.framework.name, searched.reason));
  if (searched.interrupted) warn("interrupted: the best plan found so far is advised");
  Found found{{}, degrees_of_plan(searched.planned->plan), std::move(searched.planned->plan)};
  const LaunchJudge of = [&](const LaunchSetup& setup) { return judge(setup, opened, costs); };
  found.advice = advise(opened.reading.setup, found.best, opened.reading.framework, of);
  // What the file has may be as fast as the best that the search knows of.
  const LaunchOutcome& now = found.advice.now;
  if (now.fits() && opened.reading.why_no_plan.empty() && *now.step <= found.plan.predicted.step_time) {
    found.advice.rows.clear();
    found.best = degrees_with_layout(opened.reading.setup);
    found.plan = plan_of_file(opened, costs, *now.step);
  }
  if (!opened.reading.why_no_plan.empty()) found.advice.now = {};
  if (options.launch.software.empty()) found.kernels = other_kernels(opened, found.advice.now);
  if (!options.no_free_plan && !interruption.requested()) found.free = free_step(request, found.plan, costs);
  return found;
}

std::string step_cell(const LaunchOutcome& outcome) { return outcome.step ? in_milliseconds(*outcome.step) : "-"; }
std::string memory_cell(const LaunchOutcome& outcome) {
  if (!outcome.step) return "-";
  return in_gibibytes(outcome.needs) + (outcome.fits() ? "" : " too much");
}

// The share of the step that is saved; "-" where one of them is not known.
std::string gain_cell(const LaunchOutcome& from, const LaunchOutcome& to) {
  return from.step && to.step ? in_percent(1.0 - *to.step / *from.step) : "-";
}

std::string change_text(const LaunchChange& change) {
  const auto named = [](const std::string& text) { return text.empty() ? std::string("(not given)") : text; };
  return fmt::format("{} -> {}", named(change.from), named(change.to));
}

std::string text_of(const OpenedLaunch& opened, const Found& found, const AdviseOptions& options) {
  const LaunchSetup& setup = opened.reading.setup;
  const Advice& advice = found.advice;
  std::string text = fmt::format("# meshwright {}  advise  {}  for {}\n", MESHWRIGHT_VERSION,
                                 shown(opened.text.program), setup.release);
  text += fmt::format("# model {}, cluster {}, batch {}, {}\n", setup.model.name, opened.cluster.name,
                      setup.global_batch(), name_of(setup.dtype));
  text += fmt::format("# now: {}, recompute {}, {} micro-batches of {}\n", degrees_words(setup),
                      name_of(setup.degrees.recompute), setup.degrees.micro_batches, setup.degrees.micro_batch);
  for (const std::string& sentence : opened.reading.broken)
    text += fmt::format("# breaks a rule of {}: {}\n", setup.release, sentence);
  for (const std::string& note : opened.notes) text += fmt::format("# {}\n", note);
  if (!opened.reading.assumed.empty()) text += fmt::format("# assumed: {}\n", join(opened.reading.assumed, "; "));
  const auto unread = opened.reading.settings.count(Setting::State::Unread);
  if (unread > 0)
    text +=
        fmt::format("# {} not understood; `meshwright read` lists {}\n",
                    unread == 1 ? "1 setting is" : fmt::format("{} settings are", unread), unread == 1 ? "it" : "them");
  if (advice.now.step)
    text += fmt::format("# step now {} ms, memory {} GiB of {} GiB{}\n", step_cell(advice.now),
                        in_gibibytes(advice.now.needs), in_gibibytes(advice.now.usable),
                        advice.now.fits() ? "" : ": it does not fit");
  else
    text += fmt::format("# step now: none, {}\n",
                        opened.reading.why_no_plan.empty() ? "no plan has these degrees" : opened.reading.why_no_plan);
  for (const auto& [to, outcome] : found.kernels)
    text += fmt::format("# beside the rows: {}: {} ms, {} GiB for the plan as it is{}\n", to, step_cell(outcome),
                        in_gibibytes(outcome.needs), outcome.fits() ? "" : ": it does not fit");
  if (advice.rows.empty()) text += "# nothing to change: no faster plan that this framework launches is known\n";
  TextTable table({{"change", ""}, {"alone", "(ms)"}, {"gains alone", "(%)"}, {"after", "(ms)"}, {"memory", "(GiB)"}});
  for (const AdviceRow& row : advice.rows)
    for (std::size_t i = 0; i < row.changes.size(); ++i) {
      const LaunchChange& change = row.changes[i];
      const bool last = i + 1 == row.changes.size();
      table.add_row({(row.changes.size() > 1 ? i == 0 ? "together: " : "  and " : "") + change_text(change),
                     step_cell(change.alone), gain_cell(advice.now, change.alone), last ? step_cell(row.after) : "",
                     last ? memory_cell(row.after) : ""});
    }
  if (!advice.rows.empty()) text += table.to_text();
  text += fmt::format("# best of {}: {} ms, {}\n", opened.reading.framework.name,
                      in_milliseconds(found.plan.predicted.step_time), text_of(found.best));
  if (found.free) {
    const double more = found.plan.predicted.step_time / *found.free - 1.0;
    text += more > 0.0 ? fmt::format("# beyond {}: {} ms without its restrictions, which cost {} %\n",
                                     opened.reading.framework.name, in_milliseconds(*found.free), in_percent(more))
                       : fmt::format("# no faster plan was found without the restrictions of {}\n",
                                     opened.reading.framework.name);
  }
  if (!options.output.empty()) text += fmt::format("# written to {}\n", options.output);
  return text;
}

Json outcome_json(const LaunchOutcome& outcome) {
  if (!outcome.step) return nullptr;
  return {{"step_time_s", outcome.step->si()},
          {"needs_bytes", bytes_json(outcome.needs)},
          {"room_bytes", bytes_json(outcome.usable)},
          {"fits", outcome.fits()}};
}

Json json_of(const OpenedLaunch& opened, const Found& found, const AdviseOptions& options) {
  const LaunchSetup& setup = opened.reading.setup;
  Json json = {{"version", MESHWRIGHT_VERSION},
               {"verb", "advise"},
               {"program", shown(opened.text.program)},
               {"framework", setup.target},
               {"release", setup.release}};
  json["model"] = to_json(setup.model);
  json["cluster"] = opened.cluster.name;
  json["batch"] = setup.global_batch();
  json["degrees"] = degrees_json(setup);
  json["broken_rules"] = opened.reading.broken;
  json["notes"] = opened.notes;
  json["assumed"] = opened.reading.assumed;
  json["settings_not_understood"] = opened.reading.settings.count(Setting::State::Unread);
  json["now"] = outcome_json(found.advice.now);
  if (!opened.reading.why_no_plan.empty()) json["no_step"] = opened.reading.why_no_plan;
  Json& rows = json["rows"] = Json::array();
  for (const AdviceRow& row : found.advice.rows) {
    Json changes = Json::array();
    for (const LaunchChange& change : row.changes)
      changes.push_back({{"from", change.from}, {"to", change.to}, {"alone", outcome_json(change.alone)}});
    rows.push_back({{"changes", std::move(changes)}, {"after", outcome_json(row.after)}});
  }
  Json& kernels = json["kernels"] = Json::array();
  for (const auto& [to, outcome] : found.kernels) kernels.push_back({{"to", to}, {"outcome", outcome_json(outcome)}});
  json["best_step_time_s"] = found.plan.predicted.step_time.si();
  json["best"] = text_of(found.best);
  if (found.free) json["free_step_time_s"] = found.free->si();
  if (!options.output.empty()) json["output"] = options.output;
  return json;
}

void advise_launch(const AdviseOptions& options) {
  expect_writable(options.output, options.launch.files);
  const OpenedLaunch opened = open_launch(options.launch);
  const Found found = find(opened, options);
  if (!options.output.empty()) write_plan(found.plan, options.output);
  if (options.launch.json) return print(json_of(opened, found, options));
  print(text_of(opened, found, options));
}

}  // namespace

void add_advise(CLI::App& app, Context& context) {
  auto options = std::make_shared<AdviseOptions>();
  CLI::App* verb = app.add_subcommand("advise", "Say which settings of a launch file to change, and what each gains.");
  add_launch_options(*verb, options->launch);
  verb->add_flag("--no-free-plan", options->no_free_plan,
                 "do not also search for the plan that no framework restricts");
  verb->add_option("-o,--output", options->output, "write the best plan to this file");
  verb->footer("Example:\n  meshwright advise train.sh --cluster dgx-h100:16");
  verb->callback([&context, options] { context.action = [options] { advise_launch(*options); }; });
}

}  // namespace meshwright
