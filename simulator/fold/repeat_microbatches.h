// SPDX-License-Identifier: Apache-2.0
// The Program of a step of many micro-batches from that of a step of few: what all of them do is lowered once.
#pragma once

#include "core/plan/program/program.h"

namespace meshwright {

// As many micro-batches as a Program needs so that each of its devices has come to the part of its list that repeats:
// 3 d + 4, where d is the longest way between stages.
[[nodiscard]] int microbatches_that_repeat(const Program& program);

// The same step with more micro-batches, each of as many rows as before: the part of each device's list that belongs to
// one in the middle of the step is repeated, and Runs, transfers and Frees are numbered anew. Equal to what the
// lowering makes of the plan with so many micro-batches, up to the numbers of transfers. REQUIRES: 1f1b, gpipe or
// inference; program.microbatches >= microbatches_that_repeat; microbatches >= program.microbatches.
[[nodiscard]] Program repeat_microbatches(const Program& program, int microbatches);

}  // namespace meshwright
