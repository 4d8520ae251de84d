// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts that sort their tokens by expert, as transformers exports them: rows of tokens x choices in the
// order of their experts, a product of each run of rows with its expert's weight, the old order again, and a sum over
// each token's choices. They become what the built-in mixtures are: slots of a fixed number for each expert, to which
// tokens are sent and from which they come back weighed.
#pragma once

#include <optional>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::torch {

// The choice that a sort by expert is of: `order` is what sorted_order has made.
[[nodiscard]] bool is_sorted_order(const primitive::Builder& b, int order);
// The experts of all rows (0), or the rows (1), in order of experts; of the choices of top_k in one row.
[[nodiscard]] std::vector<int> sorted_order(primitive::Builder& b, int choices);
// Where each row has gone: the order's inverse.
[[nodiscard]] int inverse_order(primitive::Builder& b, int order);

// x[rows], where rows are those of such an order, as what stands for it in slots: (batch x expert x capacity, width);
// none where they are no such.
[[nodiscard]] std::optional<int> sorted_rows(primitive::Builder& b, int x, int rows);
// What lies in slots, (batch x expert x capacity, width), times each expert's (expert, width, n).
[[nodiscard]] int product_by_expert(primitive::Builder& b, int x, int weight);
// What lies in slots times the sorted weights of its rows: the sum over each token's choices (tokens, 1, width).
[[nodiscard]] std::optional<int> weighed_rows(primitive::Builder& b, int x, int weights);
[[nodiscard]] bool is_sum_of_choices(const primitive::Builder& b, int x);

}  // namespace meshwright::torch
