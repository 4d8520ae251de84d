// SPDX-License-Identifier: Apache-2.0
#include "core/planner/sharding_refinement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/plan/boundaries.h"
#include "core/planner/search/known_trials.h"
#include "core/planner/search/plan_program.h"
#include "core/planner/search/point.h"
#include "core/planner/skewed_costs.h"

namespace meshwright {

namespace {

// So many whole programs are lowered for one answer, fewer where they are larger: half as many of twice the ops. Where
// the search itself simulated few, also few: so many, and twice as many as it did.
constexpr std::int64_t kMaxTrials = 400;
constexpr std::int64_t kOpsOfTrial = 250;
constexpr std::int64_t kFewTrials = 32;
constexpr int kMaxRounds = 4;
// Stages on logical meshes of three axes take long to solve where the step has more ops: only the best plan's are.
constexpr std::int64_t kMaxOpsOfThreeAxes = 500;
// Costs with noise: so many, fewer where the step has more ops, where they find less and take longer.
constexpr std::int64_t kMaxNoisy = 8;
constexpr std::int64_t kNoisyOps = 4000;
constexpr double kNoise = 0.2;
constexpr std::int64_t kMaxNoisyTrials = 100;  // as kMaxTrials

// What a stage's ops and parameters are split as.
struct Sharding {
  std::map<std::string, OpSharding> ops;
  std::map<std::string, ParameterSharding> parameters;
  std::map<std::string, ShardingSpec> inputs;
  std::map<std::string, FanOut> fan_outs;
  bool operator==(const Sharding&) const = default;

  explicit Sharding(const StagePlan& stage)
      : ops(stage.ops), parameters(stage.parameters), inputs(stage.inputs), fan_outs(stage.fan_outs) {}
  void write(StagePlan& stage) const {
    stage.ops = ops;
    stage.parameters = parameters;
    stage.inputs = inputs;
    stage.fan_outs = fan_outs;
  }
};

// REQUIRES: as many stages.
bool same_shardings(const Plan& a, const Plan& b) {
  return std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), [](const StagePlan& x, const StagePlan& y) {
    return x.ops == y.ops && x.parameters == y.parameters && x.inputs == y.inputs && x.fan_outs == y.fan_outs;
  });
}

// Stages of one device have nothing to shard.
bool is_sharded(const StagePlan& stage) { return stage.submesh.devices() > 1; }

bool has_three_axes(const StagePlan& stage) {
  return std::count_if(stage.logical_shape.begin(), stage.logical_shape.end(), [](int size) { return size > 1; }) > 2;
}

// One plan. Alternatives are shardings of its stages on their own meshes.
class Refinement {
 public:
  Refinement(const PlanRequest& request, PlanOfGraph made, ShardingCosts kind, const CostModel& costs,
             const PlanEvaluator& evaluator, std::shared_ptr<elimination::KnownSteps> eliminations)
      : request_(request),
        costs_(costs),
        evaluator_(evaluator),
        eliminations_(std::move(eliminations)),
        layers_(assign_layers(*made.graph, made.plan.layer_starts)),
        structure_(*made.graph, layers_),
        best_(std::move(made)) {
    find_alternatives(kind);
  }
  Refinement(const Refinement&) = delete;

  [[nodiscard]] Seconds step() const { return best_.plan.predicted.step_time; }
  [[nodiscard]] std::int64_t simulated() const { return simulated_; }
  [[nodiscard]] RefinedPlan result() const;

  // All stages under the same costs, then each by itself.
  void improve_stages(std::int64_t& budget) {
    const Plan before = best_.plan;
    for (std::size_t of = 0; of < costs_tried_; ++of) {
      Plan other = before;
      for (std::size_t s = 0; s < alternatives_.size(); ++s)
        if (of < number_of_[s].size()) set(other, s, alternatives_[s][number_of_[s][of]]);
      try_plan(std::move(other), budget);
    }
    if (alternatives_.size() < 2) return;
    const auto each = [&](std::size_t s, const Sharding& alternative) {
      Plan other = best_.plan;
      set(other, s, alternative);
      return try_plan(std::move(other), budget);
    };
    improve(each);
  }

  // Layers that are alike take an alternative together: all of it, or only how ops or parameters are split, or only a
  // few ops that hang together.
  void improve_layers(std::int64_t& budget) {
    const auto each = [&](std::size_t s, const Sharding& alternative) {
      std::map<std::string, std::vector<int>> alike;
      const StagePlan& stage = best_.plan.stages[s];
      for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer)
        alike[structure_.layer_signature(layer)].push_back(layer);
      bool better = false;
      const auto try_ops = [&](const std::vector<int>& layers, const std::vector<int>& positions, Part part) {
        Plan other = best_.plan;
        for (const int layer : layers) set_ops(other, s, alternative, layer, positions, part);
        better = try_plan(std::move(other), budget, Mixes::Parts) || better;
      };
      for (const auto& [signature, layers] : alike) {
        const std::vector<std::vector<int>> groups = groups_that_differ(s, alternative, layers.front());
        std::vector<int> all;
        for (const std::vector<int>& group : groups) all.insert(all.end(), group.begin(), group.end());
        for (const Part part : {Part::All, Part::Ops, Part::Parameters}) try_ops(layers, all, part);
        for (const std::vector<int>& group : groups) try_ops(layers, group, Part::All);
      }
      return better;
    };
    improve(each);
  }

 private:
  enum class Part { All, Ops, Parameters };

  void find_alternatives(ShardingCosts kind);
  void solve(const std::vector<std::size_t>& alike, const RulesOnMesh& rules, const Skew& skew);

  template <class Each>
  void improve(const Each& each) {
    bool better = true;
    for (int round = 0; round < kMaxRounds && better; ++round) {
      better = false;
      for (std::size_t s = 0; s < alternatives_.size(); ++s)
        for (const Sharding& alternative : alternatives_[s]) better = each(s, alternative) || better;
    }
  }

  // In all copies of the stage.
  void set(Plan& plan, std::size_t stage, const Sharding& sharding) const {
    for (std::size_t s = stage; s < plan.stages.size(); s += alternatives_.size()) sharding.write(plan.stages[s]);
  }
  // Positions in a layer of the ops that the alternative splits in another way than the plan, with their parameters:
  // those that hang together, as one reads another's result or what another reads.
  [[nodiscard]] std::vector<std::vector<int>> groups_that_differ(std::size_t stage, const Sharding& alternative,
                                                                 int layer) const;
  void set_ops(Plan& plan, std::size_t stage, const Sharding& from, int layer, const std::vector<int>& positions,
               Part part) const;
  // Parts: ops of a layer may leave partial sums that those who read or add them up in another layer do not expect.
  enum class Mixes { Stages, Parts };
  bool try_plan(Plan plan, std::int64_t& budget, Mixes mixes = Mixes::Stages);
  [[nodiscard]] bool fits(const Plan& plan, const PlanTrial& trial, const std::vector<Bytes>& peaks) const;

  const PlanRequest& request_;
  const CostModel& costs_;
  const PlanEvaluator& evaluator_;
  std::shared_ptr<elimination::KnownSteps> eliminations_;
  const Layers layers_;
  const StepStructure structure_;
  std::vector<std::vector<Sharding>> alternatives_;  // [stage of the first copy], all different
  std::vector<std::vector<std::size_t>> number_of_;  // [the same][costs] which of them
  std::size_t costs_tried_ = 0;
  KnownTrials trials_;
  std::int64_t simulated_ = 0;
  PlanOfGraph best_;
};

// Stages on equal meshes are solved together.
void Refinement::find_alternatives(ShardingCosts kind) {
  const RulesOnMesh rules = rules_for(request_, *best_.graph, costs_, evaluator_);
  const RulesOnMesh plain = [&rules](const LogicalMesh& mesh) {
    IntraOpRules own = rules(mesh);
    own.hiding = {};
    return own;
  };
  const std::vector<StagePlan>& stages = best_.plan.stages;
  alternatives_.resize(static_cast<std::size_t>(stages_per_copy(best_.plan)));
  number_of_.resize(alternatives_.size());
  std::vector<bool> known(alternatives_.size(), false);
  for (std::size_t s = 0; s < alternatives_.size(); ++s) {
    if (known[s] || !is_sharded(stages[s])) continue;
    std::vector<std::size_t> alike;
    for (std::size_t other = s; other < alternatives_.size(); ++other)
      if (stages[other].submesh == stages[s].submesh && stages[other].logical_shape == stages[s].logical_shape &&
          stages[other].contexts == stages[s].contexts) {
        alike.push_back(other);
        known[other] = true;
      }
    if (kind == ShardingCosts::Noisy) {
      for (std::int64_t seed = 1; seed <= noisy_costs(*best_.graph); ++seed)
        solve(alike, plain, {.noise = kNoise, .seed = static_cast<std::uint64_t>(seed)});
      continue;
    }
    if (evaluator_.hides_communication()) solve(alike, rules, {});
    for (const double collectives : {1.0, 0.5}) solve(alike, plain, {.collectives = collectives});
    if (evaluator_.hides_communication()) solve(alike, plain, {.collectives = 0.25});
  }
  for (const auto& of_stage : number_of_) costs_tried_ = std::max(costs_tried_, of_stage.size());
}

void Refinement::solve(const std::vector<std::size_t>& alike, const RulesOnMesh& rules, const Skew& skew) {
  const StagePlan& first = best_.plan.stages[alike.front()];
  const LogicalMesh mesh = mesh_of(first, best_.plan.cluster);
  StageSearchOptions options{
      .microbatches = best_.plan.training.microbatches,
      .schedule = best_.plan.schedule,
      .usable_memory = best_.plan.cluster.group(mesh.of.group).usable_memory(),
      .rules = rules,
      .only_weights = {StepWeight::Share, StepWeight::Least, StepWeight::Half, StepWeight::Quarter},
      .once_per_value = true,
      .hosts_apart = request_.cluster.hosts() > 1,
      .eliminations = eliminations_};
  if (options.microbatches > 1) options.only_weights.push_back(StepWeight::Whole);
  if (traits_of(options.schedule).splits_backward) options.only_weights.push_back(StepWeight::Late);
  for (const std::size_t s : alike) options.only_from.push_back(best_.plan.stages[s].first_layer);
  const CostModel& costs = costs_.on(mesh.of.group);
  const SkewedCosts skewed(costs, skew);
  const MeshSpans spans(structure_, mesh, skewed, options);
  // A plan of other methods than the request's may be of meshes that its rules have nothing for.
  if (spans.impossible()) return;
  for (const std::size_t s : alike)
    for (int option = 0; option < spans.options(); ++option) {
      const StagePlan& stage = best_.plan.stages[s];
      const Sharding found(spans.plan(stage.first_layer, stage.last_layer, option));
      const auto at = std::find(alternatives_[s].begin(), alternatives_[s].end(), found);
      number_of_[s].push_back(static_cast<std::size_t>(at - alternatives_[s].begin()));
      if (at == alternatives_[s].end()) alternatives_[s].push_back(found);
    }
}

std::vector<std::vector<int>> Refinement::groups_that_differ(std::size_t stage, const Sharding& alternative,
                                                             int layer) const {
  const Graph& graph = *best_.graph;
  const StagePlan& own = best_.plan.stages[stage];
  const auto differ = [](const auto& one, const auto& other, const std::string& name) {
    const auto a = one.find(name);
    const auto b = other.find(name);
    return (a == one.end()) != (b == other.end()) || (a != one.end() && a->second != b->second);
  };
  std::vector<std::vector<int>> groups;
  std::map<TensorId, std::size_t> group_of;  // the tensors that ops of a group read or make
  for (int position = 0; position < std::ssize(layers_.forward[layer]); ++position) {
    const Op& op = graph.op(layers_.forward[layer][position]);
    bool differs = differ(own.ops, alternative.ops, op.name);
    std::vector<TensorId> tensors = op.outputs;
    for (const TensorId output : op.outputs)
      differs = differs || differ(own.fan_outs, alternative.fan_outs, graph.tensor(output).name);
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.kind == TensorKind::Intermediate) tensors.push_back(input);
      if (tensor.kind == TensorKind::Parameter)
        differs = differs || differ(own.parameters, alternative.parameters, op.name + "/" + tensor.name);
    }
    if (!differs) continue;
    const std::size_t group = groups.size();
    groups.push_back({position});
    for (const TensorId tensor : tensors) {
      const auto [known, is_new] = group_of.try_emplace(tensor, group);
      const std::size_t other = known->second;
      if (is_new || other == group) continue;
      // Joined: the earlier group's ops and tensors are now the new one's.
      groups[group].insert(groups[group].end(), groups[other].begin(), groups[other].end());
      groups[other].clear();
      for (auto& [of, its] : group_of)
        if (its == other) its = group;
    }
  }
  std::erase_if(groups, [](const std::vector<int>& group) { return group.empty(); });
  return groups;
}

void Refinement::set_ops(Plan& plan, std::size_t stage, const Sharding& from, int layer,
                         const std::vector<int>& positions, Part part) const {
  const Graph& graph = *best_.graph;
  for (std::size_t s = stage; s < plan.stages.size(); s += alternatives_.size()) {
    StagePlan& to = plan.stages[s];
    if (part != Part::Parameters && layer == to.first_layer) to.inputs = from.inputs;
    for (const int position : positions) {
      const Op& op = graph.op(layers_.forward[layer][position]);
      if (part != Part::Parameters) {
        to.ops.at(op.name) = from.ops.at(op.name);
        for (const TensorId output : op.outputs) {
          const std::string& name = graph.tensor(output).name;
          to.fan_outs.erase(name);
          if (const auto found = from.fan_outs.find(name); found != from.fan_outs.end()) to.fan_outs.insert(*found);
        }
      }
      for (const TensorId input : op.inputs) {
        if (part == Part::Ops || graph.tensor(input).kind != TensorKind::Parameter) continue;
        const std::string key = op.name + "/" + graph.tensor(input).name;
        to.parameters.at(key) = from.parameters.at(key);
      }
    }
  }
}

// Whether it is better than any before. What is lowered is taken off the budget, and nothing is lowered without.
bool Refinement::try_plan(Plan plan, std::int64_t& budget, Mixes mixes) {
  if (budget <= 0 || same_shardings(plan, best_.plan) || (request_.stop && request_.stop())) return false;
  if (const auto* form = std::get_if<CrossMesh>(&request_.search.cross_mesh)) set_cross_mesh(plan, *best_.graph, *form);
  const std::vector<std::string> wrong = check_plan(plan, *best_.graph, plan.graph_fingerprint);
  if (mixes == Mixes::Parts && !wrong.empty()) return false;
  MW_CHECK(wrong.empty(), "the planner made a bad plan: {}", wrong.front());
  const std::int64_t known = trials_.known();
  const auto trial = trials_.trial({plan, best_.graph}, evaluator_, simulated_);
  budget -= trials_.known() - known;
  const auto memory = evaluator_.software_memory(plan, *best_.graph);
  if (memory ? memory->needs > memory->usable : !fits(plan, *trial, trial->peaks)) return false;
  const StepOutcome outcome = trial->step();
  if (outcome.step >= step() || (!memory && !fits(plan, *trial, outcome.peaks))) return false;
  best_.plan = std::move(plan);
  best_.plan.predicted.step_time = outcome.step;
  return true;
}

// A plan that was made to fit more closely stays within what it needs.
bool Refinement::fits(const Plan& plan, const PlanTrial& trial, const std::vector<Bytes>& peaks) const {
  const auto hosts = [&](std::size_t s) -> const HostGroup& {
    return plan.cluster.group(plan.stages[s].submesh.group);
  };
  for (std::size_t s = 0; s < peaks.size(); ++s) {
    if (peaks[s] + trial.beside_of(s) > std::max(plan.stages[s].peak_memory, hosts(s).usable_memory())) return false;
  }
  for (std::size_t s = 0; s < trial.on_host.size(); ++s)
    if (trial.on_host[s] > hosts(s).device.host_memory) return false;
  return true;
}

RefinedPlan Refinement::result() const {
  return {with_step_and_memory(best_.plan, best_.graph, evaluator_), best_.graph};
}

}  // namespace

bool same_plans(const Plan& a, const Plan& b) {
  const auto same_places = [](const StagePlan& x, const StagePlan& y) {
    return x.devices == y.devices && x.logical_shape == y.logical_shape;
  };
  return a.graph_fingerprint == b.graph_fingerprint && a.schedule == b.schedule && a.layer_starts == b.layer_starts &&
         a.training.microbatches == b.training.microbatches && a.stages.size() == b.stages.size() &&
         std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), same_places) && same_shardings(a, b);
}

std::int64_t noisy_costs(const Graph& graph) { return std::min(kMaxNoisy, kNoisyOps / std::ssize(graph.ops())); }

std::optional<RefinedPlan> refine_shardings(const PlanRequest& request, const std::vector<PlanToRefine>& plans,
                                            ShardingCosts kind, const CostModel& costs,
                                            const PlanEvaluator& evaluator) {
  if (is_large(request, request.training.batch)) return std::nullopt;
  const auto eliminations = std::make_shared<elimination::KnownSteps>();
  struct Refined {
    std::size_t of;
    std::int64_t budget;  // that is left
    double least_share;
    std::unique_ptr<Refinement> plan;
    [[nodiscard]] Seconds step() const { return plan->step(); }
  };
  std::vector<Refined> all;  // in the order of the plans
  const Plan& first = plans.front().made.plan;
  for (std::size_t of = 0; of < plans.size(); ++of) {
    const auto& [made, simulated, least_share] = plans[of];
    if (of > 0 && same_plans(made.plan, first)) continue;
    if (std::none_of(made.plan.stages.begin(), made.plan.stages.end(), is_sharded)) continue;
    if (of > 0 && std::ssize(made.graph->ops()) > kMaxOpsOfThreeAxes &&
        std::any_of(made.plan.stages.begin(), made.plan.stages.end(), has_three_axes))
      continue;
    const std::int64_t budget = std::min((kind == ShardingCosts::Noisy ? kMaxNoisyTrials : kMaxTrials) /
                                             (1 + std::ssize(made.graph->ops()) / kOpsOfTrial),
                                         kFewTrials + 2 * simulated);
    all.push_back({of, budget, least_share, nullptr});
  }
  if (all.empty()) return std::nullopt;
  for_each_index(all.size(), request.threads, [&](std::size_t i) {
    Refined& refined = all[i];
    refined.plan = std::make_unique<Refinement>(request, plans[refined.of].made, kind, costs, evaluator, eliminations);
    refined.plan->improve_stages(refined.budget);
  });
  std::stable_sort(all.begin(), all.end(), [](const Refined& a, const Refined& b) { return a.step() < b.step(); });
  const Seconds least = all.front().step();
  for_each_index(all.size(), request.threads, [&](std::size_t i) {
    if (all[i].least_share * all[i].step() < least) all[i].plan->improve_layers(all[i].budget);
  });
  const Refined* best = &*std::min_element(all.begin(), all.end(),
                                           [](const Refined& a, const Refined& b) { return a.step() < b.step(); });
  if (best->step() >= first.predicted.step_time) return std::nullopt;
  RefinedPlan found = best->plan->result();
  found.of = best->of;
  for (const Refined& refined : all) found.simulations += refined.plan->simulated();
  return found;
}

}  // namespace meshwright
