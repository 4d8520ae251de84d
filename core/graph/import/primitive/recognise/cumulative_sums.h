// SPDX-License-Identifier: Apache-2.0
// Cumulative sums that are part of no pattern, as products.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// Each sum of floating-point numbers along a dimension becomes a product with a triangular matrix of ones, which is
// noted; those of integers stay.
[[nodiscard]] Module with_sums_as_products(Module module);

}  // namespace meshwright::primitive
