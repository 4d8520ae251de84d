// SPDX-License-Identifier: Apache-2.0
// Attention of one device to keys and values that come to it in blocks (kernels/cpu/attention/attention_blocks.h): what
// it does with one block. The device that has them says which block it is.
#pragma once

#include <cstdint>
#include <span>

#include "executor/ops/op_kernels.h"

namespace meshwright {

struct AttentionBlock {
  enum class Pass {
    Attend,         // forward
    Measure,        // the first pass of the backward
    Differentiate,  // the second
  } pass;
  std::int64_t first, count;  // its keys
  bool begins, ends;          // the first and the last block of the pass
  void* rows;                 // attention_row_sums elements, left alone from the first block to the last of both passes
};

// Elements of AttentionBlock::rows.
[[nodiscard]] std::int64_t attention_row_sums(const OpCallPlan& call);

// As run_op, for one block: inputs 1 and 2 are its keys and values and, in Differentiate, outputs 1 and 2 their
// gradients, to which it adds. The other results are whole once the last block is done. REQUIRES: an attention of
// separate operands, or its backward, which runs Measure before Differentiate.
template <class T>
void run_attention_block(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                         std::span<void* const> outputs, const OpMoment& moment);

}  // namespace meshwright
