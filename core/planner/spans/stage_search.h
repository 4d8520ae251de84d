// SPDX-License-Identifier: Apache-2.0
// Prices stages: for every span of layers, submesh and logical mesh the best shardings, from fastest to smallest.
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

#include "core/planner/intra_op/layer_model.h"
#include "core/planner/spans/stage_costs.h"
#include "core/planner/spans/stage_table.h"

namespace meshwright {

struct StageSearchOptions {
  std::int64_t microbatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Bytes usable_memory{0.0};
  std::function<IntraOpRules(const LogicalMesh& mesh)> rules = {};
  // What each layer may make again, chosen layer by layer: the structure given beside the options is among them. Empty:
  // as that structure's graph has it.
  std::vector<StepVariant> variants = {};
  // All layers form one stage: only that span is priced, and its memory price is searched until the bytes fit exactly.
  bool one_stage = false;
  // No stage of a pipeline has more microbatches in flight; 0: not known. Where memory is no limit with as many, only
  // the fastest sharding of each span is priced.
  double most_in_flight = 0.0;
  bool hosts_apart = false;           // the cluster has several hosts: stages may receive across them
  StageCostOptions stage_costs = {};  // what stands for the costs that are modelled
  int threads = 1;
  // Asked before each mesh is priced; true: the rest is left out (StageSearch::interrupted).
  std::function<bool()> stop = {};
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
  // Of StageSearchOptions::variants, the choice of each layer first..last; empty without variants.
  [[nodiscard]] std::vector<Recompute> recompute(int first, int last, int price) const;
  // How the tensors that cross the border before the span enter it, and those that cross the border after it leave it:
  // in the order of StepStructure::crossing.
  [[nodiscard]] const std::vector<ShardingSpec>& entering(int first, int last, int price) const;
  [[nodiscard]] const std::vector<ShardingSpec>& leaving(int first, int last, int price) const;
  // one_stage: no sharding of the whole that fits the memory (as the layer models count it) takes less per microbatch;
  // by Lagrangian relaxation of the memory limit. Otherwise the same as least(0, layers - 1).
  [[nodiscard]] Seconds bound() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A sharding of a span on one of the meshes of a submesh.
struct StageChoice {
  int mesh;   // index into the requested meshes
  int price;  // see MeshSpans
};

class StageSearch {
 public:
  // A logical mesh to be tried on a submesh (by index); with a batch axis under hold_batch_to_axis of method.h.
  struct MeshRequest {
    int submesh;
    std::vector<int> shape;
    std::optional<int> batch_axis = {};
  };
  // With usable_memory 0 in `options` every device is given what its kind has.
  StageSearch(const StepStructure& structure, const Cluster& cluster, const CostModel& costs,
              std::vector<Submesh> submeshes, std::vector<MeshRequest> wanted, const StageSearchOptions& options);

  [[nodiscard]] bool interrupted() const { return interrupted_; }
  [[nodiscard]] int layers() const { return structure_.layers().count; }
  [[nodiscard]] const std::vector<Submesh>& submeshes() const { return submeshes_; }
  [[nodiscard]] const std::vector<MeshRequest>& meshes() const { return wanted_; }

  // Slice s is submesh s; a configuration stands for a StageChoice on its submesh. Devices have `memory_share` of their
  // usable memory. Of configurations that are no better than another in time and in every kind of bytes one is kept,
  // `all` keeps them. With `allowed`, only layers and meshes of which it says so.
  enum class Keep { Best, All };
  using Allowed = std::function<bool(int first, int last, const MeshRequest& mesh)>;
  [[nodiscard]] StageTable prices(double memory_share, Keep keep = Keep::Best, const Allowed& allowed = {}) const;
  // Mesh -1: the submesh has not as many.
  [[nodiscard]] StageChoice choice(int slice, int config) const;
  // nullopt: the submesh has no such choice here.
  [[nodiscard]] std::optional<int> config_of(int slice, const StageChoice& choice) const;
  [[nodiscard]] const StepCost& cost(int first, int last, const StageChoice& choice) const;
  [[nodiscard]] StagePlan plan(int first, int last, const StageChoice& choice) const;
  // Costs that are not the models': stored ones, or those of single layers added up.
  [[nodiscard]] bool has_known_costs() const { return options_.stage_costs.replace(); }
  [[nodiscard]] const MeshSpans& spans(const StageChoice& choice) const {
    return *meshes_[static_cast<std::size_t>(choice.mesh)];
  }

  // Every span and option of every usable mesh, as this search counts it, under `key`, which has a numbering.
  [[nodiscard]] StageProfileTable profile(const StageProfileKey& key) const;

  // What the prices count for a span that is the only stage.
  [[nodiscard]] Bytes estimate(const StepCost& cost) const;
  // A step's share is added so that a bottleneck stage counts it once per step.
  [[nodiscard]] Seconds per_microbatch(const StepCost& cost) const {
    return cost.forward + cost.backward + cost.step / static_cast<double>(options_.microbatches);
  }
  [[nodiscard]] std::int64_t entries() const { return entries_; }
  // Sentences on meshes that cannot be used.
  [[nodiscard]] const std::vector<std::string>& reasons() const { return reasons_; }
  // one_stage: least bound() over the meshes.
  [[nodiscard]] Seconds sharding_bound() const;
  enum class Costs { Known, Modelled };
  // The least time per microbatch of a span on a submesh, of every mesh and sharding; infinity where none can be used.
  [[nodiscard]] Seconds least(int first, int last, int submesh, Costs costs) const;
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const StageSearchOptions& options() const { return options_; }

 private:
  [[nodiscard]] SpanCosts span_costs(std::size_t mesh, const StageCostOptions& options) const;
  [[nodiscard]] bool usable(std::size_t mesh) const { return meshes_[mesh] && !meshes_[mesh]->impossible(); }

  const StepStructure& structure_;
  const Cluster& cluster_;
  StageSearchOptions options_;
  std::vector<Submesh> submeshes_;
  std::vector<MeshRequest> wanted_;
  std::vector<std::optional<MeshSpans>> meshes_;    // [wanted]; nullopt: interrupted before
  std::vector<std::optional<SpanCosts>> replaced_;  // [wanted] what stands for the costs of meshes_, if anything does
  std::vector<std::vector<int>> meshes_of_;         // [submesh] usable ones
  int prices_per_mesh_ = 0;
  std::int64_t entries_ = 0;
  std::vector<std::string> reasons_;
  bool interrupted_ = false;
};

}  // namespace meshwright
