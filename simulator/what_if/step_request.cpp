// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/step_request.h"

#include <algorithm>

#include "core/base/errors.h"
#include "simulator/what_if/variations.h"

namespace meshwright {

bool StepRequest::plain() const {
  return network == NetworkModel::Static && !overlap && !controller && slow_devices.empty() && slow_links.empty() &&
         samples == 0 && !mean_jitter && !failures && replicas == 1;
}

bool StepRequest::is_of_a_plan() const {
  return slow_devices.empty() && slow_links.empty() && samples == 0 && conditions.jitter == 0.0 && !failures &&
         replicas == 1;
}

void check_slow_devices(const StepRequest& request, const Plan& plan) {
  for (const StepRequest::SlowDevice& slow : request.slow_devices)
    require(std::any_of(plan.stages.begin(), plan.stages.end(),
                        [&](const StagePlan& stage) {
                          return std::find(stage.devices.begin(), stage.devices.end(), slow.device) !=
                                 stage.devices.end();
                        }),
            "the plan does not use device {}; its devices are those of {}.", slow.device, plan.cluster.name);
}

Cluster cluster_of_step(const Cluster& cluster, const StepRequest& request) {
  Cluster own = cluster;
  own.expert_load = request.expert_load;
  for (const StepRequest::SlowLinks& slow : request.slow_links)
    own = with_slower_links(std::move(own), slow.kind, slow.speed);
  return own;
}

}  // namespace meshwright
