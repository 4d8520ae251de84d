// SPDX-License-Identifier: Apache-2.0
// Choices that no pattern is - the k largest of some numbers, where they lie, the element that an index picks - written
// out in ops that there are: one after the other is the largest of those that are left, the first of equal ones, and is
// picked by a comparison of positions.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// Throws InputError, one sentence that begins with the op's name, for choices of too many.
[[nodiscard]] Module with_choices_written_out(Module module);

}  // namespace meshwright::primitive
