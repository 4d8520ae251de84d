// SPDX-License-Identifier: Apache-2.0
// The whole plans that a search has lowered. Stages that are options of their own in a table may be sharded alike, and
// other cuts into layers have the same stages: equal plans are lowered and simulated once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// A schedule that runs so many stages, one on each rank, in the same order: the first of those that do.
[[nodiscard]] ScheduleKind same_order(ScheduleKind schedule, std::size_t stages);

class KnownTrials {
 public:
  // As the evaluator's trial. REQUIRES: the evaluator and this outlive the trial; all plans are of one request.
  [[nodiscard]] std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made, const PlanEvaluator& evaluator);
  // How many steps their evaluators have been asked for.
  [[nodiscard]] std::int64_t simulated() const { return simulated_; }
  // How many plans were lowered.
  [[nodiscard]] std::int64_t known() const { return static_cast<std::int64_t>(known_.size()); }

 private:
  struct Known {
    std::vector<Bytes> peaks, on_host;
    std::optional<StepOutcome> step;  // nullopt: nobody asked for it
  };
  class Trial;
  std::map<std::string, std::shared_ptr<Known>> known_;  // by what the plans' programs depend on
  std::int64_t simulated_ = 0;
};

}  // namespace meshwright
