// SPDX-License-Identifier: Apache-2.0
// The nodes of a layer model: forward ops, parameters and borders, and what each strategy costs by itself.
#include "core/planner/intra_op/layer_model_builder.h"

#include <algorithm>

#include "core/graph/op_table.h"
#include "core/graph/update_ops.h"

namespace meshwright {

// Ops come in topological order, so that what an op reads has a node already; fan-outs wait for all their readers.
void LayerModel::Builder::build() {
  model_.in_ = make_border(structure_, layer_, mesh_, rules_, &cache_.borders);
  model_.out_ = make_border(structure_, layer_ + 1, mesh_, rules_, &cache_.borders);
  add_in();
  const auto& ops = structure_.layers().forward[layer_];
  for (std::size_t p = 0; p < ops.size() && !model_.impossible_; ++p) add_op(static_cast<int>(p), graph_.op(ops[p]));
  if (model_.impossible_) return;
  for (auto& [tensor, readers] : fans_out_) add_fan_out(graph_.tensor(tensor), readers);
  for (auto& [tensor, readers] : once_) {
    if (readers.size() > 1)
      add_fan_out(graph_.tensor(tensor), readers);
    else
      add_edge(made_by_.at(tensor), readers[0].node, *readers[0].group, *readers[0].operand);
  }
  add_out();
}

bool LayerModel::Builder::saved_in_this_layer(TensorId tensor) const {
  const auto& readers = structure_.backward_readers(tensor);
  return std::find(readers.begin(), readers.end(), layer_) != readers.end();
}

// What an op has in memory beside persistent tensors: its activations and gradients, whole on both sides.
Bytes LayerModel::Builder::temporary_bytes(const Op& op, const AxesByName& axes) const {
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

void LayerModel::Builder::add_in() {
  Costs costs;
  for (const auto& state : model_.in_.states) {
    StepCost cost;
    std::string name;
    for (std::size_t t = 0; t < state.size(); ++t) {
      const Tensor& tensor = graph_.tensor(model_.in_.tensors[t]);
      if (cache_.names) name += state[t].to_text() + " ";
      if (saved_in_this_layer(tensor.id)) keep_saved(local_bytes(tensor, state[t], mesh_), cost);
      // The border is node 0.
      made_by_[tensor.id] = 0;
    }
    if (cache_.names) costs.names.push_back(name);
    costs.by_strategy.push_back(cost);
  }
  model_.in_node_ = 0;
  model_.nodes_.push_back(
      {"border in", Node::Kind::In, -1, -1, nullptr, std::make_shared<const Costs>(std::move(costs))});
}

Seconds LayerModel::Builder::issue(const Op& op, Seconds time) const {
  if (time <= Seconds(0.0)) return Seconds(0.0);
  return moves_tokens(op.kind) ? host_.op + host_.token_move : host_.op;
}

Seconds LayerModel::Builder::issue(const ShardingSpec& from, const ShardingSpec& to) const {
  if (host_.collective == Seconds(0.0) && host_.peer == Seconds(0.0)) return Seconds(0.0);
  AxisMask other = 0;
  for (std::size_t d = 0; d < from.dims.size(); ++d) other |= from.dims[d] & static_cast<AxisMask>(~to.dims[d]);
  other |= from.partial & static_cast<AxisMask>(~to.partial);
  Seconds time(0.0);
  for (int axis = 0; axis < mesh_.rank(); ++axis) {
    const int members = mesh_.axes[static_cast<std::size_t>(axis)].size();
    if ((other >> axis & 1) != 0 && members > 1) time += host_.collective + std::max(0, members - 2) * host_.peer;
  }
  return time;
}

// Compute times depend on how an op is split, not on how its result is kept: strategies of one split share them.
LayerModel::Builder::SplitCost LayerModel::Builder::split_cost(const Group& group,
                                                               const std::vector<AxisMask>& axes) const {
  const Op& op = graph_.op(group.forward);
  const AxesByName split = axes_by_name(structure_.space(op.id), axes);
  SplitCost cost;
  cost.axes = axes;
  const auto compute = [&](const Op& of, Seconds& host) {
    cost.working = std::max(cost.working, temporary_bytes(of, split));
    const Seconds time = costs_.compute(work(of.id, split)).time;
    host += issue(of, time);
    return time;
  };
  cost.forward = compute(op, cost.host_forward);
  for (const OpId id : group.recomputations) cost.recomputations.push_back(compute(graph_.op(id), cost.host_backward));
  for (std::size_t i = 0; i < group.backward.size(); ++i) {
    const Op& backward = graph_.op(group.backward[i]);
    // Sums over micro-batches are made where the accumulator is (accumulation_cost).
    if (backward.kind == OpKind::Accumulate) continue;
    cost.backward.push_back(
        {compute(backward, cost.host_backward), inner_synchronisation(group, backward, split), group.for_weights[i]});
  }
  return cost;
}

StepCost LayerModel::Builder::op_cost(const Group& group, const OpStrategy& strategy, const SplitCost& split) const {
  const Op& op = graph_.op(group.forward);
  const Tensor& result = graph_.tensor(op.outputs.front());
  const Seconds resolve = resharding_(result, strategy.raw, strategy.result);
  StepCost cost;
  cost.forward = split.forward + resolve;
  cost.host_forward = split.host_forward + issue(strategy.raw, strategy.result);
  cost.host_backward = split.host_backward;
  cost.working = split.working;
  // A recomputation repeats the resharding of the result, too, and keeps the result once more.
  for (const Seconds time : split.recomputations) {
    cost.backward += time;
    cost.backward += resolve;
    cost.host_backward += issue(strategy.raw, strategy.result);
    cost.recomputed += local_bytes(result, strategy.result, mesh_);
  }
  for (const auto& [compute, synchronisation, for_weights] : split.backward) {
    cost.backward += compute;
    cost.backward += synchronisation;
    if (for_weights) cost.weights += compute + synchronisation;
  }
  // Gradients of weights are computed from the result's gradient and from recomputed operands.
  bool for_weights = false;
  for (std::size_t i = 0; i < group.backward.size(); ++i)
    for_weights = for_weights || (group.for_weights[i] && graph_.op(group.backward[i]).kind != OpKind::Accumulate);
  if (for_weights) cost.held += local_bytes(result, strategy.result, mesh_);
  cost.held += cost.recomputed;
  // Where the result fans out, its fan-out node pays for the sum of gradients.
  if (!structure_.fans_out(result.id)) cost += sum_cost(group, strategy.result);
  // The gradient has the spec in which the result is kept. The backward reads it in that of the raw result.
  if (group.result_gradient_read) reshard_gradient(result, whole_sums(strategy.result), whole_sums(strategy.raw), cost);
  for (const TensorId output : op.outputs)
    if (saved_in_this_layer(output)) keep_saved(local_bytes(graph_.tensor(output), strategy.result, mesh_), cost);
  return cost;
}

// On the device, or on its host, to which it goes and from which it comes back.
void LayerModel::Builder::keep_saved(Bytes bytes, StepCost& cost) const {
  if (!graph_.activations_on_host) {
    cost.saved += bytes;
    return;
  }
  const Seconds across = costs_.host_transfer(bytes).time;
  cost.forward += across;
  cost.backward += across;
}

StepCost LayerModel::Builder::sum_cost(const Group& group, const ShardingSpec& spec) const {
  StepCost cost;
  const AxesByName axes = axes_of_dims(graph_.tensor(graph_.op(group.forward).outputs.front()).dims, spec);
  for (const OpId id : group.sums) {
    const Seconds time = costs_.compute(work(id, axes)).time;
    cost.backward += time;
    cost.host_backward += issue(graph_.op(id), time);
    cost.working = std::max(cost.working, temporary_bytes(graph_.op(id), axes));
  }
  return cost;
}

// A parameter's gradient that another backward op of the group reads (a batch norm's) must be whole sums there.
Seconds LayerModel::Builder::inner_synchronisation(const Group& group, const Op& reader, const AxesByName& axes) const {
  Seconds time(0);
  for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
    const Tensor& tensor = graph_.tensor(reader.inputs[i]);
    if (!tensor.producer || tensor.gradient_of) continue;
    const Op& maker = graph_.op(*tensor.producer);
    if (std::find(group.backward.begin(), group.backward.end(), maker.id) == group.backward.end()) continue;
    const auto at = std::find(maker.outputs.begin(), maker.outputs.end(), tensor.id) - maker.outputs.begin();
    time += resharding_(tensor, raw_result(structure_.space(maker.id), at, axes),
                        operand_spec(structure_.space(reader.id), i, axes));
  }
  return time;
}

// Some op of this layer can take the tensor as partial sums.
bool LayerModel::Builder::read_as_partial(TensorId tensor) const {
  for (const OpId id : structure_.layers().forward[layer_]) {
    const Op& op = graph_.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] == tensor && (row_of(op.kind).linear_operands >> i & 1u) != 0) return true;
  }
  return false;
}

// Partial sums do not cross borders: only what an op of this layer makes can be read as such.
bool LayerModel::Builder::linear_operands_made_here(const Op& op) const {
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto maker = made_by_.find(op.inputs[i]);
    const bool made = maker != made_by_.end() && model_.nodes_[maker->second].kind == Node::Kind::Op;
    if ((row_of(op.kind).linear_operands >> i & 1u) != 0 && !made) return false;
  }
  return true;
}

// Keeps the strategies with the layout that the rules force on the tensor, if they force one. false: none is left.
template <class Strategy>
bool LayerModel::Builder::keep_forced(std::vector<Strategy>& strategies, const Tensor& tensor,
                                      ShardingSpec Strategy::*layout) {
  const auto forced = rules_.forced.find(tensor.name);
  if (forced == rules_.forced.end()) return true;
  std::erase_if(strategies, [&](const Strategy& strategy) { return strategy.*layout != forced->second; });
  if (strategies.empty()) refuse(tensor, forced->second);
  return !strategies.empty();
}

bool LayerModel::Builder::exists_on_mesh(const Tensor& tensor, const ShardingSpec& spec) const {
  const std::vector<ShardingSpec> all = enumerate_specs(tensor.dims, mesh_);
  return std::find(all.begin(), all.end(), spec) != all.end();
}

void LayerModel::Builder::refuse(const Tensor& tensor, const ShardingSpec& spec) {
  model_.impossible_ =
      fmt::format("'{}' {} cannot have the sharding {} on a {} mesh: {}; force another sharding, or none", tensor.name,
                  to_text(tensor.dims), spec.to_text(), mesh_.to_text(),
                  exists_on_mesh(tensor, spec) ? "no strategy that the method allows gives it this sharding"
                                               : "its axes do not exist there, have one device or do not divide");
}

void LayerModel::Builder::refuse_method(const std::string& name) {
  model_.impossible_ = fmt::format(
      "{} cannot be split over a {} mesh as the method demands; choose a batch, micro-batch count or mesh that divides",
      name, mesh_.to_text());
}

// Everything that the costs and strategies of an op depend on besides its class: ops of equal keys share them.
std::vector<int> LayerModel::Builder::key_of(const Op& op) const {
  const TensorId result = op.outputs.front();
  // Tensors that are forced are told by their names: no op is like another then.
  std::vector<int> key = {rules_.forced.empty() ? structure_.group_class(op.id) : static_cast<int>(op.id.value),
                          read_as_partial(result) ? 1 : 0, linear_operands_made_here(op) ? 1 : 0,
                          structure_.fans_out(result) ? 1 : 0};
  for (const TensorId output : op.outputs) key.push_back(saved_in_this_layer(output) ? 1 : 0);
  return key;
}

void LayerModel::Builder::add_op(int position, const Op& op) {
  const Group& group = structure_.group(op.id);
  Cache::Op& known = cache_.ops[{&graph_, key_of(op)}];
  if (!known.costs) known = make_op(op);
  if (model_.impossible_) return;
  const int self = static_cast<int>(model_.nodes_.size());
  model_.nodes_.push_back({op.name, Node::Kind::Op, position, -1, known.strategies, known.costs});
  for (const TensorId output : op.outputs) made_by_[output] = self;
  for (std::size_t k = 0; k < op.inputs.size(); ++k) {
    const Tensor& tensor = graph_.tensor(op.inputs[k]);
    // Inputs of the step have no edge: every device loads its own part.
    if (tensor.kind == TensorKind::Parameter)
      add_parameter(self, group, static_cast<int>(k), known);
    else if (structure_.fans_out(tensor.id))
      fans_out_[tensor.id].push_back({self, &group, &group.operands[k]});
    else if (tensor.kind == TensorKind::Intermediate && cache_.once_per_value)
      once_[tensor.id].push_back({self, &group, &group.operands[k]});
    else if (tensor.kind == TensorKind::Intermediate)
      add_edge(made_by_.at(tensor.id), self, group, group.operands[k]);
  }
}

LayerModel::Cache::Op LayerModel::Builder::make_op(const Op& op) {
  const Group& group = structure_.group(op.id);
  const IterationSpace& space = structure_.space(op.id);
  const Tensor& result = graph_.tensor(op.outputs.front());
  Strategies found;
  found.op = enumerate_strategies(op, space, result.dims, mesh_, rules_,
                                  read_as_partial(result.id) ? Results::MayStayPartial : Results::Whole);
  // Only what an op of this layer makes can be partial.
  if (!linear_operands_made_here(op))
    std::erase_if(found.op, [](const OpStrategy& strategy) { return strategy.partial != 0; });
  if (found.op.empty()) {
    refuse_method(op.name);
    return {};
  }
  if (!keep_forced(found.op, result, &OpStrategy::result)) return {};
  Costs costs;
  std::optional<SplitCost> split;  // strategies that split the axes alike follow each other
  for (const OpStrategy& strategy : found.op) {
    if (!split || split->axes != strategy.axes) split = split_cost(group, strategy.axes);
    costs.by_strategy.push_back(op_cost(group, strategy, *split));
    if (!cache_.names) continue;
    std::string name;
    for (const auto& [axis, mask] : axes_by_name(space, strategy.axes))
      name += fmt::format("{}/{} ", axis, ShardingSpec{{mask}, 0}.to_text().substr(1));
    if (strategy.partial != 0) name += fmt::format("P{} ", ShardingSpec{{strategy.partial}, 0}.to_text().substr(1));
    costs.names.push_back(name + "-> " + strategy.result.to_text());
  }
  return {std::make_shared<const Strategies>(std::move(found)), std::make_shared<const Costs>(std::move(costs))};
}

Seconds LayerModel::Builder::host_time(const Op& op, const AxesByName& axes) const {
  Seconds time(0.0);
  for (const std::vector<TensorId>* tensors : {&op.inputs, &op.outputs})
    for (const TensorId id : *tensors)
      if (const Tensor& tensor = graph_.tensor(id);
          (tensor.kind == TensorKind::OptimizerState && graph_.states_on_host) ||
          (tensor.kind == TensorKind::Parameter && graph_.weights_on_host))
        time += costs_.host_transfer(local_bytes(tensor, spec_by_name(tensor.dims, axes), mesh_)).time;
  return time;
}

StepCost LayerModel::Builder::parameter_cost(const Group& group, const Tensor& parameter,
                                             const ParameterSharding& sharding) const {
  StepCost cost;
  if (!graph_.weights_on_host) cost.resident = local_bytes(parameter, sharding.weight, mesh_);
  // The update and the optimizer state belong to the first reader.
  if (!structure_.is_first_reader(group.forward, parameter.id)) return cost;
  // The update runs where the optimizer state is.
  const AxesByName axes = axes_of_dims(parameter.dims, sharding.state);
  for (const OpId id : group.updates) {
    const Op& op = graph_.op(id);
    if (updated_parameter(graph_, op) != parameter.id) continue;
    cost.step += costs_.compute(work(id, axes)).time;
    // Sums over what is split: those of the norm are added up over the parameters first, and cost next to nothing.
    if (op.kind == OpKind::SumSquares || row_of(op.kind).in_place) continue;
    const ShardingSpec raw = raw_result(structure_.space(id), 0, axes);
    if (raw.partial == 0) continue;
    const ShardingSpec whole{raw.dims, 0};
    cost.step += resharding_(graph_.tensor(op.outputs[0]), raw, whole);
  }
  // The summed gradient and the weights, brought to where the state is.
  for (const Operand& operand : group.operands)
    if (operand.tensor == parameter.id && operand.accumulator)
      cost.working = local_bytes(graph_.tensor(*operand.accumulator), sharding.state, mesh_) +
                     local_bytes(parameter, sharding.state, mesh_);
  // The updated weights go from the state's spec to their own.
  cost.step += gathers_.in_updates * resharding_(parameter, sharding.state, sharding.weight);
  for (const OpId id : group.updates)
    if (updated_parameter(graph_, graph_.op(id)) == parameter.id) cost.step += host_time(graph_.op(id), axes);
  if (graph_.states_on_host) return cost;
  for (const TensorId state : structure_.optimizer_state(parameter.id))
    cost.resident += local_bytes(graph_.tensor(state), spec_by_name(graph_.tensor(state).dims, axes), mesh_);
  return cost;
}

void LayerModel::Builder::add_parameter(int reader, const Group& group, int operand_index, Cache::Op& of) {
  const Operand& operand = group.operands[operand_index];
  Cache::Parameter& known = of.parameters[operand_index];
  if (!known.costs) known = make_parameter(reader, group, operand);
  if (model_.impossible_) return;
  const int self = static_cast<int>(model_.nodes_.size());
  model_.nodes_.push_back({graph_.tensor(operand.tensor).name, Node::Kind::Parameter, model_.nodes_[reader].op_position,
                           operand_index, known.strategies, known.costs});
  model_.edges_.push_back({self, reader, known.edge});
}

// [op of the layer] what a device would compute of it and of those made from it if all shared them evenly.
std::vector<LayerModel::Builder::Shared> LayerModel::Builder::find_shared() const {
  std::vector<Shared> found;
  const auto time = [&](OpId op) { return costs_.compute(work(op, {})).time / mesh_.devices(); };
  for (const OpId id : structure_.layers().forward[layer_]) {
    const Group& group = structure_.group(id);
    Shared op{id, time(id), Seconds(0.0), false};
    for (const OpId other : group.recomputations) op.backward += time(other);
    for (const OpId other : group.backward) op.backward += time(other);
    for (const TensorId input : graph_.op(id).inputs)
      op.reads_parameter = op.reads_parameter || graph_.tensor(input).kind == TensorKind::Parameter;
    found.push_back(op);
  }
  return found;
}

// The ops before the first of a layer are taken to be those at its end: most layers follow on one like them.
LayerModel::Builder::Behind LayerModel::Builder::behind(const Group& group, const Tensor& parameter) {
  if (!rules_.hiding.beside) return {};
  if (shared_.empty()) shared_ = find_shared();
  Behind time{Seconds(0.0), Seconds(0.0), rules_.hiding.backward * parameter.bytes()};
  const std::size_t ops = shared_.size();
  std::size_t own = 0;
  while (own + 1 < ops && shared_[own].op != group.forward) ++own;
  int before = 0, after = 0;  // computations passed
  for (std::size_t k = 1; k < ops && before < rules_.hiding.ahead; ++k) {
    const Shared& op = shared_[(own + ops - k) % ops];
    time.forward += op.forward;
    before += op.reads_parameter;
  }
  for (std::size_t k = 1; k < ops && after < rules_.hiding.ahead; ++k) {
    const Shared& op = shared_[(own + k) % ops];
    time.backward += op.backward;
    after += op.reads_parameter;
  }
  return time;
}

LayerModel::Cache::Parameter LayerModel::Builder::make_parameter(int reader, const Group& group,
                                                                 const Operand& operand) {
  const Tensor& parameter = graph_.tensor(operand.tensor);
  const bool updated = structure_.is_first_reader(group.forward, parameter.id) && !group.updates.empty();
  Strategies found;
  const bool sums_split = rules_.split_sums && operand.accumulator;
  found.parameter = enumerate_parameter_shardings(parameter, updated || sums_split, mesh_, rules_);
  if (found.parameter.empty()) {
    refuse_method(parameter.name);
    return {};
  }
  if (!keep_forced(found.parameter, parameter, &ParameterSharding::weight)) return {};
  for (const TensorId id : structure_.optimizer_state(parameter.id))
    if (updated && !keep_forced(found.parameter, graph_.tensor(id), &ParameterSharding::state)) return {};
  Costs costs;
  for (const ParameterSharding& sharding : found.parameter) {
    costs.by_strategy.push_back(parameter_cost(group, parameter, sharding));
    if (!cache_.names) continue;
    costs.names.push_back(sharding.weight.to_text() +
                          (sharding.state == sharding.weight ? "" : "/" + sharding.state.to_text()) +
                          (sharding.eager ? " eager" : ""));
  }
  const Tensor* accumulator = operand.accumulator ? &graph_.tensor(*operand.accumulator) : nullptr;
  const Behind hidden = behind(group, parameter);
  const auto edge_cost = [&](const ParameterSharding& sharding, const Reading& read) {
    StepCost cost;
    const Seconds moving = resharding_(parameter, sharding.weight, read.wanted);
    const Seconds gather = gathers_.in_passes * moving;
    cost.forward = exposed(gather, hidden.forward);
    if (operand.read_in_backward) cost.backward = exposed(gather, hidden.backward);
    if (!rules_.hiding.beside) {
      cost.moved_forward = gathers_.alone * moving;
      if (operand.read_in_backward) cost.moved_backward = cost.moved_forward;
    }
    cost.host_forward = issue(sharding.weight, read.wanted);
    if (operand.read_in_backward) cost.host_backward = cost.host_forward;
    if (graph_.weights_on_host) {
      const Seconds fetch = costs_.host_transfer(local_bytes(parameter, sharding.weight, mesh_)).time;
      cost.forward += fetch;
      if (operand.read_in_backward) cost.backward += fetch;
    }
    if (accumulator != nullptr)
      cost += accumulation_cost(group, operand, *accumulator, read.gradients, sharding, hidden.sums);
    return cost;
  };
  auto edge = by_class(Classes(found.parameter), Classes(readings(reader, group, operand)), edge_cost);
  return {std::make_shared<const Strategies>(std::move(found)), std::make_shared<const Costs>(std::move(costs)),
          std::move(edge)};
}

void LayerModel::Builder::add_out() {
  Costs costs;
  for (const auto& state : model_.out_.states) {
    costs.by_strategy.emplace_back();
    if (!cache_.names) continue;
    std::string name;
    for (const ShardingSpec& spec : state) name += spec.to_text() + " ";
    costs.names.push_back(name);
  }
  const int self = static_cast<int>(model_.nodes_.size());
  std::set<int> makers;
  for (const TensorId tensor : model_.out_.tensors) makers.insert(made_by_.at(tensor));
  // Nothing to pay when the maker leaves all its tensors as the border state says; forbidden otherwise.
  using Specs = std::vector<ShardingSpec>;
  const auto agrees = [](const Specs& made, const Specs& wanted) {
    return made == wanted ? std::optional(StepCost{}) : std::nullopt;
  };
  for (const int maker : makers) {
    const Node& of = model_.nodes_[maker];
    std::vector<Specs> made(of.size()), wanted(model_.out_.states.size());
    for (std::size_t t = 0; t < model_.out_.tensors.size(); ++t) {
      const TensorId tensor = model_.out_.tensors[t];
      if (made_by_.at(tensor) != maker) continue;
      for (std::size_t p = 0; p < made.size(); ++p) made[p].push_back(made_as(of, p, tensor));
      for (std::size_t q = 0; q < wanted.size(); ++q) wanted[q].push_back(model_.out_.states[q][t]);
    }
    model_.edges_.push_back({maker, self, by_class(Classes(made), Classes(wanted), agrees)});
  }
  model_.out_node_ = self;
  model_.nodes_.push_back(
      {"border out", Node::Kind::Out, -1, -1, nullptr, std::make_shared<const Costs>(std::move(costs))});
}

}  // namespace meshwright
