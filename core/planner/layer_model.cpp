// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "core/planner/strategies.h"

namespace meshwright {

StepCost& StepCost::operator+=(const StepCost& other) {
  forward += other.forward;
  backward += other.backward;
  step += other.step;
  resident += other.resident;
  saved += other.saved;
  recomputed += other.recomputed;
  working = std::max(working, other.working);
  return *this;
}

Seconds CostWeights::total(const StepCost& cost) const {
  const double bytes = cost.resident.si() + in_flight * cost.saved.si();
  return cost.forward + cost.backward + cost.step / microbatches + Seconds(memory_price * bytes);
}

Seconds ReshardingPrices::operator()(const Tensor& tensor, const ShardingSpec& from, const ShardingSpec& to) {
  if (from == to) return Seconds(0);
  Key key{{}, tensor.dtype, from};
  for (const Dim& dim : tensor.dims) key.sizes.push_back(dim.size);
  auto& prices = known_[key];
  if (prices.empty()) {
    const std::vector<ShardingSpec> targets = enumerate_specs(tensor.dims, mesh_);
    const auto ways = find_reshardings(tensor.dims, tensor.dtype, from, targets, mesh_, costs_);
    for (std::size_t i = 0; i < targets.size(); ++i) prices.emplace(targets[i], ways[i].time);
  }
  return prices.at(to);
}

class LayerModel::Builder {
 public:
  Builder(LayerModel& model, const StepStructure& structure, int layer, const LogicalMesh& mesh, const CostModel& costs,
          ReshardingPrices& prices, const IntraOpRules& rules)
      : model_(model),
        structure_(structure),
        graph_(structure.graph()),
        layer_(layer),
        mesh_(mesh),
        costs_(costs),
        prices_(prices),
        rules_(rules) {}

  void build() {
    model_.in_ = make_border(structure_, layer_, mesh_, rules_);
    model_.out_ = make_border(structure_, layer_ + 1, mesh_, rules_);
    add_in();
    const auto& ops = structure_.layers().forward[index(layer_)];
    for (std::size_t p = 0; p < ops.size() && !model_.impossible_; ++p) add_op(static_cast<int>(p), graph_.op(ops[p]));
    if (!model_.impossible_) add_out();
  }

 private:
  using Group = StepStructure::Group;
  using Operand = StepStructure::Operand;
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  bool saved_in_this_layer(TensorId tensor) const {
    const auto& readers = structure_.backward_readers(tensor);
    return std::find(readers.begin(), readers.end(), layer_) != readers.end();
  }

  OpWork work(OpId op, const AxesByName& axes) const {
    return op_work(graph_, graph_.op(op), local_axis_sizes(structure_.space(op), axes, mesh_));
  }

  // What an op has in memory beside persistent tensors: its activations and gradients, whole on both sides.
  Bytes temporary_bytes(const Op& op, const AxesByName& axes) const {
    Bytes bytes(0);
    const IterationSpace& space = structure_.space(op.id);
    const auto count = [&](TensorId id, const ShardingSpec& spec) {
      const Tensor& tensor = graph_.tensor(id);
      if (tensor.kind == TensorKind::Intermediate || tensor.kind == TensorKind::Input)
        bytes += local_bytes(tensor, spec, mesh_);
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) count(op.inputs[i], operand_spec(space, i, axes));
    for (std::size_t o = 0; o < op.outputs.size(); ++o) count(op.outputs[o], raw_result(space, o, axes));
    return bytes;
  }

  void add_in() {
    Node node{"border in", Node::Kind::In, -1, -1, {}, {}, {}, {}};
    for (const auto& state : model_.in_.states) {
      StepCost cost;
      std::string name;
      for (std::size_t t = 0; t < state.size(); ++t) {
        const Tensor& tensor = graph_.tensor(model_.in_.tensors[t]);
        name += state[t].to_text() + " ";
        if (saved_in_this_layer(tensor.id)) cost.saved += local_bytes(tensor, state[t], mesh_);
        made_by_[tensor.id] = 0;
      }
      node.names.push_back(name);
      node.costs.push_back(cost);
    }
    model_.in_node_ = 0;
    model_.nodes_.push_back(std::move(node));
  }

  // A gradient lies as its tensor lies, without partial sums.
  static ShardingSpec whole_sums(ShardingSpec spec) {
    spec.partial = 0;
    return spec;
  }

  // What a strategy of `group`'s forward op costs apart from its operands.
  StepCost op_cost(const Group& group, const OpStrategy& strategy) const {
    const Op& op = graph_.op(group.forward);
    const AxesByName axes = axes_by_name(structure_.space(op.id), strategy.axes);
    const Tensor& result = graph_.tensor(op.outputs.front());
    const Seconds resolve = prices_(result, strategy.raw, strategy.result);
    StepCost cost;
    cost.forward = costs_.compute(work(op.id, axes)).time + resolve;
    cost.working = temporary_bytes(op, axes);
    const auto backward = [&](OpId id, const AxesByName& split) {
      cost.backward += costs_.compute(work(id, split)).time;
      cost.working = std::max(cost.working, temporary_bytes(graph_.op(id), split));
    };
    for (const OpId id : group.recomputations) {
      backward(id, axes);
      cost.backward += resolve;
      cost.recomputed += local_bytes(result, strategy.result, mesh_);
    }
    for (const OpId id : group.backward) {
      backward(id, axes);
      cost.backward += inner_synchronisation(group, graph_.op(id), axes);
    }
    const AxesByName sum_axes = axes_of_dims(result.dims, strategy.result);
    for (const OpId id : group.sums) backward(id, sum_axes);
    if (group.result_gradient_read)
      cost.backward += prices_(result, whole_sums(strategy.result), whole_sums(strategy.raw));
    for (const TensorId output : op.outputs)
      if (saved_in_this_layer(output)) cost.saved += local_bytes(graph_.tensor(output), strategy.result, mesh_);
    return cost;
  }

  // A parameter's gradient that another backward op of the group reads (a batch norm's) must be whole sums there.
  Seconds inner_synchronisation(const Group& group, const Op& reader, const AxesByName& axes) const {
    Seconds time(0);
    if (reader.kind == OpKind::Accumulate) return time;
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      const Tensor& tensor = graph_.tensor(reader.inputs[i]);
      if (!tensor.producer || tensor.gradient_of) continue;
      const Op& maker = graph_.op(*tensor.producer);
      if (std::find(group.backward.begin(), group.backward.end(), maker.id) == group.backward.end()) continue;
      const auto at = std::find(maker.outputs.begin(), maker.outputs.end(), tensor.id) - maker.outputs.begin();
      time += prices_(tensor, raw_result(structure_.space(maker.id), static_cast<std::size_t>(at), axes),
                      operand_spec(structure_.space(reader.id), i, axes));
    }
    return time;
  }

  // Some op of this layer can take the tensor as partial sums.
  bool read_as_partial(TensorId tensor) const {
    for (const OpId id : structure_.layers().forward[index(layer_)]) {
      const Op& op = graph_.op(id);
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] == tensor && (row_of(op.kind).linear_operands >> i & 1u) != 0) return true;
    }
    return false;
  }
  bool linear_operands_made_here(const Op& op) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto maker = made_by_.find(op.inputs[i]);
      const bool made = maker != made_by_.end() && model_.nodes_[index(maker->second)].kind == Node::Kind::Op;
      if ((row_of(op.kind).linear_operands >> i & 1u) != 0 && !made) return false;
    }
    return true;
  }

  const ShardingSpec* forced(const Tensor& tensor) const {
    const auto found = rules_.forced.find(tensor.name);
    return found == rules_.forced.end() ? nullptr : &found->second;
  }
  bool can_lie_as(const Tensor& tensor, const ShardingSpec& spec) const {
    const std::vector<ShardingSpec> all = enumerate_specs(tensor.dims, mesh_);
    return std::find(all.begin(), all.end(), spec) != all.end();
  }
  void refuse(const Tensor& tensor, const ShardingSpec& spec) {
    model_.impossible_ =
        fmt::format("'{}' {} cannot lie as {} on a {} mesh: {}; force another spec, or none", tensor.name,
                    to_text(tensor.dims), spec.to_text(), mesh_.to_text(),
                    can_lie_as(tensor, spec) ? "no strategy that the method allows leaves it so"
                                             : "its axes do not exist there, have one device or do not divide");
  }

  void add_op(int position, const Op& op) {
    const Group& group = structure_.group(op.id);
    const IterationSpace& space = structure_.space(op.id);
    const Tensor& result = graph_.tensor(op.outputs.front());
    Node node{op.name, Node::Kind::Op, position, -1, {}, {}, {}, {}};
    node.op_strategies = enumerate_strategies(op, space, result.dims, mesh_, rules_,
                                              read_as_partial(result.id) ? Results::MayStayPartial : Results::Whole);
    // Only what an op of this layer makes can be partial.
    if (!linear_operands_made_here(op))
      std::erase_if(node.op_strategies, [](const OpStrategy& strategy) { return strategy.partial != 0; });
    if (node.op_strategies.empty()) {
      model_.impossible_ = fmt::format(
          "{} cannot be split over a {} mesh as the method demands; choose a batch, micro-batch count or mesh that "
          "divides",
          op.name, mesh_.to_text());
      return;
    }
    if (const ShardingSpec* spec = forced(result)) {
      std::erase_if(node.op_strategies, [&](const OpStrategy& strategy) { return strategy.result != *spec; });
      if (node.op_strategies.empty()) return refuse(result, *spec);
    }
    for (const OpStrategy& strategy : node.op_strategies) {
      node.costs.push_back(op_cost(group, strategy));
      std::string name;
      for (const auto& [axis, mask] : axes_by_name(space, strategy.axes))
        name += fmt::format("{}/{} ", axis, ShardingSpec{{mask}, 0}.to_text().substr(1));
      if (strategy.partial != 0) name += fmt::format("P{} ", ShardingSpec{{strategy.partial}, 0}.to_text().substr(1));
      node.names.push_back(name + "-> " + strategy.result.to_text());
    }
    const int self = static_cast<int>(model_.nodes_.size());
    model_.nodes_.push_back(std::move(node));
    for (const TensorId output : op.outputs) made_by_[output] = self;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const Tensor& tensor = graph_.tensor(op.inputs[k]);
      if (tensor.kind == TensorKind::Parameter)
        add_parameter(self, group, static_cast<int>(k));
      else if (tensor.kind == TensorKind::Intermediate)
        add_edge(made_by_.at(tensor.id), self, group, group.operands[k]);
    }
  }

  // How `strategy` of the reading op wants the operand, and the specs in which its backward leaves the operand's
  // gradient.
  struct Reading {
    ShardingSpec wanted;
    std::vector<ShardingSpec> gradients;
    auto operator<=>(const Reading&) const = default;
  };
  Reading reading(const Group& group, const Operand& operand, const OpStrategy& strategy) const {
    const AxesByName axes = axes_by_name(structure_.space(group.forward), strategy.axes);
    const auto position = static_cast<std::size_t>(&operand - group.operands.data());
    Reading found{operand_spec(structure_.space(group.forward), position, axes), {}};
    for (const auto& gradient : operand.gradients)
      found.gradients.push_back(
          raw_result(structure_.space(gradient.made_by), static_cast<std::size_t>(gradient.result), axes));
    if (operand.gradient_passes_through && graph_.tensor(operand.tensor).dims.size() == strategy.result.dims.size())
      found.gradients.push_back(whole_sums(strategy.result));
    if ((row_of(graph_.op(group.forward).kind).linear_operands >> position & 1u) != 0)
      found.wanted.partial = strategy.partial;
    return found;
  }

  // The spec of `tensor` under strategy `p` of the node that makes it.
  const ShardingSpec& made_as(const Node& node, std::size_t p, TensorId tensor) const {
    if (node.kind == Node::Kind::Op) return node.op_strategies[p].result;
    const auto at =
        std::find(model_.in_.tensors.begin(), model_.in_.tensors.end(), tensor) - model_.in_.tensors.begin();
    return model_.in_.states[p][static_cast<std::size_t>(at)];
  }

  // Many strategies of an op make or read a tensor in one way: an edge is priced once per pair of ways.
  template <class Value>
  struct Classes {
    explicit Classes(const std::vector<Value>& all) {
      std::map<Value, std::size_t> known;
      for (const Value& value : all) {
        const auto [at, is_new] = known.emplace(value, values.size());
        if (is_new) values.push_back(value);
        of.push_back(at->second);
      }
    }
    std::vector<Value> values;
    std::vector<std::size_t> of;  // [strategy] -> its class
  };
  template <class From, class To, class Price>
  void add_edge_by_class(int from, int to, const Classes<From>& makers, const Classes<To>& readers, Price price) {
    std::vector<std::optional<StepCost>> table;
    for (const From& made : makers.values)
      for (const To& read : readers.values) table.push_back(price(made, read));
    Edge edge{from, to, {}};
    edge.costs.reserve(makers.of.size() * readers.of.size());
    for (const std::size_t p : makers.of)
      for (const std::size_t q : readers.of) edge.costs.push_back(table[p * readers.values.size() + q]);
    model_.edges_.push_back(std::move(edge));
  }

  void add_edge(int from, int to, const Group& group, const Operand& operand) {
    const Tensor& tensor = graph_.tensor(operand.tensor);
    const Node& reader = model_.nodes_[index(to)];
    std::vector<Reading> readings;
    for (const OpStrategy& strategy : reader.op_strategies) readings.push_back(reading(group, operand, strategy));
    const Node& maker = model_.nodes_[index(from)];
    std::vector<ShardingSpec> made;
    for (std::size_t p = 0; p < maker.size(); ++p) made.push_back(made_as(maker, p, tensor.id));
    const auto price = [&](const ShardingSpec& kept, const Reading& read) -> std::optional<StepCost> {
      if (read.wanted.partial != 0 && kept != read.wanted) return std::nullopt;  // whole sums cannot be taken apart
      StepCost cost;
      cost.forward = prices_(tensor, kept, read.wanted);
      if (operand.read_in_backward) cost.backward += cost.forward;
      for (const ShardingSpec& gradient : read.gradients) cost.backward += prices_(tensor, gradient, whole_sums(kept));
      return cost;
    };
    add_edge_by_class(from, to, Classes(made), Classes(readings), price);
  }

  // Update work and state of a parameter kept as `sharding`.
  StepCost parameter_cost(const Group& group, const Tensor& parameter, const ParameterSharding& sharding) const {
    StepCost cost;
    cost.resident = local_bytes(parameter, sharding.weight, mesh_);
    if (!structure_.is_first_reader(group.forward, parameter.id)) return cost;
    const AxesByName axes = axes_of_dims(parameter.dims, sharding.state);
    for (const OpId id : group.updates) {
      const Op& op = graph_.op(id);
      const Tensor& first = graph_.tensor(op.inputs.front());
      if (first.id != parameter.id && first.parameter != parameter.id) continue;
      cost.step += costs_.compute(work(id, axes)).time;
    }
    // The summed gradient and the weights, brought to where the state is.
    for (const Operand& operand : group.operands)
      if (operand.tensor == parameter.id && operand.accumulator)
        cost.working = local_bytes(graph_.tensor(*operand.accumulator), sharding.state, mesh_) +
                       local_bytes(parameter, sharding.state, mesh_);
    cost.step += prices_(parameter, sharding.state, sharding.weight);
    for (const TensorId state : structure_.optimizer_state(parameter.id))
      cost.resident += local_bytes(graph_.tensor(state), sharding.state, mesh_);
    return cost;
  }

  // Where a parameter's gradient is summed over microbatches, and its way to the optimizer state.
  StepCost accumulation_cost(const Operand& operand, const Tensor& accumulator,
                             const std::vector<ShardingSpec>& gradients, const ParameterSharding& sharding) const {
    StepCost cost;
    for (std::size_t g = 0; g < gradients.size(); ++g) {
      if (sharding.eager) {
        const Op& maker = graph_.op(operand.gradients[g].made_by);
        const Tensor& made = graph_.tensor(maker.outputs[index(operand.gradients[g].result)]);
        cost.backward += prices_(made, gradients[g], sharding.state);
        cost.resident += local_bytes(accumulator, sharding.state, mesh_);
      } else {
        ShardingSpec kept = gradients[g];
        kept.partial = 0;
        cost.step += prices_(accumulator, gradients[g], sharding.state);
        cost.resident += local_bytes(accumulator, kept, mesh_);
      }
    }
    return cost;
  }

  void add_parameter(int reader, const Group& group, int operand_index) {
    const Operand& operand = group.operands[index(operand_index)];
    const Tensor& parameter = graph_.tensor(operand.tensor);
    const bool updated = structure_.is_first_reader(group.forward, parameter.id) && !group.updates.empty();
    Node node{
        parameter.name, Node::Kind::Parameter, model_.nodes_[index(reader)].op_position, operand_index, {}, {}, {}, {}};
    node.parameter_strategies = enumerate_parameter_shardings(parameter, updated, mesh_, rules_);
    if (node.parameter_strategies.empty()) {
      model_.impossible_ = fmt::format(
          "{} cannot be split over a {} mesh as the method demands; choose a batch, micro-batch count or mesh that "
          "divides",
          parameter.name, mesh_.to_text());
      return;
    }
    if (const ShardingSpec* spec = forced(parameter)) {
      std::erase_if(node.parameter_strategies, [&](const ParameterSharding& s) { return s.weight != *spec; });
      if (node.parameter_strategies.empty()) return refuse(parameter, *spec);
    }
    for (const TensorId id : structure_.optimizer_state(parameter.id)) {
      const Tensor& state = graph_.tensor(id);
      const ShardingSpec* spec = updated ? forced(state) : nullptr;
      if (spec == nullptr) continue;
      std::erase_if(node.parameter_strategies, [&](const ParameterSharding& s) { return s.state != *spec; });
      if (node.parameter_strategies.empty()) return refuse(state, *spec);
    }
    for (const ParameterSharding& sharding : node.parameter_strategies) {
      node.costs.push_back(parameter_cost(group, parameter, sharding));
      node.names.push_back(sharding.weight.to_text() +
                           (sharding.state == sharding.weight ? "" : "/" + sharding.state.to_text()) +
                           (sharding.eager ? " eager" : ""));
    }
    const int self = static_cast<int>(model_.nodes_.size());
    std::vector<Reading> readings;
    for (const OpStrategy& strategy : model_.nodes_[index(reader)].op_strategies)
      readings.push_back(reading(group, operand, strategy));
    const Tensor* accumulator = operand.accumulator ? &graph_.tensor(*operand.accumulator) : nullptr;
    const auto price = [&](const ParameterSharding& sharding, const Reading& read) {
      StepCost cost;
      cost.forward = prices_(parameter, sharding.weight, read.wanted);
      if (operand.read_in_backward) cost.backward = cost.forward;
      if (accumulator != nullptr) cost += accumulation_cost(operand, *accumulator, read.gradients, sharding);
      return cost;
    };
    const Classes all(node.parameter_strategies);
    model_.nodes_.push_back(std::move(node));
    add_edge_by_class(self, reader, all, Classes(readings), price);
  }

  void add_out() {
    Node node{"border out", Node::Kind::Out, -1, -1, {}, {}, {}, {}};
    for (const auto& state : model_.out_.states) {
      std::string name;
      for (const ShardingSpec& spec : state) name += spec.to_text() + " ";
      node.names.push_back(name);
      node.costs.emplace_back();
    }
    const int self = static_cast<int>(model_.nodes_.size());
    std::set<int> makers;
    for (const TensorId tensor : model_.out_.tensors) makers.insert(made_by_.at(tensor));
    for (const int maker : makers) {
      Edge edge{maker, self, {}};
      for (std::size_t p = 0; p < model_.nodes_[index(maker)].size(); ++p)
        for (const auto& state : model_.out_.states) edge.costs.push_back(agrees(maker, p, state));
      model_.edges_.push_back(std::move(edge));
    }
    model_.out_node_ = self;
    model_.nodes_.push_back(std::move(node));
  }

  // Nothing to pay when the maker leaves every tensor as the border state says; forbidden otherwise.
  std::optional<StepCost> agrees(int maker, std::size_t p, const std::vector<ShardingSpec>& state) const {
    for (std::size_t t = 0; t < state.size(); ++t) {
      const TensorId tensor = model_.out_.tensors[t];
      if (made_by_.at(tensor) == maker && made_as(model_.nodes_[index(maker)], p, tensor) != state[t])
        return std::nullopt;
    }
    return StepCost{};
  }

  LayerModel& model_;
  const StepStructure& structure_;
  const Graph& graph_;
  int layer_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  ReshardingPrices& prices_;
  const IntraOpRules& rules_;
  std::map<TensorId, int> made_by_;
};

LayerModel::LayerModel(const StepStructure& structure, int layer, const LogicalMesh& mesh, const CostModel& costs,
                       ReshardingPrices& prices, const IntraOpRules& rules) {
  Builder(*this, structure, layer, mesh, costs, prices, rules).build();
}

ShardingProblem LayerModel::problem(const CostWeights& weights, std::optional<Bytes> most_working) const {
  ShardingProblem problem;
  for (const Node& node : nodes_) {
    ShardingProblem::Node plain{node.name, node.names, {}, {}};
    for (const StepCost& cost : node.costs) {
      const bool allowed = !most_working || cost.working <= *most_working;
      plain.cost.push_back(allowed ? std::optional(weights.total(cost)) : std::nullopt);
    }
    problem.nodes.push_back(std::move(plain));
  }
  for (const Edge& edge : edges_) {
    ShardingProblem::Edge plain{edge.from, edge.to, {}};
    for (const auto& cost : edge.costs) plain.cost.push_back(cost ? std::optional(weights.total(*cost)) : std::nullopt);
    problem.edges.push_back(std::move(plain));
  }
  return problem;
}

Bytes LayerModel::least_working() const {
  Bytes most(0);
  for (const Node& node : nodes_) {
    Bytes least = node.costs.front().working;
    for (const StepCost& cost : node.costs) least = std::min(least, cost.working);
    most = std::max(most, least);
  }
  return most;
}

StepCost LayerModel::cost(const ShardingChoice& choice) const {
  StepCost total;
  const auto chosen = [&](int node) {
    return static_cast<std::size_t>(choice.strategy[static_cast<std::size_t>(node)]);
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) total += nodes_[i].costs[chosen(static_cast<int>(i))];
  for (const Edge& edge : edges_) {
    const auto& cost =
        edge.costs[chosen(edge.from) * nodes_[static_cast<std::size_t>(edge.to)].size() + chosen(edge.to)];
    MW_CHECK(cost.has_value(), "a forbidden pair was chosen");
    total += *cost;
  }
  return total;
}

}  // namespace meshwright
