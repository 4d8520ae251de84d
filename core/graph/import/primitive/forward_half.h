// SPDX-License-Identifier: Apache-2.0
// Ends a module whose result is a loss of no kind that is known at what the loss is computed of.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// A result of one element that is no cross entropy gives way to the last tensor of samples that all of it goes through
// and that a parameter or a product made; the notes say so. Of the square of a difference to data, that is what the
// data is subtracted from. Other modules stay as they are: false.
bool end_before_loss(Module& module);

}  // namespace meshwright::primitive
