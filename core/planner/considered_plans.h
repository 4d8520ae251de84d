// SPDX-License-Identifier: Apache-2.0
// The plans that a search considered, each once and in order, with why the others were not the answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

class ConsideredPlans : public SearchRecord {
 public:
  // A plan may come several times: what was followed up further stays (simulated, then too large, then ruled out).
  void add(ConsideredPlan considered) override;

  // The answer first, then the others that fit by score, then those that were not simulated by estimate, then those
  // that cannot be. Of equal ones the first considered comes first.
  [[nodiscard]] std::vector<const ConsideredPlan*> ranked() const;
  // The one that fits with the least score, of equal ones the first that was simulated; nullptr: none fits.
  [[nodiscard]] const ConsideredPlan* chosen() const;

 private:
  std::vector<ConsideredPlan> plans_;   // in the order in which they came first
  std::vector<std::size_t> judged_at_;  // [plan] when what is known of it came
  std::size_t count_ = 0;
  std::map<std::string, std::size_t> known_;
};

// "0..3 on 1x4 as 2x2 #1; 4..7 on 1x4 as 4x1 #0", #: the option of the stage table; a framework's degrees alone; "any".
[[nodiscard]] std::string stages_text(const ConsideredPlan& plan);
// Why it lost to `chosen`, or was not followed up: "slower by 12.3 ms", "does not fit: stage 0 needs ...".
[[nodiscard]] std::string reason_text(const ConsideredPlan& plan, const ConsideredPlan* chosen);

}  // namespace meshwright
