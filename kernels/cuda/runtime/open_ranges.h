// SPDX-License-Identifier: Apache-2.0
// Which ranges are open on each thread, numbered while a recording goes on. Internal to what records
// (kernels/cuda/runtime/activity.h).
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/runtime/activity.h"

namespace meshwright::kernels::cuda::open_ranges {

void start_numbering();  // from 0 on
[[nodiscard]] std::vector<Recording::Range> stop_numbering();

// The range of the calling thread. A range that is opened while nobody records has no number.
std::optional<std::size_t> open(const char* name);
std::optional<std::size_t> close();  // the number of the one that is closed
[[nodiscard]] std::optional<std::size_t> innermost();

}  // namespace meshwright::kernels::cuda::open_ranges
