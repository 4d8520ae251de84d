// SPDX-License-Identifier: Apache-2.0
// Published formulas for the bubble and the memory of schedules, which tests compare with the schedules themselves.
//
// They hold for equal stages, messages that take no time, and the schedules of make_schedule. Where no formula holds,
// nothing is returned.
#pragma once

#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// Of one stage and one microbatch; with several chunks a stage is one of them. A backward in one pass takes both parts.
struct PassTimes {
  SimTime forward, backward_input, backward_weight;
};

// p ranks, m microbatches, F, I, W the passes, B = I + W:
//
//   kind                         bubble                          rank_bubble                  where
//   inference                    (p-1) F                         0
//   1f1b, gpipe, eager-1f1b      (p-1) (F+B)                     the same
//   interleaved                  (p-1) (F+B)                     the same                     p divides m
//   zb-h1                        (p-1) max(F, I, F+I-W)          (p-1) max(I, F+I-W)          m >= p
//   zb-h2                        (p-1) max(F, I-F, F+I-2W)       (p-1) max(0, I-F, F+I-2W)    m >= 2p-1
//   zb-v                         (p-1) max(F, 2F-2W)             2 (p-1) (F-W)                m >= 2p-1, F = I >= W
//   v-half, p even               (3p-5) F                        the same (0 if p = 2)        m >= 2p-1, F = I = W
//   v-half, p odd                floor((13(p-1) - 2) / 4) F      the same                     m >= 2p-1, F = I = W
//   dualpipe-v                   (p-1) (F+I-W)                   the same                     m >= 2p, W <= I <= F <= B
//   dualpipe                     (p/2-1) (F+I-W)                 the same                     W <= I <= F <= B
//
// 1f1b and gpipe: arXiv:2104.04473, section 2.2, where interleaved is the same with chunks in the place of stages;
// zb-h1 and zb-h2: arXiv:2401.10241, section 2, for times between which the first or second term does not decide; zb-v:
// arXiv:2405.15362; v-half: counted, up to 41 ranks; dualpipe-v and dualpipe: counted, up to 8 ranks. The DualPipe
// repository has (PP/2 - 1) (F&B + B - 3W) for both, PP = p of dualpipe and 2p of dualpipe-v, with a forward and the
// backward beside it as one run that takes F&B: published_dualpipe_bubble, of dualpipe-v's ranks.

// From the first rank's first run to the last end, less the time in which a rank computes.
[[nodiscard]] std::optional<SimTime> bubble(ScheduleKind kind, int ranks, int chunks, int microbatches,
                                            const PassTimes& times);
// F&B as given; the other times as above.
[[nodiscard]] SimTime published_dualpipe_bubble(int ranks, SimTime forward_and_backward, const PassTimes& times);
// From a rank's own first run to its last, less the time in which it computes: the maximum over ranks. What is left of
// the bubble when no rank waits for others before its update (arXiv:2401.10241, section 4).
[[nodiscard]] std::optional<SimTime> rank_bubble(ScheduleKind kind, int ranks, int chunks, int microbatches,
                                                 const PassTimes& times);

// max_in_flight of make_schedule, at rank r:
//
//   inference    1                     interleaved  min(V m, 2 (p-1-r) + (V-1) p + 1), V chunks, p divides m
//   1f1b         min(p-r, m)           zb-h1        min(p, m)
//   eager-1f1b   min(2 (p-r) - 1, m)   zb-h2        min(2p-1, m)
//   gpipe        m                     zb-v         min(2p, m+r+1, 2m)
//                                      dualpipe-v   min(2p+1, m+r+1, 2m)
//                                      dualpipe     p+1
//                                      v-half       p+1 where p is odd, p+2 where it is even; m >= 2p-1
[[nodiscard]] std::optional<std::vector<int>> in_flight_of_ranks(ScheduleKind kind, int ranks, int chunks,
                                                                 int microbatches);

}  // namespace meshwright
