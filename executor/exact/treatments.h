// SPDX-License-Identifier: Apache-2.0
// How ops are done over residues, by family. Internal to the executor.
#pragma once

#include "executor/ops/attention_blocks.h"
#include "executor/ops/kernel_table.h"

namespace meshwright::exact {

using Call = Operands<double>;

// --- as in numbers (moving_ops.cpp) ---

// Whether the op only moves, adds or compares elements.
[[nodiscard]] bool moves_or_adds(OpKind kind);
void move_or_add(const Call& call);

// --- linear and bilinear (linear_ops.cpp) ---

// null: the kind is not one of them.
[[nodiscard]] OpKernel<double> linear_op(OpKind kind);

// --- attention of separate operands (attention_op.cpp) ---

void attend(const Call& call);
void attend_backward(const Call& call);
void attend_block(const Call& call, const AttentionBlock& block);

// --- all others (cell_op.cpp) ---

// An op's axes that may be split cut its iteration space into cells. A cell's share of each result is a polynomial of
// everything that the cell has of the operands; shares of cells that meet in an element of a result are added.
void run_cells(const Call& call);

}  // namespace meshwright::exact
