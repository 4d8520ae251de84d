// SPDX-License-Identifier: Apache-2.0
// How torchtitan cuts layers into pipeline stages where its settings do not name the modules of each.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright {

// Blocks of every stage: the first and the last have so many fewer than their part. Empty: there are more stages than
// layers, or one of them has less than none.
[[nodiscard]] std::vector<int> torchtitan_stages(std::int64_t layers, std::int64_t stages, std::int64_t less_first,
                                                 std::int64_t less_last);

}  // namespace meshwright
