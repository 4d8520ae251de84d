// SPDX-License-Identifier: Apache-2.0
#include "report/charts/timeline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

struct ActivityRow {
  std::string_view name;
  char letter;
  Hue hue;
};

// [activity]
constexpr std::array<ActivityRow, kActivities> kActivityRows = {{
    {"forward", 'F', Hue::Forward},
    {"backward", 'B', Hue::Backward},
    {"input gradient", 'I', Hue::Backward},
    {"weight gradient", 'W', Hue::WeightGradient},
    {"update", 'U', Hue::Update},
    {"collective", 'C', Hue::Collective},
    {"dispatch", 'D', Hue::Message},
    {"idle", '.', Hue::Idle},
}};

const ActivityRow& row_of(Activity activity) { return kActivityRows[static_cast<std::size_t>(activity)]; }

Activity activity_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return Activity::Forward;
    case TaskKind::Backward:
      return Activity::Backward;
    case TaskKind::BackwardInput:
      return Activity::BackwardInput;
    case TaskKind::BackwardWeight:
      return Activity::BackwardWeight;
    case TaskKind::Update:
      return Activity::Update;
    case TaskKind::Collective:
    case TaskKind::HostCopy:
      return Activity::Collective;
    case TaskKind::Dispatch:
      return Activity::Dispatch;
    case TaskKind::Message:
    case TaskKind::Join:
      return Activity::Idle;
  }
  throw InternalError("a kind of task without an activity");
}

bool begins_before(const TimelineBlock& a, const TimelineBlock& b) {
  return std::tie(a.begin, a.end, a.activity, a.stage, a.microbatch) <
         std::tie(b.begin, b.end, b.activity, b.stage, b.microbatch);
}

// Puts `more`, which may overlap anything, where `blocks` leave room. REQUIRES: both by begin; `blocks` apart.
void fill_in(std::vector<TimelineBlock>& blocks, const std::vector<TimelineBlock>& more) {
  std::vector<TimelineBlock> found;
  std::size_t next = 0;
  SimTime free{0};  // nothing that was put in lies behind it
  for (TimelineBlock rest : more) {
    rest.begin = std::max(rest.begin, free);
    while (next < blocks.size() && blocks[next].end <= rest.begin) ++next;
    for (std::size_t b = next; rest.begin < rest.end; ++b) {
      const bool last = b == blocks.size() || blocks[b].begin >= rest.end;
      const SimTime until = last ? rest.end : blocks[b].begin;
      if (rest.begin < until) {
        found.push_back(rest);
        found.back().end = until;
        free = until;
      }
      if (last) break;
      rest.begin = std::max(rest.begin, blocks[b].end);
    }
  }
  if (found.empty()) return;
  blocks.insert(blocks.end(), found.begin(), found.end());
  std::sort(blocks.begin(), blocks.end(), begins_before);
}

TimelineTrack track_of(const Tracks& rows, const Track& row) {
  const auto blocks = [&](const IndexRange& range, auto shown) {
    std::vector<TimelineBlock> found;
    for (std::size_t t = range.begin; t < range.end; ++t) {
      const TrackTask& task = rows.tasks[t];
      if (shown(task.kind))
        found.push_back({activity_of(task.kind), task.stage, task.microbatch, task.begin, task.end});
    }
    return found;
  };
  const auto all = [](TaskKind) { return true; };
  TimelineTrack track;
  for (const int device : row.devices) track.devices.emplace_back(device);
  // Computations of devices that share a physical one may overlap: a moment shows the one that began first. A host that
  // issues work shows where its device does nothing else.
  fill_in(track.blocks, blocks(row.compute, all));
  fill_in(track.blocks, blocks(row.communication, [](TaskKind kind) { return kind != TaskKind::Dispatch; }));
  fill_in(track.blocks, blocks(row.communication, [](TaskKind kind) { return kind == TaskKind::Dispatch; }));
  track.messages = blocks(row.messages, all);
  std::set<StageId> stages;
  for (const TimelineBlock& block : track.blocks) stages.insert(block.stage);
  track.stages.assign(stages.begin(), stages.end());
  return track;
}

// "0-127", "0, 2, 4-7"
std::string ranges_text(const std::vector<DeviceId>& devices) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1].value == devices[last].value + 1) ++last;
    parts.push_back(last == i ? fmt::format("{}", devices[i].value)
                              : fmt::format("{}-{}", devices[i].value, devices[last].value));
    i = last + 1;
  }
  constexpr std::size_t kParts = 4;  // a label is read, not counted
  if (parts.size() > kParts)
    return fmt::format("{}..{} ({})", devices.front().value, devices.back().value, devices.size());
  return join(parts, ", ");
}

}  // namespace

std::string_view name_of(Activity activity) { return row_of(activity).name; }
char letter_of(Activity activity) { return row_of(activity).letter; }
Hue hue_of(Activity activity) { return row_of(activity).hue; }

TimelineTracks timeline_tracks(const Tracks& rows) {
  TimelineTracks found;
  found.end = rows.end;
  for (const Track& row : rows.rows) found.tracks.push_back(track_of(rows, row));
  return found;
}

std::vector<DeviceId> TimelineRow::devices() const {
  std::vector<DeviceId> all;
  for (const TimelineTrack* track : tracks) all.insert(all.end(), track->devices.begin(), track->devices.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<TimelineRow> rows_of(const TimelineTracks& tracks, std::size_t limit) {
  std::vector<TimelineRow> rows;
  if (tracks.tracks.size() <= limit) {
    for (const TimelineTrack& track : tracks.tracks) rows.push_back({{&track}});
    return rows;
  }
  std::map<std::vector<StageId>, std::size_t> known;
  for (const TimelineTrack& track : tracks.tracks) {
    const auto [row, is_new] = known.try_emplace(track.stages, rows.size());
    if (is_new) rows.emplace_back();
    rows[row->second].tracks.push_back(&track);
  }
  return rows;
}

std::string devices_text(const std::vector<DeviceId>& devices) {
  return fmt::format("{} {}", devices.size() == 1 ? "device" : "devices", ranges_text(devices));
}

std::string label_of(const TimelineRow& row) {
  const std::vector<DeviceId> devices = row.devices();
  const std::vector<StageId>& stages = row.tracks.front()->stages;
  const std::string text = fmt::format("{}{} {}", row.tracks.size() > 1 ? "mean of " : "",
                                       devices.size() == 1 ? "device" : "devices", ranges_text(devices));
  if (stages.empty()) return text;
  std::vector<std::string> numbers;
  for (const StageId stage : stages) numbers.push_back(fmt::format("{}", stage.value));
  return fmt::format("{} {}, {}", stages.size() == 1 ? "stage" : "stages", join(numbers, ", "), text);
}

SimTime column_begin(SimTime end, int columns, int column) {
  // Split so that the product cannot overflow.
  return {end.ps / columns * column + end.ps % columns * column / columns};
}

std::vector<ActivityShares> column_shares(const TimelineRow& row, SimTime end, int columns) {
  MW_CHECK(columns > 0, "a picture of {} columns", columns);
  std::vector<ActivityShares> shares(static_cast<std::size_t>(columns), ActivityShares{});
  double devices = 0.0;
  for (const TimelineTrack* track : row.tracks) devices += static_cast<double>(track->devices.size());
  for (const TimelineTrack* track : row.tracks) {
    const double weight = static_cast<double>(track->devices.size()) / devices;
    int column = 0;  // blocks come in order
    for (const TimelineBlock& block : track->blocks) {
      while (column + 1 < columns && column_begin(end, columns, column + 1) <= block.begin) ++column;
      for (int c = column; c < columns; ++c) {
        const SimTime from = column_begin(end, columns, c), to = column_begin(end, columns, c + 1);
        if (from >= block.end) break;
        const SimTime overlap = std::min(to, block.end) - std::max(from, block.begin);
        if (overlap.ps > 0)
          shares[static_cast<std::size_t>(c)][static_cast<std::size_t>(block.activity)] +=
              weight * static_cast<double>(overlap.ps) / static_cast<double>((to - from).ps);
      }
    }
  }
  for (ActivityShares& column : shares) {
    double busy = 0.0;
    for (std::size_t a = 0; a + 1 < kActivities; ++a) busy += column[a];
    column[static_cast<std::size_t>(Activity::Idle)] = std::max(0.0, 1.0 - busy);
  }
  return shares;
}

}  // namespace meshwright
