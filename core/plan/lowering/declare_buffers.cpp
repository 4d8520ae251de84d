// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/recomputation.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

LocalTensor LoweringState::local(int stage, TensorId tensor, const ShardingSpec& spec) const {
  const Tensor& whole = graph.tensor(tensor);
  return {tensor, whole.dtype, spec, local_shape(whole.dims, spec, mesh(stage))};
}

BufferId LoweringState::add_buffer(int stage, TensorId tensor, const ShardingSpec& spec, bool persistent,
                                   const std::string& name) {
  const BufferId id(static_cast<int>(program.buffers.size()));
  program.buffers.push_back({id, StageId(stage), local(stage, tensor, spec), persistent, name});
  return id;
}

const AxesByName& LoweringState::axes(int stage, const Op& op) const {
  const Op& forward = op.phase == Phase::Forward ? op : graph.op(*op.forward);
  const auto found = stage_plan(stage).ops.find(forward.name);
  MW_CHECK(found != stage_plan(stage).ops.end(), "stage {} has no decision for {}", stage, forward.name);
  return found->second.axes;
}

AxisMask LoweringState::partial_sums(int stage, const Op& op) const {
  if (op.phase == Phase::Forward) return stage_plan(stage).ops.at(op.name).partial;
  return is_recomputation(graph, op) ? stage_plan(stage).ops.at(graph.op(*op.forward).name).partial : AxisMask{0};
}

const ParameterSharding& LoweringState::parameter_sharding(const Op& reader, TensorId parameter) const {
  const auto& known = stage_plan(stages.stage_of(reader.id)).parameters;
  const auto found = known.find(reader.name + "/" + graph.tensor(parameter).name);
  MW_CHECK(found != known.end(), "no decision for {} read by {}", graph.tensor(parameter).name, reader.name);
  return found->second;
}

bool LoweringState::is_parameter_gradient(TensorId tensor) const {
  const auto& producer = graph.tensor(tensor).producer;
  return producer && graph.op(*producer).phase == Phase::Backward && !stages.gradient_of[tensor.index()] &&
         !stages.repeats[tensor.index()];
}

ShardingSpec LoweringState::made_as(int stage, const Op& maker, TensorId tensor) const {
  const auto result = std::find(maker.outputs.begin(), maker.outputs.end(), tensor) - maker.outputs.begin();
  return raw_result(iteration_space(graph, maker), static_cast<std::size_t>(result), axes(stage, maker));
}

const FanOut* LoweringState::fan_out(int stage, TensorId tensor) const {
  if (const auto repeated = stages.repeats[tensor.index()]) return fan_out(stage, *repeated);
  const auto found = stage_plan(stage).fan_outs.find(graph.tensor(tensor).name);
  return found == stage_plan(stage).fan_outs.end() ? nullptr : &found->second;
}

ShardingSpec LoweringState::kept_as(int stage, TensorId tensor) const {
  stage = stages.original(stage);  // which is split in the same way
  if (const auto repeated = stages.repeats[tensor.index()]) return kept_as(stage, *repeated);
  const Tensor& whole = graph.tensor(tensor);
  if (const auto of = stages.gradient_of[tensor.index()]) {
    const FanOut* shared = fan_out(stage, *of);
    if (shared != nullptr && stages.contributes[tensor.index()]) return shared->gradient;
    const OpId maker = *graph.tensor(*of).producer;
    if (stages.stage_of(maker) == stage || stage_plan(stage).inputs.contains(graph.tensor(*of).name))
      return whole_sums(kept_as(stage, *of));
    // A gradient that passes through an op of another stage: kept as its first reader here wants it.
    for (const Op& op : graph.ops()) {
      if (stages.stage_of(op.id) != stage) continue;
      const auto input = std::find(op.inputs.begin(), op.inputs.end(), tensor);
      if (input == op.inputs.end()) continue;
      // A sum of gradients may be made where its forward op is not: it reads as it is kept.
      if (is_gradient_sum(graph, op)) return whole_sums(kept_as(stage, op.outputs[0]));
      return operand_spec(iteration_space(graph, op), static_cast<std::size_t>(input - op.inputs.begin()),
                          axes(stage, op));
    }
    MW_CHECK(false, "stage {} does not read {}", stage, whole.name);
  }
  MW_CHECK(whole.producer.has_value(), "{} is not made by an op", whole.name);
  if (stages.stage_of(*whole.producer) == stage) return stage_plan(stage).ops.at(graph.op(*whole.producer).name).result;
  const auto received = stage_plan(stage).inputs.find(whole.name);
  MW_CHECK(received != stage_plan(stage).inputs.end(), "stage {} does not say how it receives {}", stage, whole.name);
  return received->second;
}

namespace {

// Whether a value of the forward waits on the host for the backward of its stage. What another stage reads, too, stays
// on the device from which it is sent.
bool waits_on_host(const LoweringState& state, const Tensor& tensor, int stage) {
  if (!state.graph.activations_on_host || state.graph.op(*tensor.producer).phase != Phase::Forward) return false;
  const auto& readers = state.stages.readers[tensor.id.index()];
  return std::all_of(readers.begin(), readers.end(), [&](const auto& reader) {
    return reader == std::pair{stage, Phase::Backward};
  });
}

// Values made by one Run and read by another: saved for the backward, or on another stage.
void declare_values(LoweringState& state) {
  const Graph& graph = state.graph;
  for (const Tensor& tensor : graph.tensors()) {
    if (!tensor.producer || state.stages.readers[tensor.id.index()].empty()) continue;
    const Op& maker = graph.op(*tensor.producer);
    if (maker.phase == Phase::Update) continue;  // the norm: once per step, and summed on its way
    const int from = state.stages.stage_of(maker.id);
    const auto declare = [&](int stage) {
      const auto known = state.values.find({stage, tensor.id});
      if (known != state.values.end()) return known->second;
      // A tensor without a stored sharding is read by the second half of a split backward only.
      const ShardingSpec spec = state.is_parameter_gradient(tensor.id) ? state.made_as(stage, maker, tensor.id)
                                                                       : state.kept_as(stage, tensor.id);
      const BufferId id = state.add_buffer(stage, tensor.id, spec, false, tensor.name);
      state.values.emplace(std::pair{stage, tensor.id}, id);
      return id;
    };
    const BufferId source = declare(from);
    state.program.buffers[source.index()].on_host = waits_on_host(state, tensor, from);
    // A stage that reads the tensor in several Runs receives it once.
    std::set<int> sent_to;
    for (const auto& [to, phase] : state.stages.readers[tensor.id.index()])
      if (to != from && sent_to.insert(to).second)
        state.crossings.push_back({tensor.id, from, to, maker.phase, source, declare(to)});
  }
}

// Weights (one copy per stage and spec that reads them), accumulators and optimizer state.
void declare_persistent(LoweringState& state) {
  const Graph& graph = state.graph;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Forward) continue;
    const int stage = state.stages.stage_of(op.id);
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.kind != TensorKind::Parameter) continue;
      const ShardingSpec& spec = state.parameter_sharding(op, input).weight;
      if (state.weights.contains({stage, input, spec})) continue;
      // The first reader's copy has the parameter's own name; the others add their reader's.
      const bool owner = state.stages.first_reader[input.index()] == op.id;
      const std::string name = owner ? tensor.name : tensor.name + "@" + op.name;
      const BufferId buffer = state.add_buffer(stage, input, spec, true, name);
      state.program.buffers[buffer.index()].on_host = graph.weights_on_host;
      state.weights.emplace(std::tuple{stage, input, spec}, buffer);
    }
  }
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Accumulate) continue;
    const int stage = state.stages.stage_of(op.id);
    const Op& maker = graph.op(*graph.tensor(op.inputs[1]).producer);
    const Tensor& accumulator = graph.tensor(op.inputs[0]);
    const ParameterSharding& sharding = state.parameter_sharding(graph.op(*op.forward), *accumulator.parameter);
    const ShardingSpec spec = sharding.eager ? sharding.state : state.made_as(stage, maker, op.inputs[1]);
    state.values.emplace(std::pair{stage, accumulator.id},
                         state.add_buffer(stage, accumulator.id, spec, true, accumulator.name));
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::StepState)
      for (const auto& [stage, phase] : state.stages.readers[tensor.id.index()])
        if (const std::pair key{stage, tensor.id}; !state.values.contains(key))
          state.values.emplace(key, state.add_buffer(stage, tensor.id, whole_of(tensor), true, tensor.name));
    if (tensor.kind != TensorKind::OptimizerState) continue;
    const Op& owner = graph.op(*state.stages.first_reader[tensor.parameter->index()]);
    const int stage = state.stages.stage_of(owner.id);
    const ShardingSpec& whole = state.parameter_sharding(owner, *tensor.parameter).state;
    const ShardingSpec spec = spec_by_name(tensor.dims, axes_of_dims(graph.tensor(*tensor.parameter).dims, whole));
    const BufferId buffer = state.add_buffer(stage, tensor.id, spec, true, tensor.name);
    state.program.buffers[buffer.index()].on_host = graph.states_on_host;
    state.values.emplace(std::pair{stage, tensor.id}, buffer);
  }
}

// `spec` without the cuts that leave padding: a buffer that is received is filled by what is sent, and nobody sends
// padding.
ShardingSpec without_padding(const std::vector<Dim>& dims, ShardingSpec spec, const LogicalMesh& mesh) {
  for (std::size_t d = 0; d < dims.size(); ++d)
    for (int axis = mesh.rank(); axis-- > 0 && dims[d].size % shards(spec.dims[d], mesh) != 0;)
      spec.dims[d] = static_cast<AxisMask>(spec.dims[d] & ~(1 << axis));
  return spec;
}

// A parameter is updated on the stage of its first reader; other stages send their gradient there and get the weights
// back.
void declare_parameter_exchange(LoweringState& state) {
  const Graph& graph = state.graph;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Accumulate) continue;
    const Tensor& accumulator = graph.tensor(op.inputs[0]);
    const Op& reader = graph.op(*op.forward);
    const Op& owner = graph.op(*state.stages.first_reader[accumulator.parameter->index()]);
    const int from = state.stages.stage_of(reader.id), to = state.stages.stage_of(owner.id);
    if (from == to) continue;
    // An accumulator without partial sums travels as it is; otherwise it is summed first.
    BufferId source = state.values.at({from, accumulator.id});
    const ShardingSpec& kept = state.program.buffers[source.index()].local.spec;
    const ShardingSpec summed = without_padding(accumulator.dims, whole_sums(kept), state.mesh(from));
    if (summed != kept) source = state.add_buffer(from, accumulator.id, summed, false, accumulator.name + ".sum");
    const ShardingSpec& updated = state.parameter_sharding(owner, *accumulator.parameter).state;
    const BufferId destination =
        state.add_buffer(to, accumulator.id, without_padding(accumulator.dims, updated, state.mesh(to)), false,
                         accumulator.name + ".received");
    state.gradient_crossings.push_back({accumulator.id, from, to, Phase::Update, source, destination});
  }
  for (const auto& [key, copy] : state.weights) {
    const auto& [stage, parameter, spec] = key;
    const Op& owner = graph.op(*state.stages.first_reader[parameter.index()]);
    const int from = state.stages.stage_of(owner.id);
    if (from == stage) continue;
    const BufferId source = state.weights.at({from, parameter, state.parameter_sharding(owner, parameter).weight});
    state.weight_crossings.push_back({parameter, from, stage, Phase::Update, source, copy});
  }
}

}  // namespace

void declare_buffers(LoweringState& state) {
  declare_persistent(state);
  declare_values(state);
  declare_parameter_exchange(state);
  if (state.stages.per_copy < static_cast<int>(state.plan.stages.size())) declare_copies(state);
  declare_norm_exchange(state);
}

}  // namespace meshwright
