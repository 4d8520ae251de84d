// SPDX-License-Identifier: Apache-2.0
// Solves every span of layers on every submesh and logical mesh, and lists what a stage may be given.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/planner/spans/mesh_spans.h"
#include "core/planner/spans/stage_costs.h"
#include "core/planner/stages/stage_table.h"

namespace meshwright {

// A sharding of a span on one of the meshes of a submesh.
struct StageChoice {
  int mesh;    // index into the requested meshes; -1: the submesh has no such configuration
  int option;  // see MeshSpans
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
  // usable memory. Best drops configurations that another one matches or beats in time and in every kind of bytes. With
  // `allowed`, only the choices for which it returns true; with `given`, only these spans and choices.
  enum class Keep { Best, All };
  using Allowed = std::function<bool(const StageChoice& choice)>;
  using Given = std::function<bool(int first, int last, const StageChoice& choice)>;
  [[nodiscard]] StageTable table(double memory_share, Keep keep = Keep::Best, const Allowed& allowed = {},
                                 const Given& given = {}) const;
  [[nodiscard]] StageChoice choice(int slice, int config) const;
  // nullopt: the choice is not on the submesh.
  [[nodiscard]] std::optional<int> config_of(int slice, const StageChoice& choice) const;
  // As MeshSpans::way.
  [[nodiscard]] std::optional<int> way(const StageChoice& choice) const {
    return meshes_[choice.mesh]->way(choice.option);
  }
  [[nodiscard]] const StepCost& cost(int first, int last, const StageChoice& choice) const;
  // Some costs replace the modelled ones: stored ones, or those of single layers added up.
  [[nodiscard]] bool has_known_costs() const { return options_.stage_costs.replace(); }
  [[nodiscard]] const MeshSpans& spans(const StageChoice& choice) const { return *meshes_[choice.mesh]; }

  // Every span and option of every usable mesh, with the costs of this search. REQUIRES: `key` has a numbering.
  [[nodiscard]] StageProfileTable profile(const StageProfileKey& key) const;

  // The memory that the table counts for a span that is the only stage.
  [[nodiscard]] Bytes estimate(const StepCost& cost) const;
  // With a microbatch's share of the step: a bottleneck stage then counts it once per step.
  [[nodiscard]] Seconds per_microbatch(const StepCost& cost) const {
    return cost.forward + cost.backward + cost.step / static_cast<double>(options_.microbatches);
  }
  [[nodiscard]] std::int64_t entries() const { return entries_; }
  // Sentences on meshes that cannot be used.
  [[nodiscard]] const std::vector<std::string>& reasons() const { return reasons_; }
  // one_stage: the smallest bound() of the meshes.
  [[nodiscard]] Seconds sharding_bound() const;
  enum class Costs { Known, Modelled };
  // The minimum time per microbatch of a span on a submesh, over all meshes and shardings; infinity where none can be
  // used.
  [[nodiscard]] Seconds min_time(int first, int last, int submesh, Costs costs) const;
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const StageSearchOptions& options() const { return options_; }

 private:
  [[nodiscard]] SpanCosts span_costs(int mesh, const StageCostOptions& options) const;
  void solve_meshes(const CostModel& costs);
  void note_mesh(int mesh);
  [[nodiscard]] SpanNumbers number_spans() const;
  [[nodiscard]] bool usable(int mesh) const { return meshes_[mesh] && !meshes_[mesh]->impossible(); }

  const StepStructure& structure_;
  const Cluster& cluster_;
  StageSearchOptions options_;
  std::vector<Submesh> submeshes_;
  std::vector<MeshRequest> wanted_;
  IndexedVector<int, std::optional<MeshSpans>> meshes_;    // [wanted]; nullopt: interrupted before
  IndexedVector<int, std::optional<SpanCosts>> replaced_;  // [wanted] what replaces the costs of meshes_, if anything
  IndexedVector<int, std::vector<int>> meshes_of_;         // [submesh] usable ones
  SpanNumbers spans_;                                      // those of one number have the same costs on all meshes
  int options_per_mesh_ = 0;                               // the maximum over meshes
  std::int64_t entries_ = 0;
  std::vector<std::string> reasons_;
  bool interrupted_ = false;
};

}  // namespace meshwright
