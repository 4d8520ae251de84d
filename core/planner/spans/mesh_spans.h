// SPDX-License-Identifier: Apache-2.0
// The costs and shardings of every span of layers on one logical mesh, from fastest to smallest.
//
// Layers are solved one by one, given the specs of the tensors that cross their borders; equal layers once
// (layer_classes.h, layer_solver.h). A span's best sharding is a shortest path over border states (span_solver.h).
// Several memory prices give several options for each span: each is optimal for some trade of time against bytes (a
// point of the lower convex hull). Where layers choose what they recompute, there are options between these points as
// well (recompute_levels.h). A single stage is fitted to the memory instead (memory_fit.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/intra_op/known_ops.h"
#include "core/planner/intra_op/layer_model.h"
#include "core/planner/spans/span_budget.h"
#include "core/planner/spans/stage_costs.h"
#include "core/schedule/schedule.h"
#include "core/solver/solve_between.h"

namespace meshwright {

// What the search for stages is told beside the model and the cluster.
struct StageSearchOptions {
  std::int64_t microbatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Bytes usable_memory{0.0};
  std::function<IntraOpRules(const LogicalMesh& mesh)> rules = {};
  // The ways to recompute that each layer chooses from: the structure given beside the options is among them. Empty: as
  // that structure's graph has it.
  std::vector<StepVariant> variants = {};
  // All layers form one stage: only that span is solved, and its memory price is searched until the bytes fit exactly.
  bool one_stage = false;
  // No stage of a pipeline has more microbatches in flight; nullopt: not known. Where memory is no limit with as many,
  // only the fastest sharding of each span is found.
  std::optional<double> max_in_flight = {};
  // The first layers of the only spans that are wanted, each with its fastest sharding, whatever memory that needs;
  // empty: all spans. Nothing else may then be asked for, and no bound is known.
  std::vector<int> only_from = {};
  // What has only_from: an option for each of these. REQUIRES: Share comes first, or `variants` is empty.
  std::vector<StepWeight> only_weights = {StepWeight::Share};
  // Spans that take longer for a micro-batch at least have no costs, as no stage of a plan that is looked for does;
  // nullopt: no span takes too long.
  std::optional<Seconds> max_time = {};
  // Spans that are a stage of no pipeline have no costs (StageSearch): those that leave no device for the other layers.
  bool only_possible = false;
  // MeshSpans: the mesh has all devices, so that the span of all layers is the only possible one.
  bool only_whole = false;
  // A tensor that several ops of a layer read in one spec is resharded once for all of them, as programs do it.
  bool once_per_value = false;
  // Offer the best shardings of every span for each StepWeight: they differ in what is done once per step, which hides
  // where a stage ends before the others.
  bool every_step_weight = false;
  // Some schedule splits the backward: what is held between the halves tells stages apart, and every_step_weight means
  // StepWeight::Late, too.
  bool splits_backward = false;
  bool hosts_apart = false;           // the cluster has several hosts: stages may receive across them
  StageCostOptions stage_costs = {};  // costs that replace modelled ones
  int threads = 1;
  // Shared by all meshes: how layers are eliminated depends on no costs.
  BetweenSolver::Known eliminations = std::make_shared<elimination::KnownSteps>();
  // What equal ops of other cuts of the same graphs cost, under the same rules: of all meshes of a search, and on the
  // mesh of MeshSpans. nullptr: nothing is known.
  std::shared_ptr<KnownOps> known_ops = nullptr;
  KnownOps::OnMesh* known_on_mesh = nullptr;
  // Called before each mesh is solved; true: the rest is left out (StageSearch::interrupted).
  std::function<bool()> stop = {};
};

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
  // REQUIRES: the span has costs, as all do but those that the options leave out.
  [[nodiscard]] const StepCost& cost(int first, int last, int option) const;
  [[nodiscard]] bool has_costs(int first, int last) const;
  [[nodiscard]] std::int64_t spans_with_costs() const;
  // Spans with equal marks have the same cost in every option, [row of the upper triangle, (0, 0), (0, 1), ...].
  // REQUIRES: all spans are solved.
  [[nodiscard]] std::vector<int> span_marks() const;
  // No sharding of the span takes less per microbatch, whatever its memory: forward + backward + step / microbatches.
  [[nodiscard]] Seconds min_time(int first, int last) const;
  [[nodiscard]] StagePlan plan(int first, int last, int option) const;
  // Every layer is recomputed in this one of StageSearchOptions::variants, as if the search knew no other; nullopt: the
  // option is of several, or there are no variants. Options of one way are those of a search with that way alone.
  [[nodiscard]] std::optional<int> way(int option) const;
  // [layer first..last]: its choice of StageSearchOptions::variants; empty without variants.
  [[nodiscard]] std::vector<Recompute> recompute(int first, int last, int option) const;
  // The specs of the tensors that cross the border before the span, and of those that cross the border after it, in the
  // order of StepStructure::crossing.
  [[nodiscard]] const std::vector<ShardingSpec>& entering(int first, int last, int option) const;
  [[nodiscard]] const std::vector<ShardingSpec>& leaving(int first, int last, int option) const;
  // one_stage: no sharding of the whole that fits the memory (as the layer models count it) takes less per microbatch;
  // by Lagrangian relaxation of the memory limit. Otherwise the same as min_time(0, layers - 1).
  [[nodiscard]] Seconds bound() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
