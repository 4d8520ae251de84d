// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/step/step_text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/documents/figures/report.h"
#include "cli/options/step_options.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "simulator/report/step_report.h"
#include "simulator/what_if/variations.h"

namespace meshwright {

namespace {

constexpr std::size_t kRows = 8;       // of the longest lists
constexpr std::size_t kPathRows = 24;  // of the critical path
constexpr double kQuantiles[] = {0.5, 0.9, 0.99};

double share_of(SimTime part, SimTime whole) {
  return whole.ps == 0 ? 0.0 : static_cast<double>(part.ps) / static_cast<double>(whole.ps);
}

struct CriticalPath {
  std::vector<CriticalShare> shares;
  std::vector<CriticalSegment> segments;
  std::size_t tasks = 0;
};

CriticalPath critical_path_of(const StepSimulation& step) {
  const std::vector<CriticalTask> path = critical_path(step.tasks.graph, step.times);
  return {critical_shares(step.tasks.graph, path, step.times), critical_segments(step.tasks.graph, path, step.times),
          path.size()};
}

// The path in the order of time: a row for as long as it stays on one stage.
std::string segments_text(const std::vector<CriticalSegment>& segments) {
  struct Row {
    StageId stage;
    SimTime begin, end;
    std::map<TaskKind, int> tasks;
  };
  std::vector<Row> rows;
  for (const CriticalSegment& segment : segments) {
    if (rows.empty() || rows.back().stage != segment.stage) rows.push_back({segment.stage, segment.begin, {0}, {}});
    rows.back().end = segment.end;
    rows.back().tasks[segment.kind] += segment.tasks;
  }
  const auto row_text = [](const Row& row) {
    std::vector<std::string> kinds;
    for (const auto& [kind, tasks] : row.tasks) kinds.push_back(fmt::format("{} x {}", tasks, name_of(kind)));
    return join(kinds, ", ");
  };
  TextTable table({{"begin", "(ms)"}, {"end", "(ms)"}, {"stage", ""}, {"tasks", ""}});
  const std::size_t left_out = rows.size() > kPathRows ? rows.size() - kPathRows : 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (left_out > 0 && r >= kPathRows / 2 && r < kPathRows / 2 + left_out) continue;
    table.add_row({in_milliseconds(to_seconds(rows[r].begin)), in_milliseconds(to_seconds(rows[r].end)),
                   fmt::format("{}", rows[r].stage.value), row_text(rows[r])});
  }
  const std::string rest = left_out == 0 ? "" : fmt::format(" ({} rows in the middle are left out)", left_out);
  return fmt::format("# the critical path in order{}\n", rest) + table.to_text();
}

struct NamedLink {
  std::string name;
  LinkUse use;
  double busy = 0.0;
};

// By use, fullest first.
std::vector<NamedLink> named_links(const StepSimulation& step) {
  std::vector<NamedLink> links;
  const std::vector<LinkUse> uses = link_use(step.tasks.graph, step.times, step.conditions.discipline);
  for (std::size_t l = 0; l < uses.size(); ++l) {
    const NetworkLink link = step.network->link(step.link_of[l]);
    links.push_back({fmt::format("{} to {}", to_text(link.from), to_text(link.to)), uses[l],
                     share_of(uses[l].busy, step.times.step)});
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const NamedLink& a, const NamedLink& b) { return a.use.share > b.use.share; });
  return links;
}

// By time, busiest first.
std::vector<ChannelUse> busiest_channels(const StepSimulation& step) {
  std::vector<ChannelUse> channels = channel_use(step.tasks.graph, step.times);
  std::stable_sort(channels.begin(), channels.end(),
                   [](const ChannelUse& a, const ChannelUse& b) { return a.busy > b.busy; });
  return channels;
}

std::string task_text(const TaskGraph& graph, TaskId task) {
  return fmt::format("{} {} of stage {}", name_of(graph.of(task).kind), graph.microbatch_of(task).value,
                     graph.of(task).stage.value);
}

struct DevicePeak {
  DeviceId device{0};
  Bytes bytes{0.0};
  SimTime time{0};
  std::string what;
};

// [stage] of its device with the highest.
std::vector<DevicePeak> stage_peaks(const StepSimulation& step, const Program& program, const FoldedDevices* folded) {
  const std::vector<MemoryPeak> peaks = memory_peaks(step.tasks.graph, step.times);
  std::vector<DevicePeak> stages;
  for (const ProgramStage& stage : program.stages) {
    std::optional<DevicePeak> highest;
    for (const DeviceId device : stage.devices) {
      const DeviceId like = folded == nullptr ? device : folded->representative[device.index()];
      const MemoryPeak& peak = peaks[like.index()];
      const Bytes bytes = program.persistent_bytes[device.index()] + Bytes(static_cast<double>(peak.bytes));
      if (highest && bytes <= highest->bytes) continue;
      highest = {device, bytes, peak.time, peak.task ? task_text(step.tasks.graph, *peak.task) : "all the time"};
    }
    stages.push_back(*highest);
  }
  return stages;
}

std::string links_text(const StepSimulation& step, bool folded) {
  if (!step.network) {
    TextTable table({{"messages", ""}, {"busy", "(%)"}, {"channel", ""}});
    const std::vector<ChannelUse> channels = busiest_channels(step);
    if (channels.empty()) return "";
    for (std::size_t c = 0; c < std::min(kRows, channels.size()); ++c)
      table.add_row({fmt::format("{}", channels[c].messages), in_percent(share_of(channels[c].busy, step.times.step)),
                     fmt::format("device {} to {}", channels[c].source.value, channels[c].destination.value)});
    return fmt::format("# busiest channels{}\n", folded ? ", those that carry the same listed once" : "") +
           table.to_text();
  }
  const std::vector<NamedLink> links = named_links(step);
  if (links.empty()) return "# no two messages share a link\n";
  TextTable table({{"flows", ""}, {"carried", "(GiB)"}, {"busy", "(%)"}, {"used", "(%)"}, {"link", ""}});
  for (std::size_t l = 0; l < std::min(kRows, links.size()); ++l)
    table.add_row({fmt::format("{}", links[l].use.flows), in_gibibytes(links[l].use.carried), in_percent(links[l].busy),
                   in_percent(links[l].use.share), links[l].name});
  return "# busiest links, of those that messages share\n" + table.to_text();
}

}  // namespace

std::string report_text(const StepSimulation& step, const LoadedPlan& loaded, const FoldedDevices* folded) {
  const CriticalPath path = critical_path_of(step);
  TextTable critical({{"tasks", ""}, {"time", "(ms)"}, {"share", "(%)"}, {"waits", "(ms)"}, {"what", ""}});
  for (std::size_t i = 0; i < std::min(kRows, path.shares.size()); ++i) {
    const CriticalShare& share = path.shares[i];
    if (share.time == SimTime{0}) break;
    critical.add_row({fmt::format("{}", share.tasks), in_milliseconds(to_seconds(share.time)),
                      in_percent(share_of(share.time, step.times.step)), in_milliseconds(to_seconds(share.stretched)),
                      fmt::format("{} of stage {}", name_of(share.kind), share.stage.value)});
  }
  const std::string among =
      step.steps() == 1 ? "" : fmt::format(" in {} steps that run into one another", step.steps());
  std::string text = fmt::format("# the critical path has {} tasks{}\n", path.tasks, among) + critical.to_text() +
                     segments_text(path.segments);
  text += links_text(step, folded != nullptr);

  TextTable memory({{"stage", ""}, {"device", ""}, {"peak", "(GiB)"}, {"at", "(ms)"}, {"with", ""}});
  const std::vector<DevicePeak> peaks = stage_peaks(step, loaded.program, folded);
  for (std::size_t s = 0; s < peaks.size(); ++s)
    memory.add_row({fmt::format("{}", s), fmt::format("{}", peaks[s].device.value), in_gibibytes(peaks[s].bytes),
                    in_milliseconds(to_seconds(peaks[s].time)), peaks[s].what});
  return text + "# when memory peaks\n" + memory.to_text();
}

std::string outcome_text(const StepSimulation& step, const StepRequest& request,
                         const std::optional<Goodput>& goodput) {
  std::string text;
  const Seconds time = to_seconds(step.step);
  if (step.broadcasts)
    text += fmt::format("# broadcasts: {} of {} messages are forwarded along a chain\n", step.broadcasts->along,
                        step.broadcasts->messages);
  if (step.without_fetches)
    text += fmt::format("# fetching the loss every {} steps costs {} ms per step ({} %)\n",
                        request.controller->fetch_every, in_milliseconds(time - to_seconds(*step.without_fetches)),
                        in_percent(share_of(step.step - *step.without_fetches, step.step)));
  if (!step.samples.empty()) {
    std::vector<std::string> parts;
    for (const double share : kQuantiles)
      parts.push_back(fmt::format("{} % within {} ms", as_text(100.0 * share),
                                  in_milliseconds(to_seconds(quantile(step.samples, share)))));
    text += fmt::format("# {} simulated steps with jitter {}: {}\n", step.samples.size(),
                        as_text(request.drawn_jitter()), join(parts, ", "));
  }
  if (goodput && goodput->share == 0.0) {
    text += "# goodput 0 %: devices fail so often that no checkpoint is ever reached\n";
  } else if (goodput) {
    text += fmt::format(
        "# goodput {} %: a failure every {} h, a checkpoint every {} steps; {} ms of wall time per step kept\n",
        in_percent(goodput->share), as_text(std::round(goodput->between_failures.si() / 36.0) / 100.0),
        goodput->steps_between_checkpoints, in_milliseconds(goodput->wall_per_step));
  }
  return text;
}

void add_step(Json& json, const StepSimulation& step, const LoadedPlan& loaded, const FoldedDevices* folded,
              const StepRequest& request, const std::optional<Goodput>& goodput) {
  json["tasks"] = step.tasks.graph.size();
  json["by_events"] = step.by_events;
  Json& circumstances = json["circumstances"] = Json::array();
  for (const std::string& sentence : to_sentences(request)) circumstances.push_back(sentence);
  Json& devices = json["devices"] = Json::array();
  const std::vector<MemoryPeak> peaks = memory_peaks(step.tasks.graph, step.times);
  const std::vector<DeviceShares> shares = device_shares(step.tasks.graph, step.times);
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const std::size_t like = folded == nullptr ? d : folded->representative[d].index();
    devices.push_back({{"device", d},
                       {"compute_s", to_seconds(shares[like].compute).si()},
                       {"communication_s", to_seconds(shares[like].communication).si()},
                       {"bubble_s", to_seconds(shares[like].bubble).si()},
                       {"idle_s", to_seconds(shares[like].idle).si()},
                       {"peak_memory_bytes",
                        bytes_json(loaded.program.persistent_bytes[d] + Bytes(static_cast<double>(peaks[like].bytes)))},
                       {"peak_at_s", to_seconds(peaks[like].time).si()}});
  }
  Json& critical = json["critical_path"] = Json::array();
  const CriticalPath path = critical_path_of(step);
  for (const CriticalShare& share : path.shares)
    critical.push_back({{"kind", name_of(share.kind)},
                        {"stage", share.stage.value},
                        {"tasks", share.tasks},
                        {"time_s", to_seconds(share.time).si()},
                        {"stretched_s", to_seconds(share.stretched).si()}});
  Json& segments = json["critical_segments"] = Json::array();
  for (const CriticalSegment& segment : path.segments)
    segments.push_back({{"begin_s", to_seconds(segment.begin).si()},
                        {"end_s", to_seconds(segment.end).si()},
                        {"kind", name_of(segment.kind)},
                        {"stage", segment.stage.value},
                        {"device", segment.device.value},
                        {"tasks", segment.tasks},
                        {"micro_batches", {segment.first.value, segment.last.value}},
                        {"stretched_s", to_seconds(segment.stretched).si()}});
  if (step.network) {
    Json& links = json["links"] = Json::array();
    for (const NamedLink& link : named_links(step))
      links.push_back({{"link", link.name},
                       {"flows", link.use.flows},
                       {"carried_bytes", link.use.carried.si()},
                       {"busy_s", to_seconds(link.use.busy).si()},
                       {"used_share", link.use.share}});
  }
  if (step.broadcasts)
    json["broadcasts"] = {{"messages", step.broadcasts->messages}, {"along", step.broadcasts->along}};
  if (step.without_fetches) json["fetch_cost_s"] = to_seconds(step.step - *step.without_fetches).si();
  if (!step.samples.empty()) {
    Json& quantiles = json["quantiles_s"] = Json::object();
    for (const double share : kQuantiles) quantiles[as_text(share)] = to_seconds(quantile(step.samples, share)).si();
  }
  if (goodput)
    json["goodput"] = {{"share", goodput->share},
                       {"wall_per_step_s", goodput->wall_per_step.si()},
                       {"steps_between_checkpoints", goodput->steps_between_checkpoints},
                       {"between_failures_s", goodput->between_failures.si()}};
}

std::string trace_text(const StepSimulation& step, const LoadedPlan& loaded, const std::string& title, Bytes limit) {
  std::vector<std::int64_t> base;
  for (const Bytes bytes : loaded.program.persistent_bytes) base.push_back(static_cast<std::int64_t>(bytes.si()));
  const Bytes size = size_of_chrome_trace(step.tasks.graph, step.times, base);
  constexpr double kMegabyte = 1e6;
  require(size <= limit,
          "--trace: the trace of {} tasks on {} devices would have about {:.0f} MB, more than --trace-limit-mb {:.0f}; "
          "raise the limit, or draw it with --svg or --timeline, where equal devices are one row.",
          step.tasks.graph.size(), step.tasks.graph.devices, size.si() / kMegabyte, limit.si() / kMegabyte);
  return to_chrome_trace(step.tasks.graph, step.times, base, title);
}

}  // namespace meshwright
