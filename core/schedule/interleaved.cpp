// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/schedule_rules.h"

namespace meshwright {

// Microbatches go through in groups of `ranks`: the whole group through one chunk, then through the next. The i-th
// forward and the i-th backward of every rank are therefore given by i alone.
//
// Where the last group is smaller, the schedule is that of whole groups with the runs of the microbatches that do not
// exist left out. What is left waits only for what is left of the same microbatch, so it ends as the whole does; a
// shorter group run with the same warm-up would deadlock (4 ranks, 4 chunks, 5 microbatches).
Schedule interleaved(int ranks, int chunks, int microbatches) {
  const int group = ranks * chunks;  // forwards of a rank that a group of microbatches takes
  const int runs_of_rank = (microbatches + ranks - 1) / ranks * group;
  Schedule schedule;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<ScheduledRun>& runs = schedule.emplace_back();
    const auto run = [&](Pass pass, int i) {
      const int microbatch = i / group * ranks + i % ranks;
      if (microbatch >= microbatches) return;
      const int chunk = pass == Pass::Forward ? i % group / ranks : chunks - 1 - i % group / ranks;
      runs.push_back({pass, MicrobatchId(microbatch), StageId(chunk * ranks + rank)});
    };
    const int ahead = std::min(runs_of_rank, interleaved_forwards_ahead(ranks, chunks, ranks - 1 - rank));
    for (int i = 0; i < ahead; ++i) run(Pass::Forward, i);
    for (int i = 0; i < runs_of_rank; ++i) {
      if (ahead + i < runs_of_rank) run(Pass::Forward, ahead + i);
      run(Pass::Backward, i);
    }
  }
  return schedule;
}

}  // namespace meshwright
