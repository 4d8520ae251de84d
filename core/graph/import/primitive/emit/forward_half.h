// SPDX-License-Identifier: Apache-2.0
// Ends a module whose result is a loss of no kind that is known at what the loss is computed of.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// A result of one element that is no cross entropy gives way to the last tensor of samples that all of it goes through
// and that a parameter or a product made; the notes say so. False: the module is as it was, or its result now are
// logits of which a cross entropy can be made.
bool end_before_loss(Module& module);

}  // namespace meshwright::primitive
