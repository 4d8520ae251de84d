// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/run_page.h"

#include "cli/documents/pages/step_page.h"
#include "report/page/run_sections.h"
#include "report/page/step_sections.h"

namespace meshwright {

namespace {

// Where devices share GPUs, the prediction has other tasks than the run, so it is not broken down.
void add_predicted_sections(Page& page, const MeasuredRun& run, const ProfileSource& profile) {
  if (run.machine.shares_gpus()) return;
  const Costs costs = costs_for(run.plan.cluster, profile, profile.empty() ? run.plan.software : std::string{});
  StepRequest request;
  request.name_tasks = true;
  const SimulatedPlan simulated = simulated_plan(run.plan, "--html", costs, request, DeviceFolding::Never);
  const auto breakdown = find_breakdown(simulated, run.plan, costs);
  const StepOfPage of{.plan = run.plan,
                      .program = simulated.loaded.program,
                      .graph = *simulated.loaded.graph,
                      .step = simulated.step,
                      .prediction = simulated.prediction,
                      .breakdown = breakdown ? &breakdown->step : nullptr,
                      .ops = breakdown ? &breakdown->ops : nullptr};
  if (breakdown) {
    PageSection time = time_section(of);
    time.title = "Where the predicted time goes";
    page.sections.push_back(std::move(time));
  }
  page.sections.push_back(stages_section(
      of, tracks_of(simulated.step, run.plan, simulated.loaded.program, *simulated.loaded.graph, nullptr)));
  page.members["stages"] = stages_json(of);
}

}  // namespace

void write_run_page(const MeasuredRun& run, const RunFiles& files, const RunPageOptions& options) {
  Page page{.verb = "run", .document = to_json(run, files)};
  add_run_answer(page, run.plan);
  page.sections.push_back(measured_section(page.document));
  Tracks tracks = tracks_of(run.result.timeline, run.plan, run.loaded.program);
  keep_within(tracks, kMaxPageTasks);
  PageSection timeline = timeline_section(tracks);
  timeline.title = "Measured timeline";
  timeline.lead = "The last step as it was measured. " + timeline.lead;
  page.sections.push_back(std::move(timeline));
  add_tracks(page, tracks);
  add_predicted_sections(page, run, options.profile);
  add_provenance(page, options.command_line, options.profile);
  write_file(options.html, to_html(page));
}

}  // namespace meshwright
