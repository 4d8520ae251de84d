// SPDX-License-Identifier: Apache-2.0
// Sums of several products and more, as of a block whose attention and feed-forward network stand side by side: the
// products are made one after the other and added to each other first. What devices hold of each may then stay a
// partial sum until then, and one all-reduce is enough for all of them.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// The module with such sums in that order; everything else is added as before.
[[nodiscard]] Module with_products_added_first(Module module);

}  // namespace meshwright::primitive
