// SPDX-License-Identifier: Apache-2.0
// Searches a zero-bubble schedule for given times and memory, while the handcrafted ones assume equal times: ZB-1p and
// ZB-2p of arXiv:2401.10241, section 3, are such searches with the memory of 1f1b and twice that. Tests compare it with
// the published bubble rates, and the schedules of the product with it.
//
// A heuristic: it simulates several rules for when a rank waits and when it computes weight gradients, and returns the
// schedule that ends first (of equal ones the first rule's). The same input gives the same schedule.
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

// What to minimise; ties are broken by the other goal.
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
