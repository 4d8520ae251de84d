// SPDX-License-Identifier: Apache-2.0
#include "report/page/step_sections.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "report/page/assets.h"
#include "report/page/chart_html.h"
#include "report/page/html.h"
#include "report/page/time_section.h"
#include "report/page/tracks_data.h"
#include "report/page/variation_section.h"
#include "simulator/report/step_report.h"

namespace meshwright {

std::string stage_text(StageId stage) { return fmt::format("stage {}", stage.value); }
std::string devices_text(const std::vector<int>& ascending) {
  constexpr std::size_t kLongest = 40;
  if (ascending.size() == 1) return fmt::format("device {}", ascending.front());
  std::string ranges = ranges_text(ascending);
  if (ranges.size() > kLongest) ranges = fmt::format("{} and {} more", ascending.front(), ascending.size() - 1);
  return "devices " + ranges;
}

namespace {

std::string critical_html(const StepOfPage& of) {
  const TaskGraph& graph = of.step.tasks.graph;
  const std::vector<CriticalTask> path = critical_path(graph, of.step.times);
  HtmlTable table("The critical path by kind of task", {{"what", HtmlTable::Align::Text},
                                                        {"tasks"},
                                                        {"time, ms"},
                                                        {"of the step, %"},
                                                        {"of that slowed down by others, ms"}});
  const double whole = to_seconds(of.step.times.step).si();
  for (const CriticalShare& share : critical_shares(graph, path, of.step.times)) {
    if (share.time == SimTime{0}) continue;
    table.add_row({fmt::format("{} of {}", name_of(share.kind), stage_text(share.stage)), grouped(share.tasks),
                   milliseconds_text(to_seconds(share.time)), percent_text(to_seconds(share.time).si() / whole),
                   milliseconds_text(to_seconds(share.stretched))});
  }
  return details_html(fmt::format("The critical path: {} without which the step could not be shorter",
                                  counted(static_cast<std::int64_t>(path.size()), "task")),
                      table.html());
}

int devices_of(const Tracks& tracks) {
  std::size_t count = 0;
  for (const Track& row : tracks.rows) count += row.devices.size();
  return static_cast<int>(count);
}

}  // namespace

PageSection timeline_section(const Tracks& tracks) {
  const int devices = devices_of(tracks);
  PageSection section{"timeline", "Timeline", "", ""};
  const auto rows = static_cast<std::int64_t>(tracks.rows.size());
  section.lead = rows == devices ? fmt::format("{}, each in a row of its own.", counted(devices, "device"))
                                 : fmt::format("{} in {}: the devices of a row do the same at the same time.",
                                               counted(devices, "device"), counted(rows, "row"));
  section.lead += " Where blocks are narrower than a pixel, a column shows the shares of its time.";
  const auto thin =
      std::count_if(tracks.rows.begin(), tracks.rows.end(), [](const Track& row) { return row.shares.has_value(); });
  if (thin > 0)
    section.lead += fmt::format(
        " {} of the rows have no blocks, but shares of {} parts of the step: all tasks would be too many for a page.",
        grouped(thin), grouped(kShareParts));
  section.html =
      "<div id=\"timeline-view\" class=\"figure\" hidden>\n"
      "<div class=\"tools\"><label>Find <input id=\"timeline-find\" type=\"search\" placeholder=\"backward 17, device "
      "3, "
      "stage 2\"></label>"
      "<label>Devices <input id=\"timeline-devices\" type=\"search\" placeholder=\"all; or 0-7, 12\"></label>"
      "<button type=\"button\" data-do=\"in\" aria-label=\"Zoom in\">+</button>"
      "<button type=\"button\" data-do=\"out\" aria-label=\"Zoom out\">&minus;</button>"
      "<button type=\"button\" data-do=\"whole\">Whole step</button>"
      "<button type=\"button\" data-do=\"begin\">Begin</button>"
      "<label><input id=\"timeline-every\" type=\"checkbox\"> every device</label> <output "
      "id=\"timeline-range\"></output></div>\n"
      "<canvas id=\"timeline-map\" class=\"map\" aria-hidden=\"true\"></canvas>\n"
      "<canvas id=\"timeline-canvas\" tabindex=\"0\" role=\"application\" aria-describedby=\"timeline-info\" "
      "aria-label=\"Timeline: arrow keys pan and choose a row, plus and minus zoom, N and P go from task to "
      "task\"></canvas>\n"
      "<ul class=\"legend\" id=\"timeline-legend\"></ul>\n"
      "<p id=\"timeline-info\" class=\"info\" aria-live=\"polite\">Point at a block, or use the arrow keys.</p>\n"
      "<details class=\"twin\" data-twin=\"timeline\"><summary>As a table (the tasks in view, at most "
      "200)</summary><div></div></details>\n</div>\n";
  section.scripts = {kTimelineTasksJs, kTimelineMapJs, kTimelineJs};
  return section;
}

PageSection timeline_section(const StepOfPage& of, const Tracks& tracks) {
  PageSection section = timeline_section(tracks);
  if (of.step.steps() > 1) section.lead += fmt::format(" {} run into one another.", counted(of.step.steps(), "step"));
  section.html += critical_html(of);
  return section;
}

namespace {

// Channels between the same two stages with as many messages, that are as busy.
struct LikeChannels {
  ChannelUse first;
  std::int64_t count = 0;
};

// In the order of the first of each.
std::vector<LikeChannels> like_channels(const std::vector<ChannelUse>& channels, const Program& program) {
  std::vector<LikeChannels> rows;
  std::map<std::tuple<StageId, StageId, int, SimTime>, std::size_t> row_of;
  for (const ChannelUse& channel : channels) {
    const auto [row, is_new] =
        row_of.try_emplace({program.stage_of_device[channel.source.index()],
                            program.stage_of_device[channel.destination.index()], channel.messages, channel.busy},
                           rows.size());
    if (is_new) rows.push_back({channel});
    ++rows[row->second].count;
  }
  return rows;
}

std::string listed_text(std::size_t all, std::size_t listed) {
  return all <= listed ? "" : fmt::format(" The first {} of {} rows are listed.", listed, all);
}

}  // namespace

std::optional<PageSection> links_section(const StepOfPage& of) {
  constexpr std::size_t kListed = 40;
  const TaskGraph& graph = of.step.tasks.graph;
  const SimTime step = of.step.times.step;
  const auto share = [&](SimTime busy) { return percent_text(to_seconds(busy).si() / to_seconds(step).si()); };
  if (of.step.network) {
    std::vector<std::pair<std::string, LinkUse>> links;
    const std::vector<LinkUse> uses = link_use(graph, of.step.times, of.step.conditions.discipline);
    for (std::size_t l = 0; l < uses.size(); ++l) {
      const NetworkLink link = of.step.network->link(of.step.link_of[l]);
      if (uses[l].flows > 0) links.emplace_back(to_text(link.from) + " to " + to_text(link.to), uses[l]);
    }
    if (links.empty()) return std::nullopt;
    std::stable_sort(links.begin(), links.end(),
                     [](const auto& a, const auto& b) { return a.second.share > b.second.share; });
    HtmlTable table("Use of the links that messages share", {{"link", HtmlTable::Align::Text},
                                                             {"flows"},
                                                             {"carried, GiB"},
                                                             {"busy, ms"},
                                                             {"busy, %"},
                                                             {"of its capacity, %"}});
    for (std::size_t l = 0; l < std::min(kListed, links.size()); ++l)
      table.add_row({links[l].first, grouped(links[l].second.flows), gibibytes_text(links[l].second.carried),
                     milliseconds_text(to_seconds(links[l].second.busy)), share(links[l].second.busy),
                     percent_text(links[l].second.share)});
    return PageSection{
        "links", "Links",
        fmt::format("The fullest of the {} that messages share is {}: {} % of its capacity in the step.{}",
                    counted(static_cast<std::int64_t>(links.size()), "link"), links.front().first,
                    percent_text(links.front().second.share),
                    (of.folded == nullptr ? "" : " Links that carry the same are listed once.") +
                        listed_text(links.size(), kListed)),
        table.html()};
  }
  std::vector<ChannelUse> channels = channel_use(graph, of.step.times);
  if (channels.empty()) return std::nullopt;
  std::stable_sort(channels.begin(), channels.end(),
                   [](const ChannelUse& a, const ChannelUse& b) { return a.busy > b.busy; });
  const std::vector<LikeChannels> rows = like_channels(channels, of.program);
  const std::vector<DeviceId> in_cluster = devices_in_cluster(of.plan, of.program);
  HtmlTable table("Use of the channels between devices",
                  {{"channel", HtmlTable::Align::Text}, {"messages"}, {"busy, ms"}, {"busy, %"}});
  for (std::size_t r = 0; r < std::min(kListed, rows.size()); ++r) {
    const ChannelUse& first = rows[r].first;
    table.add_row({fmt::format("device {} to {}{}", in_cluster[first.source.index()].value,
                               in_cluster[first.destination.index()].value,
                               rows[r].count == 1 ? "" : fmt::format(" and {} alike", grouped(rows[r].count - 1))),
                   grouped(first.messages), milliseconds_text(to_seconds(first.busy)), share(first.busy)});
  }
  return PageSection{
      "links", "Links",
      fmt::format("The busiest of {} is in use {} % of the step.{}{} Collectives inside a pass are part of "
                  "its time and not listed here.",
                  counted(static_cast<std::int64_t>(channels.size()), "channel"), share(channels.front().busy),
                  of.folded == nullptr && rows.size() == channels.size()
                      ? ""
                      : " Channels that carry the same between two stages are listed once.",
                  listed_text(rows.size(), kListed)),
      table.html()};
}

void add_step_sections(Page& page, const StepOfPage& of) {
  Tracks tracks = tracks_of(of.step, of.plan, of.program, of.graph, of.folded);
  if (auto variation = variation_section(of.step)) {
    page.styles = chart_styles();
    page.sections.push_back(*std::move(variation));
  }
  page.sections.push_back(time_section(time_of(of)));
  const auto timeline = static_cast<std::ptrdiff_t>(page.sections.size());
  page.sections.push_back(stages_section(of, tracks));
  page.members["stages"] = stages_json(of);
  PageSection memory = memory_section(of, tracks);
  const auto kept = page.document.find("software_memory_bytes");
  if (kept != page.document.end() && kept->is_number())
    memory.lead = fmt::format(
        "As {} keeps it, the fullest device holds {} GiB; what follows is as meshwright run keeps "
        "it. {}",
        of.plan.software, gibibytes_text(Bytes(kept->get<double>())), memory.lead);
  page.sections.push_back(std::move(memory));
  if (std::optional<PageSection> links = links_section(of)) page.sections.push_back(*std::move(links));
  keep_within(tracks, kMaxPageTasks);
  page.sections.insert(page.sections.begin() + timeline, timeline_section(of, tracks));
  add_tracks(page, tracks);
}

}  // namespace meshwright
