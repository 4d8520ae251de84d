// SPDX-License-Identifier: Apache-2.0
// A lower bound of every plan on like devices that counts what splitting ops takes (op_groups.h) and what waits in the
// devices' memory (held_values.h).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/planner/bounds/held_values.h"
#include "core/planner/bounds/op_groups.h"
#include "core/planner/bounds/op_parts.h"
#include "core/planner/plan_request.h"

namespace meshwright {

class HeldBound {
 public:
  // REQUIRES: a uniform cluster; all outlive this.
  HeldBound(const Graph& graph, const PlanRequest& request, const CostModel& costs);

  // What no plan with so many micro-batches takes less than: a multiple of the graph's, which differ in samples alone.
  [[nodiscard]] Seconds at(std::int64_t microbatches);

 private:
  using Shares = std::vector<std::vector<OpGroups::Share>>;  // [class]
  [[nodiscard]] double least_alone(const Op& op, std::int64_t microbatches);
  double waiting(const Shares& shares, std::int64_t microbatches, double price,
                 std::vector<const HeldResult*>& results) const;

  const Graph& graph_;
  const int devices_;
  const bool may_recompute_;
  Bytes room_{0.0};  // of all devices, for what is held from forward to backward
  HeldValues held_;
  OpParts parts_;
  std::optional<OpGroups> groups_;
};

}  // namespace meshwright
