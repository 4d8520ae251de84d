// SPDX-License-Identifier: Apache-2.0
// The squared norm of all gradients, over stages: each adds up its own parameters', the parts are added up a tree of
// the stages and the sum goes down again. In every schedule here a stage nearer to the inputs ends its backwards later:
// with the first stage as root, parts come up while it still works, and a step waits for the way down only. A tree of
// kChildren = 16 gets there in 2 messages for up to 273 stages. A chain of them would wait for 272; a root that sends
// to all by itself sends 272 messages, one after the other wherever sending takes time. Where a rank has several
// stages, the first of them stands for the others.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

constexpr std::size_t kChildren = 16;

std::optional<TensorId> operand(const Op& op, const std::string& name) {
  const std::vector<std::string> operands = operand_names(op.kind, op.inputs.size(), op.attributes);
  const auto at = std::find(operands.begin(), operands.end(), name);
  if (at == operands.end()) return std::nullopt;
  return op.inputs[static_cast<std::size_t>(at - operands.begin())];
}

// The sum over a stage's own uses (and those of other stages) is kept from the norm to the update, unless an
// accumulator holds it in the sharding of the state.
void declare_gradient(LoweringState& state, NormExchange& exchange, int stage, const Op& update) {
  const TensorId gradient = operand(update, "g").value();
  const Tensor& tensor = state.graph.tensor(gradient);
  const Op& owner = state.graph.op(*state.stages.first_reader[update.inputs[0].index()]);
  const ShardingSpec& spec = state.parameter_sharding(owner, update.inputs[0]).state;
  const auto own = state.values.find({stage, gradient});
  const bool received = tensor.kind == TensorKind::Accumulator && own == state.values.end();
  const bool at_hand = own != state.values.end() && state.program.buffers[own->second.index()].local.spec == spec;
  if (received || at_hand) return;
  const std::string name = state.graph.tensor(update.inputs[0]).name + ".gradient";
  exchange.gradients.emplace(std::pair{stage, gradient}, state.add_buffer(stage, gradient, spec, false, name));
}

// Stages that update parameters, then those that only read the scale of the loss.
struct Readers {
  std::vector<int> stages;
  std::size_t updating = 0;
};

Readers find_readers(const LoweringState& state, const std::vector<const Op*>& updates) {
  std::set<int> updating, others;
  for (const Op* op : updates) updating.insert(state.stages.stage_of(op->id));
  if (const auto& scaling = state.graph.loss_scaling) {
    for (const auto& [stage, phase] : state.stages.readers[scaling->state.index()])
      if (!updating.contains(stage)) others.insert(stage);
    for (int s = state.stages.per_copy; s < static_cast<int>(state.plan.stages.size()); ++s)
      if (state.values.contains({s, scaling->state})) others.insert(s);
  }
  Readers found{{updating.begin(), updating.end()}, updating.size()};
  found.stages.insert(found.stages.end(), others.begin(), others.end());
  return found;
}

}  // namespace

void declare_norm_exchange(LoweringState& state) {
  std::vector<const Op*> updates;
  for (const Op& op : state.graph.ops()) {
    if (op.phase != Phase::Update || state.graph.tensor(op.inputs[0]).kind != TensorKind::Parameter) continue;
    updates.push_back(&op);
    if (const auto norm = operand(op, "norm")) state.norm = norm;
  }
  if (!state.norm) return;
  const Readers readers = find_readers(state, updates);
  const std::vector<int>& stages = readers.stages;
  if (stages.size() < 2) return;

  const TensorId norm = *state.norm;
  NormExchange exchange;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto add = [&](const char* name) { return state.add_buffer(stages[i], norm, ShardingSpec{}, false, name); };
    if (i < readers.updating) exchange.part.emplace(stages[i], add("gradient_norm.part"));
    exchange.whole.emplace(stages[i], i == 0 ? exchange.part.at(stages[0]) : add("gradient_norm"));
  }
  std::vector<int> heads;  // the first of each rank; one with a part where its rank has one
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const int child = stages[i];
    const auto on_its_rank = [&](int head) { return state.stages.on_one_rank(head, child); };
    const auto head = std::find_if(heads.begin(), heads.end(), on_its_rank);
    const bool is_head = head == heads.end();
    const int parent = is_head ? (heads.empty() ? child : heads[(heads.size() - 1) / kChildren]) : *head;
    if (is_head) heads.push_back(child);
    if (i == 0) continue;
    if (i < readers.updating)
      exchange.gathered.push_back(
          {norm, child, parent, Phase::Update, exchange.part.at(child), exchange.part.at(parent)});
    exchange.spread.push_back(
        {norm, parent, child, Phase::Update, exchange.whole.at(parent), exchange.whole.at(child)});
  }
  for (const Op* op : updates) declare_gradient(state, exchange, state.stages.stage_of(op->id), *op);
  state.norm_exchange = std::move(exchange);
}

}  // namespace meshwright
