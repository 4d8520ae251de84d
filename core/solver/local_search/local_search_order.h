// SPDX-License-Identifier: Apache-2.0
// In which order a block's nodes are eliminated, and which leave it so that no table grows too large.
#pragma once

#include <vector>

#include "core/solver/local_search/local_search_model.h"

namespace meshwright::portfolio {

struct BlockOrder {
  std::vector<int> order;  // nodes of the block, first eliminated first
  std::vector<int> rank;   // [node of the block] place in `order`; -1: it left the block
};

// `around[i]`: neighbours of i, `sizes[i]`: its labels. A node is eliminated while its labels times those of its
// neighbours are at most `largest`; the cheapest goes first. Else a node of high degree leaves, one of several drawn at
// random. Nodes with one label leave at once. `around` may be longer than `sizes`.
[[nodiscard]] BlockOrder block_order(const std::vector<std::vector<int>>& around, const std::vector<double>& sizes,
                                     double largest, Random& random);

}  // namespace meshwright::portfolio
