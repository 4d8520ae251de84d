// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "core/graph/recomputation.h"
#include "core/graph/update_ops.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

// Builds one executable: emits ops with their operands resharded where needed, and remembers in which specs a tensor is
// at hand.
class ExecutableBuilder {
 public:
  ExecutableBuilder(LoweringState& state, int stage, Phase phase, Pass backward_part = Pass::Backward)
      : state_(state), graph_(state.graph), stage_(stage) {
    executable_.stage = StageId(stage);
    executable_.phase = phase;
    executable_.backward_part = backward_part;
  }

  void emit(const Op& op) {
    if (op.phase == Phase::Update)
      emit_update(op);
    else if (op.kind == OpKind::Accumulate)
      emit_accumulate(op);
    else
      emit_compute(op);
  }

  // Sums an accumulator's partial results and leaves them in `target`, to be sent.
  void emit_gradient_sum(TensorId accumulator, BufferId target) {
    const Buffer& buffer = state_.program.buffers[target.index()];
    bind_output(bring(accumulator, buffer.local.spec), target);
  }

  // Leaves the stage's part of the norm and its gradients, as sums of their uses, to the other stages and the update.
  void emit_norm_part(const NormExchange& exchange) {
    const auto part = exchange.part.find(stage_);
    if (part == exchange.part.end()) return;
    bind_output(whole_norm(), part->second);
    for (const auto& [key, buffer] : exchange.gradients)
      if (key.first == stage_) emit_gradient_sum(key.second, buffer);
  }
  // Finds what emit_norm_part left, and the norm of all.
  void take_norm(const NormExchange& exchange) {
    remember(*state_.norm, add_input_slot(*state_.norm, exchange.whole.at(stage_)), true);
    for (const auto& [key, buffer] : exchange.gradients)
      if (key.first == stage_) remember(key.second, add_input_slot(key.second, buffer), true);
  }

  // Index of the finished executable, or nullopt when nothing was emitted.
  std::optional<int> finish() {
    if (executable_.ops.empty()) return std::nullopt;
    set_lifetimes(executable_);
    state_.program.executables.push_back(std::move(executable_));
    return static_cast<int>(state_.program.executables.size()) - 1;
  }

 private:
  using Slot = StageExecutable::Slot;
  Slot& slot(int i) { return executable_.slots[static_cast<std::size_t>(i)]; }

  int add_slot(TensorId tensor, const ShardingSpec& spec) {
    executable_.slots.push_back({state_.local(stage_, tensor, spec), std::nullopt, false, false, std::nullopt, -1});
    return static_cast<int>(executable_.slots.size()) - 1;
  }
  void bind_output(int i, BufferId buffer) {
    slot(i).buffer = buffer;
    slot(i).output = true;
  }
  int add_input_slot(TensorId tensor, BufferId buffer) {
    const int i = add_slot(tensor, state_.program.buffers[buffer.index()].local.spec);
    slot(i).buffer = buffer;
    slot(i).input = true;
    slot(i).on_host = state_.program.buffers[buffer.index()].on_host;
    return i;
  }

  // Brings a value to the device, or back to its host.
  void copy_across(int from, int to) {
    LocalOp op;
    op.kind = LocalOp::Kind::HostCopy;
    op.inputs = {from};
    op.outputs = {to};
    executable_.ops.push_back(std::move(op));
  }
  // The slot from which a pass reads: of what lies on the host, a copy on the device. An update works on it there.
  int fetched(int i) {
    if (!slot(i).on_host || executable_.phase == Phase::Update) return i;
    const int here = add_slot(slot(i).local.tensor, slot(i).local.spec);
    copy_across(i, here);
    return here;
  }

  // The buffer that holds a value made outside this executable.
  BufferId buffer_of(TensorId tensor) const {
    const auto value = state_.values.find({stage_, tensor});
    if (value != state_.values.end()) return value->second;
    for (const Crossing& crossing : state_.gradient_crossings)
      if (crossing.tensor == tensor && crossing.to == stage_) return crossing.destination;
    MW_CHECK(false, "stage {} has no buffer for {}", stage_, graph_.tensor(tensor).name);
  }

  // The slot in which `tensor` is kept; the start of every resharding.
  int base(TensorId tensor) {
    const auto known = base_.find(tensor);
    if (known != base_.end()) return known->second;
    const int i = fetched(add_input_slot(tensor, buffer_of(tensor)));
    remember(tensor, i, true);
    return i;
  }
  void remember(TensorId tensor, int i, bool is_base) {
    at_hand_.insert_or_assign(std::pair{tensor, slot(i).local.spec}, i);
    if (is_base) base_.insert_or_assign(tensor, i);
  }

  // A slot with `tensor` as `wanted`, resharded from its base if it is not at hand.
  int bring(TensorId tensor, const ShardingSpec& wanted) {
    const auto known = at_hand_.find({tensor, wanted});
    if (known != at_hand_.end()) return known->second;
    // Inputs are loaded in the wanted spec: they are never resharded.
    if (graph_.tensor(tensor).kind == TensorKind::Input) {
      const int i = add_slot(tensor, wanted);
      remember(tensor, i, true);
      return i;
    }
    const int kept = base(tensor);
    if (slot(kept).local.spec == wanted) return kept;
    const FanOut* shared = state_.fan_out(stage_, tensor);
    // All readers of a fan-out start from its copy, so that the way there is paid for once.
    const int from = shared != nullptr && wanted != shared->copy ? bring(tensor, shared->copy) : kept;
    return reshard(tensor, from, wanted, IterationSpace::Reduce::Sum);
  }

  int reshard(TensorId tensor, int from, const ShardingSpec& wanted, IterationSpace::Reduce reduce) {
    if (slot(from).local.spec == wanted) return from;
    int at = from;
    for (const ReshardStep& step : state_.way(stage_, tensor, slot(from).local.spec, wanted).steps) {
      const int next = add_slot(tensor, step.after);
      LocalOp op;
      op.kind = LocalOp::Kind::Reshard;
      op.inputs = {at};
      op.outputs = {next};
      op.step = step;
      if (step.kind == ReshardStep::Kind::AllReduce || step.kind == ReshardStep::Kind::ReduceScatter)
        op.reduce = reduce;
      executable_.ops.push_back(std::move(op));
      // Partial sums are only on the way to whole ones: no other reader may start from them.
      if (step.after.partial == 0) remember(tensor, next, false);
      at = next;
    }
    return at;
  }

  void push_compute(const Op& op, const IterationSpace& space, const AxesByName& axes, std::vector<int> inputs,
                    std::vector<int> outputs) {
    LocalOp local;
    local.kind = LocalOp::Kind::Compute;
    local.op = op.id;
    local.inputs = std::move(inputs);
    local.outputs = std::move(outputs);
    local.axis_sizes = local_axis_sizes(space, axes, state_.mesh(stage_));
    for (const IterationAxis& axis : space.axes) local.axis_masks.push_back(mask_of(axes, axis.name));
    local.work = op_work(graph_, op, local.axis_sizes);
    executable_.ops.push_back(std::move(local));
  }

  int parameter_slot(const Op& reader, TensorId parameter) {
    const ShardingSpec& spec = state_.parameter_sharding(reader, parameter).weight;
    const auto known = at_hand_.find({parameter, spec});
    const int i = known != at_hand_.end()
                      ? known->second
                      : fetched(add_input_slot(parameter, state_.weights.at({stage_, parameter, spec})));
    remember(parameter, i, true);  // the base of this reader's reshardings
    return i;
  }

  // Forward and backward ops: split by name like their forward op; gradient sums as their tensor is kept or handed out.
  void emit_compute(const Op& op) {
    const bool sums_gradient = is_gradient_sum(graph_, op);
    AxesByName axes;
    AxisMask partial = 0;
    if (sums_gradient) {
      const FanOut* shared = state_.fan_out(stage_, graph_.op(*op.forward).outputs[0]);
      const ShardingSpec spec = shared != nullptr ? shared->gradient : state_.kept_as(stage_, op.outputs[0]);
      axes = axes_of_dims(graph_.tensor(op.outputs[0]).dims, spec);
      partial = spec.partial;
    } else {
      axes = state_.axes(stage_, op);
      partial = state_.partial_sums(stage_, op);
    }
    const IterationSpace space = iteration_space(graph_, op);
    std::vector<int> inputs, outputs;
    for (const TensorId named : op.inputs) {
      const TensorId input = state_.stages.read_as(stage_, named, graph_);
      if (graph_.tensor(input).kind == TensorKind::Parameter)
        parameter_slot(op.phase == Phase::Forward ? op : graph_.op(*op.forward), input);
      ShardingSpec wanted = operand_spec(space, inputs.size(), axes);
      if ((row_of(op.kind).linear_operands >> inputs.size() & 1u) != 0) wanted.partial = partial;
      inputs.push_back(bring(input, wanted));
    }
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      ShardingSpec raw = raw_result(space, o, axes);
      raw.partial = static_cast<AxisMask>(raw.partial | partial);
      outputs.push_back(add_slot(op.outputs[o], raw));
    }
    push_compute(op, space, axes, std::move(inputs), outputs);
    for (std::size_t o = 0; o < op.outputs.size(); ++o) keep(op.outputs[o], outputs[o], space.reduce);
  }

  // From the raw result to how the tensor is kept, and into its buffer if somebody else reads it.
  void keep(TensorId tensor, int raw, IterationSpace::Reduce reduce) {
    int kept = raw;
    if (!state_.is_parameter_gradient(tensor)) {
      if (slot(raw).local.spec.partial == 0) remember(tensor, raw, false);
      kept = reshard(tensor, raw, state_.kept_as(stage_, tensor), reduce);
    }
    remember(tensor, kept, true);
    const auto value = state_.values.find({stage_, tensor});
    // A whole backward keeps to itself what a split one passes from its first half to its second.
    if (value == state_.values.end() || (is_whole_backward() && state_.stages.between_halves(stage_, tensor, graph_)))
      return;
    if (!state_.program.buffers[value->second.index()].on_host) return bind_output(kept, value->second);
    const int there = add_slot(tensor, slot(kept).local.spec);
    slot(there).on_host = true;
    copy_across(kept, there);
    bind_output(there, value->second);
  }
  [[nodiscard]] bool is_whole_backward() const {
    return executable_.phase == Phase::Backward && executable_.backward_part == Pass::Backward;
  }

  void emit_accumulate(const Op& op) {
    const int accumulator = base(op.inputs[0]);
    slot(accumulator).output = true;
    const Tensor& sum = graph_.tensor(op.inputs[0]);
    const bool eager = state_.parameter_sharding(graph_.op(*op.forward), *sum.parameter).eager;
    const int gradient = eager ? bring(op.inputs[1], slot(accumulator).local.spec) : base(op.inputs[1]);
    MW_CHECK(slot(accumulator).local.spec == slot(gradient).local.spec, "{}: {} onto {}", op.name,
             slot(gradient).local.spec.to_text(), slot(accumulator).local.spec.to_text());
    const AxesByName axes = axes_of_dims(sum.dims, slot(gradient).local.spec);
    push_compute(op, iteration_space(graph_, op), axes, {accumulator, gradient}, {accumulator});
  }

  // Everything in the update is sharded like the optimizer state of its parameter.
  void emit_update(const Op& op) {
    if (is_norm_sum(op)) return;  // see add_to_norm
    if (op.kind == OpKind::ScalingUpdate) return emit_scaling_update(op);
    const std::optional<TensorId> of = updated_parameter(graph_, op);
    MW_CHECK(of.has_value(), "{} updates no parameter", op.name);
    const TensorId parameter = *of;
    const Op& owner = graph_.op(*state_.stages.first_reader[parameter.index()]);
    const ShardingSpec& spec = state_.parameter_sharding(owner, parameter).state;
    const AxesByName axes = axes_of_dims(graph_.tensor(parameter).dims, spec);

    const IterationSpace space = iteration_space(graph_, op);
    const bool updates = op.inputs.front() == parameter;
    int whole = -1;
    if (row_of(op.kind).in_place) {
      if (!norms_.empty()) remember(*state_.norm, whole_norm(), true);
      norms_.clear();
    }
    if (updates) {
      // A reader's copy with the sharding of the state is updated in place.
      const auto copy = state_.weights.find({stage_, parameter, spec});
      if (copy != state_.weights.end()) remember(parameter, add_input_slot(parameter, copy->second), false);
      whole = parameter_slot(owner, parameter);
    }
    std::vector<int> inputs, outputs;
    // The norm and the loss scaling, which all updates read, have none of the parameter's axes: they are whole on every
    // device.
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      inputs.push_back(bring(op.inputs[i], operand_spec(space, i, axes)));
    if (!row_of(op.kind).in_place) {
      const int result = add_slot(op.outputs[0], raw_result(space, 0, axes));
      remember(op.outputs[0], result, true);
      push_compute(op, space, axes, std::move(inputs), {result});
      if (op.kind == OpKind::SumSquares) add_to_norm(result);
      return;
    }
    for (const TensorId output : op.outputs) {
      const auto at = std::find(op.inputs.begin(), op.inputs.end(), output) - op.inputs.begin();
      outputs.push_back(inputs[static_cast<std::size_t>(at)]);
      if (slot(outputs.back()).buffer) slot(outputs.back()).output = true;
    }
    const int updated = inputs.front();
    push_compute(op, space, axes, std::move(inputs), std::move(outputs));
    if (updates) spread(parameter, updated, whole);
  }

  // Every stage that reads the loss scale keeps it, and makes the same of it.
  void emit_scaling_update(const Op& op) {
    const int state = base(op.inputs[0]), norm = bring(op.inputs[1], ShardingSpec{});
    slot(state).output = true;
    push_compute(op, iteration_space(graph_, op), {}, {state, norm}, {state});
  }

  bool is_norm_sum(const Op& op) const {
    const auto& maker = graph_.tensor(op.inputs.back()).producer;
    return op.kind == OpKind::Add && maker && graph_.op(*maker).kind == OpKind::SumSquares;
  }
  // Squared norms of gradients that are cut over the same mesh axes are added up before their partial sums are: a
  // collective for each sharding, not for each parameter.
  void add_to_norm(int squares) {
    const auto [known, is_first] = norms_.try_emplace(slot(squares).local.spec.partial, squares);
    if (!is_first) known->second = add_scalars(known->second, squares);
  }
  int add_scalars(int a, int b) {
    const Op& sum = graph_.op(*graph_.tensor(*state_.norm).producer);
    const int result = add_slot(sum.outputs[0], slot(a).local.spec);
    push_compute(sum, iteration_space(graph_, sum), {}, {a, b}, {result});
    return result;
  }
  // The sum of all the squares met so far, whole on every device.
  int whole_norm() {
    std::optional<int> whole;
    for (const auto& [partial, squares] : norms_) {
      const int summed = reshard(slot(squares).local.tensor, squares, ShardingSpec{}, IterationSpace::Reduce::Sum);
      whole = whole ? add_scalars(*whole, summed) : summed;
    }
    return whole.value();
  }

  // Writes the updated weights back to the owner's copy and to every other copy on this stage.
  void spread(TensorId parameter, int updated, int whole) {
    if (updated != whole) write(parameter, updated, whole);
    const auto own = [&](const auto& key) { return std::get<0>(key) == stage_ && std::get<1>(key) == parameter; };
    // The stage's copies of one parameter are neighbours; the spec of no dimension comes before all others.
    for (auto at = state_.weights.lower_bound({stage_, parameter, ShardingSpec{}});
         at != state_.weights.end() && own(at->first); ++at) {
      const BufferId buffer = at->second;
      if (slot(whole).buffer == buffer || slot(updated).buffer == buffer) continue;
      write(parameter, updated, add_input_slot(parameter, buffer));
    }
  }
  void write(TensorId parameter, int from, int to) {
    const std::size_t before = executable_.ops.size();
    // Steps from the updated shard only: what is at hand under other specs is the old value.
    reshard(parameter, from, slot(to).local.spec, IterationSpace::Reduce::Sum);
    MW_CHECK(executable_.ops.size() > before, "{} needs no resharding", graph_.tensor(parameter).name);
    const int last = executable_.ops.back().outputs[0];
    slot(last).alias_of = to;
    slot(last).on_host = slot(to).on_host;
    bind_output(last, *slot(to).buffer);
    slot(to).output = true;
  }

  LoweringState& state_;
  const Graph& graph_;
  int stage_;
  StageExecutable executable_;
  std::map<TensorId, int> base_;
  std::map<std::pair<TensorId, ShardingSpec>, int> at_hand_;
  std::map<AxisMask, int> norms_;  // mesh axes they are partial sums over -> squares of gradients, added up
};

}  // namespace

void build_executables(LoweringState& state, int stage) {
  ProgramStage& program_stage = state.program.stages[static_cast<std::size_t>(stage)];
  const bool trains = state.plan.schedule != ScheduleKind::Inference;
  const auto build = [&](Phase phase, Pass part = Pass::Backward) {
    ExecutableBuilder builder(state, stage, phase, part);
    for (const Op& op : state.graph.ops()) {
      // The first copy of a stage updates for all.
      const int own = phase == Phase::Update ? stage : state.stages.original(stage);
      if (op.phase != phase || state.stages.stage_of(op.id) != own) continue;
      if (part == Pass::Backward || state.stages.for_weights[op.id.index()] == (part == Pass::BackwardWeight))
        builder.emit(op);
    }
    return builder.finish();
  };
  program_stage.forward = build(Phase::Forward);
  if (!trains) return;
  const BackwardPasses& passes = state.stages.backwards[static_cast<std::size_t>(stage)];
  if (passes.halves) {
    program_stage.backward_input = build(Phase::Backward, Pass::BackwardInput);
    program_stage.backward_weight = build(Phase::Backward, Pass::BackwardWeight);
  }
  if (passes.whole) program_stage.backward = build(Phase::Backward);
  ExecutableBuilder sync(state, stage, Phase::Update);
  for (const Crossing& crossing : state.gradient_crossings)
    if (crossing.from == stage && !state.program.buffers[crossing.source.index()].persistent)
      sync.emit_gradient_sum(crossing.tensor, crossing.source);
  program_stage.sync = sync.finish();
  const bool exchanges_norm = state.norm_exchange && state.norm_exchange->whole.contains(stage);
  if (!exchanges_norm) {
    program_stage.update = build(Phase::Update);
    return;
  }
  ExecutableBuilder norm(state, stage, Phase::Update), update(state, stage, Phase::Update);
  update.take_norm(*state.norm_exchange);
  for (const Op& op : state.graph.ops())
    if (op.phase == Phase::Update && (state.stages.stage_of(op.id) == stage || op.kind == OpKind::ScalingUpdate))
      // Before the norm is known there are the sums of gradients, and of their squares.
      (op.kind == OpKind::Add || op.kind == OpKind::SumSquares ? norm : update).emit(op);
  norm.emit_norm_part(*state.norm_exchange);
  program_stage.norm = norm.finish();
  program_stage.update = update.finish();
}

}  // namespace meshwright
