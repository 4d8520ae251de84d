// SPDX-License-Identifier: Apache-2.0
// Causal attention whose queries, keys and values are the three parts of one product, as GPT-2's: one op that reads the
// product whole. Cutting it in three, and putting the three gradients together again, would be priced as copies.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// The module with such attentions as PackedAttention.
[[nodiscard]] Module with_packed_attention(Module module);

}  // namespace meshwright::primitive
