// SPDX-License-Identifier: Apache-2.0
// The table of a plan's stages, as all pages have it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

struct StageRow {
  std::string layers, hosts, devices, mesh;
  Seconds forward{0.0}, backward{0.0}, update{0.0};  // of one micro-batch; of one step
  Bytes memory{0.0};                                 // of its fullest device
  std::optional<int> in_flight;                      // nullopt: not told
};

// "3", "3-5"
[[nodiscard]] std::string layers_range_text(int first, int last);

// One row each, from stage 0 on.
[[nodiscard]] std::string stages_table(const std::vector<StageRow>& stages);

}  // namespace meshwright
