// SPDX-License-Identifier: Apache-2.0
#include "report/page/tracks_data.h"

#include "core/base/errors.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

const char* hue_of_task(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return "forward";
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return "backward";
    case TaskKind::BackwardWeight:
      return "weight-gradient";
    case TaskKind::Update:
      return "update";
    case TaskKind::Message:
      return "message";
    case TaskKind::Collective:
    case TaskKind::HostCopy:
      return "collective";
    case TaskKind::Dispatch:
      return "message";
    case TaskKind::Join:
      break;
  }
  return "idle";
}

std::string letter_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::Forward:
      return "F";
    case TaskKind::Backward:
    case TaskKind::BackwardInput:
      return "B";
    case TaskKind::BackwardWeight:
      return "W";
    case TaskKind::Update:
      return "U";
    default:
      return "";
  }
}

Json kinds_json() {
  Json kinds = Json::array();
  for (int k = 0; k <= static_cast<int>(TaskKind::HostCopy); ++k) {
    const auto kind = static_cast<TaskKind>(k);
    kinds.push_back({{"name", name_of(kind)}, {"hue", hue_of_task(kind)}, {"letter", letter_of(kind)}});
  }
  return kinds;
}

Json range_json(const IndexRange& range) { return Json::array({range.begin, range.end}); }

Json track_json(const Track& row) {
  Json json = {{"devices", ranges_json(row.devices)},
               {"stage", row.stage.value},
               {"compute", range_json(row.compute)},
               {"communication", range_json(row.communication)},
               {"messages", range_json(row.messages)},
               {"memory", range_json(row.memory)},
               {"weights", row.standing.weights.si()},
               {"gradients", row.standing.gradients.si()},
               {"optimizer", row.standing.optimizer.si()},
               {"other", row.standing.other.si()},
               {"usable", row.usable ? Json(row.usable->si()) : Json(nullptr)}};
  if (row.shares) json["shares"] = range_json(*row.shares);
  if (row.timing) json["timing"] = *row.timing;
  return json;
}

}  // namespace

void add_tracks(Page& page, const Tracks& tracks) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;  // a double counts picoseconds up to there
  require(tracks.end.ps < kExact, "--html: the step takes {:.0f} s, and a page shows at most 9007 s; leave --html out.",
          to_seconds(tracks.end).si());
  page.members["step_ps"] = tracks.end.ps;
  page.members["kinds"] = kinds_json();
  Json& rows = page.members["tracks"] = Json::array();
  for (const Track& row : tracks.rows) rows.push_back(track_json(row));
  std::vector<double> begin, end, time, activations, temporary;
  std::vector<std::int32_t> microbatch, stage, waits_for;
  std::vector<std::uint8_t> kind, critical;
  for (const TrackTask& task : tracks.tasks) {
    begin.push_back(static_cast<double>(task.begin.ps));
    end.push_back(static_cast<double>(task.end.ps));
    kind.push_back(static_cast<std::uint8_t>(task.kind));
    microbatch.push_back(task.microbatch.value);
    stage.push_back(task.stage.value);
    waits_for.push_back(task.waits_for);
    critical.push_back(task.critical ? 1 : 0);
  }
  for (const TrackMemory& point : tracks.memory) {
    time.push_back(static_cast<double>(point.time.ps));
    activations.push_back(static_cast<double>(point.activations));
    temporary.push_back(static_cast<double>(point.temporary));
  }
  page.columns.add("task.begin_ps", begin);
  page.columns.add("task.end_ps", end);
  page.columns.add("task.micro_batch", microbatch);
  page.columns.add("task.stage", stage);
  page.columns.add("task.waits_for", waits_for);
  page.columns.add("task.kind", kind);
  page.columns.add("task.critical", critical);
  page.columns.add("memory.time_ps", time);
  page.columns.add("memory.activations", activations);
  page.columns.add("memory.temporary", temporary);
  page.columns.add("row.shares", tracks.shares);
}

}  // namespace meshwright
