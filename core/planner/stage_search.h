// SPDX-License-Identifier: Apache-2.0
// Fills the StageTable: for every span of layers, submesh and logical mesh the best shardings, from fastest to
// smallest.
//
// Layers are solved one by one, given the specs of the tensors that cross their borders; equal layers once. A span's
// best sharding is a shortest path over border states (min-plus products of the layers' cost matrices). Several memory
// prices give several options: each is optimal for some trade of time against bytes (a point of the lower convex hull).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/choose_pipeline.h"
#include "core/planner/intra_op.h"

namespace meshwright {

struct StageSearchOptions {
  std::int64_t microbatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Bytes usable_memory{0.0};
  std::function<IntraOpRules(const LogicalMesh& mesh)> rules = {};
  // All layers form one stage: only that span is priced, and its memory price is searched until the bytes fit exactly.
  bool one_stage = false;
  bool hosts_apart = false;  // the cluster has several hosts: stages may receive across them
  int threads = 1;
};

// Every span on one logical mesh.
class MeshSpans {
 public:
  MeshSpans(const StepStructure& structure, LogicalMesh mesh, const CostModel& costs,
            const StageSearchOptions& options);
  ~MeshSpans();
  MeshSpans(MeshSpans&&) noexcept;

  [[nodiscard]] const LogicalMesh& mesh() const;
  // Why nothing can run on this mesh.
  [[nodiscard]] const std::optional<std::string>& impossible() const;
  [[nodiscard]] int prices() const;
  // Cost of layers first..last at a memory price (0 = none; higher numbers = higher prices).
  [[nodiscard]] const StepCost& cost(int first, int last, int price) const;
  // No sharding of the span takes less per microbatch, whatever its memory: forward + backward + step / microbatches.
  [[nodiscard]] Seconds least(int first, int last) const;
  [[nodiscard]] StagePlan plan(int first, int last, int price) const;
  // one_stage: no sharding of the whole that fits the memory (as the layer models count it) takes less per microbatch;
  // by Lagrangian relaxation of the memory limit. Otherwise the same as least(0, layers - 1).
  [[nodiscard]] Seconds bound() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct StageChoice {
  int mesh;  // index into StageSearch::meshes
  int price;
  StepCost cost;
};

class StageSearch {
 public:
  // `wanted` lists (submesh index, logical shapes) to be tried; with a batch axis under hold_batch_to_axis of method.h.
  struct MeshRequest {
    int submesh;
    std::vector<int> shape;
    std::optional<int> batch_axis = {};
  };
  StageSearch(const StepStructure& structure, const Cluster& cluster, const CostModel& costs,
              std::vector<Submesh> submeshes, const std::vector<MeshRequest>& wanted,
              const StageSearchOptions& options);

  [[nodiscard]] const StageTable& table() const { return table_; }
  [[nodiscard]] const StageChoice& choice(int option_id) const { return choices_[static_cast<std::size_t>(option_id)]; }
  [[nodiscard]] StagePlan plan(int first, int last, const StageChoice& choice) const;
  // What the table counts for a span that is the only stage.
  [[nodiscard]] Bytes estimate(const StepCost& cost, int first, int last) const;
  // A step's share is added so that a bottleneck stage counts it once per step.
  [[nodiscard]] Seconds per_microbatch(const StepCost& cost) const {
    return cost.forward + cost.backward + cost.step / static_cast<double>(options_.microbatches);
  }
  [[nodiscard]] std::int64_t entries() const { return static_cast<std::int64_t>(choices_.size()); }
  // Sentences on meshes that cannot be used.
  [[nodiscard]] const std::vector<std::string>& reasons() const { return reasons_; }
  // The same spans with options that need not fit, "time" being their bytes: for the least hungry pipeline.
  [[nodiscard]] StageTable without_memory_limits() const;
  // one_stage: least bound() over the meshes.
  [[nodiscard]] Seconds sharding_bound() const;
  // No pipeline over the table's entries can take less, whatever its schedule: max of the best bottleneck and of the
  // best use of all devices, times the microbatches.
  [[nodiscard]] Seconds lower_bound(int devices) const;

 private:
  [[nodiscard]] Bytes temporary(const StepCost& cost, int first, int last) const;

  const StepStructure& structure_;
  StageSearchOptions options_;
  StageTable table_;
  std::vector<MeshSpans> meshes_;
  std::vector<StageChoice> choices_;
  std::vector<std::string> reasons_;
};

}  // namespace meshwright
