// SPDX-License-Identifier: Apache-2.0
#include "report/rows/track_folder.h"

#include <algorithm>
#include <utility>

namespace meshwright {

namespace {

std::uint64_t key_of(const DeviceLanes& lanes) {
  std::uint64_t key = lanes.compute.size();
  const auto mix = [&](std::int64_t value) {
    key = (key ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15ULL;
    key ^= key >> 29;
  };
  for (const std::vector<TrackTask>* lane : {&lanes.compute, &lanes.communication, &lanes.messages})
    for (const TrackTask& task : *lane) mix(task.begin.ps), mix(task.end.ps), mix(task.microbatch.value);
  for (const TrackMemory& point : lanes.memory) mix(point.time.ps), mix(point.total());
  return key;
}

}  // namespace

bool TrackFolder::is_same(const Track& known, const Track& row, const DeviceLanes& lanes) const {
  const auto holds = [&](const IndexRange& range, const std::vector<TrackTask>& lane) {
    return range.size() == lane.size() &&
           std::equal(lane.begin(), lane.end(), tracks.tasks.begin() + static_cast<std::ptrdiff_t>(range.begin),
                      [](const TrackTask& a, const TrackTask& b) { return a.same_work(b); });
  };
  return known.stage == row.stage && known.standing == row.standing && known.usable == row.usable &&
         holds(known.compute, lanes.compute) && holds(known.communication, lanes.communication) &&
         holds(known.messages, lanes.messages) && known.memory.size() == lanes.memory.size() &&
         std::equal(lanes.memory.begin(), lanes.memory.end(),
                    tracks.memory.begin() + static_cast<std::ptrdiff_t>(known.memory.begin));
}

std::size_t TrackFolder::add(const DeviceLanes& lanes, Track row) {
  const std::uint64_t key = key_of(lanes);
  for (auto [same, last] = rows_by_key_.equal_range(key); same != last; ++same)
    if (Track& known = tracks.rows[same->second]; is_same(known, row, lanes)) {
      known.devices.insert(known.devices.end(), row.devices.begin(), row.devices.end());
      return known.compute.begin;
    }
  const auto append = [&](const std::vector<TrackTask>& lane) {
    const std::size_t begin = tracks.tasks.size();
    tracks.tasks.insert(tracks.tasks.end(), lane.begin(), lane.end());
    return IndexRange{begin, tracks.tasks.size()};
  };
  row.compute = append(lanes.compute);
  row.communication = append(lanes.communication);
  row.messages = append(lanes.messages);
  row.memory = {tracks.memory.size(), tracks.memory.size() + lanes.memory.size()};
  tracks.memory.insert(tracks.memory.end(), lanes.memory.begin(), lanes.memory.end());
  rows_by_key_.emplace(key, tracks.rows.size());
  tracks.rows.push_back(std::move(row));
  return tracks.rows.back().compute.begin;
}

void TrackFolder::sort_rows() {
  for (Track& row : tracks.rows) std::sort(row.devices.begin(), row.devices.end());
  std::stable_sort(tracks.rows.begin(), tracks.rows.end(), [](const Track& a, const Track& b) {
    return std::pair(a.stage, a.devices.front()) < std::pair(b.stage, b.devices.front());
  });
}

}  // namespace meshwright
