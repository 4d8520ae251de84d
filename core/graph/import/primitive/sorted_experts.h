// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts that sort their tokens by expert, as transformers and MaxText do: rows of tokens x choices in the
// order of their experts, a product of each run of rows with its expert's weight, the old order again, and a sum over
// each token's choices. They become what the built-in mixtures are: slots of a fixed number for each expert, to which
// tokens are sent and from which they come back weighed.
#pragma once

#include <optional>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// Whether these are the experts that tokens have chosen, in one row.
[[nodiscard]] bool is_choice_of_experts(const Builder& b, int choices);
// The choice that a sort by expert is of: `order` is what sorted_order has made.
[[nodiscard]] bool is_sorted_order(const Builder& b, int order);
// The experts of all rows (0), or the rows (1), in order of experts; of the choices of top_k in one row.
[[nodiscard]] std::vector<int> sorted_order(Builder& b, int choices);
// Where each row has gone: the order's inverse.
[[nodiscard]] int inverse_order(Builder& b, int order);

// x[rows], where rows are those of such an order, as what stands for it in slots: (batch x expert x capacity, width);
// none where they are no such.
[[nodiscard]] std::optional<int> sorted_rows(Builder& b, int x, int rows);
// What lies in slots, (batch x expert x capacity, width), times each expert's (expert, width, n).
[[nodiscard]] int product_by_expert(Builder& b, int x, int weight);
// What lies in slots times the sorted weights of its rows: the sum over each token's choices (tokens, 1, width).
[[nodiscard]] std::optional<int> weighed_rows(Builder& b, int x, int weights);
// The same in two steps: what lies in slots, in the order of tokens and their choices again, (tokens x choices, width),
// and its sum over each token's choices times their weights, (batch, seq, width); none where x is no such.
[[nodiscard]] bool is_inverse_order(const Builder& b, int order);
[[nodiscard]] int unsorted_rows(Builder& b, int x, int order);
[[nodiscard]] std::optional<int> weighed_sum(Builder& b, int x, int weights);
// Whether x is computed of what lies in slots alone.
[[nodiscard]] bool is_in_slots(const Builder& b, int x);
[[nodiscard]] bool is_sum_of_choices(const Builder& b, int x);

}  // namespace meshwright::primitive
