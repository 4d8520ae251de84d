// SPDX-License-Identifier: Apache-2.0
// The intra-operator model of one layer on one logical mesh: which strategies each op and parameter has, and what every
// choice costs, as a ShardingProblem.
//
// One node stands for a forward op together with everything autodiff made from it: its backward ops iterate over the
// same named axes and are split the same way (so a gradient lies as its tensor lies, up to partial sums). A parameter
// is a node of its own: how it lies between uses, and how its optimizer state lies. A layer's borders are nodes too, so
// that layers can be chained.
//
// Costs are split into what recurs per microbatch (forward, backward) and per step (gradient synchronisation, update),
// and the bytes that stay: `resident` (weights, accumulators, optimizer state) and `saved` (kept from forward to
// backward per microbatch).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plan/plan.h"
#include "core/planner/cluster_layers.h"
#include "core/planner/elimination_tables.h"
#include "core/planner/sharding_problem.h"
#include "core/sharding/resharding.h"

namespace meshwright {

struct OpStrategy {
  std::vector<AxisMask> axes;  // [iteration axis of the forward op]
  AxisMask partial;            // linear operands are read as partial sums over these mesh axes
  ShardingSpec raw;            // of the first output, before partial sums are resolved
  ShardingSpec result;         // as it is kept
};

struct StepCost {
  Seconds forward{0.0}, backward{0.0};  // per microbatch
  Seconds weights{0.0};                 // the part of `backward` that only gradients of parameters depend on
  Seconds step{0.0};                    // once per step
  Bytes resident{0.0}, saved{0.0};
  Bytes recomputed{0.0};  // made again in the backward when recomputing
  Bytes held{0.0};        // left by the rest of the backward for what `weights` takes, where that runs later
  Bytes repeated{0.0};    // of that, at a time: what one block makes again (MeshSpans fills it in); by maximum
  Bytes working{0.0};     // largest temporary need of one op; combined by maximum, the rest by sum
  StepCost& operator+=(const StepCost& other);
};

// How costs are combined into the one number the solver minimises, per microbatch:
// forward + backward + step / microbatches + memory_price * (resident + in_flight * saved).
struct CostWeights {
  double microbatches = 1;
  double memory_price = 0;  // seconds per byte
  double in_flight = 1;
  [[nodiscard]] Seconds total(const StepCost& cost) const;
};

// Tensors that must lie as given: results as they are kept, parameters between uses, optimizer state.
using ForcedSpecs = std::map<std::string, ShardingSpec>;

// Constraints of a parallel method.
struct IntraOpRules {
  std::function<bool(const Op& op, const IterationSpace& space, const std::vector<AxisMask>& axes)> allow_op;
  // Of parameters and of their optimizer state: as the solver likes, whole on every device, or split over as many mesh
  // axes as divide.
  enum class Split { Free, Whole, Most } weight = Split::Free, state = Split::Free;
  // When gradients are synchronised: as the solver likes, once per step, or in every microbatch where that makes the
  // accumulator smaller.
  enum class Gradients { Free, Delayed, Eager } gradients = Gradients::Free;
  ForcedSpecs forced = {};  // by tensor name
};

// What the training graph says about each forward op, independent of any mesh. Built once per graph.
class StepStructure {
 public:
  explicit StepStructure(const Graph& graph, const Layers& layers);

  struct Gradient {
    OpId made_by;  // backward op
    int result;    // which of its outputs
  };
  struct Operand {
    TensorId tensor;
    bool read_in_backward = false;         // by a backward op of this forward op, or by its recomputation
    std::vector<Gradient> gradients;       // contributions to the operand's gradient made by this op's backward
    bool gradient_passes_through = false;  // the operand's gradient is the result's gradient itself (add, bias add)
    std::optional<TensorId> accumulator;   // parameters
  };
  struct Group {
    OpId forward;
    std::vector<Operand> operands;
    std::vector<OpId> recomputations, backward, sums;  // sums: adds that combine gradients of this op's result
    bool result_gradient_read = false;
    std::vector<OpId> updates;           // of parameters this op is the first to read
    std::vector<bool> for_weights = {};  // [as backward] only gradients of parameters depend on the op
  };
  [[nodiscard]] const Group& group(OpId forward) const { return groups_[forward.index()]; }
  [[nodiscard]] const IterationSpace& space(OpId op) const { return spaces_[op.index()]; }
  // Layers whose backward ops read the tensor (or its recomputation's entering value), ascending.
  [[nodiscard]] const std::vector<int>& backward_readers(TensorId tensor) const {
    return backward_readers_[tensor.index()];
  }
  [[nodiscard]] bool is_first_reader(OpId forward, TensorId parameter) const;
  // The first result of a forward op that is read in the op's own layer only, and there by two or more operands of ops
  // that iterate beyond it (products): their reshardings of it, and the sums of their gradients, may be shared. Readers
  // that iterate over its own axes alone can follow it for nothing.
  [[nodiscard]] bool fans_out(TensorId tensor) const { return fans_out_[tensor.index()]; }
  [[nodiscard]] const std::vector<TensorId>& optimizer_state(TensorId parameter) const {
    return states_[parameter.index()];
  }
  [[nodiscard]] int blocks_in(int layer) const;  // number of the model's blocks with an op in the layer, at least 1
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Layers& layers() const { return layers_; }

  // Tensors made by forward ops of layers < `layer` and read by forward ops of layers >= `layer`, by id.
  [[nodiscard]] std::vector<TensorId> crossing(int layer) const;
  // Whether a forward op of layers first..last reads the tensor.
  [[nodiscard]] bool is_read(TensorId tensor, int first, int last) const;
  // Equal numbers: the forward ops and everything autodiff made from them differ in names and ids alone, and so do the
  // tensors they read and make.
  [[nodiscard]] int group_class(OpId forward) const { return group_classes_[forward.index()]; }
  // Equal texts: the layers are equal problems on every mesh (names and ids do not matter).
  [[nodiscard]] std::string layer_signature(int layer) const;

 private:
  void note_backward_reader(const Op& reader, TensorId input);
  void find_for_weights(Group& group) const;
  void find_fan_outs();
  void find_group_classes();

  const Graph& graph_;
  const Layers& layers_;
  std::vector<IterationSpace> spaces_;
  std::vector<Group> groups_;
  std::vector<std::vector<int>> backward_readers_;
  std::vector<std::vector<TensorId>> states_;
  std::vector<std::optional<OpId>> first_reader_;
  std::vector<bool> fans_out_;
  std::vector<int> group_classes_;
};

// A layer's border: one spec for each crossing tensor, of those that the rules let its op leave. Of very many joint
// states only those are kept that split every tensor the same way by name.
struct Border {
  std::vector<TensorId> tensors;
  std::vector<std::vector<ShardingSpec>> states;  // [state][tensor]
};
[[nodiscard]] Border make_border(const StepStructure& structure, int layer, const LogicalMesh& mesh,
                                 const IntraOpRules& rules = {});
// Of the borders before and after a layer. Layers of equal signature are equal problems only when these texts are equal
// too; without rules they are.
[[nodiscard]] std::string border_signature(const StepStructure& structure, int layer, const LogicalMesh& mesh,
                                           const IntraOpRules& rules);

// Prices of resharding on one mesh, remembered. Not shared between threads.
class ReshardingPrices {
 public:
  ReshardingPrices(const LogicalMesh& mesh, const CostModel& costs) : mesh_(mesh), costs_(costs) {}
  [[nodiscard]] Seconds operator()(const Tensor& tensor, const ShardingSpec& from, const ShardingSpec& to);

 private:
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  struct Shape {
    std::vector<std::int64_t> sizes;
    DType dtype;
    bool operator==(const Shape&) const = default;
  };
  struct Hash {
    std::size_t operator()(const ShardingSpec& spec) const;
    std::size_t operator()(const Shape& shape) const;
  };
  using Targets = std::unordered_map<ShardingSpec, Seconds, Hash>;
  using Sources = std::unordered_map<ShardingSpec, Targets, Hash>;
  std::unordered_map<Shape, Sources, Hash> known_;
  std::pair<const Shape, Sources>* last_ = nullptr;  // what is asked for one after the other is often of one shape
};

// A StepStructure of the same forward ops and layers whose backward makes again what `recompute` says.
struct StepVariant {
  Recompute recompute;
  const StepStructure* structure;
};

class LayerModel {
 public:
  // Ops that models on one mesh under the same rules have been made of: those that differ in names alone are priced
  // once (layer_model_builder.h).
  class Known;
  // With `known`, models share what they can.
  LayerModel(const StepStructure& structure, int layer, const LogicalMesh& mesh, const CostModel& costs,
             ReshardingPrices& prices, const IntraOpRules& rules, Known* known = nullptr);

  // Why the rules and the mesh leave an op or a parameter without a strategy; nothing else may be asked of the model
  // then.
  [[nodiscard]] const std::optional<std::string>& impossible() const { return impossible_; }

  // With `most_working`, strategies whose op needs more temporary memory are forbidden. Without `texts` its strategies
  // have no names.
  enum class Texts { Yes, No };
  [[nodiscard]] ShardingProblem problem(const CostWeights& weights, std::optional<Bytes> most_working = std::nullopt,
                                        Texts texts = Texts::Yes) const;
  // Of the same problem, without making it.
  [[nodiscard]] std::vector<elimination::Table> tables(const CostWeights& weights,
                                                       std::optional<Bytes> most_working = std::nullopt) const;
  [[nodiscard]] int in_node() const { return in_node_; }
  [[nodiscard]] int out_node() const { return out_node_; }
  [[nodiscard]] const Border& in_border() const { return in_; }
  [[nodiscard]] const Border& out_border() const { return out_; }

  // No choice needs less temporary memory at its hungriest op.
  [[nodiscard]] Bytes least_working() const;
  // The parts of a choice's cost.
  [[nodiscard]] StepCost cost(const ShardingChoice& choice) const;
  // [op of the layer]: of a choice's `recomputed`.
  [[nodiscard]] std::vector<Bytes> recomputed_by_op(const ShardingChoice& choice, std::size_t ops) const;
  // The temporary needs of the ops' and parameters' single strategies: distinct, ascending.
  [[nodiscard]] std::vector<Bytes> working_values() const;
  // Adds `price` seconds per byte of `recomputed` to a problem of this model.
  void price_recomputed(ShardingProblem& problem, double price) const;
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
  // Of the nodes that stand for a decision: the result of an op, or a parameter.
  struct Decision {
    int node;
    TensorId tensor;
    std::string reader;  // of a parameter: the op
  };
  [[nodiscard]] std::vector<Decision> decisions(const StepStructure& structure, int layer) const;
  // How the decided tensor lies under a strategy of its node: the spec, and for people the rest of the strategy.
  [[nodiscard]] ShardingSpec spec_of(int node, int strategy) const;
  [[nodiscard]] const std::string& strategy_text(int node, int strategy) const;

  // Of costs and names, which take much memory: afterwards only borders and `write_decisions` may be asked for.
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
  struct Priced {  // [strategy]
    std::vector<std::string> names;
    std::vector<StepCost> costs;
  };
  struct Node {
    std::string name;
    enum class Kind { In, Op, FanOut, Parameter, Out } kind;
    int op_position = -1;  // in Layers::forward[layer]; FanOut: of the op that makes it; Parameter: of its reader
    int operand = -1;      // Parameter
    std::shared_ptr<const Strategies> strategies = {};  // not of borders
    std::shared_ptr<const Priced> priced = {};
    [[nodiscard]] std::size_t size() const { return priced->costs.size(); }
  };
  // Many strategies make or read a tensor in one way: one cost per pair of classes.
  struct ByClass {
    std::vector<int> from_class, to_class;  // [strategy]
    std::size_t to_classes;
    std::vector<std::optional<StepCost>> costs;  // [class of from * to_classes + class of to]
  };
  struct Edge {
    int from, to;
    std::shared_ptr<const ByClass> of;
    [[nodiscard]] const std::optional<StepCost>& cost(std::size_t p, std::size_t q) const {
      return of->costs[static_cast<std::size_t>(of->from_class[p]) * of->to_classes +
                       static_cast<std::size_t>(of->to_class[q])];
    }
  };

  class Builder;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  Border in_, out_;
  int in_node_ = 0, out_node_ = 0;
  std::optional<std::string> impossible_;
};

}  // namespace meshwright
