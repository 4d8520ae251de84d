// SPDX-License-Identifier: Apache-2.0
// Inside of LayerModel: builds its nodes and edges. Shared by the files that make the nodes (layer_model_builder.cpp)
// and those that make the edges between them (layer_model_edges.cpp).
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/graph/op_table.h"
#include "core/planner/intra_op/strategies.h"

namespace meshwright {

// Equal blocks of a model are made of ops that differ in names alone: what the first of them costs is shared by the
// others, in one layer and between layers.
class LayerModel::Cache {
 public:
  // Without names problems have no texts, and strategy_text may not be asked for.
  bool names = false;
  // A tensor that several ops read in one spec is resharded once for all of them. Such models only make decisions, they
  // do not find those of a plan (LayerModel::choice_of).
  bool once_per_value = false;
  struct Parameter {
    std::shared_ptr<const Strategies> strategies;
    std::shared_ptr<const Costs> costs;
    std::shared_ptr<const ByClass> edge;
  };
  struct Op {
    std::shared_ptr<const Strategies> strategies;
    std::shared_ptr<const Costs> costs;
    std::map<int, Parameter> parameters = {};  // by operand
  };
  struct Fan {
    std::shared_ptr<const Strategies> strategies;
    std::shared_ptr<const Costs> costs;
    std::vector<std::shared_ptr<const ByClass>> edges = {};  // from the maker, then to each reader
  };
  // By the graph, and by everything that tells one op from another in a layer (Builder::key_of): any cut of the graph
  // has them, unless communication hides, as what is beside an op then depends on its layer.
  std::map<std::pair<const Graph*, std::vector<int>>, Op> ops;
  using Reader = std::pair<const Strategies*, std::size_t>;                              // and its operand
  std::map<std::pair<const Strategies*, Reader>, std::shared_ptr<const ByClass>> edges;  // by their maker
  std::map<std::pair<const Strategies*, std::vector<Reader>>, Fan> fans;
  KnownResults borders;
};

class LayerModel::Builder {
 public:
  Builder(LayerModel& model, const StepStructure& structure, int layer, const LogicalMesh& mesh, const CostModel& costs,
          ReshardingCosts& resharding, const IntraOpRules& rules, Cache& cache)
      : model_(model),
        structure_(structure),
        graph_(structure.graph()),
        layer_(layer),
        mesh_(mesh),
        costs_(costs.on(mesh.of.group)),
        resharding_(resharding),
        rules_(rules),
        cache_(cache) {}

  void build();

 private:
  using Group = StepStructure::Group;
  using Operand = StepStructure::Operand;

  // How a strategy of the reading op wants the operand, and the specs in which its backward leaves the operand's
  // gradient.
  struct Reading {
    ShardingSpec wanted;
    std::vector<ShardingSpec> gradients;
    auto operator<=>(const Reading&) const = default;
  };

  // The different values among `all`.
  template <class Value>
  struct Classes {
    explicit Classes(const std::vector<Value>& all) {
      std::map<Value, int> known;
      for (const Value& value : all) {
        const auto [at, is_new] = known.emplace(value, static_cast<int>(values.size()));
        if (is_new) values.push_back(value);
        of.push_back(at->second);
      }
    }
    std::vector<Value> values;
    std::vector<int> of;  // [strategy] -> its class
  };
  template <class From, class To, class Cost>
  static std::shared_ptr<const ByClass> by_class(const Classes<From>& makers, const Classes<To>& readers, Cost cost) {
    ByClass of{elimination::make_classes(makers.of), elimination::make_classes(readers.of), {}};
    of.costs.reserve(makers.values.size() * readers.values.size());
    for (const From& made : makers.values)
      for (const To& read : readers.values) of.costs.push_back(cost(made, read));
    return std::make_shared<const ByClass>(std::move(of));
  }

  // --- nodes ---

  void add_in();
  void add_op(int position, const Op& op);
  // What an op costs beside what its group says depends on where in the layer it is.
  [[nodiscard]] std::vector<int> key_of(const Op& op) const;
  [[nodiscard]] Cache::Op make_op(const Op& op);
  void add_parameter(int reader, const Group& group, int operand_index, Cache::Op& of);
  [[nodiscard]] Cache::Parameter make_parameter(int reader, const Group& group, const Operand& operand);
  void add_out();

  [[nodiscard]] OpWork work(OpId op, const AxesByName& axes) const {
    const IterationSpace& space = structure_.space(op);
    return op_work(graph_, graph_.op(op), space, local_axis_sizes(space, axes, mesh_));
  }
  [[nodiscard]] bool saved_in_this_layer(TensorId tensor) const;
  [[nodiscard]] Bytes temporary_bytes(const Op& op, const AxesByName& axes) const;
  // What an op and those made from it take when its axes are split in one way, however the result is kept.
  struct SplitCost {
    std::vector<AxisMask> axes;
    Seconds forward{0};
    std::vector<Seconds> recomputations;
    struct Backward {
      Seconds compute, synchronisation;
      bool for_weights;
    };
    std::vector<Backward> backward;
    Seconds host_forward{0.0}, host_backward{0.0};
    Bytes working{0};
  };
  [[nodiscard]] SplitCost split_cost(const Group& group, const std::vector<AxisMask>& axes) const;
  // What a strategy of `group`'s forward op costs apart from its operands; `split` is that of its axes.
  [[nodiscard]] StepCost op_cost(const Group& group, const OpStrategy& strategy, const SplitCost& split) const;
  void keep_saved(Bytes bytes, StepCost& cost) const;
  // What adding the contributions to the gradient of `group`'s result costs where each has the layout `spec`.
  [[nodiscard]] StepCost sum_cost(const Group& group, const ShardingSpec& spec) const;
  [[nodiscard]] Seconds inner_synchronisation(const Group& group, const Op& reader, const AxesByName& axes) const;
  // The time in which an update's op fetches optimizer state from the host and sends it back.
  [[nodiscard]] Seconds host_time(const Op& op, const AxesByName& axes) const;
  // Update work and state of a parameter kept as `sharding`.
  [[nodiscard]] StepCost parameter_cost(const Group& group, const Tensor& parameter,
                                        const ParameterSharding& sharding) const;
  // What a parameter's communication hides behind (IntraOpRules::hiding): gathers in the two passes, sums of gradients
  // in the backward of one micro-batch; that of a sum once per step is the last.
  struct Behind {
    Seconds forward{0.0}, backward{0.0}, sums{0.0};
  };
  [[nodiscard]] Behind behind(const Group& group, const Tensor& parameter);
  struct Shared {
    OpId op;
    Seconds forward, backward;
    bool reads_parameter;
  };
  [[nodiscard]] std::vector<Shared> find_shared() const;
  // Where the rules say what hides, a software hides nothing itself.
  [[nodiscard]] MoveShares sums_of(const Tensor& gradient) const {
    return rules_.hiding.beside ? MoveShares{} : costs_.sums(gradient.dtype);
  }
  // What the host takes to issue an op of this time, and to issue what brings a tensor from one spec to another: a
  // collective on each axis that splits it otherwise than before.
  [[nodiscard]] Seconds issue(const Op& op, Seconds time) const;
  [[nodiscard]] Seconds issue(const ShardingSpec& from, const ShardingSpec& to) const;
  // A gradient of the tensor's shape goes from one spec to another in the backward.
  void reshard_gradient(const Tensor& tensor, const ShardingSpec& from, const ShardingSpec& to, StepCost& cost) const {
    cost.backward += resharding_(tensor, from, to);
    cost.host_backward += issue(from, to);
  }
  // What is left to wait for.
  static Seconds exposed(Seconds moving, Seconds computing) { return std::max(Seconds(0.0), moving - computing); }
  [[nodiscard]] bool read_as_partial(TensorId tensor) const;
  [[nodiscard]] bool linear_operands_made_here(const Op& op) const;

  template <class Strategy>
  bool keep_forced(std::vector<Strategy>& strategies, const Tensor& tensor, ShardingSpec Strategy::*layout);
  [[nodiscard]] bool exists_on_mesh(const Tensor& tensor, const ShardingSpec& spec) const;
  void refuse(const Tensor& tensor, const ShardingSpec& spec);
  void refuse_method(const std::string& name);

  // --- edges ---

  // What an op whose axes are split like this costs, whatever layout its result is kept in.
  [[nodiscard]] Reading reading(const Group& group, const Operand& operand, const std::vector<AxisMask>& axes) const;
  [[nodiscard]] std::vector<Reading> readings(int reader, const Group& group, const Operand& operand) const;
  // A reader of a tensor that fans out.
  struct FannedReader {
    int node;
    const Group* group;
    const Operand* operand;
    std::vector<Reading> readings = {};  // [strategy]; once it is needed
  };
  [[nodiscard]] Cache::Reader cache_key(int reader, const Group& group, const Operand& operand) const {
    return {model_.nodes_[reader].strategies.get(), static_cast<std::size_t>(&operand - group.operands.data())};
  }
  // The spec of `tensor` under strategy `p` of the node that makes it.
  [[nodiscard]] const ShardingSpec& made_as(const Node& node, std::size_t p, TensorId tensor) const;
  [[nodiscard]] std::vector<ShardingSpec> made_as(const Node& node, TensorId tensor) const;
  void add_edge(int from, int to, const Group& group, const Operand& operand);
  // The fan-outs worth choosing from: copies as the tensor is made or some reader wants it, and gradients that are
  // summed as partial sums where every reader can leave its contribution so.
  [[nodiscard]] std::vector<FanOut> possible_fan_outs(const std::vector<ShardingSpec>& made,
                                                      const std::vector<FannedReader>& readers) const;
  // A fan-out of a tensor, and which specs of it are at hand for nothing: `kept`, in which the maker has to leave it
  // then, beside the copy; `shared`, in which several readers want it, and one of them pays.
  struct AtHand {
    FanOut fan_out;
    std::optional<ShardingSpec> kept = {}, shared = {};
    auto operator<=>(const AtHand&) const = default;
  };
  // What a tensor that is resharded once per value may have at hand beside its fan-outs.
  [[nodiscard]] std::vector<AtHand> further_at_hand(const Tensor& tensor, const std::vector<ShardingSpec>& made,
                                                    const std::vector<FannedReader>& readers,
                                                    const std::vector<FanOut>& fan_outs) const;
  void add_fan_out(const Tensor& tensor, std::vector<FannedReader>& readers);
  [[nodiscard]] Cache::Fan make_fan_out(const Tensor& tensor, std::vector<FannedReader>& readers) const;
  [[nodiscard]] Seconds sum_time(const Group& group, const Tensor& accumulator, const ShardingSpec& kept);
  [[nodiscard]] StepCost accumulation_cost(const Group& group, const Operand& operand, const Tensor& accumulator,
                                           const std::vector<ShardingSpec>& gradients,
                                           const ParameterSharding& sharding, Seconds behind);

  LayerModel& model_;
  const StepStructure& structure_;
  const Graph& graph_;
  int layer_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  const HostTimes host_ = costs_.host_times();
  ReshardingCosts& resharding_;
  const IntraOpRules& rules_;
  const MoveShares gathers_ = rules_.hiding.beside ? MoveShares{} : costs_.gathers();
  Cache& cache_;
  std::vector<Shared> shared_;                                      // empty unless communication hides
  std::map<std::pair<TensorId, ShardingSpec>, Seconds> sum_times_;  // of accumulators
  std::map<TensorId, int> made_by_;                                 // the node that makes a tensor
  std::map<TensorId, std::vector<FannedReader>> fans_out_;          // tensors that fan out, so far
  std::map<TensorId, std::vector<FannedReader>> once_;              // others, where each is resharded once
};

}  // namespace meshwright
