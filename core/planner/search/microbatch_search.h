// SPDX-License-Identifier: Apache-2.0
// Which numbers of micro-batches are searched. With few, a pipeline is badly filled and a micro-batch takes much
// memory; with many, the devices are badly filled.
#pragma once

#include <cstdint>
#include <vector>

#include "core/planner/search/searched_points.h"

namespace meshwright {

// Divisors of the batch, each the first that is at least twice the one before, that the request's schedule can run; one
// sample per micro-batch is the last. Among all schedules some run any number. Throws InputError: none is left.
[[nodiscard]] std::vector<std::int64_t> microbatch_counts(const PlanRequest& request);
// The same of all divisors.
[[nodiscard]] std::vector<std::int64_t> all_microbatch_counts(const PlanRequest& request);

// Searches the points of one cut: the number that the request gives, or those that promise the best plan.
void search_microbatches(SearchedPoints& points, SearchPoint at);

}  // namespace meshwright
