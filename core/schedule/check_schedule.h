// SPDX-License-Identifier: Apache-2.0
// Whether a schedule that somebody gave can be run to its end, by stages that feed one the next.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace meshwright {

// How sentences call the places of runs: "s.csv, row 1, column 3".
struct RunPlaces {
  std::string place;                       // of the whole schedule
  std::string rank = "rank", run = "run";  // what a rank and a run in it are called
  int first = 0;                           // the number of the first of either
  std::vector<std::vector<int>> numbers;   // [rank][run] the number of each run; empty: they count up from `first`
};

// The first thing that is wrong, as a sentence without its full stop; nothing: all is well. A rank without runs, a
// stage on two ranks, a stage left out, a run that is repeated or missing, a backward before its forward, a W before
// its I, a B beside I or W of the same stage and microbatch, and ranks that would wait for each other for ever, with
// the circle in which they do. A schedule in which nothing goes back is one of forwards only.
[[nodiscard]] std::optional<std::string> wrong_schedule(const Schedule& schedule, const RunPlaces& places);

// Of a schedule in which nothing is wrong: its stages, its microbatches, and the rank of each stage.
struct ScheduleShape {
  int microbatches = 0;
  std::vector<int> rank_of_stage;  // [stage]
  bool trains = false;
  [[nodiscard]] int stages() const { return static_cast<int>(rank_of_stage.size()); }
};
[[nodiscard]] ScheduleShape shape_of(const Schedule& schedule);

}  // namespace meshwright
