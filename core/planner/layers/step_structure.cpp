// SPDX-License-Identifier: Apache-2.0
#include "core/planner/layers/step_structure.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "core/graph/recomputation.h"

namespace meshwright {

namespace {

// Attributes that change an op's work or its ways to be split; those that only change its numbers do not matter.
std::string work_text(const Attributes& a) {
  std::string text = a.bias_select ? " select" : "";
  if (!a.stride.empty() || !a.window.empty())
    text += fmt::format(" stride {} window {}", fmt::join(a.stride, ","), fmt::join(a.window, ","));
  if (a.causal) text += " causal";
  if (a.attention_window > 0) text += fmt::format(" keys {}", a.attention_window);
  if (a.top_k > 0) text += fmt::format(" top {}", a.top_k);
  return text;
}

bool reads(const Op& op, TensorId tensor) {
  return std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end();
}

// Which gradients the group's Accumulate ops sum, by the operand that is the parameter.
void find_accumulators(const Graph& graph, StepStructure::Group& group) {
  for (const OpId id : group.backward) {
    const Op& backward = graph.op(id);
    if (backward.kind != OpKind::Accumulate) continue;
    const TensorId parameter = *graph.tensor(backward.inputs[0]).parameter;
    const auto operand = std::find_if(group.operands.begin(), group.operands.end(), [&](const auto& candidate) {
      return candidate.tensor == parameter && !candidate.accumulator;
    });
    if (operand == group.operands.end()) continue;
    operand->accumulator = backward.inputs[0];
    const Tensor& gradient = graph.tensor(backward.inputs[1]);
    const Op& maker = graph.op(*gradient.producer);
    const auto at = std::find(maker.outputs.begin(), maker.outputs.end(), gradient.id) - maker.outputs.begin();
    operand->gradients.push_back({maker.id, static_cast<int>(at)});
  }
}

// Which operands the group's backward reads, and which of its ops makes the gradient of each. `recomputed`: by forward
// tensor its recomputed value; `trained`: whether a tensor needs a gradient.
void find_operand_uses(const Graph& graph, StepStructure::Group& group,
                       const std::vector<std::optional<TensorId>>& recomputed, const std::vector<bool>& trained) {
  std::set<TensorId> claimed;  // an op that reads a tensor twice makes two gradients of it
  for (std::size_t k = 0; k < group.operands.size(); ++k) {
    StepStructure::Operand& operand = group.operands[k];
    const Tensor& tensor = graph.tensor(operand.tensor);
    const auto again = recomputed[tensor.id.index()];
    for (const auto* ops : {&group.recomputations, &group.backward})
      for (const OpId id : *ops)
        if (reads(graph.op(id), tensor.id) || (again && reads(graph.op(id), *again))) operand.read_in_backward = true;
    if (tensor.kind != TensorKind::Intermediate || !trained[tensor.id.index()]) continue;
    // Bit k of the mask stands for operand k.
    operand.gradient_passes_through = (row_of(graph.op(group.forward).kind).passes_gradient >> k & 1u) != 0;
    for (const OpId id : group.backward) {
      const Op& backward = graph.op(id);
      if (backward.kind == OpKind::Accumulate || !operand.gradients.empty()) continue;
      for (std::size_t i = 0; i < backward.outputs.size(); ++i) {
        const Tensor& made = graph.tensor(backward.outputs[i]);
        if (made.gradient_of != tensor.id || claimed.contains(made.id)) continue;
        claimed.insert(made.id);
        operand.gradients.push_back({id, static_cast<int>(i)});
        break;
      }
    }
  }
}

// Whether the group's backward reads gradients that backward ops of other groups made: those of its result.
bool reads_other_gradients(const Graph& graph, const StepStructure::Group& group) {
  for (const OpId id : group.backward)
    for (const TensorId input : graph.op(id).inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (!tensor.producer || graph.op(*tensor.producer).phase != Phase::Backward) continue;
      const Op& maker = graph.op(*tensor.producer);
      if (is_recomputation(graph, maker)) continue;
      if (std::find(group.backward.begin(), group.backward.end(), maker.id) == group.backward.end()) return true;
    }
  return false;
}

}  // namespace

StepStructure::StepStructure(const Graph& graph, const Layers& layers) : graph_(graph), layers_(layers) {
  const std::size_t tensors = graph.tensors().size();
  groups_.resize(graph.ops().size(), Group{OpId(0), {}, {}, {}, {}, false, {}});
  backward_readers_.resize(tensors);
  states_.resize(tensors);
  first_reader_.resize(tensors);
  for (const Op& op : graph.ops()) spaces_.push_back(iteration_space(graph, op));
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState) states_[tensor.parameter->index()].push_back(tensor.id);

  // What a forward tensor is called where it has been recomputed, and which tensors need a gradient.
  std::vector<std::optional<TensorId>> recomputed(tensors);
  std::vector<bool> trained(tensors, false);
  for (const Tensor& tensor : graph.tensors()) trained[tensor.id.index()] = tensor.kind == TensorKind::Parameter;

  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Forward) {
      Group& group = groups_[op.id.index()];
      group.forward = op.id;
      for (const TensorId input : op.inputs) {
        group.operands.push_back({input, false, {}, false, std::nullopt});
        // Ops come in topological order: what reads a trained tensor has a trained result.
        if (trained[input.index()]) trained[op.outputs.front().index()] = true;
        auto& first = first_reader_[input.index()];
        if (graph.tensor(input).kind == TensorKind::Parameter && !first) first = op.id;
      }
      continue;
    }
    MW_CHECK(op.forward.has_value(), "{} has no forward op", op.name);
    Group& group = groups_[op.forward->index()];
    if (op.phase == Phase::Update) {
      group.updates.push_back(op.id);
    } else if (is_recomputation(graph, op)) {
      group.recomputations.push_back(op.id);
      for (std::size_t i = 0; i < op.outputs.size(); ++i)
        recomputed[graph.op(*op.forward).outputs[i].index()] = op.outputs[i];
    } else if (is_gradient_sum(graph, op)) {
      group.sums.push_back(op.id);
    } else {
      group.backward.push_back(op.id);
    }
    if (op.phase == Phase::Backward)
      for (const TensorId input : op.inputs) note_backward_reader(op, input);
  }
  for (std::vector<int>& readers : backward_readers_) {
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  }

  // A second pass: operands need the recomputed values and trained tensors of all ops.
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Forward) continue;
    Group& group = groups_[op.id.index()];
    find_accumulators(graph, group);
    find_operand_uses(graph, group, recomputed, trained);
    group.result_gradient_read = reads_other_gradients(graph, group);
    find_for_weights(group);
  }
  find_fan_outs();
  find_group_classes();
  find_crossing();
  for (int layer = 0; layer < layers_.count; ++layer) signatures_.push_back(signature_of(layer));
}

// Backwards over the group: an op is for weights alone unless something that leads to an operand's gradient reads it.
void StepStructure::find_for_weights(Group& group) const {
  group.for_weights.assign(group.backward.size(), true);
  std::set<TensorId> wanted;  // by ops that a gradient of an operand depends on
  for (std::size_t i = group.backward.size(); i-- > 0;) {
    const Op& op = graph_.op(group.backward[i]);
    if (op.kind == OpKind::Accumulate) continue;
    for (const TensorId output : op.outputs) {
      const auto of = graph_.tensor(output).gradient_of;
      if (wanted.contains(output) || (of && graph_.tensor(*of).kind == TensorKind::Intermediate))
        group.for_weights[i] = false;
    }
    if (!group.for_weights[i]) wanted.insert(op.inputs.begin(), op.inputs.end());
  }
}

// One pass over the readers: a tensor read outside of its layer, or that is not its maker's first result, cannot be
// shared within one layer model.
void StepStructure::find_fan_outs() {
  fans_out_.resize(graph_.tensors().size(), false);
  std::vector<int> readers(graph_.tensors().size(), 0);
  std::vector<bool> read_elsewhere(graph_.tensors().size(), false);
  for (const Op& op : graph_.ops()) {
    if (op.phase != Phase::Forward) continue;
    const IterationSpace& space = spaces_[op.id.index()];
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& tensor = graph_.tensor(op.inputs[i]);
      if (!tensor.producer) continue;
      const Op& maker = graph_.op(*tensor.producer);
      if (maker.outputs.front() != tensor.id ||
          layers_.layer_of_op[maker.id.index()] != layers_.layer_of_op[op.id.index()])
        read_elsewhere[tensor.id.index()] = true;
      // A reader that can split an axis which the tensor lacks can leave its gradient as partial sums.
      std::set<int> own(space.inputs[i].begin(), space.inputs[i].end());
      for (std::size_t axis = 0; axis < space.axes.size(); ++axis)
        if (space.axes[axis].splittable && !own.contains(static_cast<int>(axis))) {
          ++readers[tensor.id.index()];
          break;
        }
    }
  }
  for (std::size_t t = 0; t < fans_out_.size(); ++t) fans_out_[t] = readers[t] >= 2 && !read_elsewhere[t];
}

// The text tells everything a model may ask of a group, with tensors numbered as the group's ops come to them.
void StepStructure::find_group_classes() {
  group_classes_.resize(graph_.ops().size(), -1);
  std::map<std::string, int> known;
  for (const Op& forward : graph_.ops()) {
    if (forward.phase != Phase::Forward) continue;
    const Group& group = groups_[forward.id.index()];
    std::map<TensorId, std::size_t> numbers;
    std::string text;
    const std::function<void(TensorId)> note = [&](TensorId id) {
      const auto [number, is_new] = numbers.emplace(id, numbers.size());
      text += ' ' + std::to_string(number->second);
      if (!is_new) return;
      const Tensor& tensor = graph_.tensor(id);
      text += '[' + std::to_string(static_cast<int>(tensor.kind)) + ' ' + name_of(tensor.dtype);
      for (const Dim& dim : tensor.dims) text += ',' + dim.name + '=' + std::to_string(dim.size);
      if (tensor.producer) text += 'p';
      if (tensor.gradient_of) text += 'g';
      if (is_first_reader(forward.id, id)) text += '1';
      if (tensor.parameter) note(*tensor.parameter);
      for (const TensorId state : states_[id.index()]) note(state);
      text += "]";
    };
    // Gradients name their makers by the place in the group.
    std::map<OpId, std::size_t> places;
    const auto note_op = [&](OpId id) {
      const Op& op = graph_.op(id);
      places.emplace(id, places.size());
      text += name_of(op.kind) + work_text(op.attributes);
      for (const TensorId input : op.inputs) note(input);
      text += " ->";
      for (const TensorId output : op.outputs) note(output);
      text += ";";
    };
    note_op(forward.id);
    for (const auto* ops : {&group.recomputations, &group.backward, &group.sums, &group.updates}) {
      for (const OpId id : *ops) note_op(id);
      text += "|";
    }
    for (const Operand& operand : group.operands) {
      text += fmt::format("{}{}", operand.read_in_backward ? "r" : "", operand.gradient_passes_through ? "t" : "");
      for (const Gradient& gradient : operand.gradients)
        text += fmt::format(" {}.{}", places.at(gradient.made_by), gradient.result);
      if (operand.accumulator) note(*operand.accumulator);
      text += ";";
    }
    if (group.result_gradient_read) text += "g";
    group_classes_[forward.id.index()] = known.emplace(text, static_cast<int>(known.size())).first->second;
  }
}

// A forward tensor is kept for the backward ops that read it, and for those that read its recomputation made in another
// layer (a recomputed value does not leave its layer).
void StepStructure::note_backward_reader(const Op& reader, TensorId input) {
  const auto producer = graph_.tensor(input).producer;
  if (!producer) return;
  const Op& maker = graph_.op(*producer);
  const int layer = layers_.layer_of_op[reader.id.index()];
  if (maker.phase == Phase::Forward) {
    backward_readers_[input.index()].push_back(layer);
  } else if (is_recomputation(graph_, maker) && layers_.layer_of_op[maker.id.index()] != layer) {
    const auto at = std::find(maker.outputs.begin(), maker.outputs.end(), input) - maker.outputs.begin();
    const TensorId original = graph_.op(*maker.forward).outputs[at];
    backward_readers_[original.index()].push_back(layer);
  }
}

bool StepStructure::is_first_reader(OpId forward, TensorId parameter) const {
  return first_reader_[parameter.index()] == forward;
}

int StepStructure::blocks_in(int layer) const {
  std::set<int> blocks;
  for (const OpId id : layers_.forward[layer])
    if (graph_.op(id).block >= 0) blocks.insert(graph_.op(id).block);
  return std::max(1, static_cast<int>(blocks.size()));
}

void StepStructure::find_crossing() {
  std::vector<std::set<TensorId>> found(static_cast<std::size_t>(layers_.count) + 1);
  for (const Op& op : graph_.ops()) {
    if (op.phase != Phase::Forward) continue;
    const int reader = layers_.layer_of_op[op.id.index()];
    for (const TensorId input : op.inputs) {
      const auto producer = graph_.tensor(input).producer;
      if (!producer) continue;
      for (int layer = layers_.layer_of_op[producer->index()] + 1; layer <= reader; ++layer)
        found[static_cast<std::size_t>(layer)].insert(input);
    }
  }
  for (const auto& tensors : found) crossing_.push_back({tensors.begin(), tensors.end()});
}

bool StepStructure::is_read(TensorId tensor, int first, int last) const {
  for (int layer = first; layer <= last; ++layer)
    for (const OpId id : layers_.forward[layer])
      if (reads(graph_.op(id), tensor)) return true;
  const std::vector<int>& backward = backward_readers_[tensor.index()];
  return std::any_of(backward.begin(), backward.end(), [&](int layer) { return first <= layer && layer <= last; });
}

std::string StepStructure::signature_of(int layer) const {
  const auto& ops = layers_.forward[layer];
  std::map<TensorId, std::string> names;
  // Names are positions, so that equal layers have equal texts.
  const std::vector<TensorId> in = crossing(layer);
  for (std::size_t i = 0; i < in.size(); ++i) names[in[i]] = fmt::format("in{}", i);

  std::string text;
  const auto dims_text = [](const Tensor& tensor) {
    std::string dims = name_of(tensor.dtype);
    for (const Dim& dim : tensor.dims) dims += fmt::format(",{}={}", dim.name, dim.size);
    return dims;
  };
  for (const TensorId id : in) text += fmt::format("{}[{}];", names[id], dims_text(graph_.tensor(id)));
  for (std::size_t p = 0; p < ops.size(); ++p) {
    const Op& op = graph_.op(ops[p]);
    const Group& group = groups_[op.id.index()];
    text += name_of(op.kind);
    text += work_text(op.attributes);
    for (const Operand& operand : group.operands) {
      const Tensor& tensor = graph_.tensor(operand.tensor);
      const auto known = names.find(tensor.id);
      const std::string what = known != names.end() ? known->second
                               : tensor.kind == TensorKind::Parameter
                                   ? fmt::format("param{}{}", is_first_reader(op.id, tensor.id) ? "" : "'",
                                                 states_[tensor.id.index()].size())
                                   : "input";
      text += fmt::format(" {}[{}]{}{}{}{}", what, dims_text(tensor), operand.read_in_backward ? "r" : "",
                          operand.gradients.size(), operand.gradient_passes_through ? "t" : "",
                          operand.accumulator ? "a" : "");
    }
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const Tensor& result = graph_.tensor(op.outputs[o]);
      names[result.id] = fmt::format("t{}.{}", p, o);
      const auto& readers = backward_readers_[result.id.index()];
      const bool saved_here = std::find(readers.begin(), readers.end(), layer) != readers.end();
      text += fmt::format(" ->[{}]{}", dims_text(result), saved_here ? "s" : "");
    }
    for (const auto* list : {&group.recomputations, &group.backward, &group.sums, &group.updates}) {
      text += "|";
      for (const OpId id : *list) text += fmt::format("{} ", name_of(graph_.op(id).kind));
    }
    text += group.result_gradient_read ? "g;" : ";";
  }
  for (const TensorId id : in) {
    const auto& readers = backward_readers_[id.index()];
    text += std::find(readers.begin(), readers.end(), layer) != readers.end() ? "S" : "-";
  }
  for (const TensorId id : crossing(layer + 1)) text += " out " + names.at(id);
  return text;
}

}  // namespace meshwright
