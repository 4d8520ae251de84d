// SPDX-License-Identifier: Apache-2.0
// What Recompute::Selective repeats, after V. Korthikanti et al., "Reducing activation recomputation in large
// transformer models" (arXiv:2205.05198): results that take much memory and little time. The attention's probabilities
// are never kept (the fused op makes them again itself); what is left are element-wise ops and normalisations.
#pragma once

#include <set>
#include <vector>

#include "core/graph/graph.h"

namespace meshwright {

// The forward ops to repeat at the start of their block's backward; `graph` has its backward, nothing repeated in it.
// `range_of` [forward op] parts blocks: "block" means the ops of one block in one range here; empty: one range.
// An op is repeated when
//   - it is in a block and cheap: no contraction, nothing summed (a split sum would cost a collective), no ranking;
//   - all its operands are there: parameters, inputs, what the backward keeps anyway, or again repeated results;
//   - a backward op of its block, or another repeated op, reads its result, and no backward op of another block does
//     (the tensor that enters the next block is kept).
// So every tensor kept is one that would be kept without recomputation as well.
[[nodiscard]] std::set<OpId> selective_recomputation(const Graph& graph, const std::vector<int>& range_of = {});

}  // namespace meshwright
