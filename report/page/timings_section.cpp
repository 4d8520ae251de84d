// SPDX-License-Identifier: Apache-2.0
#include "report/page/timings_section.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "report/charts/timing_bars.h"
#include "report/page/chart_html.h"
#include "report/page/html.h"
#include "report/page/step_sections.h"
#include "report/page/tracks_data.h"

namespace meshwright {

namespace {

// Rows that time the same devices.
void for_each_pair(const Tracks& pairs, const std::function<void(const Track&, const Track&)>& visit) {
  for (std::size_t r = 0; r + 1 < pairs.rows.size(); ++r) {
    const Track &first = pairs.rows[r], &second = pairs.rows[r + 1];
    if (first.timing == 0 && second.timing == 1 && first.devices == second.devices) visit(first, second);
  }
}

std::vector<const TrackTask*> tasks_of(const Tracks& pairs, const Track& row) {
  std::vector<const TrackTask*> found;
  for (std::size_t t = row.compute.begin; t < row.messages.end; ++t) found.push_back(&pairs.tasks[t]);
  return found;
}

// Tasks of both rows that are the same work: the n-th of a kind, a stage and a micro-batch.
void for_each_match(const Tracks& pairs, const Track& first, const Track& second,
                    const std::function<void(const TrackTask&, const TrackTask&)>& visit) {
  using Work = std::tuple<TaskKind, StageId, MicrobatchId>;
  std::map<Work, std::vector<const TrackTask*>> others;
  std::map<Work, std::size_t> seen;
  const auto work = [](const TrackTask& task) { return Work(task.kind, task.stage, task.microbatch); };
  for (const TrackTask* task : tasks_of(pairs, second)) others[work(*task)].push_back(task);
  for (const TrackTask* task : tasks_of(pairs, first)) {
    const auto other = others.find(work(*task));
    std::size_t& place = seen[work(*task)];
    if (other != others.end() && place < other->second.size()) visit(*task, *other->second[place]);
    ++place;
  }
}

SimTime length_of(const TrackTask& task) { return task.end - task.begin; }

std::string difference_text(Seconds first, Seconds second) {
  return second.si() == 0.0 ? "" : fmt::format("{}{}", first > second ? "+" : "", percent_text(first / second - 1.0));
}

Hue hue_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return Hue::Forward;
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return Hue::Backward;
    case TaskKind::BackwardWeight:
      return Hue::WeightGradient;
    case TaskKind::Update:
      return Hue::Update;
    case TaskKind::Collective:
    case TaskKind::HostCopy:
      return Hue::Collective;
    case TaskKind::Message:
    case TaskKind::Dispatch:
    case TaskKind::Join:
      break;
  }
  return Hue::Message;
}

std::string largest_html(const Tracks& pairs, const TimingNames& names) {
  constexpr std::size_t kLargest = 20;
  const std::vector<TaskDifference> largest = largest_differences(pairs, kLargest);
  if (largest.empty()) return "";
  HtmlTable table("The tasks whose durations differ most", {{"devices", HtmlTable::Align::Text},
                                                            {"task", HtmlTable::Align::Text},
                                                            {names.first + ", ms"},
                                                            {names.second + ", ms"},
                                                            {"difference, %"},
                                                            {names.first + " begins at, ms"},
                                                            {names.second + " begins at, ms"}});
  for (const TaskDifference& row : largest) {
    const Seconds first = to_seconds(length_of(row.first)), second = to_seconds(length_of(row.second));
    table.add_row(
        {devices_text(row.devices),
         fmt::format("{} {} of {}", name_of(row.first.kind), row.first.microbatch.value, stage_text(row.first.stage)),
         milliseconds_text(first), milliseconds_text(second), difference_text(first, second),
         milliseconds_text(to_seconds(row.first.begin)), milliseconds_text(to_seconds(row.second.begin))});
  }
  return details_html(fmt::format("The {} whose durations differ most",
                                  counted(static_cast<std::int64_t>(largest.size()), "computation")),
                      table.html());
}

}  // namespace

SimTime TaskDifference::apart() const {
  return std::max(length_of(first), length_of(second)) - std::min(length_of(first), length_of(second));
}

std::vector<KindDifference> differences_by_kind(const Tracks& pairs) {
  std::map<TaskKind, KindDifference> found;
  for (const Track& row : pairs.rows)
    for (const TrackTask* task : tasks_of(pairs, row)) {
      KindDifference& own = found[task->kind];
      own.kind = task->kind;
      const auto devices = static_cast<std::int64_t>(row.devices.size());
      (row.timing == 0 ? own.first_tasks : own.second_tasks) += devices;
      (row.timing == 0 ? own.first : own.second) += static_cast<double>(devices) * to_seconds(length_of(*task));
    }
  for_each_pair(pairs, [&](const Track& first, const Track& second) {
    for_each_match(pairs, first, second, [&](const TrackTask& a, const TrackTask& b) {
      KindDifference& own = found[a.kind];
      own.matched += static_cast<std::int64_t>(first.devices.size());
      own.apart += static_cast<double>(first.devices.size()) * to_seconds(TaskDifference{{}, a, b}.apart());
    });
  });
  std::vector<KindDifference> rows;
  for (const auto& [kind, row] : found) rows.push_back(row);
  return rows;
}

std::vector<TaskDifference> largest_differences(const Tracks& pairs, std::size_t most) {
  std::vector<TaskDifference> found;
  for_each_pair(pairs, [&](const Track& first, const Track& second) {
    for_each_match(pairs, first, second, [&](const TrackTask& a, const TrackTask& b) {
      if (is_compute(a.kind)) found.push_back({first.devices, a, b});
    });
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const TaskDifference& a, const TaskDifference& b) { return a.apart() > b.apart(); });
  if (found.size() > most) found.erase(found.begin() + static_cast<std::ptrdiff_t>(most), found.end());
  return found;
}

PageSection paired_timeline_section(Page& page, const Tracks& pairs, const TimingNames& names) {
  Tracks shown = pairs;
  keep_within(shown, kMaxPageTasks);
  PageSection section = timeline_section(shown);
  std::size_t devices = 0, counted_pairs = 0;
  for_each_pair(shown, [&](const Track& first, const Track&) {
    devices += first.devices.size();
    ++counted_pairs;
  });
  section.title = "Both timelines";
  section.lead = fmt::format(
      "{} in {} of rows, on one time axis: above as {}, below as {}. The devices of a pair do the same in both. Over a "
      "task "
      "the "
      "line below says how long it takes in either.",
      counted(static_cast<std::int64_t>(devices), "device"), counted(static_cast<std::int64_t>(counted_pairs), "pair"),
      names.first, names.second);
  page.members["timings"] = {names.first, names.second};
  add_tracks(page, shown);
  return section;
}

PageSection differences_section(const Tracks& pairs, const TimingNames& names) {
  HtmlTable table("Both timings by kind of task", {{"kind", HtmlTable::Align::Text},
                                                   {"tasks " + names.first},
                                                   {"tasks " + names.second},
                                                   {names.first + ", ms"},
                                                   {names.second + ", ms"},
                                                   {"difference, %"},
                                                   {"apart per task, ms"}});
  const std::vector<KindDifference> kinds = differences_by_kind(pairs);
  std::vector<TimingBars> bars;
  for (const KindDifference& kind : kinds) {
    table.add_row({name_of(kind.kind), grouped(kind.first_tasks), grouped(kind.second_tasks),
                   milliseconds_text(kind.first), milliseconds_text(kind.second),
                   difference_text(kind.first, kind.second),
                   kind.matched == 0 ? "" : milliseconds_text(kind.apart / static_cast<double>(kind.matched))});
    bars.push_back({name_of(kind.kind), {{name_of(kind.kind), hue_of(kind.kind), kind.first, kind.second}}});
  }
  const auto widest =
      std::max_element(kinds.begin(), kinds.end(), [](const KindDifference& a, const KindDifference& b) {
        return std::abs((a.first - a.second).si()) < std::abs((b.first - b.second).si());
      });
  const std::string lead =
      widest == kinds.end()
          ? "Neither timing has a task."
          : fmt::format(
                "Most of the difference is in {}: {} {}, {} {}, over all devices. Times are sums over all "
                "devices, drawn with {} above {}; the last column is the mean over tasks that both have.",
                name_of(widest->kind), time_text(widest->first), names.first, time_text(widest->second), names.second,
                names.first, names.second);
  return {"kinds", "Error by kind of task", lead,
          chart_html(timing_bars_svg(
              bars, "Both timings by kind of task",
              fmt::format("The time of all tasks of a kind over all devices: {} above {}.", names.first, names.second),
              {names.first, names.second})) +
              table.html() + largest_html(pairs, names)};
}

}  // namespace meshwright
