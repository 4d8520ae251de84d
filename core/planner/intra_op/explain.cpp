// SPDX-License-Identifier: Apache-2.0
#include "core/planner/intra_op/explain.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/placed_parameters.h"
#include "core/planner/intra_op/layer_model.h"
#include "core/solver/solve.h"

namespace meshwright {

namespace {

// The layer models of a plan's stages, and the choices that the plan makes in them.
class PlannedLayers {
 public:
  PlannedLayers(const Plan& plan, const Graph& graph, const CostModel& costs)
      : plan_(plan), layers_(assign_layers(graph, plan.layer_starts)), structure_(graph, layers_) {
    for (const StagePlan& stage : plan.stages) {
      meshes_.push_back(mesh_of(stage, plan.cluster));
      resharding_.emplace_back(meshes_.back(), costs);
    }
    costs_ = &costs;
    padding_ = has_padding(plan, graph);
    split_sums_ = splits_sums(plan, graph);
  }

  [[nodiscard]] const StepStructure& structure() const { return structure_; }
  [[nodiscard]] int stage_of(int layer) const {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s)
      if (layer >= plan_.stages[s].first_layer && layer <= plan_.stages[s].last_layer) return static_cast<int>(s);
    MW_CHECK(false, "layer {} is in no stage", layer);
  }
  [[nodiscard]] const StagePlan& stage(int layer) const { return plan_.stages[stage_of(layer)]; }
  // Memory has no price here: alternatives are compared by time alone.
  [[nodiscard]] CostWeights weights() const { return {static_cast<double>(plan_.training.microbatches), 0.0, 1.0}; }

  // Between the borders that the plan has: the one joint state of the tensors that enter and leave. Layers that are
  // equal problems then share one model. Unset `impossible` only says that each op alone can be as the plan says.
  const LayerModel& model(int layer) {
    const auto s = static_cast<std::size_t>(stage_of(layer));
    const IntraOpRules rules = borders_of(layer);
    std::string key = to_text(meshes_[s].of) + " as " + meshes_[s].to_text() + " " + structure_.layer_signature(layer) +
                      border_signature(structure_, layer, meshes_[s], rules);
    const auto known = models_.find(key);
    if (known != models_.end()) return known->second;
    return models_.emplace(std::move(key), LayerModel(structure_, layer, meshes_[s], *costs_, resharding_[s], rules))
        .first->second;
  }
  // nullopt: the plan decides something that the planner would not weigh (a plan changed by hand).
  std::optional<ShardingChoice> choice(int layer) {
    const LayerModel& of = model(layer);
    return of.impossible() ? std::nullopt : of.choice_of(stage(layer), structure_, layer);
  }

 private:
  IntraOpRules borders_of(int layer) const {
    IntraOpRules rules;
    rules.padding = padding_;
    rules.split_sums = split_sums_;
    for (const int at : {layer, layer + 1})
      for (const TensorId id : structure_.crossing(at)) {
        if (const auto spec = sharding_on(stage(layer), structure_.graph(), id))
          rules.forced[structure_.graph().tensor(id).name] = *spec;
      }
    return rules;
  }

  const Plan& plan_;
  Layers layers_;
  StepStructure structure_;
  const CostModel* costs_;
  bool padding_ = false, split_sums_ = false;  // what the plan's method allows its parameters
  std::deque<LogicalMesh> meshes_;             // the resharding costs keep references
  std::deque<ReshardingCosts> resharding_;     // [stage]
  std::map<std::string, LayerModel> models_;
};

Bytes bytes_of(const StepCost& cost) { return cost.resident + cost.saved; }

class Explainer {
 public:
  Explainer(PlannedLayers& layers, double max_entries) : layers_(layers), max_entries_(max_entries) {}

  Explanation explain(int layer, const LayerModel::Decision& decision) {
    const std::string& name = layers_.structure().graph().tensor(decision.tensor).name;
    const auto planned = layers_.choice(layer);
    require(
        planned.has_value(),
        "'{}': layer {} of the plan is split in a way that the planner does not weigh; explain a plan as `meshwright "
        "plan` wrote it.",
        name, layer);
    if (!between_ || between_->layer != layer) between_.emplace(between_borders(layer, *planned));
    const LayerModel& model = layers_.model(layer);
    const StepCost as_planned = model.cost(*planned);
    Explanation found{name,
                      decision.reader,
                      layers_.stage_of(layer),
                      layer,
                      layers_.weights().total(as_planned),
                      bytes_of(as_planned),
                      between_->marginals ? ExplainMethod::MinMarginals : ExplainMethod::Solves,
                      {}};
    std::map<ShardingSpec, Alternative> fastest;
    const int node = decision.node;
    const std::vector<bool> slower = slower_ones(node);
    for (int p = 0; p < static_cast<int>(slower.size()); ++p) {
      Alternative other{model.strategy_text(decision.node, p),
                        model.spec_of(decision.node, p),
                        p == planned->strategy[node],
                        found.layer_time,
                        found.layer_time,
                        found.layer_bytes};
      if (!other.chosen && (slower[static_cast<std::size_t>(p)] || !find_cost(node, p, other))) continue;
      // Among strategies with one spec the planned one is listed, else the fastest.
      const auto [known, is_new] = fastest.emplace(other.spec, other);
      if (!is_new && !known->second.chosen && (other.chosen || other.time < known->second.time)) known->second = other;
    }
    for (auto& [spec, alternative] : fastest) found.alternatives.push_back(std::move(alternative));
    std::stable_sort(found.alternatives.begin(), found.alternatives.end(),
                     [](const Alternative& a, const Alternative& b) { return a.time < b.time; });
    return found;
  }

 private:
  // A layer's problem between the border states that the plan has. Decisions come layer by layer: one is kept.
  struct Between {
    int layer;
    const LayerModel& model;
    int in_state, out_state;
    ShardingChoice planned;  // in `problem`
    ShardingProblem problem;
    std::optional<MinMarginals> marginals;
  };

  Between between_borders(int layer, ShardingChoice planned) {
    const LayerModel& model = layers_.model(layer);
    const int in_state = planned.strategy[model.in_node()], out_state = planned.strategy[model.out_node()];
    // With both borders fixed, an alternative changes nothing in other layers.
    ShardingProblem problem = fix_strategy(fix_strategy(model.problem(layers_.weights()), model.in_node(), in_state),
                                           model.out_node(), out_state);
    auto marginals = MinMarginals::of(problem, max_entries_);
    planned.strategy[model.in_node()] = 0;  // the only one left
    planned.strategy[model.out_node()] = 0;
    return {layer, model, in_state, out_state, std::move(planned), std::move(problem), std::move(marginals)};
  }

  // [strategy] Whether another one with the same spec is known to take less time: the best layers of the others alone
  // are looked for.
  [[nodiscard]] std::vector<bool> slower_ones(int node) const {
    constexpr double kSame = 1.0 + 1e-9;  // sums in another order
    std::vector<bool> slower(between_->problem.nodes[node].cost.size(), false);
    if (!between_->marginals) return slower;
    std::map<ShardingSpec, Seconds> least;
    const auto each = [&](const auto& visit) {
      for (int p = 0; p < static_cast<int>(slower.size()); ++p)
        if (const auto time = between_->marginals->least(node, p)) visit(p, *time, between_->model.spec_of(node, p));
    };
    each([&](int, Seconds time, const ShardingSpec& spec) {
      const auto [known, is_new] = least.emplace(spec, time);
      known->second = std::min(known->second, time);
    });
    each([&](int p, Seconds time, const ShardingSpec& spec) {
      slower[static_cast<std::size_t>(p)] = time > kSame * least.at(spec);
    });
    return slower;
  }

  // The best layer whose `node` takes `strategy`; false: there is none.
  bool find_cost(int node, int strategy, Alternative& other) const {
    ShardingChoice choice;
    std::optional<Seconds> bound;  // unset: the choice is the best
    if (between_->marginals) {
      if (!between_->marginals->least(node, strategy)) return false;
      choice = between_->marginals->choice(node, strategy, between_->planned);
    } else {
      auto solution = meshwright::solve(fix_strategy(between_->problem, node, strategy));
      if (!solution) return false;
      choice = std::move(solution->choice);
      // In the fixed problem the strategy has number 0.
      choice.strategy[node] = strategy;
      if (solution->lower_bound < solution->cost) bound = solution->lower_bound;
    }
    choice.strategy[between_->model.in_node()] = between_->in_state;
    choice.strategy[between_->model.out_node()] = between_->out_state;
    const StepCost cost = between_->model.cost(choice);
    other.time = layers_.weights().total(cost);
    other.bound = bound ? std::min(*bound, other.time) : other.time;
    other.bytes = bytes_of(cost);
    return true;
  }

  PlannedLayers& layers_;
  double max_entries_;
  std::optional<Between> between_;
};

std::string submesh_text(const StagePlan& stage) {
  return fmt::format("{} as {}", to_text(stage.submesh), fmt::join(stage.logical_shape, "x"));
}

bool decides_same(const PlannedLayers& layers, const StagePlan& a, const StagePlan& b, int layer) {
  const Graph& graph = layers.structure().graph();
  const auto& ops = layers.structure().layers().forward[layer];
  return std::all_of(ops.begin(), ops.end(), [&](const OpId id) {
    const Op& op = graph.op(id);
    if (a.ops.at(op.name) != b.ops.at(op.name)) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](const TensorId input) {
      const std::string key = op.name + "/" + graph.tensor(input).name;
      return !a.parameters.contains(key) || a.parameters.at(key) == b.parameters.at(key);
    });
  });
}

std::vector<std::string> compare_layers(PlannedLayers& layers, PlannedLayers& others, int layer) {
  if (decides_same(layers, layers.stage(layer), others.stage(layer), layer)) return {};
  const auto a = layers.choice(layer), b = others.choice(layer);
  if (!a || !b)
    return {fmt::format("layer {}: split differently, by {} in a way that the planner does not weigh", layer,
                        a   ? "the second plan"
                        : b ? "the first plan"
                            : "both plans")};
  const LayerModel &of_a = layers.model(layer), &of_b = others.model(layer);
  const StepCost cost_a = of_a.cost(*a), cost_b = of_b.cost(*b);
  std::vector<std::string> sentences = {fmt::format(
      "layer {}: {} and {} against {} and {} per micro-batch", layer, human_seconds(layers.weights().total(cost_a)),
      human_bytes(bytes_of(cost_a)), human_seconds(others.weights().total(cost_b)), human_bytes(bytes_of(cost_b)))};
  // Both models have the same nodes in the same order; their strategies are not numbered alike.
  for (const LayerModel::Decision& decision : of_a.decisions(layers.structure(), layer)) {
    const int node = decision.node;
    const std::string &p = of_a.strategy_text(decision.node, a->strategy[node]),
                      &q = of_b.strategy_text(decision.node, b->strategy[node]);
    if (p == q) continue;
    const std::string& name = layers.structure().graph().tensor(decision.tensor).name;
    sentences.push_back(
        fmt::format("  {}{}: {} against {}", name, decision.reader.empty() ? "" : " read by " + decision.reader, p, q));
  }
  return sentences;
}

// Both do the same to the same model: only how they do it differs.
bool same_training(const Plan& plan, const Plan& other) {
  const auto step_of = [](const Plan& of) {
    Json step = to_json(of).at("training");
    for (const char* way : {"microbatches", "recompute", "recompute_ranges", "recompute_modules", "offload"})
      step.erase(way);
    return step;
  };
  const auto serves = [](const Plan& of) { return of.schedule == ScheduleKind::Inference; };
  return plan.model == other.model && step_of(plan) == step_of(other) && serves(plan) == serves(other);
}

std::string software_text(const Plan& plan) { return plan.software.empty() ? "none in particular" : plan.software; }

}  // namespace

const char* name_of(ExplainMethod method) { return method == ExplainMethod::MinMarginals ? "min_marginals" : "solves"; }

std::vector<Explanation> explain_plan(const Plan& plan, const Graph& graph, const CostModel& costs,
                                      const std::string& tensor, double max_entries) {
  PlannedLayers layers(plan, graph, costs);
  Explainer explainer(layers, max_entries);
  std::vector<Explanation> found;
  std::vector<std::string> names;
  std::set<std::pair<int, std::string>> seen;  // (stage, signature)
  for (int layer = 0; layer < layers.structure().layers().count; ++layer) {
    const bool first_of_kind = seen.emplace(layers.stage_of(layer), layers.structure().layer_signature(layer)).second;
    if (tensor.empty() && !first_of_kind) continue;
    for (const LayerModel::Decision& decision : layers.model(layer).decisions(layers.structure(), layer)) {
      const std::string& name = graph.tensor(decision.tensor).name;
      names.push_back(name);
      if (tensor.empty() || name == tensor) found.push_back(explainer.explain(layer, decision));
    }
  }
  if (found.empty())
    throw InputError(unknown_name("tensor", tensor, names, "Results of forward ops and parameters are decided."));
  return found;
}

std::vector<std::string> compare_plans(const Plan& plan, const Plan& other, const Graph& graph,
                                       const CostModel& costs) {
  std::vector<std::string> sentences;
  const auto say = [&](std::string sentence) { sentences.push_back(std::move(sentence)); };
  require(
      same_training(plan, other),
      "the two plans are for different training steps (model, batch, type, optimizer or loss); compare plans of one "
      "step.");
  const bool same_cluster = to_json(plan.cluster) == to_json(other.cluster);
  if (!same_cluster) say(fmt::format("cluster {} against {}", plan.cluster.name, other.cluster.name));
  if (plan.software != other.software)
    say(fmt::format("software {} against {}", software_text(plan), software_text(other)));
  if (plan.training.microbatches != other.training.microbatches)
    say(fmt::format("{} micro-batches against {}", plan.training.microbatches, other.training.microbatches));
  const std::string recompute = recompute_text(plan.training), other_recompute = recompute_text(other.training);
  if (recompute != other_recompute) say(fmt::format("recompute {} against {}", recompute, other_recompute));
  if (plan.training.offload != other.training.offload)
    say(fmt::format("offload {} against {}", name_of(plan.training.offload), name_of(other.training.offload)));
  if (plan.schedule != other.schedule)
    say(fmt::format("schedule {} against {}", name_of(plan.schedule), name_of(other.schedule)));
  if (plan.stages.size() != other.stages.size())
    say(fmt::format("{} stages against {}", plan.stages.size(), other.stages.size()));
  bool same_stages = same_cluster && plan.graph_fingerprint == other.graph_fingerprint &&
                     plan.layer_starts == other.layer_starts && plan.stages.size() == other.stages.size();
  for (std::size_t s = 0; s < std::min(plan.stages.size(), other.stages.size()); ++s) {
    const StagePlan &a = plan.stages[s], &b = other.stages[s];
    const bool same = a.first_layer == b.first_layer && a.last_layer == b.last_layer && a.submesh == b.submesh &&
                      a.logical_shape == b.logical_shape;
    same_stages = same_stages && same;
    if (!same)
      say(fmt::format("stage {}: layers {}..{} on {} against {}..{} on {}", s, a.first_layer, a.last_layer,
                      submesh_text(a), b.first_layer, b.last_layer, submesh_text(b)));
  }
  if (!same_stages) return sentences;

  PlannedLayers layers(plan, graph, costs), others(other, graph, costs);
  for (int layer = 0; layer < layers.structure().layers().count; ++layer)
    for (std::string& sentence : compare_layers(layers, others, layer)) say(std::move(sentence));
  return sentences;
}

}  // namespace meshwright
