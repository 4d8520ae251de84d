// SPDX-License-Identifier: Apache-2.0
// Ops over integers modulo a prime (residue.h): a program run with them must give, to the bit, what one device gives,
// however tensors are split, because no sum depends on its order.
//
// What only moves, adds or compares elements is done as it is in numbers (executor/ops), and a contraction is one. All
// else gets a stand-in that reads what the op reads and may be split where the op may be (core/graph/op_table.h), but
// means nothing: a polynomial that is not linear, so that it tells partial sums from whole ones. Where everything is 0
// results are 0, so that the padding of tiles stays 0.
#pragma once

#include <span>
#include <string>

#include "core/graph/graph.h"
#include "executor/ops/attention_blocks.h"
#include "executor/ops/op_kernels.h"

namespace meshwright::exact {

// As meshwright::run_op<double> and run_attention_block<double>, of residues. Throws InputError for an op that has no
// stand-in (expect_treated).
void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
            const OpMoment& moment);
void run_attention_block(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                         std::span<void* const> outputs, const OpMoment& moment);

// Throws InputError naming the first op that has no stand-in.
void expect_treated(const Graph& graph);

}  // namespace meshwright::exact
