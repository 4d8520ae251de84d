// SPDX-License-Identifier: Apache-2.0
// A module of one sample as one of any number of them, each computed as the one is: what `vmap` makes of it. Files that
// are exported with a batch of 1 say no more than one sample's sizes: their reshapes merge that dimension, drop it and
// put it in anew. So they are read as they stand, with a dimension of 1, and only then get the batch.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// Each input whose dimension 0 is of one element is data of samples; everything else is the same for all of them.
// Throws InputError, one sentence that begins with the op's name, where an op of data has no such form, and where it
// would be another one over several samples: over a first dimension of one element, but for a loss, and of two rows of
// which each may be that of all samples.
[[nodiscard]] Module of_several_samples(Module one);

}  // namespace meshwright::primitive
