// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/known_graphs.h"

#include "core/base/parallel.h"

namespace meshwright {

std::shared_ptr<const ModelGraphs> model_graphs(const PlanRequest& request, TrainingOptions training) {
  auto made = std::make_shared<ModelGraphs>();
  made->training = std::move(training);
  if (request.any_recompute() && request.trains())
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full})
      made->variants.emplace_back(recompute, nullptr);
  for_each_index(1 + made->variants.size(), request.threads, [&](std::size_t i) {
    TrainingOptions options = made->training;
    if (i > 0) options.recompute = made->variants[i - 1].first;
    auto graph = std::make_shared<const Graph>(build_step_graph(request.model, options, request.first_schedule()));
    if (i == 0) made->fingerprint = fingerprint_of(*graph);
    (i == 0 ? made->own : made->variants[i - 1].second) = std::move(graph);
  });
  return made;
}

std::shared_ptr<const ModelGraphs> KnownGraphs::of(const PlanRequest& request, std::int64_t microbatches) {
  if (latest_ && microbatches_ == microbatches) return latest_;
  latest_ = model_graphs(request, request.training_with(microbatches));
  microbatches_ = microbatches;
  return latest_;
}

}  // namespace meshwright
