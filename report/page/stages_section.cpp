// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/plan/lowering/adapt_plan.h"
#include "report/page/assets.h"
#include "report/page/html.h"
#include "report/page/stages_table.h"
#include "report/page/step_sections.h"
#include "simulator/report/plan_tables.h"

namespace meshwright {

namespace {

// What the ops of a stage split over a mesh axis, most often first: "batch", "seq, heads".
std::string meaning_of_axis(const StagePlan& stage, std::size_t axis) {
  constexpr std::size_t kNamed = 3;
  std::map<std::string, int> counts;
  for (const auto& [op, sharding] : stage.ops)
    for (const auto& [name, mask] : sharding.axes)
      if ((mask >> axis & 1U) != 0) ++counts[name.substr(0, name.find('|'))];
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, count] : counts) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (const auto& [count, name] : order)
    if (names.size() < kNamed) names.push_back(name);
  if (names.size() < order.size()) names.emplace_back("...");
  return join(names, ", ");
}

std::vector<int> sorted_devices(const StagePlan& stage) {
  std::vector<int> devices = stage.devices;
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::vector<int> hosts_of_stage(const StagePlan& stage, const Cluster& cluster) {
  std::set<int> hosts;
  for (const int device : stage.devices) hosts.insert(cluster.host_of_device(device));
  return {hosts.begin(), hosts.end()};
}

// "at most 4 micro-batches in flight"
std::string in_flight_text(std::size_t s, const StepOfPage& of) {
  if (of.fits.empty()) return "";
  return fmt::format("at most {} in flight", counted(of.fits[s].in_flight, "micro-batch"));
}

Bytes peak_of_stage(StageId stage, const StepOfPage& of, const Tracks& tracks) {
  Bytes peak(0.0);
  for (const Track& row : tracks.rows)
    if (row.stage == of.program.first_of_rank(stage)) peak = std::max(peak, tracks.peak(row));
  return peak;
}

// "F 8.1 ms B 16.2 ms U 3.0 ms", which breaks between passes alone.
std::string passes_html(const StageTimes& times) {
  std::vector<std::string> passes;
  for (const auto& [letter, time] :
       {std::pair{'F', times.forward}, std::pair{'B', times.backward}, std::pair{'U', times.update}})
    passes.push_back(join(split(fmt::format("{} {}", letter, time_text(time)), ' '), "&nbsp;"));
  return join(passes, " ");
}

std::string card(std::size_t s, const StepOfPage& of, const Tracks& tracks) {
  const StagePlan& stage = of.plan.stages[s];
  const StageTimes& times = of.prediction.stages[s];
  const std::vector<int> hosts = hosts_of_stage(stage, of.plan.cluster);
  return fmt::format(
      "<div class=\"card\"><h3>{}: {}</h3><p>{} {}, {}</p><p>mesh {}</p><canvas class=\"mesh\" "
      "data-stage=\"{}\" role=\"img\" aria-label=\"{}\" hidden></canvas><p class=\"note\">{} · "
      "{}&nbsp;GiB</p>{}</div>\n",
      fmt::format("Stage {}", s),
      stage.first_layer == stage.last_layer ? fmt::format("layer {}", stage.first_layer)
                                            : fmt::format("layers {}-{}", stage.first_layer, stage.last_layer),
      hosts.size() == 1 ? "host" : "hosts", ranges_text(hosts), devices_text(sorted_devices(stage)),
      escaped(mesh_text(stage)), s,
      escaped(fmt::format("{} on {} hosts of {}", counted(static_cast<std::int64_t>(stage.devices.size()), "device"),
                          hosts.size(), stage.submesh.devices_per_host)),
      passes_html(times), gibibytes_text(peak_of_stage(StageId(static_cast<int>(s)), of, tracks)),
      of.fits.empty() ? "" : fmt::format("<p class=\"note\">{}</p>", in_flight_text(s, of)));
}

std::string stages_html(const StepOfPage& of, const Tracks& tracks) {
  std::vector<StageRow> rows;
  for (std::size_t s = 0; s < of.plan.stages.size(); ++s) {
    const StagePlan& stage = of.plan.stages[s];
    const StageTimes& times = of.prediction.stages[s];
    rows.push_back({layers_range_text(stage.first_layer, stage.last_layer),
                    ranges_text(hosts_of_stage(stage, of.plan.cluster)), ranges_text(sorted_devices(stage)),
                    mesh_text(stage), times.forward, times.backward, times.update,
                    peak_of_stage(StageId(static_cast<int>(s)), of, tracks),
                    of.fits.empty() ? std::nullopt : std::optional(of.fits[s].in_flight)});
  }
  return stages_table(rows);
}

}  // namespace

std::string mesh_text(const StagePlan& stage) {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < stage.logical_shape.size(); ++a) {
    const std::string meaning = stage.logical_shape[a] == 1 ? "" : meaning_of_axis(stage, a);
    axes.push_back(meaning.empty() ? fmt::format("{}", stage.logical_shape[a])
                                   : fmt::format("{} ({})", stage.logical_shape[a], meaning));
  }
  return join(axes, " x ");
}

Json stages_json(const StepOfPage& of) {
  Json stages = Json::array();
  for (const StagePlan& stage : of.plan.stages)
    stages.push_back({{"layers", {stage.first_layer, stage.last_layer}},
                      {"hosts", ranges_json(hosts_of_stage(stage, of.plan.cluster))},
                      {"host_size", stage.submesh.devices_per_host},
                      {"shape", stage.logical_shape},
                      {"devices", ranges_json(sorted_devices(stage))}});
  return stages;
}

PageSection stages_section(const StepOfPage& of, const Tracks& tracks) {
  constexpr std::size_t kCards = 16;  // more are told by the table alone
  const Plan& plan = of.plan;
  const std::size_t stages = plan.stages.size();
  PageSection section{"stages", "Stages and devices", "", ""};
  section.lead = fmt::format(
      "{} on {}. In a drawing a square is a device and a column a host; the shade is the place along the first mesh "
      "axis. "
      "F, B: a micro-batch's forward and backward; U: the update. In flight: micro-batches whose activations a device "
      "keeps.",
      counted(static_cast<std::int64_t>(stages), "stage"), counted(plan.cluster.devices(), "device"));
  if (stages <= kCards) {
    section.html = "<div class=\"cards\">\n";
    for (std::size_t s = 0; s < stages; ++s) section.html += card(s, of, tracks);
    section.html += "</div>\n" + details_html("As a table", stages_html(of, tracks));
  } else {
    section.html = stages_html(of, tracks);
  }
  section.scripts = {kMapJs};
  return section;
}

namespace {

std::string task_name(const TrackTask& task) {
  return fmt::format("{} {} of {}", name_of(task.kind), task.microbatch.value, stage_text(task.stage));
}

std::string what_runs_at(const Track& row, SimTime time, const Tracks& tracks) {
  for (std::size_t i = row.compute.begin; i < row.compute.end; ++i)
    if (tracks.tasks[i].begin <= time && time < tracks.tasks[i].end) return task_name(tracks.tasks[i]);
  return "all the time";
}

std::string peaks_html(const Tracks& tracks) {
  HtmlTable table("Memory at its fullest moment", {{"row", HtmlTable::Align::Text},
                                                   {"peak, GiB"},
                                                   {"usable, GiB"},
                                                   {"at, ms"},
                                                   {"in", HtmlTable::Align::Text},
                                                   {"weights"},
                                                   {"gradients"},
                                                   {"optimizer"},
                                                   {"activations"},
                                                   {"temporary"},
                                                   {"other"}});
  constexpr std::size_t kFullest = 64;
  std::vector<const Track*> rows;
  for (const Track& row : tracks.rows) rows.push_back(&row);
  if (rows.size() > kFullest) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const Track* a, const Track* b) { return tracks.peak(*a) > tracks.peak(*b); });
    rows.resize(kFullest);
  }
  for (const Track* shown : rows) {
    const Track& row = *shown;
    const TrackMemory& full = tracks.fullest(row);
    const auto bytes = [](std::int64_t count) { return gibibytes_text(Bytes(static_cast<double>(count))); };
    table.add_row({fmt::format("{}, {}", stage_text(row.stage), devices_text(row.devices)),
                   gibibytes_text(tracks.peak(row)), row.usable ? gibibytes_text(*row.usable) : "",
                   milliseconds_text(to_seconds(full.time)), what_runs_at(row, full.time, tracks),
                   gibibytes_text(row.standing.weights), gibibytes_text(row.standing.gradients),
                   gibibytes_text(row.standing.optimizer), bytes(full.activations), bytes(full.temporary),
                   gibibytes_text(row.standing.other)});
  }
  const std::string cut =
      rows.size() == tracks.rows.size()
          ? ""
          : fmt::format("<p class=\"note\">The {} fullest of {} rows.</p>\n", rows.size(), tracks.rows.size());
  return cut + table.html();
}

std::string largest_html(const Track& row, const StepOfPage& of) {
  constexpr std::size_t kLargest = 5;
  std::vector<MemoryRow> rows = memory_rows(of.program, of.graph, row.like);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MemoryRow& a, const MemoryRow& b) { return a.bytes_at_peak > b.bytes_at_peak; });
  HtmlTable table(fmt::format("The largest tensors at the peak of {}", stage_text(row.stage)),
                  {{"tensor", HtmlTable::Align::Code},
                   {"kind", HtmlTable::Align::Text},
                   {"of them"},
                   {"one, MiB"},
                   {"together, GiB"}});
  for (std::size_t i = 0; i < std::min(kLargest, rows.size()); ++i)
    table.add_row({rows[i].buffer, rows[i].kind, grouped(rows[i].at_peak),
                   fmt::format("{:.1f}", rows[i].bytes.si() / (1 << 20)), gibibytes_text(rows[i].bytes_at_peak)});
  return table.html();
}

}  // namespace

PageSection memory_section(const StepOfPage& of, const Tracks& tracks) {
  const auto fullest = std::max_element(tracks.rows.begin(), tracks.rows.end(), [&](const Track& a, const Track& b) {
    return tracks.peak(a).si() / a.usable->si() < tracks.peak(b).si() / b.usable->si();
  });
  const Bytes peak = tracks.peak(*fullest), usable = *fullest->usable;
  PageSection section{"memory", "Memory over time", "", ""};
  section.lead = fmt::format("Fullest: {} of {}, {} of {} GiB usable at {}, in {}; {}.", devices_text(fullest->devices),
                             stage_text(fullest->stage), gibibytes_text(peak), gibibytes_text(usable),
                             time_text(to_seconds(tracks.fullest(*fullest).time)),
                             what_runs_at(*fullest, tracks.fullest(*fullest).time, tracks),
                             peak <= usable ? gibibytes_text(usable - peak) + " GiB are free"
                                            : "it does not fit by " + gibibytes_text(peak - usable) + " GiB");
  section.html =
      "<div id=\"memory-view\" class=\"figure\" hidden>\n<div class=\"tools\"><label>Row <select "
      "id=\"memory-row\"></select></label></div>\n<canvas id=\"memory-canvas\" tabindex=\"0\" role=\"img\" "
      "aria-describedby=\"memory-info\" aria-label=\"Memory over time, stacked by kind\"></canvas>\n<ul "
      "class=\"legend\" "
      "id=\"memory-legend\"></ul>\n<p id=\"memory-info\" class=\"info\" aria-live=\"polite\">Point at a moment, or use "
      "the arrow keys.</p>\n</div>\n" +
      peaks_html(tracks) +
      details_html(fmt::format("The largest tensors at the peak of {}", devices_text(fullest->devices)),
                   largest_html(*fullest, of));
  section.scripts = {kMemoryJs};
  return section;
}

}  // namespace meshwright
