// SPDX-License-Identifier: Apache-2.0
// The intra-operator model of one layer on one logical mesh: which strategies each op and parameter has, and what every
// choice costs, as a ShardingProblem.
//
// One node stands for a forward op together with everything autodiff made from it: its backward ops iterate over the
// same named axes and are split the same way (so a gradient has its tensor's layout, up to partial sums). A parameter
// is a node of its own: its layout between uses, and that of its optimizer state. A layer's borders are nodes too, so
// that layers can be chained.
//
// Costs are split into what recurs per microbatch (forward, backward) and per step (gradient synchronisation, update),
// and the bytes that stay: `resident` (weights, accumulators, optimizer state) and `saved` (kept from forward to
// backward per microbatch).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plan/plan.h"
#include "core/planner/intra_op/border.h"
#include "core/planner/intra_op/intra_op_rules.h"
#include "core/planner/intra_op/resharding_costs.h"
#include "core/planner/intra_op/step_cost.h"
#include "core/planner/layers/step_structure.h"
#include "core/sharding/resharding.h"
#include "core/solver/elimination/elimination_tables.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

struct OpStrategy {
  std::vector<AxisMask> axes;  // [iteration axis of the forward op]
  AxisMask partial;            // linear operands are read as partial sums over these mesh axes
  ShardingSpec raw;            // of the first output, before partial sums are resolved
  ShardingSpec result;         // as it is kept
};

// The sharding of a tensor that crosses a border of the stage, as the plan has it; nullopt: it only passes the stage
// by.
[[nodiscard]] std::optional<ShardingSpec> sharding_on(const StagePlan& stage, const Graph& graph, TensorId id);

class LayerModel {
 public:
  // What models on one mesh under the same rules share: the costs of ops that differ in names alone are computed once
  // (layer_model_builder.h). Such models have no names for their strategies.
  class Cache;
  LayerModel(const StepStructure& structure, int layer, const LogicalMesh& mesh, const CostModel& costs,
             ReshardingCosts& resharding, const IntraOpRules& rules, Cache* cache = nullptr);

  // Why the rules and the mesh leave an op or a parameter without a strategy; nothing else may be asked of the model
  // then.
  [[nodiscard]] const std::optional<std::string>& impossible() const { return impossible_; }

  // With `max_working`, strategies whose op needs more working memory are forbidden. Texts::No leaves out the names of
  // strategies.
  enum class Texts { Yes, No };
  [[nodiscard]] ShardingProblem problem(const CostWeights& weights, std::optional<Bytes> max_working = std::nullopt,
                                        Texts texts = Texts::Yes) const;
  // Costs of one price, weighted once for all models that share them.
  struct WeightedCosts;
  // The same problem, with charge_recomputed, as tables for elimination, which are much smaller. REQUIRES: `known` has
  // seen no other weights, `max_working` and price.
  [[nodiscard]] std::vector<elimination::Table> tables(const CostWeights& weights, std::optional<Bytes> max_working,
                                                       double recomputed_price, WeightedCosts& known) const;
  [[nodiscard]] int in_node() const { return in_node_; }
  [[nodiscard]] int out_node() const { return out_node_; }
  [[nodiscard]] const Border& in_border() const { return in_; }
  [[nodiscard]] const Border& out_border() const { return out_; }

  // The working memory that every choice needs at least, at its hungriest op.
  [[nodiscard]] Bytes min_working() const;
  // The parts of a choice's cost.
  [[nodiscard]] StepCost cost(const ShardingChoice& choice) const;
  // [op of the layer]: its part of a choice's `recomputed`.
  [[nodiscard]] std::vector<Bytes> recomputed_by_op(const ShardingChoice& choice, std::size_t ops) const;
  // The working memories of the strategies of single ops and parameters: distinct, ascending.
  [[nodiscard]] std::vector<Bytes> working_values() const;
  // Adds `memory_price` seconds per byte of `recomputed` to a problem of this model.
  void charge_recomputed(ShardingProblem& problem, double memory_price) const;
  // A lower bound of how much more a sharding costs here than in `other`, a model with the same nodes and strategies,
  // with `recomputed_price` seconds per byte of `recomputed`; infinity: none is allowed here. From the least
  // differences of nodes and edges, each by itself.
  [[nodiscard]] double min_excess(const LayerModel& other, const CostWeights& weights, std::optional<Bytes> max_working,
                                  double recomputed_price) const;
  // The parts of a choice's cost: of all but the parameters; and of each parameter under each of its strategies, with
  // its edge to the op that reads it (nullopt: the op cannot read it so). No two parameters depend on each other.
  struct Parts {
    struct Parameter {
      int node;
      std::vector<std::optional<StepCost>> costs;  // [strategy]
    };
    StepCost ops;
    std::vector<Parameter> parameters;
  };
  [[nodiscard]] Parts parts(const ShardingChoice& choice) const;
  // The choice that makes these decisions, its borders as they follow from them; nullopt when the model has no such
  // strategy (another mesh, other rules, a border state that was left out).
  [[nodiscard]] std::optional<ShardingChoice> choice_of(const StagePlan& stage, const StepStructure& structure,
                                                        int layer) const;
  // The nodes that stand for a decision: the result of an op, or a parameter.
  struct Decision {
    int node;
    TensorId tensor;
    std::string reader;  // of a parameter: the op
  };
  [[nodiscard]] std::vector<Decision> decisions(const StepStructure& structure, int layer) const;
  // The layout of the decided tensor under a strategy of its node: the spec, and for people the rest of the strategy.
  [[nodiscard]] ShardingSpec spec_of(int node, int strategy) const;
  [[nodiscard]] const std::string& strategy_text(int node, int strategy) const;

  // Frees costs and names, which take much memory: afterwards only borders and `write_decisions` may be asked for.
  void forget_costs();
  // Writes the decisions under the names of `layer`'s own ops (a layer equal in signature to the modelled one).
  void write_decisions(const ShardingChoice& choice, const StepStructure& structure, int layer, StagePlan& stage) const;

 private:
  // What several nodes and edges may share: of ops that differ in names alone.
  struct Strategies {
    std::vector<OpStrategy> op = {};
    std::vector<ParameterSharding> parameter = {};
    std::vector<FanOut> fan_out = {};
  };
  struct Costs {
    std::vector<std::string> names;     // [strategy]
    std::vector<StepCost> by_strategy;  // [strategy]
  };
  struct Node {
    std::string name;
    enum class Kind { In, Op, FanOut, Parameter, Out } kind;
    int op_position = -1;  // in Layers::forward[layer]; FanOut: of the op that makes it; Parameter: of its reader
    int operand = -1;      // Parameter
    std::shared_ptr<const Strategies> strategies = {};  // not of borders
    std::shared_ptr<const Costs> costs = {};
    [[nodiscard]] std::size_t size() const { return costs->by_strategy.size(); }
  };
  // An edge's costs. Many strategies make or read a tensor in one way: one cost per pair of such classes.
  struct ByClass {
    elimination::SharedClasses from, to;
    std::vector<std::optional<StepCost>> costs;  // [class of from * classes of to + class of to]
    [[nodiscard]] int class_of_from(std::size_t strategy) const { return from->of[static_cast<int>(strategy)]; }
    [[nodiscard]] int class_of_to(std::size_t strategy) const { return to->of[static_cast<int>(strategy)]; }
  };
  struct Edge {
    int from, to;
    std::shared_ptr<const ByClass> of;
    [[nodiscard]] const std::optional<StepCost>& cost(std::size_t p, std::size_t q) const {
      return of->costs[of->class_of_from(p) * of->to.size() + of->class_of_to(q)];
    }
  };

  class Builder;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  Border in_, out_;
  int in_node_ = 0, out_node_ = 0;
  std::optional<std::string> impossible_;
};

struct LayerModel::WeightedCosts {
  std::map<std::shared_ptr<const Costs>, elimination::Costs> of_nodes;
  std::map<std::shared_ptr<const ByClass>, std::shared_ptr<const elimination::Between>> of_edges;
};

}  // namespace meshwright
