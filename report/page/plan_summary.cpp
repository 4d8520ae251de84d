// SPDX-License-Identifier: Apache-2.0
#include "report/page/plan_summary.h"

#include <algorithm>

#include "core/base/errors.h"
#include "report/page/html.h"
#include "report/page/stages_table.h"
#include "report/page/time_bars.h"

namespace meshwright {

namespace {

constexpr std::size_t kSummaryRows = 32;

std::string others_html(std::size_t all, const char* what) {
  return all <= kSummaryRows ? "" : fmt::format("<p class=\"note\">and {} more {}</p>\n", all - kSummaryRows, what);
}

std::string layers_text(const Json& layers, const std::string& place) {
  require(layers.is_array() && layers.size() == 2 && layers[0].is_number_integer() && layers[1].is_number_integer(),
          "{}: 'layers' must be the first and the last.", place);
  return layers_range_text(layers[0].get<int>(), layers[1].get<int>());
}

std::string stages_of_summary(const Json& stages, const std::string& place) {
  require(stages.is_array(), "{}: 'stages' must be a list.", place);
  std::vector<StageRow> rows;
  for (std::size_t s = 0; s < std::min(kSummaryRows, stages.size()); ++s) {
    const Json& stage = stages[s];
    const auto text = [&](const char* key) { return get<std::string>(stage, key, place); };
    const auto seconds = [&](const char* key) { return Seconds(get<double>(stage, key, place)); };
    rows.push_back({layers_text(member(stage, "layers", place), place), text("hosts"), text("devices"), text("mesh"),
                    seconds("forward_s"), seconds("backward_s"), seconds("update_s"),
                    Bytes(get<double>(stage, "memory_bytes", place)), get<int>(stage, "in_flight", place)});
  }
  return stages_table(rows) + others_html(stages.size(), "stages");
}

KindTimes times_of(const Json& parts, const std::string& place) {
  KindTimes times{};
  for (std::size_t k = 0; k < times.size(); ++k) {
    const char* name = name_of(static_cast<TimeKind>(k));
    if (parts.contains(name)) times[k] = get<std::int64_t>(parts, name, place);
  }
  return times;
}

std::string time_of_summary(const Json& time, const std::string& place) {
  const SimTime step{get<std::int64_t>(time, "step_ps", place)};
  const Json& rows = member(time, "rows", place);
  require(rows.is_array(), "{}: 'rows' must be a list.", place);
  std::string text = "<div class=\"bars\">\n";
  KindTimes all{};
  for (std::size_t r = 0; r < std::min(kSummaryRows, rows.size()); ++r) {
    const KindTimes times = times_of(member(rows[r], "parts_ps", place), place);
    for (std::size_t k = 0; k < all.size(); ++k) all[k] += times[k];
    text += fmt::format("<div><b>stage {}</b><span>{}</span>{}</div>\n", get<int>(rows[r], "stage", place),
                        escaped(get<std::string>(rows[r], "devices", place)), time_bar(times, step));
  }
  return legend_of(all) + text + "</div>\n" + others_html(rows.size(), "rows of devices");
}

}  // namespace

Json plan_summary(const StepOfPage& of) {
  Json stages = Json::array();
  for (std::size_t s = 0; s < of.plan.stages.size(); ++s) {
    const StagePlan& stage = of.plan.stages[s];
    const StageTimes& times = of.prediction.stages[s];
    std::vector<int> devices = stage.devices, hosts;
    std::sort(devices.begin(), devices.end());
    for (const int device : devices) hosts.push_back(of.plan.cluster.host_of_device(device));
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    stages.push_back({{"layers", {stage.first_layer, stage.last_layer}},
                      {"hosts", ranges_text(hosts)},
                      {"devices", ranges_text(devices)},
                      {"mesh", mesh_text(stage)},
                      {"forward_s", times.forward.si()},
                      {"backward_s", times.backward.si()},
                      {"update_s", times.update.si()},
                      {"memory_bytes", of.fits[s].needs.si()},
                      {"in_flight", of.fits[s].in_flight}});
  }
  Json summary = {{"stages", std::move(stages)}};
  Json rows = Json::array();
  for (const AlikeDevices& row : alike_devices(time_of(of))) {
    const KindTimes times = kinds_of(row.parts);
    Json parts = Json::object();
    for (std::size_t k = 0; k < times.size(); ++k)
      if (times[k] != 0) parts[name_of(static_cast<TimeKind>(k))] = times[k];
    rows.push_back(
        {{"stage", row.stage.value}, {"devices", devices_text(row.devices)}, {"parts_ps", std::move(parts)}});
  }
  summary["time"] = {{"step_ps", of.breakdown.step.ps}, {"rows", std::move(rows)}};
  return summary;
}

std::string plan_summary_html(const Json& summary, const std::string& place) {
  const std::string stages = stages_of_summary(member(summary, "stages", place), place);
  return (summary.contains("time") ? time_of_summary(summary.at("time"), place) : "") + stages;
}

}  // namespace meshwright
