// SPDX-License-Identifier: Apache-2.0
// Two timings of one step: both timelines under each other, and how far their tasks are apart.
#pragma once

#include <string>
#include <vector>

#include "report/page/page.h"
#include "report/rows/tracks.h"

namespace meshwright {

struct TimingNames {
  std::string first, second;  // "predicted", "measured"
};

// Of the tasks of a kind, over all devices.
struct KindDifference {
  TaskKind kind = TaskKind::Forward;
  std::int64_t first_tasks = 0, second_tasks = 0;
  Seconds first{0.0}, second{0.0};  // sums
  std::int64_t matched = 0;         // in both, by device, stage and micro-batch
  Seconds apart{0.0};               // sum of the matched tasks' differences without their signs
};
// Kinds that neither has are left out. REQUIRES: paired tracks whose rows have tasks.
[[nodiscard]] std::vector<KindDifference> differences_by_kind(const Tracks& pairs);

struct TaskDifference {
  std::vector<int> devices;
  TrackTask first, second;
  [[nodiscard]] SimTime apart() const;  // of the durations, without its sign
};
// The matched computations that differ most in their durations, at most `most` of them.
[[nodiscard]] std::vector<TaskDifference> largest_differences(const Tracks& pairs, std::size_t most);

// With the rows as data of the page.
[[nodiscard]] PageSection paired_timeline_section(Page& page, const Tracks& pairs, const TimingNames& names);
[[nodiscard]] PageSection differences_section(const Tracks& pairs, const TimingNames& names);

}  // namespace meshwright
