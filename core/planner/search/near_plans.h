// SPDX-License-Identifier: Apache-2.0
// The plans of a search that come near the best: of those that differ in nothing but the sharding inside of stages, the
// fastest. What is done to the best plan when the search is over may make one of them faster than it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

class NearPlans {
 public:
  // A plan that fits. Its prediction is known.
  void add(const Plan& plan, const std::shared_ptr<const Graph>& graph);
  // At most so many, the fastest first, none that takes more than this factor on the fastest; of equal ones the first
  // that was added.
  [[nodiscard]] std::vector<PlanOfGraph> fastest(std::size_t most, double factor) const;

 private:
  struct Known {
    PlanOfGraph made;
    std::size_t number;  // in the order of their keys' first plans
  };
  std::map<std::string, Known> known_;
};

}  // namespace meshwright
