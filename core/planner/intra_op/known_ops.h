// SPDX-License-Identifier: Apache-2.0
// What ops cost on the meshes of a search, for all cuts of the same graphs into layers: equal ops cost the same,
// whichever cut they are in.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/planner/intra_op/layer_model_builder.h"

namespace meshwright {

class KnownOps {
 public:
  // For one thread at a time.
  struct OnMesh {
    OnMesh(const LogicalMesh& of, const CostModel& costs) : mesh(of), resharding(mesh, costs) {}
    OnMesh(const OnMesh&) = delete;
    const LogicalMesh mesh;  // a copy, as those of cuts come and go
    ReshardingCosts resharding;
    LayerModel::Cache cache;
  };

  // Of one mesh under the same rules. `name` tells it from the others. Any number of threads may ask at the same time.
  // REQUIRES: graphs and costs outlive this.
  [[nodiscard]] OnMesh& on(const std::string& name, const LogicalMesh& mesh, const CostModel& costs) {
    const std::lock_guard lock(mutex_);
    return known_.try_emplace(name, mesh, costs).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, OnMesh> known_;
};

}  // namespace meshwright
