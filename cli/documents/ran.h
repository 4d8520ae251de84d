// SPDX-License-Identifier: Apache-2.0
// A plan that was run, and what `meshwright run` says of it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/documents/report.h"
#include "cli/documents/reuse.h"
#include "cli/machine/machine.h"
#include "cli/options/options.h"
#include "core/base/json.h"
#include "executor/check/check_run.h"

namespace meshwright {

struct Checked {
  std::vector<CheckedTensor> all;
  CheckedTensor worst;  // nearest to its bound
  double largest_difference = 0.0;
};

struct Ran {
  Plan made, plan;  // as read, as run
  LoadedPlan loaded;
  Reuse reuse;
  Machine machine;
  RunOptions options;  // steps include the warm-up
  int warmup = 1;
  RunResult result;
  Seconds predicted{0.0}, measured{0.0}, fastest{0.0};
  std::vector<StageTimes> predicted_stages, measured_stages;
  std::string prediction_source;
  std::optional<Checked> checked;
  std::optional<double> other_load_cores;
  std::size_t product_algorithms = 0;  // from the databases, without those that were refused

  [[nodiscard]] double error() const { return (predicted - measured) / measured; }
  [[nodiscard]] bool comparable() const { return machine.is_that_of(plan.cluster); }
  // The stages took the time that the plan's stages take: its devices, its type.
  [[nodiscard]] bool measures_stages() const { return comparable() && machine.computes_in(plan.training.dtype); }
  [[nodiscard]] Bytes counted_peak() const {
    return *std::max_element(result.peak_memory.begin(), result.peak_memory.end());
  }
};

// Where more of it was written; "" where nowhere.
struct RanFiles {
  std::string trace, db;
};

[[nodiscard]] std::string to_text(const Ran& ran, const RanFiles& files);
[[nodiscard]] Json to_json(const Ran& ran, const RanFiles& files);  // its exact twin

}  // namespace meshwright
