// SPDX-License-Identifier: Apache-2.0
// A stored plan used for other work, as the verbs simulate and run do it: the options that change it, and what the
// document says of the change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/lowering/adapt_plan.h"
#include "core/planner/make_plan.h"

namespace CLI {
class App;
}

namespace meshwright {

struct ReuseOptions {
  std::string batch, seq, micro_batches, schedule, schedule_csv, cluster;  // "": as in the plan
};
// --batch, --seq, --micro-batches, --schedule and --schedule-csv; `cluster`: and --cluster.
void add_reuse_options(CLI::App& verb, ReuseOptions& options, bool cluster);

// The plan that the options ask for. Throws InputError naming the flag or the file: a value that is none, a change that
// suits no such plan, or sizes that its splits do not divide, with the nearest that they do.
[[nodiscard]] Plan reuse_plan(const Plan& made, const std::string& path, const ReuseOptions& options);

// What another use of a plan came to; nothing is said of one that is used as it was made.
struct Reuse {
  std::vector<std::string> made_for, used_with;  // "batch 1024"; all of the former, what changed of the latter
  std::vector<StageFit> fits;
  std::optional<std::int64_t> microbatches_that_fit;  // the fewest, where the plan does not fit

  [[nodiscard]] bool changed() const { return !used_with.empty(); }
  [[nodiscard]] bool all_fit() const;
};
[[nodiscard]] Reuse reuse_of(const Plan& made, const Plan& used, const LoadedPlan& loaded, const CostModel& costs);
// Whole lines; `verb`: "simulated", "run".
[[nodiscard]] std::string to_text(const Reuse& reuse, const std::string& verb);
// Members made_for, fit and, where it does not, fits_with_micro_batches.
void add_reuse(Json& json, const Plan& made, const Reuse& reuse);

}  // namespace meshwright
