// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/point_search.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/stage_graph.h"
#include "core/planner/pipeline/pipeline_bound.h"

namespace meshwright {

PointSearch::PointSearch(Incumbent& incumbent, const SearchPoint& point)
    : incumbent_(incumbent), request_(incumbent.request), training_(incumbent.request.training) {
  training_.microbatches = point.microbatches;
  if (request_.any_recompute) training_.recompute = Recompute::None;
  graph_ = std::make_shared<const Graph>(build_step_graph(request_.model, training_, request_.schedule));
  check_forced(*graph_, request_.method.forced);
  check_forced(*graph_, request_.forced);
  check_axes(request_.method, *graph_);
  layers_ = make_layers(*graph_, point.layer_options, point.layers, request_.method);
  if (!request_.recompute_layers.empty()) {
    set_recompute(training_, layers_, *graph_,
                  recompute_of_layers(request_.recompute_layers, training_.recompute, layers_.count));
    graph_ = std::make_shared<const Graph>(build_step_graph(request_.model, training_, request_.schedule));
    layers_ = assign_layers(*graph_, layer_starts());
  }
  incumbent_.say("{} layers, {} micro-batches: pricing stages", layers_.count, point.microbatches);
  structure_ = std::make_unique<StepStructure>(*graph_, layers_);
  if (request_.any_recompute && request_.schedule != ScheduleKind::Inference) make_variants();
  space_ = stage_space(request_, layers_.count);
  if (request_.batch_axis) {
    std::size_t axes = 0;
    for (const auto& mesh : space_.meshes) axes = std::max(axes, mesh.shape.size());
    require(*request_.batch_axis < static_cast<int>(axes),
            "the batch is to be split over mesh axis {}, but the logical meshes have axes 0..{}; choose one of them.",
            *request_.batch_axis, axes - 1);
  }
  price(request_.method.one_stage() ? request_.cluster.usable_memory() : Bytes(0.0));
  if (!request_.any_schedule) expect_suitable(request_.schedule);
  ++incumbent_.result.log.points;
  if (search_->interrupted()) return;
  const Ranks ranks = may_be_chunked() ? Ranks::AnyStages : Ranks::OneStageEach;
  bound_ = pipeline_bound(*search_, StageSearch::Costs::Known, ranks);
  modelled_bound_ = search_->has_known_costs() ? pipeline_bound(*search_, StageSearch::Costs::Modelled, ranks) : bound_;
}

PointSearch::~PointSearch() = default;

void PointSearch::make_variants() {
  for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
    TrainingOptions training = training_;
    training.recompute = recompute;
    variants_.push_back({build_step_graph(request_.model, training, request_.schedule), {}, nullptr});
  }
  for (Variant& variant : variants_) {
    variant.layers = assign_layers(variant.graph, layer_starts());
    variant.structure = std::make_unique<StepStructure>(variant.graph, variant.layers);
  }
}

const PointSearch::Built& PointSearch::graph_of(const Plan& plan) {
  std::string key = name_of(plan.training.recompute);
  for (const RecomputeRange& range : plan.training.recompute_ranges)
    key += fmt::format(" {}-{} {}", range.first, range.last, name_of(range.recompute));
  Built& built = graphs_[key];
  if (!built.graph) {
    const bool own =
        plan.training.recompute == training_.recompute && plan.training.recompute_ranges == training_.recompute_ranges;
    built.graph =
        own ? graph_ : std::make_shared<const Graph>(build_step_graph(plan.model, plan.training, request_.schedule));
    built.fingerprint = fingerprint_of(*built.graph);
  }
  return built;
}

StageProfileKey PointSearch::key_of(Bytes memory) const {
  StageProfileKey key = stage_profile_key(request_.model, *graph_, training_, request_.cluster, layers_);
  key.numbering = StageProfileKey::Numbering{
      stage_profile_rules(request_.method, request_.forced, request_.batch_axis, request_.any_recompute),
      name_of(request_.schedule), training_.microbatches, memory, request_.cost_fingerprint};
  return key;
}

// Of 1F1B as many as there are stages, of GPipe all; what ranks of several stages hold is not known of one of them.
double PointSearch::most_in_flight() const {
  const auto all = static_cast<double>(training_.microbatches), stages = static_cast<double>(layers_.count);
  if (request_.any_schedule) return all;
  if (traits_of(request_.schedule).chunks != 1) return 0.0;
  switch (request_.schedule) {
    case ScheduleKind::GPipe:
      return all;
    case ScheduleKind::EagerOneFOneB:
    case ScheduleKind::ZeroBubbleH2:
      return std::min(all, 2.0 * stages);
    default:
      return std::min(all, stages);
  }
}

bool PointSearch::may_be_chunked() const {
  return request_.method.kind == Method::Kind::Pipeshard &&
         (request_.any_schedule || traits_of(request_.schedule).chunks != 1);
}

std::optional<std::string> PointSearch::why_unsuitable(ScheduleKind schedule) const {
  const ScheduleTraits traits = traits_of(schedule);
  const char* name = name_of(schedule);
  if ((traits.line || traits.splits_backward) && !request_.method.one_stage() && !ranking_->is_line())
    return fmt::format(
        "schedule {} needs stages that feed one the next, and model {} has layers that do not wait for one another; "
        "choose 1f1b, eager-1f1b or gpipe.",
        name, request_.model.name);
  if (traits.chunks == 1) return std::nullopt;
  const int chunks = traits.chunks ? *traits.chunks : std::max(2, request_.chunks);
  if (request_.method.kind != Method::Kind::Pipeshard)
    return fmt::format(
        "schedule {} has several stages on each device, and method '{}' says what the stages are; choose method "
        "pipeshard or another schedule.",
        name, request_.method.text);
  int most_ranks = 0;
  for (const Submesh& submesh : space_.submeshes)
    most_ranks = std::max(most_ranks, request_.cluster.group(submesh.group).devices() / submesh.devices());
  if (most_ranks < 2)
    return fmt::format(
        "schedule {} needs at least 2 like groups of devices with {} stages on each, and {} has {} device{}; give more "
        "devices or another schedule.",
        name, chunks, request_.cluster.name, request_.cluster.devices(), request_.cluster.devices() == 1 ? "" : "s");
  if (layers_.count < 2 * chunks)
    return fmt::format(
        "schedule {} needs at least {} layers, {} stages on each of 2 groups of devices, and the model is cut into {}; "
        "ask for more layers, fewer stages or another schedule.",
        name, 2 * chunks, chunks, layers_.count);
  return std::nullopt;
}

void PointSearch::expect_suitable(ScheduleKind schedule) const {
  if (const auto why = why_unsuitable(schedule)) throw InputError(*why);
}

void PointSearch::price(Bytes memory) {
  memory_ = memory;
  StageCostOptions stage_costs{.known = nullptr, .mode = request_.stage_profile_mode, .costs = request_.stage_costs};
  if (request_.stage_profile != nullptr) {
    known_ = request_.stage_profile->serving(key_of(memory));
    if (known_->empty()) {
      incumbent_.last_key = known_->key();
    } else {
      stage_costs.known = &*known_;
      incumbent_.profile_served = true;
    }
  }
  std::vector<StepVariant> variants;
  if (!variants_.empty())
    variants = {{Recompute::None, structure_.get()},
                {Recompute::Selective, variants_[0].structure.get()},
                {Recompute::Full, variants_[1].structure.get()}};
  const StageSearchOptions options{.microbatches = training_.microbatches,
                                   .schedule = request_.schedule,
                                   .usable_memory = memory,
                                   .rules = [this](const LogicalMesh& mesh) { return rules(mesh); },
                                   .variants = std::move(variants),
                                   .one_stage = request_.method.one_stage(),
                                   .most_in_flight = request_.front ? 0.0 : most_in_flight(),
                                   .hosts_apart = request_.cluster.hosts() > 1,
                                   .stage_costs = stage_costs,
                                   .threads = request_.threads,
                                   .stop = request_.stop};
  search_ = std::make_unique<StageSearch>(*structure_, request_.cluster, incumbent_.costs, space_.submeshes,
                                          space_.meshes, options);
  ranking_ = std::make_unique<CandidateRanking>(*structure_, *search_, request_.cluster, incumbent_.costs,
                                                incumbent_.evaluator);
  incumbent_.result.log.stages_priced += search_->entries();
  if (search_->interrupted()) incumbent_.result.log.interrupted = true;
}

IntraOpRules PointSearch::rules(const LogicalMesh& mesh) const {
  IntraOpRules found = rules_of(request_.method, mesh.shape());
  if (request_.batch_axis && *request_.batch_axis < mesh.rank() &&
      mesh.axes[static_cast<std::size_t>(*request_.batch_axis)].size() > 1)
    force_batch_axis(found, *request_.batch_axis);
  for (const auto& [name, spec] : request_.forced) found.forced[name] = spec;
  return found;
}

// Where stages are given, of those alone.
StageTable PointSearch::prices(double memory_share, StageSearch::Keep keep) const {
  if (space_.fixed.empty()) return search_->table(memory_share, keep);
  return search_->table(memory_share, keep, [this](int first, int last, const StageSearch::MeshRequest& mesh) {
    return std::any_of(space_.fixed.begin(), space_.fixed.end(), [&](const Method::ManualStage& stage) {
      return stage.first_layer == first && stage.last_layer == last && stage.logical_shape == mesh.shape &&
             stage.batch_axis == mesh.batch_axis &&
             stage.submesh == search_->submeshes()[static_cast<std::size_t>(mesh.submesh)];
    });
  });
}

bool PointSearch::run(ScheduleKind schedule) {
  if (search_->interrupted()) return false;
  if (request_.method.one_stage()) return run_one_stage(schedule);
  return run_pipeline(schedule);
}

std::vector<int> PointSearch::layer_starts() const {
  std::vector<int> starts;
  int position = 0;
  for (const auto& ops : layers_.forward) {
    starts.push_back(position);
    position += static_cast<int>(ops.size());
  }
  return starts;
}

std::optional<Plan> PointSearch::make(const TablePipeline& pipeline, ScheduleKind schedule) {
  Plan plan;
  plan.model = request_.model;
  plan.training = training_;
  plan.cluster = request_.cluster;
  plan.method = request_.method.text;
  plan.schedule = schedule;
  plan.layer_starts = layer_starts();
  std::vector<Recompute> recompute;  // [layer]
  for (const TableStage& stage : pipeline.stages) {
    const StageChoice choice = search_->choice(stage.slice, stage.config);
    plan.stages.push_back(search_->plan(stage.first, stage.last, choice));
    const auto own = search_->spans(choice).recompute(stage.first, stage.last, choice.option);
    recompute.insert(recompute.end(), own.begin(), own.end());
  }
  if (!variants_.empty()) set_recompute(plan.training, layers_, *graph_, recompute);
  plan.graph_fingerprint = graph_of(plan).fingerprint;
  const auto placed = ranking_->place(pipeline, schedule, training_.microbatches);
  if (!placed) return std::nullopt;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].devices = (*placed)[s];
  return plan;
}

}  // namespace meshwright
