// SPDX-License-Identifier: Apache-2.0
// A schedule found for the times and the memory of a pipeline, where the handcrafted zero-bubble schedules presume
// equal times: ZB-1p and ZB-2p of arXiv:2401.10241, section 3, are such searches under the memory of 1f1b and twice it.
//
// A heuristic: several rules that differ in when a rank waits and when it makes weight gradients are played through in
// time; the schedule that ends first is the result, the first such rule's among equals. Same input, same schedule.
#pragma once

#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// One stage per rank, a line of them.
struct ZeroBubbleProblem {
  std::vector<SimTime> forward, backward_input, backward_weight;  // [rank] of one microbatch; none negative
  SimTime message{0};  // between neighbours, either way; takes no rank's time
  int microbatches = 1;
  // [rank] what it may keep, in activations of one microbatch of its own. A microbatch has 1 from its forward until its
  // BackwardInput and `kept_for_weights` of it until its BackwardWeight.
  std::vector<double> memory_limit;
  double kept_for_weights = 1.0;  // 0 to 1
};

// What is to be least, the other where that is equal.
enum class ZeroBubbleGoal {
  Step,      // until the last rank ends: ranks wait for each other before the update
  RankSpan,  // the longest time from a rank's first run to its last: no rank waits for others before its update
};

struct FoundSchedule {
  Schedule schedule;
  SimTime step, rank_span;
};

// Nothing when a rank cannot keep a single activation. REQUIRES: all vectors of one size, at least one rank and one
// microbatch.
[[nodiscard]] std::optional<FoundSchedule> search_zero_bubble(const ZeroBubbleProblem& problem, ZeroBubbleGoal goal);

}  // namespace meshwright
