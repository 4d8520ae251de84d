// SPDX-License-Identifier: Apache-2.0
// The submeshes and logical meshes that a parallel method allows, and the stages that it gives.
#pragma once

#include <optional>
#include <vector>

#include "core/planner/plan_request.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

struct StageSpace {
  std::vector<Submesh> submeshes;
  std::vector<StageSearch::MeshRequest> meshes;
  std::optional<int> stages;               // exactly this many
  std::vector<Method::ManualStage> fixed;  // exactly these
  // What narrower requests would search, as marks on `meshes`: of fewer submeshes or logical meshes.
  std::vector<std::vector<bool>> narrower = {};
};

// Few devices, samples and ops: what such a request leaves open is searched in full.
[[nodiscard]] bool is_small(const PlanRequest& request);
// Submeshes of whole hosts: of every kind of host the fewest, a power of two, with which at most twelve stages take all
// of them, and these multiples of it, as far as there are so many.
[[nodiscard]] std::vector<Submesh> whole_host_submeshes(const Cluster& cluster, const std::vector<int>& multiples);
// The stages of each rank under the request's schedule; the smallest number where it is searched.
[[nodiscard]] int chunks_of(const PlanRequest& request);
// Why no stages of the request can run so many micro-batches under the schedule, as a clause (unmet_by): on the ranks
// that the method gives, else on the fewest there may be. nullopt: some can.
[[nodiscard]] std::optional<std::string> unmet_by(const PlanRequest& request, ScheduleKind schedule,
                                                  std::int64_t microbatches);
// Throws InputError when the method does not fit the cluster or the number of layers.
[[nodiscard]] StageSpace stage_space(const PlanRequest& request, int layers);

}  // namespace meshwright
