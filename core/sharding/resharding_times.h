// SPDX-License-Identifier: Apache-2.0
// The times of reshardings of one tensor on one mesh, for those who ask for many.
//
// The same search as that of resharding.h, on numbered layouts: what a step costs is found once for all sources, and a
// search goes on from where the last question about its source left it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/sharding/reshard_steps.h"

namespace meshwright {

// Remembers what it has computed: not to be shared between threads. REQUIRES: mesh and costs outlive this.
class ReshardingTimes {
 public:
  ReshardingTimes(std::vector<Dim> dims, DType dtype, const LogicalMesh& mesh, const CostModel& costs);
  ReshardingTimes(const ReshardingTimes&) = delete;
  ReshardingTimes& operator=(const ReshardingTimes&) = delete;

  // As resharding_times. REQUIRES: `to` divides the tensor; `from` may be padded.
  [[nodiscard]] Seconds operator()(const ShardingSpec& from, const ShardingSpec& to);

 private:
  struct Step {
    int after;  // layout
    double seconds;
  };
  struct Search {
    std::vector<reshard::Distance> distance;       // [layout]
    std::vector<std::uint8_t> seen, settled;       // [layout]
    std::vector<std::pair<double, int>> frontier;  // a heap: length, layout
  };

  [[nodiscard]] int number_of(const reshard::Layout& layout);
  [[nodiscard]] const std::vector<Step>& steps_from(int layout);
  void settle_next(Search& search);

  const std::vector<Dim> dims_;
  const reshard::StepFinder finder_;
  std::vector<reshard::Layout> layouts_;
  std::vector<int> slots_;                // of a hash table: number of the layout, or -1
  std::vector<std::vector<Step>> steps_;  // [layout]
  std::vector<std::uint8_t> has_steps_;   // [layout]
  std::map<int, Search> searches_;        // by source
  std::vector<reshard::Arc> arcs_;
};

}  // namespace meshwright
