// SPDX-License-Identifier: Apache-2.0
// The costs and shardings of every span of layers on one logical mesh, from fastest to smallest.
//
// Layers are solved one by one, given the specs of the tensors that cross their borders; equal layers once
// (layer_classes.h, layer_solver.h). A span's best sharding is a shortest path over border states (span_solver.h).
// Several memory prices give several options for each span: each is optimal for some trade of time against bytes (a
// point of the lower convex hull). Where layers choose what they recompute, there are options between these points as
// well (recompute_levels.h). A single stage is fitted to the memory instead (memory_fit.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/intra_op/layer_model.h"
#include "core/planner/spans/stage_search_options.h"

namespace meshwright {

class MeshSpans {
 public:
  // Solves all spans, or with one_stage the span of all layers. REQUIRES: structures and costs outlive this.
  MeshSpans(const StepStructure& structure, LogicalMesh mesh, const CostModel& costs,
            const StageSearchOptions& options);
  ~MeshSpans();
  MeshSpans(MeshSpans&&) noexcept;

  [[nodiscard]] const LogicalMesh& mesh() const;
  // Why nothing can run on this mesh; nothing else may be asked for then.
  [[nodiscard]] const std::optional<std::string>& impossible() const;
  // The number of options, the same for every span. Option 0 has no memory price.
  [[nodiscard]] int options() const;
  [[nodiscard]] const StepCost& cost(int first, int last, int option) const;
  // No sharding of the span takes less per microbatch, whatever its memory: forward + backward + step / microbatches.
  [[nodiscard]] Seconds min_time(int first, int last) const;
  [[nodiscard]] StagePlan plan(int first, int last, int option) const;
  // Of StageSearchOptions::variants, the choice of each layer first..last; empty without variants.
  [[nodiscard]] std::vector<Recompute> recompute(int first, int last, int option) const;
  // The specs of the tensors that cross the border before the span, and of those that cross the border after it, in the
  // order of StepStructure::crossing.
  [[nodiscard]] const std::vector<ShardingSpec>& entering(int first, int last, int option) const;
  [[nodiscard]] const std::vector<ShardingSpec>& leaving(int first, int last, int option) const;
  // one_stage: no sharding of the whole that fits the memory (as the layer models count it) takes less per microbatch;
  // by Lagrangian relaxation of the memory limit. Otherwise the same as min_time(0, layers - 1).
  [[nodiscard]] Seconds bound() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
