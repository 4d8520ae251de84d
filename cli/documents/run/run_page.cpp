// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/run_page.h"

#include "cli/documents/pages/step_page.h"
#include "report/page/chart_html.h"
#include "report/page/run_sections.h"
#include "report/page/step_sections.h"
#include "report/page/time_section.h"
#include "report/page/timings_section.h"
#include "report/page/tracks_data.h"

namespace meshwright {

namespace {

// What was measured, in rows.
Tracks measured_tracks(const MeasuredRun& run) {
  return tracks_of(run.result.timeline, row_devices(run.plan, run.loaded.program, nullptr), ShownMessages::All);
}

TimeOfPage measured_time(const MeasuredRun& run) { return {run.plan, run.loaded.program, run.time}; }

Json op_times_of(const Page& page) { return page.document.value("op_times", Json()); }

// Where devices share GPUs, the prediction has other tasks than the run, and only what was measured is shown.
void add_measured_alone(Page& page, const MeasuredRun& run) {
  Tracks tracks = measured_tracks(run);
  keep_within(tracks, kMaxPageTasks);
  PageSection timeline = timeline_section(tracks);
  timeline.title = "Measured timeline";
  timeline.lead = "The last step as it was measured. " + timeline.lead;
  page.sections.push_back(measured_time_section(measured_time(run), nullptr, op_times_of(page)));
  page.sections.push_back(std::move(timeline));
  add_tracks(page, tracks);
  page.sections.push_back(measured_memory_section(page.document, nullptr));
  if (auto links = measured_links_section(page.document, {})) page.sections.push_back(*std::move(links));
}

void add_both(Page& page, const MeasuredRun& run, const ProfileSource& profile) {
  const Costs costs = costs_for(run.plan.cluster, profile, profile.empty() ? run.plan.software : std::string{});
  StepRequest request;
  request.name_tasks = true;
  const SimulatedPlan simulated = simulated_plan(run.plan, "--html", costs, request, DeviceFolding::Never);
  const Program& program = simulated.loaded.program;
  const auto breakdown = find_breakdown(simulated, run.plan, costs);
  const StepOfPage of = step_of_page(run.plan, simulated, breakdown);
  const Tracks predicted = tracks_of(simulated.step, run.plan, program, of.graph, nullptr);
  const Tracks pairs = paired(predicted, measured_tracks(run));
  const TimingNames names{"predicted", "measured"};
  const TimeOfPage predicted_time = time_of(of);
  page.sections.push_back(measured_time_section(measured_time(run), &predicted_time, op_times_of(page)));
  page.sections.push_back(paired_timeline_section(page, pairs, names));
  page.sections.push_back(differences_section(pairs, names));
  page.sections.push_back(stages_section(of, predicted));
  page.members["stages"] = stages_json(of);
  const PageSection memory = memory_section(of, predicted);
  page.sections.push_back(measured_memory_section(page.document, &memory));
  if (auto links = measured_links_section(page.document, collective_rows(program, of.graph, *costs.model)))
    page.sections.push_back(*std::move(links));
}

}  // namespace

void write_run_page(const MeasuredRun& run, const RunFiles& files, const RunPageOptions& options) {
  Page page{.verb = "run", .document = to_json(run, files)};
  page.styles = chart_styles();
  add_run_answer(page, run.plan);
  page.sections.push_back(measured_section(page.document));
  if (auto loss = loss_section(page.document)) page.sections.push_back(*std::move(loss));
  run.machine.shares_gpus() ? add_measured_alone(page, run) : add_both(page, run, options.profile);
  add_provenance(page, options.command_line, options.profile);
  write_file(options.html, to_html(page));
}

}  // namespace meshwright
