// SPDX-License-Identifier: Apache-2.0
// Copies of stages (core/plan/plan.h) run the executables of the first copy on buffers of their own. A copy's
// accumulator is split as the first's, partial sums included, so that each device sends its tile to the one in its
// place and what is left to sum within the stage is summed once.
#include "core/base/errors.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

// The buffer of `stage` that stands for `of`, under a name of its own where it is there from the beginning.
BufferId add_copy(LoweringState& state, BufferId of, int stage) {
  const Buffer& first = state.program.buffers[of.index()];
  const LocalTensor local = first.local;
  const bool persistent = first.persistent, on_host = first.on_host;
  const bool lasts = persistent && state.graph.tensor(local.tensor).kind != TensorKind::StepState;
  const BufferId id =
      state.add_buffer(stage, local.tensor, local.spec, persistent, lasts ? first.name + "@copy" : first.name);
  state.program.buffers[id.index()].on_host = on_host;
  return id;
}

// The optimizer's states are the first copy's alone, and so is what an update alone reads.
bool is_copied(const LoweringState& state, int stage, TensorId tensor) {
  const TensorKind kind = state.graph.tensor(tensor).kind;
  if (kind != TensorKind::StepState) return kind != TensorKind::OptimizerState;
  const auto& readers = state.stages.readers[tensor.index()];
  return readers.contains({stage, Phase::Forward}) || readers.contains({stage, Phase::Backward});
}

// Values, weights and accumulators of the stages that are `further` after the first copy's.
void declare_copy(LoweringState& state, int further) {
  const auto values = state.values;
  for (const auto& [key, buffer] : values) {
    const auto& [stage, tensor] = key;
    if (stage >= state.stages.per_copy || !is_copied(state, stage, tensor)) continue;
    const BufferId copy = add_copy(state, buffer, stage + further);
    state.values.emplace(std::pair{stage + further, tensor}, copy);
    if (state.graph.tensor(tensor).kind == TensorKind::Accumulator)
      state.copy_crossings.push_back({tensor, stage + further, stage, Phase::Update, copy, buffer});
  }
  const std::size_t crossings = state.crossings.size();
  for (std::size_t c = 0; c < crossings; ++c) {
    Crossing crossing = state.crossings[c];
    if (crossing.from >= state.stages.per_copy) continue;
    crossing.from += further;
    crossing.to += further;
    crossing.source = state.values.at({crossing.from, crossing.tensor});
    crossing.destination = state.values.at({crossing.to, crossing.tensor});
    state.crossings.push_back(crossing);
  }
  const auto weights = state.weights;
  for (const auto& [key, buffer] : weights) {
    const auto& [stage, parameter, spec] = key;
    if (stage >= state.stages.per_copy) continue;
    const BufferId copy = add_copy(state, buffer, stage + further);
    state.weights.emplace(std::tuple{stage + further, parameter, spec}, copy);
    // From where the parameter is updated: what another stage has of it comes at the same time.
    const Op& owner = state.graph.op(*state.stages.first_reader[parameter.index()]);
    const int from = state.stages.stage_of(owner.id);
    const ShardingSpec& updated = from == stage ? spec : state.parameter_sharding(owner, parameter).weight;
    state.weight_crossings.push_back(
        {parameter, from, stage + further, Phase::Update, state.weights.at({from, parameter, updated}), copy});
  }
}

}  // namespace

void declare_copies(LoweringState& state) {
  const int stages = static_cast<int>(state.plan.stages.size());
  for (int further = state.stages.per_copy; further < stages; further += state.stages.per_copy)
    declare_copy(state, further);
}

}  // namespace meshwright
