// SPDX-License-Identifier: Apache-2.0
// The result of `meshwright run --exact`: a plan that was run over integers modulo a prime and held against one device,
// as text and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "cli/documents/step/reuse.h"
#include "core/base/json.h"
#include "core/planner/make_plan.h"
#include "executor/check/exact_check.h"

namespace meshwright {

struct ExactRun {
  Plan made, plan;  // as read, as run
  Reuse reuse;
  std::string devices;  // "4 threads"
  int steps = 0;
  std::uint64_t seed = 0;
  ExactCheck check;
};

// Throws InternalError with the first difference of each class of tensors.
void expect_equal(const ExactRun& run);
[[nodiscard]] std::string to_text(const ExactRun& run);
[[nodiscard]] Json to_json(const ExactRun& run);

}  // namespace meshwright
