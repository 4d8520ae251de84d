// SPDX-License-Identifier: Apache-2.0
// The whole plans that a search has lowered. Stages that are options of their own in a table may be sharded alike, and
// other cuts into layers have the same stages: equal plans are lowered and simulated once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// A schedule that runs so many stages, one on each rank, in the same order: the first of those that do.
[[nodiscard]] ScheduleKind same_order(ScheduleKind schedule, std::size_t stages);

// Several threads may ask at once.
class KnownTrials {
 public:
  // As the evaluator's trial. `simulated` counts one more when the evaluator is asked for its step: that of an equal
  // plan is known. REQUIRES: the evaluator, `simulated` and this outlive the trial; all plans are of one request.
  [[nodiscard]] std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made, const PlanEvaluator& evaluator,
                                                 std::int64_t& simulated);
  // How many plans were lowered.
  [[nodiscard]] std::int64_t known() const;

 private:
  struct Known {
    std::mutex mutex;  // of the members below
    bool lowered = false;
    std::vector<Bytes> peaks, on_host, beside;
    std::optional<StepOutcome> step;  // nullopt: nobody asked for it
  };
  class Trial;
  mutable std::mutex mutex_;                             // of the map
  std::map<std::string, std::shared_ptr<Known>> known_;  // by what the plans' programs depend on
};

}  // namespace meshwright
