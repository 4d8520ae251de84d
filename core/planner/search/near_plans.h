// SPDX-License-Identifier: Apache-2.0
// The plans of a search that come near the best: of those that differ in nothing but the sharding inside of stages, the
// fastest. What is done to the best plan when the search is over may make one of them faster than it. So that a search
// with more choices is no worse, the fastest of every choice that a narrower request could have made are among them: of
// every recomputation, number of micro-batches, cut into layers and schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// What is done to a plan when the search is over seldom leaves less of its step than this share.
constexpr double kMinRefined = 0.93;
// Where few shardings fit the memory it wins more: of a choice that could have been made, plans this far away are
// looked at.
constexpr double kMinRefinedChoice = 0.8;

class NearPlans {
 public:
  struct Near {
    PlanOfGraph made;
    std::int64_t programs;  // of the same choice that fit
    bool of_choice;         // the fastest of its choice
  };
  // So many, none of which takes more than this factor on the fastest.
  struct Limit {
    std::size_t most;
    double factor;
  };

  // A plan that fits. Its prediction is known.
  void add(const Plan& plan, const std::shared_ptr<const Graph>& graph);
  // Those that were added to others, as if they had been added here.
  void join(NearPlans others);
  [[nodiscard]] bool empty() const { return known_.empty(); }
  // The fastest first, of equal ones the first that was added: those within `all`, and of every choice the fastest
  // within `choices`. `suits`: only plans of which it is true count; empty: all.
  [[nodiscard]] std::vector<Near> fastest(const Limit& all, const Limit& choices,
                                          const std::function<bool(const Plan&)>& suits = {}) const;

 private:
  struct Known {
    PlanOfGraph made;
    std::string choice;
    std::size_t number;  // in the order of their keys' first plans
  };
  std::map<std::string, Known> known_;
  std::map<std::string, std::int64_t> programs_;  // [choice]
};

}  // namespace meshwright
