// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/recomputation.h"
#include "core/plan/lowering/lowering.h"
#include "core/plan/ranks.h"

namespace meshwright {

namespace {

std::vector<int> stage_of_forward_ops(const Plan& plan, const Graph& graph) {
  const std::vector<OpId> forward = forward_ops(graph);
  std::vector<int> stage_of_layer;
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages_per_copy(plan)); ++s)
    stage_of_layer.resize(static_cast<std::size_t>(plan.stages[s].last_layer) + 1, static_cast<int>(s));
  std::vector<int> stage_of_op(graph.ops().size(), 0);
  std::size_t layer = 0;
  for (std::size_t p = 0; p < forward.size(); ++p) {
    while (layer + 1 < plan.layer_starts.size() && static_cast<int>(p) >= plan.layer_starts[layer + 1]) ++layer;
    stage_of_op[forward[p].index()] = stage_of_layer[layer];
  }
  return stage_of_op;
}

// Contributions to the gradient of a tensor are summed on the last stage that has the tensor at hand and feeds all that
// make them. In a line this is where the earliest of them is made, so that one sum crosses stages instead of several
// terms. Those of branches that do not depend on one another meet before the branches part: a sum on one branch would
// make it wait for the other.
int stage_of_sum(const StageAssignment& found, const std::set<int>& readers, const Graph& graph, const Op& op) {
  int stage = found.stage_of(*op.forward);
  const auto feeds_all = [&](int reader) {
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId term) {
      return found.feeding.reaches(reader, found.stage_of(*graph.tensor(term).producer));
    });
  };
  for (const int reader : readers)
    if (reader > stage && feeds_all(reader)) stage = reader;
  return stage;
}

// The first half of a backward is what the gradients for other stages depend on; a gradient that it computes for that
// is accumulated there. What the second half reads of the first becomes a value that outlives its Run.
void split_backward(StageAssignment& found, const Graph& graph) {
  found.for_weights.assign(graph.ops().size(), true);
  const auto& ops = graph.ops();
  const auto maker_in_backward = [&](const Op& op, TensorId named) -> const Op* {
    const auto& producer = graph.tensor(found.read_as(found.stage_of(op.id), named, graph)).producer;
    if (!producer || graph.op(*producer).phase != Phase::Backward) return nullptr;
    return found.stage_of(*producer) == found.stage_of(op.id) ? &graph.op(*producer) : nullptr;
  };
  // Backwards: what an op of the first half reads was made by an op of the first half.
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    if (op->phase != Phase::Backward || op->kind == OpKind::Accumulate) continue;
    const int stage = found.stage_of(op->id);
    if (!found.splits(stage)) continue;
    for (const TensorId output : op->outputs)
      for (const auto& [reader, phase] : found.readers[output.index()])
        if (reader != stage) found.for_weights[op->id.index()] = false;
    if (found.for_weights[op->id.index()]) continue;
    for (const TensorId input : op->inputs)
      if (const Op* maker = maker_in_backward(*op, input)) found.for_weights[maker->id.index()] = false;
  }
  for (const Op& op : ops) {
    if (op.phase != Phase::Backward || !found.splits(found.stage_of(op.id))) continue;
    for (const TensorId input : op.inputs) {
      const Op* maker = maker_in_backward(op, input);
      if (maker == nullptr || found.for_weights[maker->id.index()]) continue;
      if (op.kind == OpKind::Accumulate) found.for_weights[op.id.index()] = false;
      const int stage = found.stage_of(op.id);
      if (found.for_weights[op.id.index()])
        found.readers[found.read_as(stage, input, graph).index()].insert({stage, Phase::Backward});
    }
  }
}

}  // namespace

TensorId StageAssignment::read_as(int stage, TensorId tensor, const Graph& graph) const {
  const auto repeated = repeats[tensor.index()];
  return repeated && stage_of(*graph.tensor(tensor).producer) != original(stage) ? *repeated : tensor;
}

bool StageAssignment::between_halves(int stage, TensorId tensor, const Graph& graph) const {
  const auto& producer = graph.tensor(tensor).producer;
  stage = original(stage);
  if (!producer || graph.op(*producer).phase != Phase::Backward || stage_of(*producer) != stage) return false;
  const std::set<std::pair<int, Phase>>& reading = readers[tensor.index()];
  return std::all_of(reading.begin(), reading.end(), [&](const auto& reader) {
    return reader == std::pair{stage, Phase::Backward};
  });
}

StageAssignment assign_stages(const Plan& plan, const Graph& graph) {
  const std::size_t tensors = graph.tensors().size();
  StageAssignment found{stage_of_forward_ops(plan, graph),
                        stages_per_copy(plan),
                        stage_graph(plan, graph),
                        rank_of_stages(plan),
                        backward_passes(plan),
                        {},
                        {},
                        {},
                        {},
                        {},
                        {}};
  found.gradient_of.resize(tensors);
  found.repeats.resize(tensors);
  found.contributes.resize(tensors, false);
  found.first_reader.resize(tensors);
  found.readers.resize(tensors);

  std::vector<std::set<int>> forward_readers(tensors);  // [tensor] stages
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Forward) {
      for (const TensorId input : op.inputs) {
        if (!found.first_reader[input.index()]) found.first_reader[input.index()] = op.id;
        forward_readers[input.index()].insert(found.stage_of(op.id));
      }
      continue;
    }
    const Op& forward = graph.op(*op.forward);
    int& stage = found.stage_of_op[op.id.index()];
    stage = found.stage_of(forward.id);
    if (op.phase == Phase::Update || op.kind == OpKind::Accumulate) continue;
    if (is_recomputation(graph, op)) {
      for (std::size_t i = 0; i < op.outputs.size(); ++i) found.repeats[op.outputs[i].index()] = forward.outputs[i];
    } else if (is_gradient_sum(graph, op)) {
      stage = stage_of_sum(found, forward_readers[forward.outputs[0].index()], graph, op);
      for (const TensorId input : op.inputs)
        if (graph.tensor(input).gradient_of == graph.tensor(op.outputs[0]).gradient_of)
          found.contributes[input.index()] = true;
    }
  }
  for (const Tensor& tensor : graph.tensors()) found.gradient_of[tensor.id.index()] = tensor.gradient_of;

  for (const Op& op : graph.ops())
    for (const TensorId named : op.inputs) {
      const int stage = found.stage_of(op.id);
      const TensorId input = found.read_as(stage, named, graph);
      const Tensor& tensor = graph.tensor(input);
      // A value that stays within one Run needs no buffer.
      const bool made_in_this_run =
          tensor.producer && found.stage_of(*tensor.producer) == stage && graph.op(*tensor.producer).phase == op.phase;
      if (!made_in_this_run) found.readers[input.index()].insert({stage, op.phase});
    }
  if (std::any_of(found.backwards.begin(), found.backwards.end(), [](const auto& passes) { return passes.halves; }))
    split_backward(found, graph);
  return found;
}

}  // namespace meshwright
