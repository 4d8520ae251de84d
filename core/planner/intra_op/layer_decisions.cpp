// SPDX-License-Identifier: Apache-2.0
// From a layer model's numbers to a plan's names, and back.
#include <algorithm>

#include "core/base/errors.h"
#include "core/planner/intra_op/layer_model.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

namespace {

template <class Strategies, class Is>
int find_strategy(const Strategies& strategies, Is is) {
  const auto found = std::find_if(strategies.begin(), strategies.end(), is);
  return found == strategies.end() ? -1 : static_cast<int>(found - strategies.begin());
}

// The fan-out that needs no entry in a plan.
FanOut as_kept(const ShardingSpec& kept) { return {kept, whole_sums(kept)}; }

// The first state that is as the plan says; of a tensor that only passes the stage by it says nothing.
int find_state(const Border& border, const std::vector<TensorId>& tensors, const StagePlan& stage, const Graph& graph) {
  std::vector<std::optional<ShardingSpec>> wanted;
  for (const TensorId tensor : tensors) wanted.push_back(sharding_on(stage, graph, tensor));
  return find_strategy(border.states, [&](const std::vector<ShardingSpec>& state) {
    for (std::size_t t = 0; t < state.size(); ++t)
      if (wanted[t] && *wanted[t] != state[t]) return false;
    return true;
  });
}

}  // namespace

std::optional<ShardingSpec> sharding_on(const StagePlan& stage, const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  const auto made = stage.ops.find(graph.op(*tensor.producer).name);
  if (made != stage.ops.end()) return made->second.result;
  const auto received = stage.inputs.find(tensor.name);
  return received == stage.inputs.end() ? std::nullopt : std::optional(received->second);
}

void LayerModel::write_decisions(const ShardingChoice& choice, const StepStructure& structure, int layer,
                                 StagePlan& stage) const {
  const Graph& graph = structure.graph();
  const auto& ops = structure.layers().forward[layer];
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    // Borders have no op: what they decide is in the ops' results and the stage's inputs.
    if (node.op_position < 0) continue;
    const Op& op = graph.op(ops[node.op_position]);
    const int p = choice.strategy[i];
    if (node.kind == Node::Kind::Op) {
      const OpStrategy& strategy = node.strategies->op[p];
      stage.ops[op.name] = {axes_by_name(structure.space(op.id), strategy.axes), strategy.result, strategy.partial};
    } else if (node.kind == Node::Kind::FanOut) {
      if (node.strategies->fan_out[p] != as_kept(stage.ops.at(op.name).result))
        stage.fan_outs[graph.tensor(op.outputs.front()).name] = node.strategies->fan_out[p];
    } else {
      const Tensor& parameter = graph.tensor(op.inputs[node.operand]);
      stage.parameters[op.name + "/" + parameter.name] = node.strategies->parameter[p];
    }
  }
}

std::optional<ShardingChoice> LayerModel::choice_of(const StagePlan& stage, const StepStructure& structure,
                                                    int layer) const {
  const Graph& graph = structure.graph();
  const auto& ops = structure.layers().forward[layer];
  ShardingChoice choice;
  for (const Node& node : nodes_) {
    int found = -1;
    if (node.kind == Node::Kind::In) {
      found = find_state(in_, structure.crossing(layer), stage, graph);
    } else if (node.kind == Node::Kind::Out) {
      found = find_state(out_, structure.crossing(layer + 1), stage, graph);
    } else {
      const Op& op = graph.op(ops[node.op_position]);
      if (node.kind == Node::Kind::Op) {
        const auto decided = stage.ops.find(op.name);
        if (decided == stage.ops.end()) return std::nullopt;
        found = find_strategy(node.strategies->op, [&](const OpStrategy& strategy) {
          return strategy.result == decided->second.result && strategy.partial == decided->second.partial &&
                 axes_by_name(structure.space(op.id), strategy.axes) == decided->second.axes;
        });
      } else if (node.kind == Node::Kind::FanOut) {
        const auto decided = stage.fan_outs.find(graph.tensor(op.outputs.front()).name);
        const FanOut wanted = decided != stage.fan_outs.end() ? decided->second : as_kept(stage.ops.at(op.name).result);
        found = find_strategy(node.strategies->fan_out, [&](const FanOut& fan_out) { return fan_out == wanted; });
      } else {
        const Tensor& parameter = graph.tensor(op.inputs[node.operand]);
        const auto decided = stage.parameters.find(op.name + "/" + parameter.name);
        if (decided == stage.parameters.end()) return std::nullopt;
        found = find_strategy(node.strategies->parameter,
                              [&](const ParameterSharding& sharding) { return sharding == decided->second; });
      }
    }
    if (found < 0) return std::nullopt;
    choice.strategy.push_back(found);
  }
  return choice;
}

std::vector<LayerModel::Decision> LayerModel::decisions(const StepStructure& structure, int layer) const {
  const auto& ops = structure.layers().forward[layer];
  std::vector<Decision> found;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.kind != Node::Kind::Op && node.kind != Node::Kind::Parameter) continue;
    const Op& op = structure.graph().op(ops[node.op_position]);
    if (node.kind == Node::Kind::Op)
      found.push_back({static_cast<int>(i), op.outputs.front(), ""});
    else
      found.push_back({static_cast<int>(i), op.inputs[node.operand], op.name});
  }
  return found;
}

ShardingSpec LayerModel::spec_of(int node, int strategy) const {
  const Node& of = nodes_[node];
  MW_CHECK(of.kind == Node::Kind::Op || of.kind == Node::Kind::Parameter, "node {} of a layer is no decision", node);
  return of.kind == Node::Kind::Op ? of.strategies->op[strategy].result : of.strategies->parameter[strategy].weight;
}

const std::string& LayerModel::strategy_text(int node, int strategy) const {
  return nodes_[node].costs->names[strategy];
}

}  // namespace meshwright
