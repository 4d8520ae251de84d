// SPDX-License-Identifier: Apache-2.0
#include "costmodel/framework_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/graph/op_table.h"
#include "core/plan/ranks.h"
#include "core/plan/stage_graph.h"
#include "core/planner/method/method.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

namespace {

// Attention keeps, for each token and head, the logarithm of the sum over the scores, in 32 bits. Masks are bytes.
constexpr double kStatisticBytes = 4.0, kMaskBytes = 1.0;

double element_bytes(const Graph& graph) { return static_cast<double>(size_of(graph.dtype)); }

double local_elements(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh) {
  return local_bytes(tensor, spec, mesh).si() / static_cast<double>(size_of(tensor.dtype));
}

bool is_activation(const Tensor& tensor) {
  return tensor.kind == TensorKind::Intermediate && tensor.dtype != DType::I32;
}

// What the degrees of a Megatron plan say of all its ops. The plan may split op by op otherwise where that is faster; a
// software has one rule for all.
struct PlanRules {
  int tensor_parallel = 1;         // on the mesh's last axis; 1: as each op's sharding says
  bool sequence_parallel = false;  // what tensor parallelism leaves whole is split along the sequence
  std::optional<int> zero = {};    // nullopt: as the parameters' shardings say
};

PlanRules rules_of_plan(const Plan& plan) {
  if (!plan.method.starts_with("megatron:")) return {};
  const Method method = method_from_text(plan.method);
  return {method.tp, method.sequence_parallel && method.tp > 1, method.zero};
}

Recompute recompute_at(const TrainingOptions& training, int position) {
  for (const RecomputeRange& range : training.recompute_ranges)
    if (position >= range.first && position <= range.last) return range.recompute;
  return training.recompute;
}

// The forward ops of a stage, and how they are split there.
class StageOps {
 public:
  StageOps(const Plan& plan, const Graph& graph, std::size_t stage)
      : graph_(graph), stage_(plan.stages[stage]), mesh_(mesh_of(stage_, plan.cluster)), rules_(rules_of_plan(plan)) {
    const std::vector<OpId> forward = forward_ops(graph);
    const auto start_of = [&](int layer) {
      const auto index = static_cast<std::size_t>(layer);
      return index < plan.layer_starts.size() ? static_cast<std::size_t>(plan.layer_starts[index]) : forward.size();
    };
    const std::size_t end = start_of(stage_.last_layer + 1);
    for (std::size_t i = start_of(stage_.first_layer); i < end; ++i) {
      ops_.push_back({forward[i], recompute_at(plan.training, static_cast<int>(i))});
      made_.insert(graph.op(forward[i]).outputs.begin(), graph.op(forward[i]).outputs.end());
    }
    is_last_ = end == forward.size();
  }

  struct PlacedOp {
    OpId op;
    Recompute recompute;
  };
  [[nodiscard]] const std::vector<PlacedOp>& ops() const { return ops_; }
  [[nodiscard]] const StagePlan& plan() const { return stage_; }
  [[nodiscard]] const LogicalMesh& mesh() const { return mesh_; }
  [[nodiscard]] const PlanRules& rules() const { return rules_; }
  [[nodiscard]] bool is_last() const { return is_last_; }

  // As an op reads its operand.
  [[nodiscard]] double operand_elements(const Op& op, std::size_t operand) const {
    const IterationSpace space = iteration_space(graph_, op);
    return local_elements(graph_.tensor(op.inputs[operand]), operand_spec(space, operand, axes_of(op, space)), mesh_);
  }

  // The same before sequence parallelism splits it.
  [[nodiscard]] double gathered_elements(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    return local_elements(tensor, kept_as(tensor), mesh_);
  }

  // As a tensor stays on the stage between its maker and its readers.
  [[nodiscard]] double kept_elements(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    const ShardingSpec spec = kept_as(tensor);
    const double elements = gathered_elements(id);
    const bool split = rules_.tensor_parallel > 1 && (spec.used() & tensor_bit()) != 0;
    const bool has_sequence =
        std::any_of(tensor.dims.begin(), tensor.dims.end(), [](const Dim& dim) { return dim.name == "seq"; });
    return rules_.sequence_parallel && has_sequence && !split ? elements / rules_.tensor_parallel : elements;
  }

 private:
  [[nodiscard]] AxisMask tensor_bit() const { return static_cast<AxisMask>(1 << (mesh_.rank() - 1)); }

  [[nodiscard]] AxesByName axes_of(const Op& op, const IterationSpace& space) const {
    AxesByName axes = stage_.ops.at(op.name).axes;
    if (rules_.tensor_parallel == 1) return axes;
    for (auto& [name, mask] : axes) mask = static_cast<AxisMask>(mask & ~tensor_bit());
    for (const char* name : kTensorParallelAxes) {
      const auto found = space.find(name);
      if (!found) continue;
      const IterationAxis& axis = space.axes[static_cast<std::size_t>(*found)];
      if (!axis.splittable || axis.size % rules_.tensor_parallel != 0) continue;
      axes[name] = static_cast<AxisMask>(axes[name] | tensor_bit());
      break;
    }
    return axes;
  }

  [[nodiscard]] ShardingSpec kept_as(const Tensor& tensor) const {
    if (made_.contains(tensor.id)) {
      const Op& maker = graph_.op(*tensor.producer);
      if (rules_.tensor_parallel == 1) return whole_sums(stage_.ops.at(maker.name).result);
      const IterationSpace space = iteration_space(graph_, maker);
      return whole_sums(raw_result(space, 0, axes_of(maker, space)));
    }
    const auto received = stage_.inputs.find(tensor.name);
    if (received == stage_.inputs.end()) return replicated(tensor.dims.size());
    ShardingSpec spec = whole_sums(received->second);
    if (rules_.tensor_parallel > 1)
      for (AxisMask& mask : spec.dims) mask = static_cast<AxisMask>(mask & ~tensor_bit());
    return spec;
  }

  const Graph& graph_;
  const StagePlan& stage_;
  LogicalMesh mesh_;
  PlanRules rules_;
  std::vector<PlacedOp> ops_;
  std::set<TensorId> made_;
  bool is_last_ = false;
};

// Decides op by op what the software keeps for the backward pass, and counts each tensor once.
class ActivationWalk {
 public:
  ActivationWalk(const Graph& graph, const StageOps& stage, const SoftwareProfile& software)
      : graph_(graph), stage_(stage), software_(software), element_(element_bytes(graph)) {
    for (const StageOps::PlacedOp& placed : stage.ops())
      if (graph.op(placed.op).kind == OpKind::Contract)
        read_by_products_.insert(graph.op(placed.op).inputs.begin(), graph.op(placed.op).inputs.end());
  }

  [[nodiscard]] KeptActivations run() {
    for (const StageOps::PlacedOp& placed : stage_.ops()) visit(graph_.op(placed.op), placed.recompute);
    KeptActivations sum;
    for (const auto& [number, block] : blocks_) {
      sum.kept += Bytes(block.kept);
      sum.working = std::max(sum.working, Bytes(block.recomputed));
    }
    sum.logits = Bytes(software_.logit_kept_bytes * logits_);
    if (software_.keeps_sent && !stage_.is_last())
      sum.kept += Bytes(element_ * stage_.kept_elements(graph_.op(stage_.ops().back().op).outputs[0]));
    return sum;
  }

 private:
  // All ops outside of the model's repeated blocks are block -1, which is never recomputed.
  struct Block {
    std::set<TensorId> counted;
    double kept = 0.0, recomputed = 0.0;
    int products = 0;
  };

  void visit(const Op& op, Recompute recompute) {
    block_ = &blocks_[op.block];
    recompute_ = op.block < 0 ? Recompute::None : recompute;
    if (recompute_ == Recompute::Full || by_op()) keep_what_enters(op);
    switch (op.kind) {
      case OpKind::Contract:
      case OpKind::Convolution:
        for (const TensorId input : op.inputs) keep(input, software_.keeps_gathered_inputs);
        break;
      case OpKind::Multiply:
        for (const TensorId input : op.inputs)
          if (!software_.fused_activation || !is_activation_function(input) || read_by_products_.contains(input))
            keep(fused_source(input));
        break;
      case OpKind::Gelu:
      case OpKind::GeluErf:
      case OpKind::Silu:
      case OpKind::Relu:
      case OpKind::Clamp:
        keep(fused_source(op.inputs[0]));
        break;
      case OpKind::LayerNorm:
      case OpKind::RmsNorm:
      case OpKind::GateWeights:
        keep(op.inputs[0]);
        break;
      case OpKind::Softmax:
      case OpKind::Sigmoid:
      case OpKind::Tanh:
        keep(op.outputs[0]);
        break;
      case OpKind::Combine:
        keep(op.inputs[0]);
        keep(op.inputs[2]);
        break;
      case OpKind::Attention:
      case OpKind::GroupedAttention:
      case OpKind::SelectedAttention:
        keep_attention(op);
        break;
      case OpKind::Add:
        if (software_.dropout && adds_product(op)) note(kMaskBytes * stage_.kept_elements(op.outputs[0]));
        break;
      case OpKind::RowMax:
        logits_ += stage_.operand_elements(op, 0);
        break;
      default:  // sums, biases, layouts: their gradients need no values
        break;
    }
    if (by_op()) keep_result_by_op(op);
  }

  [[nodiscard]] bool by_op() const { return recompute_ == Recompute::Selective && software_.selective_by_op; }

  [[nodiscard]] bool by_cost() const { return recompute_ == Recompute::Selective && software_.selective_by_cost; }

  enum class What { Scores, Cheap, Other };
  void note(double bytes, What what = What::Other) {
    const bool dropped = recompute_ == Recompute::Full || by_op() ||
                         (recompute_ == Recompute::Selective && what == What::Scores) ||
                         (by_cost() && what == What::Cheap);
    (dropped ? block_->recomputed : block_->kept) += bytes;
  }

  // `gathered`: where sequence parallelism splits it, all of it stays.
  void keep(TensorId id, bool gathered = false) {
    if (!is_activation(graph_.tensor(id))) return;
    id = storage_of(id);
    if (block_->counted.insert(id).second)
      note(element_ * (gathered ? stage_.gathered_elements(id) : stage_.kept_elements(id)),
           is_cheap(id) ? What::Cheap : What::Other);
  }

  // Computed again by one pass over what is kept anyway.
  [[nodiscard]] bool is_cheap(TensorId id) const {
    const auto& producer = graph_.tensor(id).producer;
    if (!producer) return false;
    const Op& op = graph_.op(*producer);
    const bool gated = op.kind == OpKind::Multiply && std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId i) {
                         return is_activation_function(i);
                       });
    return gated || is_activation_function(id) || op.kind == OpKind::LayerNorm || op.kind == OpKind::RmsNorm;
  }

  // Queries, keys, values and the result; and either the scores or a number for each row of them.
  void keep_attention(const Op& op) {
    for (const TensorId input : op.inputs) {
      if (!is_activation(graph_.tensor(input))) continue;
      keep(input);
      note(software_.attention_copies * element_ * stage_.kept_elements(input));
    }
    const Tensor& result = graph_.tensor(op.outputs[0]);
    keep(result.id);
    const double rows = stage_.kept_elements(result.id) / static_cast<double>(result.dims.back().size);
    if (software_.fused_attention) return note(kStatisticBytes * rows);
    const Tensor& keys = graph_.tensor(op.inputs[op.kind == OpKind::Attention ? 0 : 1]);
    // Probabilities; with dropout its mask and what it leaves of them.
    const double bytes = software_.dropout ? 2.0 * element_ + kMaskBytes : element_;
    note(bytes * rows * static_cast<double>(keys.dims[1].size), What::Scores);
  }

  // What a recomputed block reads of others stays.
  void keep_what_enters(const Op& op) {
    for (TensorId input : op.inputs) {
      if (!is_activation(graph_.tensor(input))) continue;
      input = storage_of(input);
      if (graph_.op(*graph_.tensor(input).producer).block == op.block || !block_->counted.insert(input).second)
        continue;
      block_->kept += element_ * stage_.kept_elements(input);
    }
  }

  // The results of attention and of every second product, from which the rest of the block is recomputed.
  void keep_result_by_op(const Op& op) {
    const bool attends =
        op.kind == OpKind::Attention || op.kind == OpKind::GroupedAttention || op.kind == OpKind::SelectedAttention;
    if (attends || (op.kind == OpKind::Contract && ++block_->products % 2 == 1))
      block_->kept += element_ * stage_.kept_elements(op.outputs[0]);
  }

  // Reshapes name the same bytes.
  [[nodiscard]] TensorId storage_of(TensorId id) const {
    for (const auto* producer = &graph_.tensor(id).producer; *producer; producer = &graph_.tensor(id).producer) {
      const Op& op = graph_.op(**producer);
      if (op.kind != OpKind::Reshape || stage_.kept_elements(op.inputs[0]) != stage_.kept_elements(id)) break;
      id = op.inputs[0];
    }
    return id;
  }

  // What the kernel reads that computes this on the way.
  [[nodiscard]] TensorId fused_source(TensorId id) const {
    if (!software_.fused_activation) return id;
    for (const auto* producer = &graph_.tensor(id).producer; *producer; producer = &graph_.tensor(id).producer) {
      const Op& op = graph_.op(**producer);
      if (op.kind != OpKind::Scale && op.kind != OpKind::Shift && op.kind != OpKind::Clamp) break;
      id = op.inputs[0];
    }
    return id;
  }

  [[nodiscard]] bool is_activation_function(TensorId id) const {
    const auto& producer = graph_.tensor(fused_source(id)).producer;
    if (!producer) return false;
    const OpKind kind = graph_.op(*producer).kind;
    return kind == OpKind::Silu || kind == OpKind::Gelu || kind == OpKind::GeluErf || kind == OpKind::Relu;
  }

  // A residual sum: dropout acts on the product that it adds.
  [[nodiscard]] bool adds_product(const Op& op) const {
    return op.block >= 0 && std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
             const auto& producer = graph_.tensor(input).producer;
             if (!producer) return false;
             const Op* from = &graph_.op(*producer);
             if (from->kind == OpKind::BiasAdd) from = &graph_.op(graph_.tensor(from->inputs[0]).producer.value());
             return from->kind == OpKind::Contract && from->block == op.block;
           });
  }

  const Graph& graph_;
  const StageOps& stage_;
  const SoftwareProfile& software_;
  double element_;
  std::set<TensorId> read_by_products_;
  std::map<int, Block> blocks_;
  Block* block_ = nullptr;
  Recompute recompute_ = Recompute::None;
  double logits_ = 0.0;
};

// Into how many parts weights and optimizer states are split beyond what the ops that read them need. All uses of a
// tied parameter share its owner's.
struct ParameterSplit {
  double weight = 1.0, state = 1.0;
  bool gradients = false;
};

ParameterSplit split_of(const Tensor& parameter, double used, const ParameterSharding& sharding,
                        const StageOps& stage) {
  if (const auto zero = stage.rules().zero) {
    // Software lays the parameters of a device end to end and splits that, whatever their dimensions.
    const double copies = stage.mesh().devices() * used / static_cast<double>(parameter.elements());
    return {*zero == 3 ? copies : 1.0, *zero >= 1 ? copies : 1.0, *zero >= 2};
  }
  return {std::max(1.0, used / local_elements(parameter, sharding.weight, stage.mesh())),
          std::max(1.0, used / local_elements(parameter, sharding.state, stage.mesh())), sharding.eager};
}

struct UsedParameter {
  int block = -1;
  double elements = 0.0;  // as ops of the device read it
};
using UsedParameters = std::map<TensorId, UsedParameter>;

// Calls use(parameter, op, elements as it reads it).
template <class Use>
void for_each_use(const Graph& graph, const StageOps& stage, const Use& use) {
  for (const StageOps::PlacedOp& placed : stage.ops()) {
    const Op& op = graph.op(placed.op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (graph.tensor(op.inputs[i]).kind == TensorKind::Parameter)
        use(graph.tensor(op.inputs[i]), op, stage.operand_elements(op, i));
  }
}

std::map<TensorId, ParameterSplit> parameter_splits(const Graph& graph, const std::vector<StageOps>& stages) {
  std::map<TensorId, ParameterSplit> splits;
  for (const StageOps& stage : stages)
    for_each_use(graph, stage, [&](const Tensor& parameter, const Op& op, double used) {
      if (splits.contains(parameter.id)) return;
      splits.emplace(parameter.id,
                     split_of(parameter, used, stage.plan().parameters.at(op.name + "/" + parameter.name), stage));
    });
  return splits;
}

// Profiles count the moments of Adam, of 32 bits.
constexpr double kAdamMoments = 8.0;

// Bytes of optimizer state of each element of a parameter that the graph updates, without a master copy.
std::map<TensorId, double> moments_of(const Graph& graph) {
  std::map<TensorId, double> moments;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Update || graph.tensor(op.inputs[0]).kind != TensorKind::Parameter) continue;
    const bool has_master = operand_names(op.kind, op.inputs.size(), op.attributes)[1] == "master";
    moments[op.inputs[0]] = has_master ? -size_of(accumulation_dtype(graph.dtype)) : 0.0;
  }
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState)
      moments[*tensor.parameter] +=
          tensor.bytes().si() / static_cast<double>(graph.tensor(*tensor.parameter).elements());
  return moments;
}

void add_parameters(const UsedParameters& used, const std::map<TensorId, ParameterSplit>& splits, const Graph& graph,
                    const SoftwareProfile& software, bool pipeline, FrameworkMemory& memory) {
  const double element = element_bytes(graph);
  const bool half = element < 4.0;
  // 32-bit weights are their own master copy, and their gradients need no other.
  double optimizer = half ? software.optimizer_kept_bytes : software.optimizer_kept_bytes - 4.0;
  if (graph.states_on_host) optimizer = 0.0;
  if (graph.dtype == DType::F16) optimizer += software.gradient_copy_bytes;
  double gradient = std::max(element, software.gradient_kept_bytes);
  if (graph.dtype == DType::BF16) gradient += software.gradient_copy_bytes;
  const std::map<TensorId, double> moments = moments_of(graph);
  double staying = 0.0;          // of what is gathered, to the end of the step: what is outside of the blocks
  std::map<int, double> blocks;  // gathered for each while it is at work
  for (const auto& [id, parameter] : used) {
    const ParameterSplit& split = splits.at(id);
    const bool gathers = split.weight > 1.0;
    const bool from_master = gathers && half && software.weights_from_master;
    if (gathers && (parameter.block < 0 || (pipeline && software.keeps_gathered_stage)))
      staying += parameter.elements;
    else if (gathers)
      blocks[parameter.block] += parameter.elements;
    memory.weights += Bytes(from_master ? 0.0 : element * parameter.elements / split.weight);
    memory.gradients += Bytes(gradient * parameter.elements / (split.gradients ? split.state : 1.0));
    const auto own = moments.find(id);
    const double other = own == moments.end() || graph.states_on_host ? 0.0 : own->second - kAdamMoments;
    memory.optimizer += Bytes((optimizer + other) * parameter.elements / split.state);
  }
  double largest = 0.0;
  for (const auto& [block, elements] : blocks) largest = std::max(largest, elements);
  // With gradients of the same sizes, of one block at a time.
  memory.gathered = Bytes(element * (2.0 * staying + (software.gathered_layers + 1.0) * largest));
}

// The maximum over the rank's passes of what it keeps for passes to come and needs for this one.
Bytes peak_activations(const std::vector<ScheduledRun>& runs, const std::vector<KeptActivations>& stages) {
  Bytes kept(0.0), peak(0.0);
  for (const ScheduledRun& run : runs) {
    const KeptActivations& stage = stages[run.stage.index()];
    if (run.pass == Pass::Forward) kept += stage.kept;
    peak = std::max(peak, kept + (run.pass == Pass::Forward ? stage.logits : std::max(stage.working, stage.logits)));
    if (run.pass == Pass::Backward || run.pass == Pass::BackwardWeight) kept -= stage.kept;
  }
  return peak;
}

std::vector<StageOps> stage_ops(const Plan& plan, const Graph& graph) {
  std::vector<StageOps> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) stages.emplace_back(plan, graph, s);
  return stages;
}

std::vector<KeptActivations> kept_by_stage(const Graph& graph, const std::vector<StageOps>& stages,
                                           const SoftwareProfile& software) {
  std::vector<KeptActivations> kept;
  for (const StageOps& stage : stages) kept.push_back(ActivationWalk(graph, stage, software).run());
  return kept;
}

// Without it one plan in two would fit that needs all of the room; four in five do with this many deviations to spare.
constexpr double kDeviationsToFit = 0.8416;
// What the driver, libraries and communicators hold, and an allocator under pressure cannot have. Cached blocks it can.
constexpr double kContextGib = 2.0;

}  // namespace

bool knows_memory(const SoftwareProfile& software, const Plan& plan) {
  const Offload offload = plan.training.offload;
  return plan.schedule != ScheduleKind::Inference && plan.cluster.uniform() && software.memory_spread > 0.0 &&
         !has(offload, Offload::Activations) && !has(offload, Offload::Weights);
}

Bytes allocator_room(Bytes device) { return device - gibibytes(kContextGib); }

bool fits_on(Bytes allocated, Bytes device) { return allocated <= allocator_room(device); }

Bytes safe_room(Bytes device, const SoftwareProfile& software) {
  return std::exp(-kDeviationsToFit * software.memory_spread) * allocator_room(device);
}

std::vector<KeptActivations> kept_activations(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  return kept_by_stage(graph, stage_ops(plan, graph), software);
}

FrameworkMemory framework_memory(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  const std::vector<StageOps> stages = stage_ops(plan, graph);
  const std::vector<KeptActivations> kept = kept_by_stage(graph, stages, software);
  const std::map<TensorId, ParameterSplit> splits = parameter_splits(graph, stages);
  const std::vector<int> rank_of = rank_of_stages(plan);
  const Schedule schedule = schedule_of(plan, stage_graph(plan, graph));
  FrameworkMemory fullest;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    UsedParameters used;
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (rank_of[s] == static_cast<int>(rank))
        for_each_use(graph, stages[s], [&](const Tensor& parameter, const Op& op, double elements) {
          UsedParameter& own = used[parameter.id];
          own.block = op.block;
          own.elements = std::max(own.elements, elements);
        });
    FrameworkMemory memory;
    add_parameters(used, splits, graph, software, schedule.size() > 1, memory);
    memory.activations = peak_activations(schedule[rank], kept);
    memory.allocator = (software.allocator_factor - 1.0) * memory.allocated();
    memory.driver = gibibytes(software.driver_gib);
    if (rank == 0 || memory.allocated() > fullest.allocated()) fullest = memory;
  }
  return fullest;
}

}  // namespace meshwright
