// SPDX-License-Identifier: Apache-2.0
// meshwright plan: find a plan.
#include <CLI/CLI.hpp>

#include "cli/documents/pages/step_page.h"
#include "cli/documents/search/budget.h"
#include "cli/verbs/verbs.h"

namespace meshwright {

void add_plan(CLI::App& app, Context& context) {
  struct Options {
    PlanningOptions planning;
    BudgetOptions budget;
    std::string output, dump, html, svg, axes = "step,memory";
    bool report = false, no_free_plan = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("plan", "Find the fastest plan for training a model on a cluster.");
  add_planning_options(*verb, options->planning, GridOptions::Single);
  add_profile_options(*verb, options->planning.profile, kProfileHelp);
  add_software_option(*verb, options->planning.software, kNoSoftware);
  add_software_setup_options(*verb, options->planning.software_setup);
  add_budget_options(*verb, options->budget);
  verb->add_flag("--no-free-plan", options->no_free_plan,
                 "with --for: do not also search for the plan that no framework restricts");
  verb->add_option("-o,--output", options->output, "write the plan to this file");
  verb->add_option("--html", options->html, kHtmlHelp);
  verb->add_flag("--report", options->report,
                 "also print where the time of a step goes, the critical path, the busiest links and the memory peak");
  verb->add_option("--dump", options->dump,
                   "write what the search knew and what the plan consists of into this folder: candidates, layers, the "
                   "stage table, the program of each kind of device, collectives, resharding and memory");
  verb->add_option("--svg", options->svg, "with --pareto: draw the front as an SVG picture in this file");
  verb->add_option("--axes", options->axes, "of --svg: two of step, memory, devices and price")
      ->capture_default_str()
      ->needs(verb->get_option("--svg"));
  verb->footer(
      "Example:\n  meshwright plan --model gpt-2.6b --cluster p3.16xlarge:2 --micro-batches 64 --layers 16 -o "
      "plan.json");
  verb->callback([&context, options] {
    context.action = [&context, options] {
      complete(options->planning);
      const Cluster cluster = cluster_from_options(options->planning);
      const PlanReport report{.verb = "plan",
                              .output = options->output,
                              .dump = options->dump,
                              .html = options->html,
                              .command_line = context.command_line,
                              .provenance = "",
                              .svg = options->svg,
                              .axes = options->axes,
                              .report = options->report,
                              .free_plan = !options->no_free_plan};
      if (options->budget.given()) return plan_run_and_report(options->planning, options->budget, cluster, report);
      const Costs costs = costs_for(cluster, options->planning.profile, options->planning.software);
      plan_and_report(options->planning, cluster, costs, report);
    };
  });
}

}  // namespace meshwright
