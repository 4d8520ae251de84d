// SPDX-License-Identifier: Apache-2.0
// The edges of a layer model: how tensors get from where they are made to where they are read, and their gradients
// back.
#include <algorithm>
#include <set>

#include "core/planner/intra_op/layer_model_builder.h"

namespace meshwright {

LayerModel::Builder::Reading LayerModel::Builder::reading(const Group& group, const Operand& operand,
                                                          const std::vector<AxisMask>& axes_of_op) const {
  const AxesByName axes = axes_by_name(structure_.space(group.forward), axes_of_op);
  const std::size_t position = &operand - group.operands.data();
  Reading found{operand_spec(structure_.space(group.forward), position, axes), {}};
  for (const auto& gradient : operand.gradients)
    found.gradients.push_back(raw_result(structure_.space(gradient.made_by), gradient.result, axes));
  return found;
}

const ShardingSpec& LayerModel::Builder::made_as(const Node& node, std::size_t p, TensorId tensor) const {
  if (node.kind == Node::Kind::Op) return node.strategies->op[p].result;
  const auto at = std::find(model_.in_.tensors.begin(), model_.in_.tensors.end(), tensor) - model_.in_.tensors.begin();
  return model_.in_.states[p][at];
}

std::vector<ShardingSpec> LayerModel::Builder::made_as(const Node& node, TensorId tensor) const {
  std::vector<ShardingSpec> made;
  for (std::size_t p = 0; p < node.size(); ++p) made.push_back(made_as(node, p, tensor));
  return made;
}

std::vector<LayerModel::Builder::Reading> LayerModel::Builder::readings(int reader, const Group& group,
                                                                        const Operand& operand) const {
  const std::size_t position = &operand - group.operands.data();
  const bool linear = (row_of(graph_.op(group.forward).kind).linear_operands >> position & 1u) != 0;
  const std::size_t rank = graph_.tensor(operand.tensor).dims.size();
  std::vector<Reading> found;
  const std::vector<AxisMask>* axes = nullptr;  // strategies that split the axes alike follow each other
  Reading alike;
  for (const OpStrategy& strategy : model_.nodes_[reader].strategies->op) {
    if (axes == nullptr || *axes != strategy.axes) alike = reading(group, operand, strategy.axes);
    axes = &strategy.axes;
    found.push_back(alike);
    // The result's gradient goes on unchanged, so it is sharded as the result is.
    if (operand.gradient_passes_through && rank == strategy.result.dims.size())
      found.back().gradients.push_back(whole_sums(strategy.result));
    // An op that is linear in the operand may read it as partial sums.
    if (linear) found.back().wanted.partial = strategy.partial;
  }
  return found;
}

void LayerModel::Builder::add_edge(int from, int to, const Group& group, const Operand& operand) {
  const Tensor& tensor = graph_.tensor(operand.tensor);
  const Node& maker = model_.nodes_[from];
  // Only what ops make is known by their class: the states of a border depend on the layer.
  std::shared_ptr<const ByClass>* known =
      maker.kind == Node::Kind::Op ? &cache_.edges[{maker.strategies.get(), cache_key(to, group, operand)}] : nullptr;
  if (known != nullptr && *known) return model_.edges_.push_back({from, to, *known});
  const auto edge_cost = [&](const ShardingSpec& kept, const Reading& read) -> std::optional<StepCost> {
    if (read.wanted.partial != 0 && kept != read.wanted) return std::nullopt;  // whole sums cannot be taken apart
    StepCost cost;
    cost.forward = resharding_(tensor, kept, read.wanted);
    cost.host_forward = issue(kept, read.wanted);
    // The backward needs the tensor in the same spec once more.
    if (operand.read_in_backward) {
      cost.backward += cost.forward;
      cost.host_backward += cost.host_forward;
    }
    for (const ShardingSpec& gradient : read.gradients) reshard_gradient(tensor, gradient, whole_sums(kept), cost);
    return cost;
  };
  auto made = by_class(Classes(made_as(maker, tensor.id)), Classes(readings(to, group, operand)), edge_cost);
  if (known != nullptr) *known = made;
  model_.edges_.push_back({from, to, std::move(made)});
}

std::vector<FanOut> LayerModel::Builder::possible_fan_outs(const std::vector<ShardingSpec>& made,
                                                           const std::vector<FannedReader>& readers) const {
  std::set<ShardingSpec> copies(made.begin(), made.end());
  std::optional<std::set<ShardingSpec>> partial;  // what every reader that has a contribution can leave
  for (const FannedReader& reader : readers) {
    std::set<ShardingSpec> left;
    bool contributes = false;
    for (const Reading& read : reader.readings) {
      if (read.wanted.partial == 0) copies.insert(read.wanted);
      contributes = contributes || !read.gradients.empty();
      if (read.gradients.size() == 1 && read.gradients.front().partial != 0 &&
          (!partial || partial->contains(read.gradients.front())))
        left.insert(read.gradients.front());
    }
    // A reader without a gradient puts no condition on the sum.
    if (contributes) partial = std::move(left);
  }
  std::vector<FanOut> found;
  for (const ShardingSpec& copy : copies) {
    found.push_back({copy, whole_sums(copy)});
    if (copy.partial != 0 || !partial) continue;
    for (const ShardingSpec& gradient : *partial)
      if (gradient.dims == copy.dims) found.push_back({copy, gradient});
  }
  return found;
}

std::vector<LayerModel::Builder::AtHand> LayerModel::Builder::further_at_hand(
    const Tensor& tensor, const std::vector<ShardingSpec>& made, const std::vector<FannedReader>& readers,
    const std::vector<FanOut>& fan_outs) const {
  std::map<ShardingSpec, int> wanted;  // how many readers may want it
  for (const FannedReader& reader : readers) {
    std::set<ShardingSpec> own;
    for (const Reading& read : reader.readings)
      if (read.wanted.partial == 0) own.insert(read.wanted);
    for (const ShardingSpec& spec : own) ++wanted[spec];
  }
  std::vector<AtHand> found;
  for (const ShardingSpec& kept : made) {
    const FanOut as_kept{kept, whole_sums(kept)};
    found.push_back({as_kept, kept});
    for (const auto& [spec, times] : wanted)
      if (times >= 2 && resharding_(tensor, kept, spec) > Seconds(0.0)) found.push_back({as_kept, kept, spec});
    if (!wanted.contains(kept)) continue;
    for (const FanOut& fan_out : fan_outs)
      if (fan_out.copy.partial == 0 && resharding_(tensor, fan_out.copy, kept) > Seconds(0.0))
        found.push_back({fan_out, kept});
  }
  return found;
}

void LayerModel::Builder::add_fan_out(const Tensor& tensor, std::vector<FannedReader>& readers) {
  const int maker = made_by_.at(tensor.id);
  std::vector<Cache::Reader> key;
  for (const FannedReader& reader : readers) key.push_back(cache_key(reader.node, *reader.group, *reader.operand));
  const Node& made = model_.nodes_[maker];
  Cache::Fan known;
  // The states of a border depend on the layer.
  Cache::Fan& of = made.kind == Node::Kind::Op ? cache_.fans[{made.strategies.get(), std::move(key)}] : known;
  if (!of.costs) of = make_fan_out(tensor, readers);
  const int self = static_cast<int>(model_.nodes_.size());
  // A plan states nothing of what only its program has at hand.
  const int op_position = structure_.fans_out(tensor.id) ? made.op_position : -1;
  model_.nodes_.push_back({tensor.name + " fan-out", Node::Kind::FanOut, op_position, -1, of.strategies, of.costs});
  model_.edges_.push_back({maker, self, of.edges.front()});
  for (std::size_t r = 0; r < readers.size(); ++r) model_.edges_.push_back({self, readers[r].node, of.edges[r + 1]});
}

// One node between the maker and the readers, so that what they share is paid for once: from the maker's spec to the
// copy, and for the summed gradient back; from the copy to each reader, and for its contribution back.
LayerModel::Cache::Fan LayerModel::Builder::make_fan_out(const Tensor& tensor,
                                                         std::vector<FannedReader>& readers) const {
  for (FannedReader& reader : readers) reader.readings = this->readings(reader.node, *reader.group, *reader.operand);
  const Classes made(made_as(model_.nodes_[made_by_.at(tensor.id)], tensor.id));
  const bool fans_out = structure_.fans_out(tensor.id);
  Strategies found;
  std::vector<AtHand> at_hand;
  if (fans_out) found.fan_out = possible_fan_outs(made.values, readers);
  for (const FanOut& fan_out : found.fan_out) at_hand.push_back({fan_out});
  if (cache_.once_per_value)
    for (AtHand& further : further_at_hand(tensor, made.values, readers, found.fan_out)) {
      found.fan_out.push_back(further.fan_out);
      at_hand.push_back(std::move(further));
    }
  Costs costs;
  for (const FanOut& fan_out : found.fan_out) {
    if (cache_.names) costs.names.push_back(fan_out.copy.to_text() + "/" + fan_out.gradient.to_text());
    // Where the tensor does not fan out, its maker pays for the sum of gradients.
    costs.by_strategy.push_back(fans_out ? sum_cost(structure_.group(*tensor.producer), fan_out.gradient) : StepCost{});
  }
  const Classes classes(at_hand);

  const auto any = [&](auto is) { return std::any_of(readers.begin(), readers.end(), is); };
  const auto again = std::count_if(readers.begin(), readers.end(),
                                   [](const FannedReader& reader) { return reader.operand->read_in_backward; });
  const bool has_gradient = any([](const FannedReader& reader) { return !reader.readings.front().gradients.empty(); });
  const auto from_maker = [&](const ShardingSpec& kept, const AtHand& of) -> std::optional<StepCost> {
    const FanOut& fan_out = of.fan_out;
    if ((fan_out.copy.partial != 0 || of.kept) && kept != of.kept.value_or(fan_out.copy)) return std::nullopt;
    StepCost cost;
    cost.forward = resharding_(tensor, kept, fan_out.copy);
    cost.host_forward = issue(kept, fan_out.copy);
    const auto repeat = [&] {
      cost.backward += cost.forward;
      cost.host_backward += cost.host_forward;
    };
    if (again > 0) repeat();
    if (of.shared) {
      cost.forward += resharding_(tensor, kept, *of.shared);
      cost.host_forward += issue(kept, *of.shared);
      if (again > 1) repeat();
    }
    if (has_gradient) reshard_gradient(tensor, fan_out.gradient, whole_sums(kept), cost);
    return cost;
  };
  std::vector<std::shared_ptr<const ByClass>> edges = {by_class(made, classes, from_maker)};
  for (const FannedReader& reader : readers) {
    const auto to_reader = [&](const AtHand& of, const Reading& read) -> std::optional<StepCost> {
      const FanOut& fan_out = of.fan_out;
      if (read.wanted.partial != 0 && fan_out.copy != read.wanted) return std::nullopt;
      StepCost cost;
      const Seconds way = of.kept == read.wanted ? Seconds(0.0) : resharding_(tensor, fan_out.copy, read.wanted);
      const Seconds host = of.kept == read.wanted ? Seconds(0.0) : issue(fan_out.copy, read.wanted);
      const bool is_shared = of.shared == read.wanted;
      cost.forward = is_shared ? Seconds(0.0) : way;
      cost.host_forward = is_shared ? Seconds(0.0) : host;
      if (reader.operand->read_in_backward && !(is_shared && again > 1)) {
        cost.backward += way;
        cost.host_backward += host;
      }
      for (const ShardingSpec& gradient : read.gradients) {
        if (fan_out.gradient.partial != 0 && gradient != fan_out.gradient) return std::nullopt;
        reshard_gradient(tensor, gradient, fan_out.gradient, cost);
      }
      return cost;
    };
    edges.push_back(by_class(classes, Classes(reader.readings), to_reader));
  }
  return {std::make_shared<const Strategies>(std::move(found)), std::make_shared<const Costs>(std::move(costs)),
          std::move(edges)};
}

// What adding a micro-batch's gradient to a tile of the accumulator takes. Many shardings of the parameter have it
// there.
Seconds LayerModel::Builder::sum_time(const Group& group, const Tensor& accumulator, const ShardingSpec& kept) {
  const auto [known, is_new] = sum_times_.try_emplace({accumulator.id, kept}, Seconds(0.0));
  if (!is_new) return known->second;
  const AxesByName axes = axes_of_dims(accumulator.dims, kept);
  for (const OpId id : group.backward)
    if (graph_.op(id).kind == OpKind::Accumulate && graph_.op(id).inputs[0] == accumulator.id)
      known->second += costs_.compute(work(id, axes)).time;
  return known->second;
}

// Where a parameter's gradient is summed over microbatches, and its way to the optimizer state.
StepCost LayerModel::Builder::accumulation_cost(const Group& group, const Operand& operand, const Tensor& accumulator,
                                                const std::vector<ShardingSpec>& gradients,
                                                const ParameterSharding& sharding, Seconds behind) {
  StepCost cost;
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    const ShardingSpec kept = sharding.eager ? sharding.state : whole_sums(gradients[g]);
    const Seconds summing = sum_time(group, accumulator, kept);
    cost.backward += summing;
    cost.weights += summing;
    if (summing > Seconds(0.0)) cost.host_backward += host_.op;
    cost.resident += local_bytes(accumulator, kept, mesh_);
    // Eager: every micro-batch brings its gradient to where the state is. Delayed: their sum goes there once per step.
    if (sharding.eager) {
      const Op& maker = graph_.op(operand.gradients[g].made_by);
      const Tensor& made = graph_.tensor(maker.outputs[operand.gradients[g].result]);
      const Seconds moving = resharding_(made, gradients[g], sharding.state);
      const MoveShares shares = sums_of(made);
      const Seconds time = exposed(shares.in_passes * moving, behind);
      if (!rules_.hiding.beside) cost.moved_backward += shares.alone * moving;
      cost.host_backward += issue(gradients[g], sharding.state);
      cost.backward += time;
      cost.weights += time;
    } else {
      cost.step +=
          exposed(sums_of(accumulator).in_updates * resharding_(accumulator, gradients[g], sharding.state), behind);
    }
  }
  return cost;
}

}  // namespace meshwright
