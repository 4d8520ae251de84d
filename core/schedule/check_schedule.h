// SPDX-License-Identifier: Apache-2.0
// Checks whether a given schedule of a line of stages is complete and free of deadlock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace meshwright {

// How errors name the places of runs: "s.csv, row 1, column 3".
struct RunPlaces {
  std::string place;                       // of the whole schedule
  std::string rank = "rank", run = "run";  // what a rank and a run in it are called
  int first = 0;                           // the number of the first of either
  std::vector<std::vector<int>> numbers;   // [rank][run] the number of each run; empty: they count up from `first`
};

// The first error, as a sentence without its full stop; nullopt: the schedule is valid. Errors are a rank without runs,
// a stage on two ranks, a missing stage, a repeated or missing run, a backward before its forward, a W before its I, a
// B beside I or W of the same stage and microbatch, and a deadlock, with its cycle. A schedule without backwards is one
// for inference.
[[nodiscard]] std::optional<std::string> wrong_schedule(const Schedule& schedule, const RunPlaces& places);

// The shape of a valid schedule.
struct ScheduleShape {
  int microbatches = 0;
  std::vector<int> rank_of_stage;  // [stage]
  bool trains = false;
  [[nodiscard]] int stages() const { return static_cast<int>(rank_of_stage.size()); }
};
[[nodiscard]] ScheduleShape shape_of(const Schedule& schedule);

}  // namespace meshwright
