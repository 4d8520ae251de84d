// SPDX-License-Identifier: Apache-2.0
// A point of the search is one cut into layers and one number of micro-batches. prepare_point lists the steps that lead
// to the costs of its stages; which pipeline is the best is left to PointSearch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/search/candidates.h"
#include "core/planner/search/search_context.h"
#include "core/planner/search/stage_space.h"

namespace meshwright {

struct SearchPoint {
  std::optional<int> layers;  // nullopt: default_layer_count
  LayerOptions layer_cut;
  std::int64_t microbatches = 1;
  bool operator==(const SearchPoint&) const = default;
};

// The step's graph, cut into layers.
struct ModelCut {
  TrainingOptions training;  // with the point's number of micro-batches
  std::shared_ptr<const ModelGraphs> graphs;
  std::shared_ptr<const Graph> graph;  // their own
  Layers layers;
  std::string fingerprint;  // of the graph

  [[nodiscard]] std::vector<int> layer_starts() const;  // positions among the forward ops
};

// The same model with another recomputation; its layers have the same forward ops.
struct RecomputeVariant {
  Recompute recompute;
  std::shared_ptr<const Graph> graph;
  Layers layers;
  std::unique_ptr<StepStructure> structure;
};

struct ModelStructure {
  std::unique_ptr<StepStructure> own;
  std::vector<RecomputeVariant> variants;  // empty unless each layer's recomputation is searched
};

// The costs of every span of layers on every logical mesh, for devices with this much memory.
struct PointSpans {
  Bytes memory{0.0};                               // 0: what each kind of device has
  std::unique_ptr<const StageProfileTable> known;  // what the request's stage profile has of these spans; or null
  std::unique_ptr<StageSearch> search;
  std::unique_ptr<CandidateRanking> ranking;
};

// No step of the point takes less: with stored stage costs where there are any, and with modelled costs alone. Where
// the time of a Run depends on its work, `known` holds of the stages alone and `modelled` is none.
struct PointBounds {
  Seconds known{0.0}, modelled{0.0};
};

struct CoarserCut {
  int layers;
  std::vector<bool> borders;  // [layer] whether a stage of the coarser cut may begin with it
};

// What the steps made. Each member refers to those before it.
struct Point {
  std::shared_ptr<const ModelCut> cut;  // shared with the plans made of it
  std::shared_ptr<const ModelStructure> structure;
  StageSpace space;
  PointSpans spans;
  PointBounds bounds;
  // The cut of which each layer is four of this one's, where programs are large and the search chooses the
  // number of layers.
  std::optional<CoarserCut> coarser = {};
  std::optional<Seconds> to_beat = {};  // of prepare_point

  [[nodiscard]] int layers() const { return cut->layers.count; }
  [[nodiscard]] std::int64_t microbatches() const { return cut->training.microbatches; }
};

// What the step log is told of them.
[[nodiscard]] std::string summary_of(const std::shared_ptr<const ModelCut>& cut);
[[nodiscard]] std::string summary_of(const std::shared_ptr<const ModelStructure>& structure);
[[nodiscard]] std::string summary_of(const PointSpans& spans);
[[nodiscard]] std::string summary_of(const PointBounds& bounds);

// A cut and its structure, which points of one number of micro-batches and one recomputation share.
struct GivenModel {
  std::shared_ptr<const ModelCut> cut;
  std::shared_ptr<const ModelStructure> structure;
};
// The steps cut and structure. Throws InputError when the batch does not divide or the method does not fit.
[[nodiscard]] GivenModel given_model(SearchContext& context, const SearchPoint& at);
// These two, span and bound. Throws as given_model. `to_beat`: pipelines whose stages alone take at least as long are
// not asked for, and stages that only they have get no costs.
[[nodiscard]] Point prepare_point(SearchContext& context, const SearchPoint& at,
                                  std::optional<Seconds> to_beat = std::nullopt);
// The same of a model that given_model made of the point.
[[nodiscard]] Point prepare_point(SearchContext& context, const SearchPoint& at, GivenModel model,
                                  std::optional<Seconds> to_beat = std::nullopt);
// The step `span` of a method that gives its stages, as if memory had no limit: each stage has its fastest sharding.
// Throws as prepare_point. REQUIRES: the model is of a request with the same training, micro-batches and layers.
[[nodiscard]] Point prepare_given_point(SearchContext& context, GivenModel model);
// The stages that the method gives, each with the fastest sharding found. REQUIRES: the method gives stages
// (StageSpace::fixed), or has one.
[[nodiscard]] TablePipeline given_pipeline(const PlanRequest& request, const Point& point);

// What the request lets ops and parameters do on a mesh, and what of it hides under the evaluator's conditions.
using RulesOnMesh = std::function<IntraOpRules(const LogicalMesh&)>;
// REQUIRES: the request outlives the function.
[[nodiscard]] RulesOnMesh rules_for(const PlanRequest& request, const Graph& graph, const CostModel& costs,
                                    const PlanEvaluator& evaluator);

// Whether programs of so many micro-batches take long to lower: then few of them are. If so even with one sample in
// each, fewer shardings and pipelines are offered as well.
[[nodiscard]] bool is_large(const PlanRequest& request, std::int64_t microbatches);

// The step `span` alone, for one-stage methods that ask for another amount of memory. With `way`, an index into what
// each layer's recomputation is chosen from: every layer is recomputed so. `only_from`: as of
// StageSearchOptions. `to_beat`: as of prepare_point.
[[nodiscard]] PointSpans cost_spans(SearchContext& context, const ModelCut& cut, const ModelStructure& structure,
                                    const StageSpace& space, Bytes memory, const std::vector<int>& only_from = {},
                                    std::optional<int> way = std::nullopt,
                                    std::optional<Seconds> to_beat = std::nullopt);

// A part of a point's stages: what a narrower request would choose from.
struct Subspace {
  const std::vector<bool>* meshes = nullptr;  // StageSpace::narrower; null: all
  std::optional<int> way = {};                // of StageSearchOptions::variants alone; nullopt: all
  int fewer_hosts = 1;                        // devices of one in so many hosts of each kind
  const CoarserCut* cut = nullptr;            // stages between its borders; null: all

  [[nodiscard]] bool is_whole() const { return meshes == nullptr && !way && cut == nullptr; }
};
// The narrower requests whose plans a search of this point has to match, the narrowest first; the last is the point
// itself.
[[nodiscard]] std::vector<Subspace> subspaces_of(const Point& point);

// The step `cost`: the stage table when devices have this share of their memory. Where the method gives the stages,
// only those have entries.
[[nodiscard]] StageTable stage_table(const SearchContext& context, const Point& point, double memory_share,
                                     StageSearch::Keep keep = StageSearch::Keep::Best, const Subspace& of = {});
// The same as a part of another step.
[[nodiscard]] StageTable make_stage_table(const Point& point, double memory_share, StageSearch::Keep keep,
                                          const Subspace& of);

// What the table's devices have is from now on this share of their memory.
void set_memory_share(StageTable& table, const Point& point, double memory_share);

// The costs of the point's spans as a table to be stored, under the key of this search.
[[nodiscard]] StageProfileTable stage_profile_of(const PlanRequest& request, const Point& point);

[[nodiscard]] CandidateRequest candidate_request(SearchContext& context, const Point& point, ScheduleKind schedule,
                                                 const Subspace& of = {});

// The fewest layers of which the schedule makes a pipeline: two ranks with all their stages.
[[nodiscard]] int least_layers(const PlanRequest& request, ScheduleKind schedule);
// One sentence on why the schedule does not suit the model, the method or the cluster; nullopt: it does.
[[nodiscard]] std::optional<std::string> why_unsuitable(const PlanRequest& request, const Point& point,
                                                        ScheduleKind schedule);

// What the best pipeline of `own` would cost (T of stage_dp.h) with another number of micro-batches: each stage's times
// and saved bytes change with the samples of a micro-batch as they do from `own` to `other`. nullopt: no pipeline fits
// into that share of the memory by the table's estimate.
// REQUIRES: the points have the same layers and different numbers of micro-batches.
[[nodiscard]] std::optional<Seconds> predict_point(SearchContext& context, const Point& own, const Point& other,
                                                   std::int64_t microbatches, ScheduleKind schedule,
                                                   double memory_share = 1.0);

}  // namespace meshwright
