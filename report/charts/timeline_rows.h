// SPDX-License-Identifier: Apache-2.0
// The rows of every picture of a step (report/rows/tracks.h), as a picture without overlaps shows them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/charts/palette.h"
#include "report/rows/tracks.h"

namespace meshwright {

// What a device does at a moment, as a picture shows it. A collective shows where the device waits for it: beside a
// computation it is hidden. Idle is all that is left.
enum class Activity : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Update,
  Collective,
  Dispatch,
  Idle,
};
inline constexpr std::size_t kActivities = 8;
[[nodiscard]] std::string_view name_of(Activity activity);  // "forward", "weight gradient", ...
[[nodiscard]] char letter_of(Activity activity);            // 'F', 'B', 'I', 'W', 'U', 'C', 'D', '.'
[[nodiscard]] Hue hue_of(Activity activity);

struct TimelineBlock {
  Activity activity;
  StageId stage{0};
  MicrobatchId microbatch{0};
  SimTime begin, end;
  bool operator==(const TimelineBlock&) const = default;
};

// A row of Tracks as a picture shows it: one thing at a time.
struct TimelineTrack {
  std::vector<DeviceId> devices;        // in order
  std::vector<StageId> stages;          // that they work for, in order
  std::vector<TimelineBlock> blocks;    // in order of time, apart from each other
  std::vector<TimelineBlock> messages;  // that each sends: by begin; they may overlap. Empty where they are left out
};

struct TimelineTracks {
  std::vector<TimelineTrack> tracks;  // as the rows
  SimTime end{0};
};
[[nodiscard]] TimelineTracks timeline_tracks(const Tracks& rows);

// A row of a picture: one track, or the mean of several of the same stages where there are too many to draw.
struct TimelineRow {
  std::vector<const TimelineTrack*> tracks;
  [[nodiscard]] std::vector<DeviceId> devices() const;  // of all, in order
};
// At most `limit` rows as long as there are not more combinations of stages than that; the result points into
// `tracks`.
[[nodiscard]] std::vector<TimelineRow> rows_of(const TimelineTracks& tracks, std::size_t limit);
// "device 3", "devices 0-127", "devices 0, 2, 4-7". REQUIRES: in order, at least one.
[[nodiscard]] std::string devices_text(const std::vector<DeviceId>& devices);
// "stage 0, devices 0-127", "stages 0, 4, device 3", "stage 1, mean of devices 4-7".
[[nodiscard]] std::string label_of(const TimelineRow& row);

// [activity] of an interval of time: what share of it is spent so, the mean over the devices. They sum to 1.
using ActivityShares = std::array<double, kActivities>;
// The step in `columns` intervals of equal length. REQUIRES: columns > 0; a step without length is idle.
[[nodiscard]] std::vector<ActivityShares> column_shares(const TimelineRow& row, SimTime end, int columns);

// The picosecond at which column c of `columns` begins.
[[nodiscard]] SimTime column_begin(SimTime end, int columns, int column);

}  // namespace meshwright
