// SPDX-License-Identifier: Apache-2.0
// Where the stages of a pipeline should begin, so that no rank does much more than the others: by their times alone.
#pragma once

#include <functional>
#include <vector>

#include "core/planner/borders/stage_pieces.h"

namespace meshwright {

struct BorderRequest {
  ScheduleKind schedule;
  int microbatches;
  int chunks;
  std::vector<int> rank_of;      // [stage]
  std::vector<bool> movable;     // [stage] pieces may go from the stage before it to it, and back
  std::vector<SimTime> message;  // [stage] what the one from the stage before it takes, and the one back
  double share = 1.0;            // of the step with the pieces' own borders: longer ones are not wanted
};

struct Borders {
  std::vector<int> first_of_stage;  // as StagePieces'
  Seconds step{0.0};                // of the stages alone
};

// Where stages begin, from the shortest step on, at most `count` of those that are expected to take less than the
// pieces' own borders: first the busiest ranks give pieces to their neighbours until all do as much as each other,
// then single borders move as long as that shortens the step. The work is limited by the runs that are simulated.
// REQUIRES: stages in a line, one copy of each.
[[nodiscard]] std::vector<Borders> search_borders(const StagePieces& pieces, const BorderRequest& request,
                                                  PlanEvaluator& evaluator, std::size_t count);

}  // namespace meshwright
