// SPDX-License-Identifier: Apache-2.0
// meshwright explain: why a plan splits its tensors as it does, and what every other way would cost.
#include "core/planner/intra_op/explain.h"

#include <CLI/CLI.hpp>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/report.h"
#include "cli/documents/pages/step_page.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/plan/ranks.h"
#include "simulator/report/step_terms.h"

namespace meshwright {

namespace {

struct ExplainOptions {
  std::string plan, other, tensor, html;
  ProfileSource profile;
  bool json = false;
};

// Without a tensor's name: of each decision what was chosen and the best other way.
std::string overview(const std::vector<Explanation>& found, const Plan& plan) {
  TextTable table({{"layer", ""},
                   {"tensor", ""},
                   {"chosen", ""},
                   {"next best", ""},
                   {"costs more", "(ms)"},
                   {"bytes more", "(GiB)"}});
  for (const Explanation& one : found) {
    const Alternative *chosen = nullptr, *next = nullptr;
    for (const Alternative& way : one.alternatives) {
      if (way.chosen)
        chosen = &way;
      else if (next == nullptr)
        next = &way;
    }
    if (chosen == nullptr || next == nullptr) continue;
    table.add_row({fmt::format("{}", one.layer), one.tensor, chosen->spec.to_text(), next->spec.to_text(),
                   in_milliseconds(next->time - chosen->time), in_gibibytes(next->bytes - chosen->bytes)});
  }
  std::string text;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    if (plan.stages[s].devices.size() == 1) text += fmt::format("# stage {} has one device: nothing is sharded\n", s);
  return text + table.to_text();
}

std::string details(const Explanation& one) {
  std::string text = fmt::format("# {}{}: layer {} of stage {} takes {} ms per micro-batch as planned\n", one.tensor,
                                 one.reader.empty() ? "" : " read by " + one.reader, one.layer, one.stage,
                                 in_milliseconds(one.layer_time));
  TextTable table(
      {{"", ""}, {"spec", ""}, {"layer time", "(ms)"}, {"more", "(ms)"}, {"bytes", "(GiB)"}, {"strategy", ""}});
  for (const Alternative& way : one.alternatives) {
    if (way.bound < way.time)
      text +=
          fmt::format("# {}: best found, not proven; lower bound {} ms\n", way.strategy, in_milliseconds(way.bound));
    table.add_row({way.chosen ? "chosen" : "", way.spec.to_text(), in_milliseconds(way.time),
                   in_milliseconds(way.time - one.layer_time), in_gibibytes(way.bytes), way.strategy});
  }
  return text + table.to_text();
}

Json to_json(const Explanation& one) {
  Json ways = Json::array();
  for (const Alternative& way : one.alternatives)
    ways.push_back({{"spec", way.spec.to_text()},
                    {"strategy", way.strategy},
                    {"chosen", way.chosen},
                    {"layer_time_s", way.time.si()},
                    {"layer_time_bound_s", way.bound.si()},
                    {"layer_bytes", way.bytes.si()}});
  return {{"tensor", one.tensor},
          {"reader", one.reader},
          {"stage", one.stage},
          {"layer", one.layer},
          {"layer_time_s", one.layer_time.si()},
          {"priced_by", name_of(one.method)},
          {"alternatives", std::move(ways)}};
}

// As the plan was made with, or of the profile that is given.
Costs costs_of(const ExplainOptions& options, const Plan& plan) {
  return costs_for(plan.cluster, options.profile, options.profile.empty() ? plan.software : std::string{});
}

// For the step that the plan was made with.
PlanForecast forecast_of_plan(const Plan& plan, const LoadedPlan& loaded, const Costs& costs) {
  return forecast_of(plan, *loaded.graph, loaded.program, nullptr, costs, plan.predicted.step_time);
}

double share_of(SimTime part, SimTime whole) {
  return whole.ps == 0 ? 0.0 : static_cast<double>(part.ps) / static_cast<double>(whole.ps);
}

SimTime whole_of(const TermsOfStep& terms) { return SimTime{terms.devices * terms.step.ps}; }

// The terms that one of the plans has.
std::vector<StepTerm> terms_of(const TermsOfStep& own, const TermsOfStep& its) {
  std::vector<StepTerm> terms;
  for (std::size_t t = 0; t < kStepTerms; ++t) {
    const auto term = static_cast<StepTerm>(t);
    for (const SimTime time : {own.of_busiest[term], its.of_busiest[term], own.of_all[term], its.of_all[term]}) {
      if (time == SimTime{0}) continue;
      terms.push_back(term);
      break;
    }
  }
  return terms;
}

std::string terms_text(const TermsOfStep& own, const TermsOfStep& its) {
  TextTable table({{"term", ""},
                   {"plan", "(ms)"},
                   {"other plan", "(ms)"},
                   {"more", "(ms)"},
                   {"plan's devices", "(%)"},
                   {"other's devices", "(%)"}});
  const auto row = [&](const std::string& name, SimTime a, SimTime b, double share_a, double share_b) {
    table.add_row({name, in_milliseconds(to_seconds(a)), in_milliseconds(to_seconds(b)),
                   in_milliseconds(to_seconds(b - a)), in_percent(share_a), in_percent(share_b)});
  };
  for (const StepTerm term : terms_of(own, its))
    row(name_of(term), own.of_busiest[term], its.of_busiest[term], share_of(own.of_all[term], whole_of(own)),
        share_of(its.of_all[term], whole_of(its)));
  row("step", own.step, its.step, 1.0, 1.0);
  return fmt::format(
             "# where the step goes: of the busiest device ({} of {} and {} of {}), and of all devices together\n",
             own.busiest.value, own.devices, its.busiest.value, its.devices) +
         table.to_text();
}

// In picoseconds, in which the terms of a plan, and the differences, add up exactly.
Json terms_json(const TermsOfStep& own, const TermsOfStep& its) {
  Json rows = Json::array();
  for (const StepTerm term : terms_of(own, its))
    rows.push_back({{"term", name_of(term)},
                    {"plan_ps", own.of_busiest[term].ps},
                    {"other_ps", its.of_busiest[term].ps},
                    {"difference_ps", (its.of_busiest[term] - own.of_busiest[term]).ps},
                    {"plan_share_of_all", share_of(own.of_all[term], whole_of(own))},
                    {"other_share_of_all", share_of(its.of_all[term], whole_of(its))}});
  return {{"plan_step_ps", own.step.ps},
          {"other_step_ps", its.step.ps},
          {"difference_ps", (its.step - own.step).ps},
          {"plan_busiest_device", own.busiest.value},
          {"other_busiest_device", its.busiest.value},
          {"plan_devices", own.devices},
          {"other_devices", its.devices},
          {"terms", std::move(rows)}};
}

void compare(const ExplainOptions& options, const Plan& plan, const Plan& other, const LoadedPlan& loaded,
             const Costs& costs) {
  const Costs other_costs = costs_of(options, other);
  const LoadedPlan loaded_other = load_plan_of(options.other, other, *other_costs.model);
  const auto sentences = compare_plans(plan, other, *loaded.graph, *costs.model);
  const auto first = uncertainty_of_plan(plan, loaded.program, nullptr, costs);
  const auto second = uncertainty_of_plan(other, loaded_other.program, nullptr, other_costs);
  const PlanForecast own = forecast_of(plan, *loaded.graph, first, costs, plan.predicted.step_time);
  const PlanForecast its = forecast_of(other, *loaded_other.graph, second, other_costs, other.predicted.step_time);
  const TermsOfStep own_terms = terms_of_step(loaded.program, *loaded.graph, *costs.model);
  const TermsOfStep its_terms = terms_of_step(loaded_other.program, *loaded_other.graph, *other_costs.model);
  std::vector<Rival> rivals;
  if (first && second) {
    const StepComparison comparison = compare_steps(*first, *second);
    if (!comparison.decided() && !comparison.alike()) rivals.push_back({"the other plan", comparison});
  }
  if (options.json) {
    Json json = {{"verb", "explain"}, {"step_time_s", plan.predicted.step_time.si()}};
    add_forecast(json, own);
    json["other_step_time_s"] = other.predicted.step_time.si();
    json["other_interval_s"] = interval_json(its.step);
    json["undecided"] = rivals_json(rivals, plan.software);
    json["differences"] = sentences;
    json["step_terms"] = terms_json(own_terms, its_terms);
    return print(json);
  }
  std::string text =
      fmt::format("# step time {} ms{}, other plan {} ms{}\n", in_milliseconds(plan.predicted.step_time),
                  interval_text(own.step), in_milliseconds(other.predicted.step_time), interval_text(its.step));
  text += rivals_line("the plan", rivals, plan.software);
  text += terms_text(own_terms, its_terms);
  for (const std::string& sentence : sentences) text += sentence + "\n";
  if (sentences.empty()) text += "the plans make the same decisions\n";
  print(text);
}

// The page has all tensors, whatever --tensor lists.
void write_page(const ExplainOptions& options, const Plan& plan, const LoadedPlan& loaded, const Costs& costs,
                const std::string& command_line) {
  Page page{.verb = "explain"};
  page.answer = fmt::format("How the tensors of {} are split over {}, and what other ways would cost.", plan.model.name,
                            plan.cluster.name);
  page.lead = "Times are of a micro-batch, by the costs that the plan was searched with.";
  page.tiles = {{"Step time", human_seconds(plan.predicted.step_time), "as the plan promises"},
                {"Stages", fmt::format("{}", plan.stages.size()), ""},
                {"Devices", fmt::format("{}", used_devices(plan)), ""}};
  page.document = {{"program", "meshwright"},
                   {"version", MESHWRIGHT_VERSION},
                   {"verb", "explain"},
                   {"model", plan.model.name},
                   {"cluster", plan.cluster.name},
                   {"costs", costs.source},
                   {"step_time_s", plan.predicted.step_time.si()}};
  add_sharding(page, plan, *loaded.graph, costs);
  add_provenance(page, command_line, options.profile);
  write_file(options.html, to_html(page));
}

void explain(const ExplainOptions& options, const std::string& command_line) {
  const Plan plan = read_plan(options.plan);
  const Costs costs = costs_of(options, plan);
  expect_writable(options.html, {options.plan, options.other, options.profile.path});
  const LoadedPlan loaded = load_plan_of(options.plan, plan, *costs.model);
  if (!options.other.empty()) {
    require(options.html.empty(), "--html: is of a single plan; leave out '{}'.", options.other);
    require(options.tensor.empty(), "--tensor: explains a single plan; leave out '{}'.", options.other);
    const Plan other = read_plan(options.other);
    return compare(options, plan, other, loaded, costs);
  }
  if (!options.html.empty()) write_page(options, plan, loaded, costs, command_line);
  const PlanForecast forecast = forecast_of_plan(plan, loaded, costs);
  const auto found = explain_plan(plan, *loaded.graph, *costs.model, options.tensor);
  if (options.json) {
    Json all = Json::array();
    for (const Explanation& one : found) all.push_back(to_json(one));
    Json json = {{"verb", "explain"}, {"step_time_s", plan.predicted.step_time.si()}};
    add_forecast(json, forecast);
    add_cross_mesh(json, plan);
    json["explanations"] = std::move(all);
    return print(json);
  }
  std::string text;
  if (forecast.step)
    text =
        fmt::format("# step time {} ms{}\n", in_milliseconds(plan.predicted.step_time), interval_text(forecast.step)) +
        memory_line(forecast);
  text += cross_mesh_line(plan);
  if (!options.html.empty()) text += html_line(options.html);
  if (options.tensor.empty()) return print(text + overview(found, plan));
  for (const Explanation& one : found) text += details(one);
  print(text);
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* verb = app.add_subcommand("explain", "Explain a plan: what the alternatives for each tensor would cost.");
  verb->add_option("plan", options->plan, "plan file")->required();
  verb->add_option(
      "other", options->other,
      "another plan of the same model and batch to compare with: where the time goes, and decision by decision");
  verb->add_option("--tensor", options->tensor,
                   "list every possible sharding of this tensor or parameter and its cost");
  add_profile_options(*verb, options->profile, kProfileHelp);
  verb->add_option(
      "--html", options->html,
      "write a report to this HTML file: one file that opens from disk, with every tensor and its other ways");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer("Example:\n  meshwright explain plan.json --tensor blk0.mlp.up.weight");
  verb->callback(
      [&context, options] { context.action = [&context, options] { explain(*options, context.command_line); }; });
}

}  // namespace meshwright
