// SPDX-License-Identifier: Apache-2.0
// What a step would be with one thing changed: points that were simulated when the page was made, nothing in between.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "report/page/page.h"

namespace meshwright {

struct WhatIfPoint {
  std::string value;            // "128", "0.5 x"
  std::optional<Seconds> step;  // nullopt: there is no such step
  std::string note = {};        // why not, or what else it means: "needs 81.20 of 73.60 GiB"
  bool own = false;             // as the page's step is
};
struct WhatIfAxis {
  std::string name;  // "Micro-batches"
  std::string how;   // how to get such a point: "simulate --micro-batches N"
  std::vector<WhatIfPoint> points;
};

// With the member "what_if". nullopt: no axis has points beside the step's own.
[[nodiscard]] std::optional<PageSection> what_if_section(Page& page, const std::vector<WhatIfAxis>& axes);

}  // namespace meshwright
