// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/point.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/planner/pipeline/pipeline_bound.h"

namespace meshwright {

namespace {

// The search's work grows with the ops, and where layers are cut, with their square: beyond this it takes many minutes.
void require_size(const Graph& graph) {
  constexpr std::size_t kMaxForwardOps = std::size_t{1} << 15;
  const std::size_t ops = forward_ops(graph).size();
  require(ops <= kMaxForwardOps, "{} has {} forward ops; at most {} can be planned. Give a model of fewer layers.",
          graph.name, ops, kMaxForwardOps);
}

std::shared_ptr<const ModelCut> cut_model(const PlanRequest& request, KnownGraphs& graphs, const SearchPoint& at) {
  auto cut = std::make_shared<ModelCut>();
  cut->graphs = graphs.of(request, at.microbatches);
  cut->training = cut->graphs->training;
  const Graph& graph = *cut->graphs->own;
  require_size(graph);
  // Names that the user gave are checked here, before any cost is computed.
  check_forced(graph, request.search.method.forced);
  check_forced(graph, request.search.forced);
  check_axes(request.search.method, graph);
  const RecomputeModules modules = request.search.recompute_modules;
  require(modules == RecomputeModules::None || !recomputed_modules(graph, modules).empty(),
          "recompute modules '{}': the blocks of {} have none of them; expected others of core_attn, layernorm, "
          "moe_act, mla_up_proj, mlp, moe and shared_experts.",
          name_of(modules), graph.name);
  cut->layers = make_layers(graph, at.layer_cut, at.layers, request.search.method);
  if (!request.search.recompute_layers.empty()) {
    // Recomputation is asked for by layer, and layers are cut from a graph: the second graph has it.
    const std::vector<int> starts = cut->layer_starts();
    set_recompute(cut->training, cut->layers, graph,
                  recompute_of_layers(request.search.recompute_layers, cut->training.recompute, cut->layers.count));
    cut->graphs = model_graphs(request, cut->training);
    cut->layers = assign_layers(*cut->graphs->own, starts);
  }
  cut->graph = cut->graphs->own;
  cut->fingerprint = cut->graphs->fingerprint;
  return cut;
}

std::shared_ptr<const ModelStructure> find_structure(const PlanRequest& request, const ModelCut& cut) {
  auto structure = std::make_shared<ModelStructure>();
  for (const auto& [recompute, graph] : cut.graphs->variants)
    structure->variants.push_back({recompute, graph, {}, nullptr});
  // The structures refer to the layers, which no longer move.
  for_each_index(1 + structure->variants.size(), request.threads, [&](std::size_t i) {
    if (i == 0) {
      structure->own = std::make_unique<StepStructure>(*cut.graph, cut.layers);
      return;
    }
    RecomputeVariant& variant = structure->variants[i - 1];
    variant.layers = assign_layers(*variant.graph, cut.layer_starts());
    variant.structure = std::make_unique<StepStructure>(*variant.graph, variant.layers);
  });
  return structure;
}

StageSpace find_space(const PlanRequest& request, const ModelCut& cut) {
  StageSpace space = stage_space(request, cut.layers.count);
  if (!request.search.batch_axis) return space;
  std::size_t axes = 0;
  for (const auto& mesh : space.meshes) axes = std::max(axes, mesh.shape.size());
  require(*request.search.batch_axis < static_cast<int>(axes),
          "the batch is to be split over mesh axis {}, but the logical meshes have axes 0..{}; choose one of them.",
          *request.search.batch_axis, axes - 1);
  return space;
}

// The largest number of micro-batches that a stage may hold: 1F1B keeps one per remaining stage, GPipe all.
// nullopt: not known; a rank with several stages holds more than each of them.
std::optional<double> max_in_flight(const PlanRequest& request, const ModelCut& cut) {
  const auto all = static_cast<double>(cut.training.microbatches), stages = static_cast<double>(cut.layers.count);
  if (request.any_schedule()) return all;
  if (traits_of(request.first_schedule()).chunks != 1) return std::nullopt;
  switch (request.first_schedule()) {
    case ScheduleKind::GPipe:
      return all;
    // These keep at most two micro-batches per remaining stage.
    case ScheduleKind::EagerOneFOneB:
    case ScheduleKind::ZeroBubbleH2:
      return std::min(all, 2.0 * stages);
    default:
      return std::min(all, stages);
  }
}

// [group] what one of its devices would compute alone in a micro-batch's backward, per byte of the model's parameters.
using HidingOf = std::vector<SecondsPerByte>;

HidingOf find_hiding(const PlanRequest& request, const Graph& graph, const CostModel& costs) {
  HidingOf found;
  Bytes parameters(1.0);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) parameters += tensor.bytes();
  for (int g = 0; g < static_cast<int>(request.cluster.groups.size()); ++g) {
    Seconds backward(0.0);
    for (const Op& op : graph.ops()) {
      if (op.phase != Phase::Backward) continue;
      const IterationSpace space = iteration_space(graph, op);
      std::vector<std::int64_t> sizes;
      for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
      backward += costs.on(g).compute(op_work(graph, op, space, sizes)).time;
    }
    found.emplace_back(backward.si() / parameters.si());
  }
  return found;
}

IntraOpRules rules_on(const PlanRequest& request, const LogicalMesh& mesh, const HidingOf& hiding, int ahead) {
  IntraOpRules rules = rules_of(request.search.method, mesh.shape());
  if (!hiding.empty()) {
    const double alone = hiding[static_cast<std::size_t>(mesh.of.group)].si();
    rules.hiding = {true, ahead, SecondsPerByte(alone / mesh.devices())};
  }
  // On an axis of one device there is nothing to split.
  if (request.search.batch_axis && *request.search.batch_axis < mesh.rank() &&
      mesh.axes[*request.search.batch_axis].size() > 1)
    force_batch_axis(rules, *request.search.batch_axis);
  // Last, so that the user's specs override the method's.
  for (const auto& [name, spec] : request.search.forced) rules.forced[name] = spec;
  return rules;
}

StageProfileKey profile_key(const PlanRequest& request, const ModelCut& cut, Bytes memory) {
  StageProfileKey key = stage_profile_key(request.model, *cut.graph, cut.training, request.cluster, cut.layers);
  // What hides under conditions costs less.
  std::string costs = request.stage_profile.cost_fingerprint;
  for (const auto& [option, value] : request.conditions) costs += fmt::format(" {}={}", option, value);
  // All that decides which sharding has which option number.
  key.numbering =
      StageProfileKey::Numbering{stage_profile_rules(request.search.method, request.search.forced,
                                                     request.search.batch_axis, request.any_recompute()),
                                 name_of(request.first_schedule()), cut.training.microbatches, memory, costs};
  return key;
}

bool may_be_chunked(const PlanRequest& request) {
  return !request.search.method.one_stage() &&
         (request.any_schedule() || traits_of(request.first_schedule()).chunks != 1);
}

PointBounds find_bounds(const PlanRequest& request, const StageSearch& search, const CostModel& costs, bool hides) {
  // What hides behind computation takes no time of its own, and stage costs are an estimate of what is left of it.
  if (search.interrupted() || hides) return {};
  // The bound has to hold for ranks with several stages where the search may choose them.
  const Ranks ranks = may_be_chunked(request) ? Ranks::AnyStages : Ranks::OneStageEach;
  PointBounds bounds;
  bounds.known = pipeline_bound(search, StageSearch::Costs::Known, ranks);
  // A software computes some ops as one and hides what others wait for: its Runs may take less than their parts.
  if (!costs.run_depends_on_work())
    bounds.modelled =
        search.has_known_costs() ? pipeline_bound(search, StageSearch::Costs::Modelled, ranks) : bounds.known;
  return bounds;
}

std::int64_t entries_of(const StageTable& table) {
  const auto per_number = static_cast<std::ptrdiff_t>(table.slices().size()) * table.configs();
  std::vector<std::int64_t> entries;  // [number of a span]
  for (auto cost = table.costs().begin(); cost != table.costs().end(); cost += per_number)
    entries.push_back(std::count_if(cost, cost + per_number, [](const auto& of) { return of.has_value(); }));
  std::int64_t all = 0;
  for (int first = 0; first < table.layers(); ++first)
    for (int last = first; last < table.layers(); ++last) all += entries[table.spans().of(first, last)];
  return all;
}

}  // namespace

RulesOnMesh rules_for(const PlanRequest& request, const Graph& graph, const CostModel& costs,
                      const PlanEvaluator& evaluator) {
  const HidingOf hiding = evaluator.hides_communication() ? find_hiding(request, graph, costs) : HidingOf{};
  return [&request, hiding, ahead = evaluator.gathers_ahead()](const LogicalMesh& mesh) {
    return rules_on(request, mesh, hiding, ahead);
  };
}

std::vector<int> ModelCut::layer_starts() const {
  std::vector<int> starts;
  int position = 0;
  for (const auto& ops : layers.forward) {
    starts.push_back(position);
    position += static_cast<int>(ops.size());
  }
  return starts;
}

bool is_large(const PlanRequest& request, std::int64_t microbatches) {
  constexpr std::int64_t kLarge = 2048;  // devices times micro-batches
  return request.cluster.devices() * microbatches > kLarge;
}

StageProfileTable stage_profile_of(const PlanRequest& request, const Point& point) {
  return point.spans.search->profile(profile_key(request, *point.cut, point.spans.memory));
}

PointSpans cost_spans(SearchContext& context, const ModelCut& cut, const ModelStructure& structure,
                      const StageSpace& space, Bytes memory, const std::vector<int>& only_from, std::optional<int> way,
                      std::optional<Seconds> to_beat) {
  const PlanRequest& request = context.request;
  const auto run = [&] {
    PointSpans spans{memory, nullptr, nullptr, nullptr};
    StageCostOptions stage_costs{
        .known = nullptr, .mode = request.stage_profile.mode, .costs = request.stage_profile.costs};
    if (request.stage_profile.file != nullptr) {
      spans.known = std::make_unique<const StageProfileTable>(
          request.stage_profile.file->serving(profile_key(request, cut, memory)));
      if (!spans.known->empty()) stage_costs.known = spans.known.get();
    }
    std::vector<StepVariant> variants;
    if (!structure.variants.empty()) variants.push_back({Recompute::None, structure.own.get()});
    for (const RecomputeVariant& variant : structure.variants)
      variants.push_back({variant.recompute, variant.structure.get()});
    if (way) variants = {variants[*way]};
    // Other methods say what is split: it is not to differ from stage to stage.
    const Method::Kind method = request.search.method.kind;
    const bool is_free = method == Method::Kind::Pipeshard || method == Method::Kind::Shard;
    const bool every_weight = is_free && !is_large(request, cut.training.batch);
    const bool may_split = request.any_schedule() || traits_of(request.first_schedule()).splits_backward;
    // A stored profile is of all spans, and stored costs may be less than any that is modelled.
    const bool every_span = request.stage_profile.keep || stage_costs.replace() || !space.fixed.empty();
    if (every_span) to_beat = std::nullopt;
    const auto microbatches = static_cast<double>(cut.training.microbatches);
    // One stage is costed for several amounts of memory.
    const bool is_cut_anew = is_auto(request.search.layers) || request.search.method.one_stage();
    const StageSearchOptions options{.microbatches = cut.training.microbatches,
                                     .schedule = request.first_schedule(),
                                     .usable_memory = memory,
                                     .rules = rules_for(request, *cut.graph, context.costs, context.evaluator),
                                     .variants = std::move(variants),
                                     .one_stage = request.search.method.one_stage(),
                                     .max_in_flight = request.goal.front ? std::nullopt : max_in_flight(request, cut),
                                     .only_from = only_from,
                                     .max_time = to_beat ? std::optional(*to_beat / microbatches) : std::nullopt,
                                     .only_possible = !every_span,
                                     .every_step_weight = every_weight,
                                     .splits_backward = may_split,
                                     .hosts_apart = request.cluster.hosts() > 1,
                                     .stage_costs = stage_costs,
                                     .threads = request.threads,
                                     .eliminations = context.eliminations,
                                     .known_ops = is_cut_anew ? context.ops_of(cut.graphs) : nullptr,
                                     .stop = request.stop};
    spans.search = std::make_unique<StageSearch>(*structure.own, request.cluster, context.costs, space.submeshes,
                                                 space.meshes, options);
    spans.ranking = std::make_unique<CandidateRanking>(*structure.own, *spans.search, request.cluster, context.costs,
                                                       context.evaluator);
    return spans;
  };
  PointSpans spans = context.step("span", run);
  context.log.stages_costed += spans.search->entries();
  if (spans.search->interrupted()) context.log.interrupted = true;
  return spans;
}

std::string summary_of(const std::shared_ptr<const ModelCut>& cut) {
  return fmt::format("{} layers, {} ops, {} micro-batches", cut->layers.count, cut->graph->ops().size(),
                     cut->training.microbatches);
}

std::string summary_of(const std::shared_ptr<const ModelStructure>& structure) {
  return fmt::format("{} choices of recomputation", 1 + structure->variants.size());
}

std::string summary_of(const PointSpans& spans) {
  return fmt::format("{} meshes, {} options", spans.search->meshes().size(), spans.search->entries());
}

std::string summary_of(const PointBounds& bounds) {
  return fmt::format("no step below {}", human_seconds(bounds.known));
}

namespace {

// The step `span`. `given`: only of the stages that the method gives.
Point prepare_spans(SearchContext& context, GivenModel model, Bytes memory, bool given,
                    std::optional<Seconds> to_beat = std::nullopt) {
  const PlanRequest& request = context.request;
  Point point;
  point.cut = std::move(model.cut);
  point.structure = std::move(model.structure);
  point.space = find_space(request, *point.cut);
  std::vector<int> only_from;
  if (given)
    for (const Method::ManualStage& stage : point.space.fixed) only_from.push_back(stage.first_layer);
  point.spans =
      cost_spans(context, *point.cut, *point.structure, point.space, memory, only_from, std::nullopt, to_beat);
  // A schedule that the user chose must suit the model. When all schedules are searched, PointSearch::rank drops those
  // that do not.
  if (!request.any_schedule())
    if (const auto why = why_unsuitable(request, point, request.first_schedule())) throw InputError(*why);
  return point;
}

}  // namespace

GivenModel given_model(SearchContext& context, const SearchPoint& at) {
  GivenModel model;
  model.cut = context.step("cut", [&] { return cut_model(context.request, context.graphs, at); });
  context.say("{} layers, {} micro-batches: computing stage costs{}", model.cut->layers.count, at.microbatches,
              context.best_so_far());
  model.structure = context.step("structure", [&] { return find_structure(context.request, *model.cut); });
  return model;
}

Point prepare_given_point(SearchContext& context, GivenModel model) {
  constexpr Bytes kNoLimit{1e18};
  return prepare_spans(context, std::move(model), kNoLimit, true);
}

TablePipeline given_pipeline(const PlanRequest& request, const Point& point) {
  const StageSearch& search = *point.spans.search;
  std::vector<Method::ManualStage> stages = point.space.fixed;
  if (stages.empty())
    stages.push_back({0, point.layers() - 1, point.space.submeshes.front(), point.space.meshes.front().shape});
  TablePipeline pipeline;
  pipeline.chunks = chunks_of(request);
  for (const Method::ManualStage& stage : stages) {
    for (int mesh = 0; mesh < std::ssize(search.meshes()); ++mesh) {
      const StageSearch::MeshRequest& wanted = search.meshes()[static_cast<std::size_t>(mesh)];
      if (search.submeshes()[wanted.submesh] != stage.submesh || wanted.shape != stage.logical_shape ||
          wanted.batch_axis != stage.batch_axis)
        continue;
      const auto config = search.config_of(wanted.submesh, {mesh, 0});
      require(config.has_value(), "method '{}': {}.", request.search.method.text,
              search.reasons().empty() ? "no sharding of its stages" : search.reasons().front());
      pipeline.stages.push_back({stage.first_layer, stage.last_layer, wanted.submesh, *config});
      break;
    }
  }
  MW_CHECK(pipeline.stages.size() == stages.size(), "{} of {} given stages were costed", pipeline.stages.size(),
           stages.size());
  return pipeline;
}

namespace {

// Where programs are small, the coarser cut is searched for itself.
std::optional<CoarserCut> find_coarser(const PlanRequest& request, const SearchPoint& at, int layers) {
  constexpr int kTogether = 4;
  const bool first_cut = !at.layers && at.layer_cut == request.search.layer_cut;
  if (!is_auto(request.search.layers) || !first_cut || request.search.layer_cut.fixes_count() ||
      request.search.method.kind != Method::Kind::Pipeshard || !is_large(request, at.microbatches) ||
      layers % kTogether != 0 || layers == kTogether)
    return std::nullopt;
  CoarserCut cut{layers / kTogether, std::vector<bool>(static_cast<std::size_t>(layers), false)};
  for (int layer = 0; layer < layers; layer += kTogether) cut.borders[static_cast<std::size_t>(layer)] = true;
  return cut;
}

}  // namespace

Point prepare_point(SearchContext& context, const SearchPoint& at, std::optional<Seconds> to_beat) {
  return prepare_point(context, at, given_model(context, at), to_beat);
}

Point prepare_point(SearchContext& context, const SearchPoint& at, GivenModel model, std::optional<Seconds> to_beat) {
  const PlanRequest& request = context.request;
  // find_space refuses one stage on unlike hosts.
  const bool one_stage = request.search.method.one_stage() && request.cluster.uniform();
  Point point = prepare_spans(context, std::move(model), one_stage ? request.cluster.usable_memory() : Bytes(0.0),
                              false, to_beat);
  point.bounds = context.step("bound", [&] {
    return find_bounds(request, *point.spans.search, context.costs, context.evaluator.hides_communication());
  });
  point.coarser = find_coarser(request, at, point.layers());
  point.to_beat = to_beat;
  ++context.log.points;
  return point;
}

std::vector<Subspace> subspaces_of(const Point& point) {
  std::vector<std::optional<int>> ways;
  if (!point.structure->variants.empty())
    for (int way = 0; way <= static_cast<int>(point.structure->variants.size()); ++way) ways.emplace_back(way);
  ways.emplace_back(std::nullopt);
  std::vector<Subspace> found;
  if (point.coarser) found.push_back({.cut = &*point.coarser});
  for (const auto& way : ways) {
    for (const std::vector<bool>& meshes : point.space.narrower) found.push_back({&meshes, way});
    found.push_back({nullptr, way});
  }
  return found;
}

StageTable make_stage_table(const Point& point, double memory_share, StageSearch::Keep keep, const Subspace& of) {
  const StageSearch& search = *point.spans.search;
  const std::vector<Method::ManualStage>& fixed = point.space.fixed;
  const auto is_given = [&](int first, int last, const StageChoice& choice) {
    const StageSearch::MeshRequest& mesh = search.meshes()[choice.mesh];
    return std::any_of(fixed.begin(), fixed.end(), [&](const Method::ManualStage& stage) {
      return stage.first_layer == first && stage.last_layer == last && stage.logical_shape == mesh.shape &&
             stage.batch_axis == mesh.batch_axis && stage.submesh == search.submeshes()[mesh.submesh];
    });
  };
  const auto is_of_part = [&](const StageChoice& choice) {
    return (of.meshes == nullptr || (*of.meshes)[choice.mesh]) && (!of.way || search.way(choice) == of.way);
  };
  StageSearch::Allowed allowed;
  if (of.meshes != nullptr || of.way) allowed = is_of_part;
  const auto is_of_cut = [&](int first, int last, const StageChoice&) {
    const std::vector<bool>& borders = of.cut->borders;
    const auto after = static_cast<std::size_t>(last) + 1;
    return borders[static_cast<std::size_t>(first)] && (after == borders.size() || borders[after]);
  };
  StageSearch::Given given;
  if (!fixed.empty())
    given = is_given;
  else if (of.cut != nullptr)
    given = is_of_cut;
  return search.table(memory_share, keep, allowed, given);
}

StageTable stage_table(const SearchContext& context, const Point& point, double memory_share, StageSearch::Keep keep,
                       const Subspace& of) {
  const auto run = [&] { return make_stage_table(point, memory_share, keep, of); };
  return context.step("cost", run, [&](const StageTable& table) {
    return fmt::format("{} stages within {:.1f} % of the memory", entries_of(table), 100.0 * memory_share);
  });
}

void set_memory_share(StageTable& table, const Point& point, double memory_share) {
  const StageSearch& search = *point.spans.search;
  for (std::size_t slice = 0; slice < table.slices().size(); ++slice) {
    const HostGroup& hosts = search.cluster().group(search.submeshes()[slice].group);
    table.slices()[slice].memory = memory_share * hosts.usable_memory();
  }
}

CandidateRequest candidate_request(SearchContext& context, const Point& point, ScheduleKind schedule,
                                   const Subspace& of) {
  const TrainingOptions& training = point.cut->training;
  CandidateRequest wanted{.schedule = schedule,
                          .microbatches = training.microbatches,
                          .samples = training.batch / training.microbatches,
                          .goal = context.request.goal,
                          .stages = point.space.stages,
                          .devices = {},
                          .stop = [&context] { return context.is_to_stop(); },
                          .chunks = context.request.search.chunks,
                          .thorough = !is_large(context.request, training.batch)};
  // Small searches find each of many pipelines sooner than a thread begins.
  if (!wanted.thorough) wanted.threads = context.request.threads;
  for (const HostGroup& group : context.request.cluster.groups)
    wanted.devices.push_back(group.hosts / of.fewer_hosts * group.devices_per_host);
  return wanted;
}

namespace {

// Stages of each rank.
int fewest_chunks(const PlanRequest& request, ScheduleKind schedule) {
  const ScheduleTraits traits = traits_of(schedule);
  return traits.chunks ? *traits.chunks : is_auto(request.search.chunks) ? 2 : std::get<int>(request.search.chunks);
}

}  // namespace

int least_layers(const PlanRequest& request, ScheduleKind schedule) {
  const int chunks = fewest_chunks(request, schedule);
  return chunks == 1 ? 1 : 2 * chunks / traits_of(schedule).copies;
}

std::optional<std::string> why_unsuitable(const PlanRequest& request, const Point& point, ScheduleKind schedule) {
  const ScheduleTraits traits = traits_of(schedule);
  const char* name = name_of(schedule);
  if ((traits.line || traits.splits_backward) && !request.search.method.one_stage() && !point.spans.ranking->is_line())
    return fmt::format(
        "schedule {} needs stages that feed one the next, and model {} has layers that do not wait for one another; "
        "choose 1f1b, eager-1f1b or gpipe.",
        name, request.model.name);
  if (traits.chunks == 1) return std::nullopt;
  const int chunks = fewest_chunks(request, schedule);
  const bool gives_stages = !point.space.fixed.empty() && !request.any_schedule();
  if (request.search.method.kind != Method::Kind::Pipeshard && !gives_stages)
    return fmt::format(
        "schedule {} has several stages on each device, and method '{}' says what the stages are; choose method "
        "pipeshard or another schedule.",
        name, request.search.method.text);
  if (const auto unmet = unmet_by(request, schedule, point.microbatches()))
    return fmt::format("schedule {} needs {}; give other --micro-batches or another schedule.", name, *unmet);
  // All ranks have the same submesh. Fewer than 2 ranks are no pipeline.
  int max_ranks = 0;
  for (const Submesh& submesh : point.space.submeshes)
    max_ranks = std::max(max_ranks, request.cluster.group(submesh.group).devices() / submesh.devices());
  if (max_ranks < 2)
    return fmt::format(
        "schedule {} needs at least 2 like groups of devices with {} stages on each, and {} has {} device{}; give more "
        "devices or another schedule.",
        name, chunks, request.cluster.name, request.cluster.devices(), request.cluster.devices() == 1 ? "" : "s");
  if (point.layers() < least_layers(request, schedule))
    return fmt::format(
        "schedule {} needs at least {} layers, {} stages on each of 2 groups of devices, and the model is cut into {}; "
        "ask for more layers, fewer stages or another schedule.",
        name, least_layers(request, schedule), chunks / traits.copies, point.layers());
  return std::nullopt;
}

}  // namespace meshwright
