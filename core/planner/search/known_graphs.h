// SPDX-License-Identifier: Apache-2.0
// The graphs of a step, which its cuts into layers share: building them takes longer than cutting them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// The graphs of one number of micro-batches.
struct ModelGraphs {
  TrainingOptions training;
  std::shared_ptr<const Graph> own;
  std::string fingerprint;  // of `own`
  // Where each layer's recomputation is searched: the same step with the other ways to recompute.
  std::vector<std::pair<Recompute, std::shared_ptr<const Graph>>> variants;
};

// Side by side on the request's threads. Throws InputError as build_step_graph.
[[nodiscard]] std::shared_ptr<const ModelGraphs> model_graphs(const PlanRequest& request, TrainingOptions training);

class KnownGraphs {
 public:
  // Those of the latest number are kept. Throws InputError as model_graphs and PlanRequest::training_with.
  [[nodiscard]] std::shared_ptr<const ModelGraphs> of(const PlanRequest& request, std::int64_t microbatches);

 private:
  std::int64_t microbatches_ = 0;  // of `latest_`
  std::shared_ptr<const ModelGraphs> latest_;
};

}  // namespace meshwright
