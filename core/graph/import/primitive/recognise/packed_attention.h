// SPDX-License-Identifier: Apache-2.0
// Causal attention whose queries, keys and values are the three parts of one product with a weight that has a dimension
// of three for them, as in the families `gpt` and `moe`: one op that reads the product whole. Cutting it in three, and
// putting the three gradients together again, would be priced as copies. Weights with flat columns are cut instead.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// The module with such attentions as PackedAttention.
[[nodiscard]] Module with_packed_attention(Module module);

}  // namespace meshwright::primitive
