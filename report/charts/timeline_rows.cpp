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

// Idle: the span is nothing that a device does.
Activity activity_of(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::Forward:
      return Activity::Forward;
    case Span::Kind::Backward:
      return Activity::Backward;
    case Span::Kind::BackwardInput:
      return Activity::BackwardInput;
    case Span::Kind::BackwardWeight:
      return Activity::BackwardWeight;
    case Span::Kind::Update:
      return Activity::Update;
    case Span::Kind::Collective:
      return Activity::Collective;
    case Span::Kind::Dispatch:
      return Activity::Dispatch;
    case Span::Kind::Send:
    case Span::Kind::Wait:
      return Activity::Idle;
  }
  throw InternalError("a kind of span without an activity");
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

struct DeviceBlocks {
  std::vector<TimelineBlock> computations, beside, dispatches, messages;
};

// [device]
std::vector<DeviceBlocks> blocks_of(const Timeline& timeline, int devices, ShownMessages messages) {
  std::vector<DeviceBlocks> found(static_cast<std::size_t>(devices));
  for (const Span& span : timeline.spans) {
    if (span.begin == span.end) continue;
    MW_CHECK(span.device.value < devices, "a span of device {} in a picture of {}", span.device.value, devices);
    DeviceBlocks& own = found[span.device.index()];
    const TimelineBlock block{activity_of(span.kind), span.stage, span.microbatch, span.begin, span.end};
    if (is_compute(span.kind)) own.computations.push_back(block);
    if (span.kind == Span::Kind::Collective) own.beside.push_back(block);
    if (span.kind == Span::Kind::Dispatch) own.dispatches.push_back(block);
    if (span.kind == Span::Kind::Send && messages == ShownMessages::All) own.messages.push_back(block);
  }
  return found;
}

TimelineTrack track_of(DeviceBlocks own) {
  TimelineTrack track;
  // Computations of devices that share a physical one may overlap: a moment shows the one that began first.
  fill_in(track.blocks, own.computations);
  fill_in(track.blocks, own.beside);
  fill_in(track.blocks, own.dispatches);
  track.messages = std::move(own.messages);
  std::set<StageId> stages;
  for (const TimelineBlock& block : track.blocks) stages.insert(block.stage);
  track.stages.assign(stages.begin(), stages.end());
  return track;
}

std::uint64_t hash_of(const TimelineTrack& track) {
  std::uint64_t hash = 14695981039346656037ULL;
  const auto mix = [&](std::int64_t value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211ULL; };
  for (const auto* list : {&track.blocks, &track.messages})
    for (const TimelineBlock& block : *list) {
      mix(block.begin.ps);
      mix(block.end.ps);
      mix(static_cast<std::int64_t>(block.activity) + 16 * static_cast<std::int64_t>(block.microbatch.value));
    }
  return hash;
}

bool looks_like(const TimelineTrack& a, const TimelineTrack& b) {
  return a.stages == b.stages && a.blocks == b.blocks && a.messages == b.messages;
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

TimelineTracks tracks_of(const Timeline& timeline, int devices, const FoldedDevices* folded, ShownMessages messages) {
  std::vector<DeviceBlocks> blocks = blocks_of(timeline, devices, messages);
  TimelineTracks found;
  found.end = timeline.end;
  std::map<std::uint64_t, std::vector<std::size_t>> known;  // by hash
  std::vector<std::size_t> track_of_device(blocks.size());
  for (std::size_t d = 0; d < blocks.size(); ++d) {
    const std::size_t stands = folded == nullptr ? d : folded->representative[d].index();
    MW_CHECK(stands <= d, "device {} is stood for by a later one", d);
    if (stands == d) {
      TimelineTrack track = track_of(std::move(blocks[d]));
      std::vector<std::size_t>& alike = known[hash_of(track)];
      const auto same =
          std::find_if(alike.begin(), alike.end(), [&](std::size_t t) { return looks_like(found.tracks[t], track); });
      track_of_device[d] = same == alike.end() ? found.tracks.size() : *same;
      if (same == alike.end()) {
        alike.push_back(found.tracks.size());
        found.tracks.push_back(std::move(track));
      }
    } else {
      track_of_device[d] = track_of_device[stands];
    }
    found.tracks[track_of_device[d]].devices.emplace_back(static_cast<int>(d));
  }
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
