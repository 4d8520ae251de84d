// SPDX-License-Identifier: Apache-2.0
// The rules of the kinds of schedules, one function each, for make_schedule, and what bounds need to know of them.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"

namespace meshwright {

// One stage per rank: forwards until `ahead[s]` of them have no backward yet, then one forward and one backward in
// turn, then the backwards that are left.
[[nodiscard]] Schedule alternating(const std::vector<int>& ahead, int microbatches);

// The same with every backward in two. The weight gradients of a microbatch come `late[s]` microbatches after the
// gradient of its input.
[[nodiscard]] Schedule alternating_split(const std::vector<int>& ahead, const std::vector<int>& late, int microbatches);

// Stage s on rank s mod ranks.
[[nodiscard]] Schedule interleaved(int ranks, int chunks, int microbatches);
// Forwards of a rank before those that alternate with its backwards, if there are so many: the first backward of the
// last stage is that of the last chunk's first forward, and two more forwards per rank before the last hide the way
// there and back.
[[nodiscard]] constexpr int interleaved_forwards_ahead(int ranks, int chunks, int ranks_after) {
  return 2 * ranks_after + (chunks - 1) * ranks;
}

// Stages r and 2 ranks - 1 - r on rank r.
[[nodiscard]] Schedule zero_bubble_v(int ranks, int microbatches);
[[nodiscard]] Schedule v_half(int ranks, int microbatches);
[[nodiscard]] Schedule dual_pipe_v(int ranks, int microbatches);
// Stages r and 2 ranks - 1 - r on rank r, the latter with the second half of the microbatches.
[[nodiscard]] Schedule dual_pipe(int ranks, int microbatches);

}  // namespace meshwright
