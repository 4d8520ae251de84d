// SPDX-License-Identifier: Apache-2.0
#include "core/planner/make_plan.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/memory_request.h"
#include "core/planner/placement.h"
#include "core/planner/stage_search.h"

namespace meshwright {

namespace {

Graph build_graph(const ModelConfig& model, const TrainingOptions& training, ScheduleKind schedule) {
  return schedule == ScheduleKind::Inference ? build_forward_graph(model, training)
                                             : build_training_graph(model, training);
}

// What a method asks of the search.
struct Space {
  std::vector<Submesh> submeshes;
  std::vector<StageSearch::MeshRequest> meshes;
  std::optional<int> stages;               // exactly this many
  std::vector<Method::ManualStage> fixed;  // exactly these
};

Space whole_cluster(const Cluster& cluster, const std::vector<std::vector<int>>& shapes) {
  Space space;
  space.submeshes = {{cluster.hosts, cluster.devices_per_host}};
  for (const auto& shape : shapes) space.meshes.push_back({0, shape});
  space.stages = 1;
  return space;
}

Space fixed_stages(const Cluster& cluster, std::vector<Method::ManualStage> stages) {
  Space space;
  int devices = 0;
  for (const auto& stage : stages) {
    require(stage.submesh.hosts <= cluster.hosts && stage.submesh.devices_per_host <= cluster.devices_per_host,
            "the method wants a {}x{} submesh, but {} is {}x{}.", stage.submesh.hosts, stage.submesh.devices_per_host,
            cluster.name, cluster.hosts, cluster.devices_per_host);
    devices += stage.submesh.devices();
    auto at = std::find(space.submeshes.begin(), space.submeshes.end(), stage.submesh);
    if (at == space.submeshes.end()) at = space.submeshes.insert(at, stage.submesh);
    const int number = static_cast<int>(at - space.submeshes.begin());
    const bool known =
        std::any_of(space.meshes.begin(), space.meshes.end(), [&](const StageSearch::MeshRequest& request) {
          return request.submesh == number && request.shape == stage.logical_shape &&
                 request.batch_axis == stage.batch_axis;
        });
    if (!known) space.meshes.push_back({number, stage.logical_shape, stage.batch_axis});
  }
  require(devices <= cluster.devices(), "the method's stages take {} devices, but {} has {}.", devices, cluster.name,
          cluster.devices());
  space.fixed = std::move(stages);
  return space;
}

// Equal runs of layers over equal submeshes of dp x cp x ep x tp devices.
std::vector<Method::ManualStage> megatron_stages(const Method& method, const Cluster& cluster, int layers) {
  const int devices = cluster.devices();
  const int model = method.tp * method.cp * method.ep;
  require(devices % (model * method.pp) == 0, "method '{}': {} devices do not divide into tp={} x pp={}{}.",
          method.text, devices, method.tp, method.pp,
          model == method.tp ? "" : fmt::format(" x cp={} x ep={}", method.cp, method.ep));
  // Data parallelism as people count it: experts are spread over it.
  const int dp = devices / (method.tp * method.cp * method.pp);
  require(method.dp == 0 || method.dp == dp, "method '{}': dp={} x tp={} x pp={} is not the {} devices of {}.",
          method.text, method.dp, method.tp, method.pp, devices, cluster.name);
  require(layers >= method.pp, "method '{}': {} layers cannot make {} stages; give --layers of at least pp.",
          method.text, layers, method.pp);
  const int per_stage = devices / method.pp;
  Submesh submesh{1, per_stage};
  if (per_stage > cluster.devices_per_host) {
    require(per_stage % cluster.devices_per_host == 0,
            "method '{}': a stage of {} devices does not fill whole hosts of {}.", method.text, per_stage,
            cluster.devices_per_host);
    submesh = {per_stage / cluster.devices_per_host, cluster.devices_per_host};
  }
  std::vector<Method::ManualStage> stages;
  for (int s = 0; s < method.pp; ++s)
    stages.push_back({layers * s / method.pp, layers * (s + 1) / method.pp - 1, submesh,
                      *logical_shape_of(method, per_stage, cluster.name)});
  return stages;
}

Space space_of(const PlanRequest& request, int layers) {
  const Cluster& cluster = request.cluster;
  const Submesh whole{cluster.hosts, cluster.devices_per_host};
  if (request.method.one_stage()) {
    if (!request.logical_mesh.empty()) return whole_cluster(cluster, {request.logical_mesh});
    if (const auto shape = logical_shape_of(request.method, cluster.devices(), cluster.name))
      return whole_cluster(cluster, {*shape});
    return whole_cluster(cluster, enumerate_logical_shapes(whole, request.logical_mesh_space));
  }
  switch (request.method.kind) {
    case Method::Kind::Megatron:
      return fixed_stages(cluster, megatron_stages(request.method, cluster, layers));
    case Method::Kind::Manual:
      require(request.method.stages.back().last_layer + 1 == layers,
              "method '{}': the stages hold layers 0..{}, but there are {} layers; give --layers {}.",
              request.method.text, request.method.stages.back().last_layer, layers,
              request.method.stages.back().last_layer + 1);
      return fixed_stages(cluster, request.method.stages);
    default:
      break;
  }
  Space space;
  space.submeshes = enumerate_submeshes(cluster, request.submesh_space);
  for (std::size_t s = 0; s < space.submeshes.size(); ++s)
    for (const auto& shape : enumerate_logical_shapes(space.submeshes[s], request.logical_mesh_space))
      space.meshes.push_back({static_cast<int>(s), shape});
  return space;
}

// The stages as given, each with its fastest option that fits.
std::optional<ChosenPipeline> choose_fixed(const StageSearch& search, const Space& space, const StageTable& table,
                                           const std::vector<StageSearch::MeshRequest>& meshes) {
  ChosenPipeline chosen{{}, Seconds(0)};
  const int count = static_cast<int>(space.fixed.size());
  for (int s = 0; s < count; ++s) {
    const auto& stage = space.fixed[static_cast<std::size_t>(s)];
    const int submesh = static_cast<int>(std::find(table.submeshes.begin(), table.submeshes.end(), stage.submesh) -
                                         table.submeshes.begin());
    const auto& cell = table.at(stage.first_layer, stage.last_layer, submesh);
    int best = -1;
    for (std::size_t o = 0; o < cell.size(); ++o) {
      const auto& mesh = meshes[static_cast<std::size_t>(search.choice(cell[o].id).mesh)];
      const bool asked = mesh.shape == stage.logical_shape && mesh.batch_axis == stage.batch_axis;
      if (!asked || cell[o].max_successors < count - 1 - s) continue;
      if (best < 0 || cell[o].time < cell[static_cast<std::size_t>(best)].time) best = static_cast<int>(o);
    }
    if (best < 0) return std::nullopt;
    chosen.stages.push_back({stage.first_layer, stage.last_layer, submesh, best});
  }
  return chosen;
}

void check_batch_axis(const PlanRequest& request, const Space& space) {
  if (!request.batch_axis) return;
  std::size_t axes = 0;
  for (const auto& mesh : space.meshes) axes = std::max(axes, mesh.shape.size());
  require(*request.batch_axis < static_cast<int>(axes),
          "the batch is to be split over mesh axis {}, but the logical meshes have axes 0..{}; choose one of them.",
          *request.batch_axis, axes - 1);
}

// One number of microbatches.
class PointSearch {
 public:
  PointSearch(const PlanRequest& request, std::int64_t microbatches, const CostModel& costs, PlanEvaluator& evaluator)
      : request_(request), costs_(costs), evaluator_(evaluator), training_(request.training) {
    training_.microbatches = microbatches;
    result_.graph = build_graph(request.model, training_, request.schedule);
    check_forced(result_.graph, request.method.forced);
    check_forced(result_.graph, request.forced);
    check_axes(request.method, result_.graph);
    layers_ = make_layers(result_.graph, request.layer_options, request.layers, request.method);
    say("{} layers, {} micro-batches: pricing stages", layers_.count, microbatches);
  }

  PlanningResult run() {
    const StepStructure structure(result_.graph, layers_);
    const Space space = space_of(request_, layers_.count);
    check_batch_axis(request_, space);
    MemoryRequest memory(request_.cluster.usable_memory());
    do {
      const StageSearchOptions options{.microbatches = training_.microbatches,
                                       .schedule = request_.schedule,
                                       .usable_memory = memory.asked(),
                                       .rules = [this](const LogicalMesh& mesh) { return rules(mesh); },
                                       .one_stage = request_.method.one_stage(),
                                       .hosts_apart = request_.cluster.hosts > 1,
                                       .threads = request_.threads};
      const StageSearch search(structure, request_.cluster, costs_, space.submeshes, space.meshes, options);
      result_.stages_priced += search.entries();
      const auto pipelines = candidates(search, space);
      if (pipelines.empty()) {
        if (!result_.plan) last_chance(search, space);
        break;
      }
      outcome_.reset();
      rank(search, search.table(), pipelines);
    } while (request_.method.one_stage() ? outcome_ && memory.again(*outcome_)
                                         : !result_.plan && least_peak_ && memory.again_for_pipeline(*least_peak_));
    return std::move(result_);
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) const {
    if (request_.progress) request_.progress(fmt::format(text, std::forward<Args>(args)...));
  }

  IntraOpRules rules(const LogicalMesh& mesh) const {
    IntraOpRules found = rules_of(request_.method, mesh.shape());
    if (request_.batch_axis && *request_.batch_axis < mesh.rank() &&
        mesh.axes[static_cast<std::size_t>(*request_.batch_axis)].size() > 1)
      force_batch_axis(found, *request_.batch_axis);
    for (const auto& [name, spec] : request_.forced) found.forced[name] = spec;
    return found;
  }

  std::vector<ChosenPipeline> candidates(const StageSearch& search, const Space& space) const {
    if (!space.fixed.empty()) {
      const auto fixed = choose_fixed(search, space, search.table(), space.meshes);
      return fixed ? std::vector{*fixed} : std::vector<ChosenPipeline>{};
    }
    return choose_pipelines(search.table(), {request_.cluster.devices(), training_.microbatches, space.stages},
                            request_.candidates);
  }

  // Lowers, checks and simulates every candidate; keeps the fastest that fits.
  void rank(const StageSearch& search, const StageTable& table, const std::vector<ChosenPipeline>& pipelines) {
    const Bytes usable = request_.cluster.usable_memory();
    for (std::size_t c = 0; c < pipelines.size(); ++c) {
      auto plan = make(search, table, pipelines[c]);
      if (!plan) {
        if (result_.reason.empty())
          result_.reason = fmt::format("the stages' submeshes have no place side by side on the {} hosts of {}",
                                       request_.cluster.hosts, request_.cluster.name);
        continue;
      }
      const std::vector<std::string> wrong = check_plan(*plan, result_.graph);
      MW_CHECK(wrong.empty(), "the planner made a bad plan: {}", wrong.front());
      Program program = lower(*plan, result_.graph, costs_);
      ProgramCheck check = check_program(program);
      MW_CHECK(check.violations.empty(), "the plan lowers to a bad program: {}", check.violations.front());
      for (std::size_t d = 0; d < check.peak_memory.size(); ++d) {
        Bytes& peak = plan->stages[program.stage_of_device[d].index()].peak_memory;
        peak = std::max(peak, check.peak_memory[d]);
      }
      plan->predicted.peak_memory = check.largest_peak();
      if (c == 0 && request_.method.one_stage()) note_outcome(search, table, pipelines[c], check.largest_peak());
      if (check.largest_peak() > usable) {
        note_too_large(*plan);
        continue;
      }
      const Seconds step = evaluator_.step_time(program, check);
      ++result_.simulations;
      say("candidate {} of {}: {} stages, {}", c + 1, pipelines.size(), plan->stages.size(), human_seconds(step));
      if (result_.plan && result_.plan->predicted.step_time <= step) continue;
      plan->predicted.step_time = step;
      plan->predicted.lower_bound = std::min(step, search.lower_bound(request_.cluster.devices()));
      result_.plan = std::move(*plan);
      if (request_.method.one_stage()) {
        const Seconds time = search.per_microbatch(choice_of(search, table, pipelines[c].stages.front()).cost);
        result_.sharding = {{time, std::min(time, search.sharding_bound())}};
      }
      result_.program = std::move(program);
      result_.check = std::move(check);
    }
  }

  // One stage: what the table says of a plan, and what its program takes.
  void note_outcome(const StageSearch& search, const StageTable& table, const ChosenPipeline& pipeline, Bytes peak) {
    const ChosenStage& stage = pipeline.stages.front();
    const StepCost& cost = choice_of(search, table, stage).cost;
    const Seconds free = search.lower_bound(1) / static_cast<double>(training_.microbatches);
    outcome_ = {search.estimate(cost, stage.first, stage.last), peak,
                result_.plan || peak <= request_.cluster.usable_memory(),
                search.per_microbatch(cost) > (1.0 + 1e-9) * free};
  }
  static const StageChoice& choice_of(const StageSearch& search, const StageTable& table, const ChosenStage& stage) {
    return search.choice(table.at(stage.first, stage.last, stage.submesh)[static_cast<std::size_t>(stage.option)].id);
  }

  // Remembers why the least hungry of the plans that are too large does not fit.
  void note_too_large(const Plan& plan) {
    if (least_peak_ && *least_peak_ <= plan.predicted.peak_memory) return;
    least_peak_ = plan.predicted.peak_memory;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const StagePlan& stage = plan.stages[s];
      if (stage.peak_memory != plan.predicted.peak_memory) continue;
      result_.reason = fmt::format(
          "stage {} of {} (layers {}..{} on {}x{}) needs {} of {} per device; use more devices, more micro-batches, "
          "--recompute full or a smaller batch",
          s, plan.stages.size(), stage.first_layer, stage.last_layer, stage.submesh.hosts,
          stage.submesh.devices_per_host, human_bytes(stage.peak_memory),
          human_bytes(request_.cluster.usable_memory()));
      return;
    }
  }
  std::optional<Plan> make(const StageSearch& search, const StageTable& table, const ChosenPipeline& pipeline) const {
    Plan plan;
    plan.model = request_.model;
    plan.training = training_;
    plan.cluster = request_.cluster;
    plan.method = request_.method.text;
    plan.schedule = request_.schedule;
    plan.graph_fingerprint = fmt::format("{:016x}", stable_hash(canonical_text(result_.graph)));
    int position = 0;
    for (const auto& ops : layers_.forward) {
      plan.layer_starts.push_back(position);
      position += static_cast<int>(ops.size());
    }
    std::vector<Submesh> submeshes;
    for (const ChosenStage& stage : pipeline.stages)
      submeshes.push_back(table.submeshes[static_cast<std::size_t>(stage.submesh)]);
    const auto placed = place_submeshes(request_.cluster, submeshes);
    if (!placed) return std::nullopt;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const ChosenStage& stage = pipeline.stages[s];
      plan.stages.push_back(search.plan(stage.first, stage.last, choice_of(search, table, stage)));
      plan.stages.back().devices = (*placed)[s];
    }
    return plan;
  }

  // Nothing fits by the table's estimate, which errs on the large side. The least hungry pipeline is lowered and
  // counted exactly: either it fits after all, or the reason names what it lacks.
  void last_chance(const StageSearch& search, const Space& space) {
    const StageTable table = search.without_memory_limits();
    const auto pipeline = space.fixed.empty() ? choose_pipeline(table, {request_.cluster.devices(), 1, space.stages})
                                              : choose_fixed(search, space, table, space.meshes);
    if (pipeline) {
      rank(search, table, {*pipeline});
      return;
    }
    result_.reason =
        search.reasons().empty()
            ? fmt::format("no way to use all {} devices of {}", request_.cluster.devices(), request_.cluster.name)
            : fmt::format("method '{}': {}", request_.method.text, search.reasons().front());
  }

  const PlanRequest& request_;
  const CostModel& costs_;
  PlanEvaluator& evaluator_;
  TrainingOptions training_;
  Layers layers_;
  PlanningResult result_;
  std::optional<Bytes> least_peak_;
  std::optional<MemoryRequest::Outcome> outcome_;  // one stage: of the table's first plan
};

// Powers of two that divide the batch, at most 256.
std::vector<std::int64_t> microbatch_counts(const PlanRequest& request) {
  if (request.training.microbatches > 0) return {request.training.microbatches};
  std::vector<std::int64_t> counts;
  for (std::int64_t m = 1; m <= 256 && request.training.batch % m == 0; m *= 2) counts.push_back(m);
  return counts;
}

}  // namespace

PlanningResult make_plan(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator) {
  require(
      request.training.optimizer.max_norm == 0.0 || request.method.one_stage(),
      "clipping by the global norm needs every gradient in one stage, but method '{}' may cut several; choose shard, "
      "data, zero1, zero2, zero3, expert, context, rules or specs.",
      request.method.text);
  require(request.training.batch >= 1, "the batch must be at least 1 sample; it is {}.", request.training.batch);
  std::optional<PlanningResult> best;
  std::int64_t simulations = 0, priced = 0;
  int worse = 0;
  for (const std::int64_t microbatches : microbatch_counts(request)) {
    PlanningResult point = PointSearch(request, microbatches, costs, evaluator).run();
    simulations += point.simulations;
    priced += point.stages_priced;
    const bool better =
        !best || (point.plan && (!best->plan || point.plan->predicted.step_time < best->plan->predicted.step_time));
    // Fewer samples per microbatch never fill a device better: two steps without gain end the search.
    worse = better ? 0 : worse + (best->plan ? 1 : 0);
    if (better || !best->plan) best = std::move(point);
    if (worse == 2) break;
  }
  best->simulations = simulations;
  best->stages_priced = priced;
  return std::move(*best);
}

LoadedPlan load_plan(const Plan& plan, const CostModel& costs) {
  LoadedPlan loaded{build_graph(plan.model, plan.training, plan.schedule), {}, {}};
  const std::vector<std::string> wrong = check_plan(plan, loaded.graph);
  if (!wrong.empty()) throw InputError(wrong.front());
  loaded.program = lower(plan, loaded.graph, costs);
  loaded.check = check_program(loaded.program);
  MW_CHECK(loaded.check.violations.empty(), "the plan lowers to a bad program: {}", loaded.check.violations.front());
  return loaded;
}

}  // namespace meshwright
