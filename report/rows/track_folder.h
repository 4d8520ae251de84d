// SPDX-License-Identifier: Apache-2.0
// Puts devices whose tasks and memory are alike into one row.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "report/rows/tracks.h"

namespace meshwright {

// What one device does; each lane by begin.
struct DeviceLanes {
  std::vector<TrackTask> compute, communication, messages;
  std::vector<TrackMemory> memory;
};

class TrackFolder {
 public:
  // Returns the place, in tracks.tasks, of the first task of the row that the device is in. `row`: with its devices,
  // its stage and what it may hold.
  std::size_t add(const DeviceLanes& lanes, Track row);
  // Rows by stage, then by device.
  void sort_rows();

  Tracks tracks;

 private:
  [[nodiscard]] bool is_same(const Track& known, const Track& row, const DeviceLanes& lanes) const;

  std::multimap<std::uint64_t, std::size_t> rows_by_key_;
};

}  // namespace meshwright
