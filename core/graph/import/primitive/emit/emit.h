// SPDX-License-Identifier: Apache-2.0
// From a module with named axes to the forward ops and the loss of a Graph, for the graph's micro-batch.
//
// Transposes and most reshapes leave no op: tensors lie in the order in which they are made, and an op that needs
// another order transposes its operand.
#pragma once

#include "core/graph/import/primitive/emit/axes.h"
#include "core/graph/models/models.h"

namespace meshwright::primitive {

// Throws InputError that names and counts the ops which have no equal in the op table.
void expect_emittable(const Module& module);

// Appends to `graph`. REQUIRES: expect_emittable(module) returns. Logits are what a softmax over the last dimension or
// a product with parameters makes.
void emit(const Module& module, const Axes& axes, const std::vector<int>& blocks, Graph& graph,
          LossReduction reduction);

}  // namespace meshwright::primitive
