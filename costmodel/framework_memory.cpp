// SPDX-License-Identifier: Apache-2.0
#include "costmodel/framework_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/plan/ranks.h"
#include "core/plan/stage_graph.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

namespace {

// Of a token and head: the maximum of its scores and the logarithm of their sum.
constexpr double kStatisticBytes = 4.0, kMaskBytes = 1.0;

double element_bytes(const Graph& graph) { return static_cast<double>(size_of(graph.dtype)); }

double local_elements(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh) {
  return local_bytes(tensor, spec, mesh).si() / static_cast<double>(size_of(tensor.dtype));
}

// The forward ops of a stage, and how they are split there.
class StageOps {
 public:
  StageOps(const Plan& plan, const Graph& graph, std::size_t stage)
      : graph_(graph),
        stage_(plan.stages[stage]),
        mesh_(make_logical_mesh(plan.cluster, stage_.submesh, stage_.logical_shape)) {
    const std::vector<OpId> forward = forward_ops(graph);
    const auto start_of = [&](int layer) {
      const auto index = static_cast<std::size_t>(layer);
      return index < plan.layer_starts.size() ? static_cast<std::size_t>(plan.layer_starts[index]) : forward.size();
    };
    for (std::size_t i = start_of(stage_.first_layer); i < start_of(stage_.last_layer + 1); ++i) {
      ops_.push_back({forward[i], recompute_at(plan.training, static_cast<int>(i))});
      made_.insert(graph.op(forward[i]).outputs.begin(), graph.op(forward[i]).outputs.end());
    }
  }

  struct PlacedOp {
    OpId op;
    Recompute recompute;
  };
  [[nodiscard]] const std::vector<PlacedOp>& ops() const { return ops_; }
  [[nodiscard]] const StagePlan& plan() const { return stage_; }

  // As an op reads its operand.
  [[nodiscard]] double operand_elements(const Op& op, std::size_t operand) const {
    const ShardingSpec spec = operand_spec(iteration_space(graph_, op), operand, stage_.ops.at(op.name).axes);
    return local_elements(graph_.tensor(op.inputs[operand]), spec, mesh_);
  }
  // As a tensor stays on the stage between its maker and its readers.
  [[nodiscard]] double kept_elements(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    if (made_.contains(id)) {
      const OpSharding& sharding = stage_.ops.at(graph_.op(*tensor.producer).name);
      return local_elements(tensor, whole_sums(sharding.result), mesh_);
    }
    const auto received = stage_.inputs.find(tensor.name);
    return received == stage_.inputs.end() ? static_cast<double>(tensor.elements())
                                           : local_elements(tensor, whole_sums(received->second), mesh_);
  }

 private:
  static Recompute recompute_at(const TrainingOptions& training, int position) {
    for (const RecomputeRange& range : training.recompute_ranges)
      if (position >= range.first && position <= range.last) return range.recompute;
    return training.recompute;
  }

  const Graph& graph_;
  const StagePlan& stage_;
  LogicalMesh mesh_;
  std::vector<PlacedOp> ops_;
  std::set<TensorId> made_;
};

// Decides op by op what the software keeps for the backward pass, and counts each tensor once.
class ActivationWalk {
 public:
  ActivationWalk(const Graph& graph, const StageOps& stage, const SoftwareProfile& software)
      : graph_(graph), stage_(stage), software_(software) {}

  [[nodiscard]] KeptActivations run() {
    for (const StageOps::PlacedOp& placed : stage_.ops()) visit(graph_.op(placed.op), placed.recompute);
    KeptActivations sum;
    for (const auto& [number, block] : blocks_) {
      sum.kept += Bytes(block.kept);
      sum.working = std::max(sum.working, Bytes(block.recomputed));
    }
    sum.logits = Bytes(software_.logit_kept_bytes * logits_);
    return sum;
  }

 private:
  // All ops outside of the model's repeated blocks are block -1, which is never recomputed.
  struct Block {
    std::set<TensorId> counted;
    std::set<TensorId> entering;  // counted among `kept` of a block that is recomputed
    double kept = 0.0, recomputed = 0.0;
    int products = 0;
  };

  void visit(const Op& op, Recompute recompute) {
    Block& block = blocks_[op.block];
    if (op.block < 0) recompute = Recompute::None;
    block_ = &block;
    recompute_ = recompute;
    if (recompute == Recompute::Full || by_op()) keep_what_enters(op);
    switch (op.kind) {
      case OpKind::Contract:
      case OpKind::Convolution:
      case OpKind::Multiply:
        for (const TensorId input : op.inputs) keep_operand(input);
        break;
      case OpKind::LayerNorm:
      case OpKind::RmsNorm:
      case OpKind::Gelu:
      case OpKind::GeluErf:
      case OpKind::Silu:
      case OpKind::Relu:
        keep(op.inputs[0]);
        break;
      case OpKind::Softmax:
      case OpKind::Sigmoid:
      case OpKind::Tanh:
        keep(op.outputs[0]);
        break;
      case OpKind::Attention:
      case OpKind::GroupedAttention:
        keep_attention(op);
        break;
      case OpKind::GateWeights:
        keep(op.inputs[0]);
        break;
      case OpKind::Combine:
        keep(op.inputs[0]);
        keep(op.inputs[2]);
        break;
      case OpKind::Add:
        if (software_.dropout && adds_product(op)) note(kMaskBytes * stage_.kept_elements(op.outputs[0]), false);
        break;
      case OpKind::RowMax:
        logits_ += stage_.operand_elements(op, 0);
        break;
      default:  // sums, biases, layouts: their gradients need no values
        break;
    }
    if (by_op()) keep_result_by_op(op);
  }

  // Selective recomputation under fused attention, where there are no scores to drop.
  [[nodiscard]] bool by_op() const { return recompute_ == Recompute::Selective && software_.fused_attention; }

  // The results of attention and of every second product, from which the rest of the block is recomputed.
  void keep_result_by_op(const Op& op) {
    const bool attends = op.kind == OpKind::Attention || op.kind == OpKind::GroupedAttention;
    if (attends || (op.kind == OpKind::Contract && ++block_->products % 2 == 1))
      block_->kept += element_bytes(graph_) * stage_.kept_elements(op.outputs[0]);
  }

  void note(double bytes, bool scores) {
    const bool dropped = recompute_ == Recompute::Full || (recompute_ == Recompute::Selective && (scores || by_op()));
    (dropped ? block_->recomputed : block_->kept) += bytes;
  }

  // Reshapes name the same bytes.
  [[nodiscard]] TensorId storage_of(TensorId id) const {
    for (;;) {
      const auto& producer = graph_.tensor(id).producer;
      if (!producer || graph_.op(*producer).kind != OpKind::Reshape) return id;
      const TensorId from = graph_.op(*producer).inputs[0];
      if (stage_.kept_elements(from) != stage_.kept_elements(id)) return id;
      id = from;
    }
  }

  [[nodiscard]] bool is_activation(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    return tensor.kind == TensorKind::Intermediate && tensor.dtype != DType::I32;
  }

  void keep(TensorId id) {
    if (!is_activation(id)) return;
    id = storage_of(id);
    if (block_->counted.insert(id).second) note(element_bytes(graph_) * stage_.kept_elements(id), false);
  }

  // The result of an activation function that is one kernel with what reads it is computed again from what it reads.
  void keep_operand(TensorId id) {
    if (!is_activation(id)) return;
    const auto& producer = graph_.tensor(id).producer;
    const bool gate =
        producer && (graph_.op(*producer).kind == OpKind::Silu || graph_.op(*producer).kind == OpKind::Gelu ||
                     graph_.op(*producer).kind == OpKind::GeluErf);
    if (gate && software_.fused_activation && !read_by_product(id)) return;
    keep(id);
  }

  [[nodiscard]] bool read_by_product(TensorId id) const {
    return std::any_of(stage_.ops().begin(), stage_.ops().end(), [&](const StageOps::PlacedOp& placed) {
      const Op& op = graph_.op(placed.op);
      return op.kind == OpKind::Contract && std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
    });
  }

  // Queries, keys, values and the result; and either their scores or two numbers for each row of them.
  void keep_attention(const Op& op) {
    for (const TensorId input : op.inputs) keep(input);
    keep(op.outputs[0]);
    const Tensor& result = graph_.tensor(op.outputs[0]);
    const double rows = stage_.kept_elements(op.outputs[0]) / static_cast<double>(result.dims.back().size);
    if (software_.fused_attention) {
      note(kStatisticBytes * rows, false);
      return;
    }
    const Tensor& keys = graph_.tensor(op.inputs[op.kind == OpKind::Attention ? 0 : 1]);
    // Probabilities, and with dropout its mask and what it leaves of them.
    const double bytes =
        element_bytes(graph_) * (software_.dropout ? 2.0 : 1.0) + (software_.dropout ? kMaskBytes : 0.0);
    note(bytes * rows * static_cast<double>(keys.dims[1].size), true);
  }

  // What a recomputed block reads of others stays.
  void keep_what_enters(const Op& op) {
    for (TensorId input : op.inputs) {
      if (!is_activation(input)) continue;
      input = storage_of(input);
      if (graph_.op(*graph_.tensor(input).producer).block == op.block) continue;
      if (!block_->entering.insert(input).second) continue;
      block_->kept += element_bytes(graph_) * stage_.kept_elements(input);
      block_->counted.insert(input);
    }
  }

  // A residual sum: dropout acts on the product that it adds.
  [[nodiscard]] bool adds_product(const Op& op) const {
    if (op.block < 0) return false;
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      const auto& producer = graph_.tensor(input).producer;
      if (!producer) return false;
      const Op* from = &graph_.op(*producer);
      if (from->kind == OpKind::BiasAdd && graph_.tensor(from->inputs[0]).producer)
        from = &graph_.op(*graph_.tensor(from->inputs[0]).producer);
      return from->kind == OpKind::Contract && from->block == op.block;
    });
  }

  const Graph& graph_;
  const StageOps& stage_;
  const SoftwareProfile& software_;
  std::map<int, Block> blocks_;
  Block* block_ = nullptr;
  Recompute recompute_ = Recompute::None;
  double logits_ = 0.0;
};

// Elements of a parameter on a device: as ops read it, as it is kept between uses, and of its optimizer state.
struct ParameterElements {
  int block = -1;
  double used = 0.0, kept = 0.0, state = 0.0;
  bool split_gradients = false;
};

// How the parameter's owner splits weights and states beyond what every use needs; other uses of a tied parameter are
// copies that the software splits alike.
struct ParameterSplit {
  double weight = 1.0, state = 1.0;
  bool gradients = false;
};

class ParameterWalk {
 public:
  ParameterWalk(const Plan& plan, const Graph& graph, const std::vector<StageOps>& stages) : graph_(graph) {
    for (const StageOps& stage : stages)
      for (const StageOps::PlacedOp& placed : stage.ops()) visit(plan, stage, graph.op(placed.op));
  }

  // Of the parameters that some of these stages read, each once.
  [[nodiscard]] std::map<TensorId, ParameterElements> of(const std::vector<const StageOps*>& stages) const {
    std::map<TensorId, ParameterElements> found;
    for (const StageOps* stage : stages)
      for (const StageOps::PlacedOp& placed : stage->ops()) {
        const Op& op = graph_.op(placed.op);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
          if (graph_.tensor(op.inputs[i]).kind != TensorKind::Parameter) continue;
          const ParameterSplit& split = splits_.at(op.inputs[i]);
          ParameterElements& elements = found[op.inputs[i]];
          elements.block = op.block;
          elements.used = std::max(elements.used, stage->operand_elements(op, i));
          elements.kept = elements.used / split.weight;
          elements.state = elements.used / split.state;
          elements.split_gradients = split.gradients;
        }
      }
    return found;
  }

 private:
  void visit(const Plan& plan, const StageOps& stage, const Op& op) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& tensor = graph_.tensor(op.inputs[i]);
      if (tensor.kind != TensorKind::Parameter || splits_.contains(tensor.id)) continue;
      const auto found = stage.plan().parameters.find(op.name + "/" + tensor.name);
      if (found == stage.plan().parameters.end()) continue;
      const LogicalMesh mesh = make_logical_mesh(plan.cluster, stage.plan().submesh, stage.plan().logical_shape);
      const double used = stage.operand_elements(op, i);
      splits_[tensor.id] = {std::max(1.0, used / local_elements(tensor, found->second.weight, mesh)),
                            std::max(1.0, used / local_elements(tensor, found->second.state, mesh)),
                            found->second.eager};
    }
  }

  const Graph& graph_;
  std::map<TensorId, ParameterSplit> splits_;
};

void add_parameters(const std::map<TensorId, ParameterElements>& parameters, const Graph& graph,
                    const SoftwareProfile& software, FrameworkMemory& memory) {
  const double element = element_bytes(graph);
  const bool half = element < 4.0;
  // 32-bit weights are their own master copy.
  const double optimizer = half ? software.optimizer_kept_bytes : software.optimizer_kept_bytes - 4.0;
  const double gradient =
      std::max(element, software.gradient_kept_bytes) + (graph.dtype == DType::BF16 ? software.bf16_sum_bytes : 0.0);
  std::map<int, double> gathered;  // by block
  for (const auto& [id, elements] : parameters) {
    const bool whole = elements.kept >= elements.used;
    if (!whole) gathered[elements.block] += elements.used;
    const bool from_master = !whole && half && software.weights_from_master;
    memory.weights += Bytes(from_master ? 0.0 : element * elements.kept);
    memory.gradients += Bytes(gradient * (elements.split_gradients ? elements.state : elements.used));
    memory.optimizer += Bytes(optimizer * elements.state);
  }
  // What is outside of the blocks stays whole during the step; of the blocks, those at work do.
  double outside = 0.0, largest = 0.0;
  for (const auto& [block, size] : gathered)
    (block < 0 ? outside : largest) = std::max(block < 0 ? outside : largest, size);
  memory.gathered +=
      Bytes(element * (outside + software.gathered_layers * largest) + software.gradient_bytes * (outside + largest));
}

// The maximum over the rank's passes of what it keeps for passes to come and needs for this one.
Bytes peak_activations(const std::vector<ScheduledRun>& runs, const std::vector<KeptActivations>& stages) {
  Bytes kept(0.0), peak(0.0);
  for (const ScheduledRun& run : runs) {
    const KeptActivations& stage = stages[run.stage.index()];
    if (run.pass == Pass::Forward) kept += stage.kept;
    peak = std::max(peak, kept + (run.pass == Pass::Forward ? Bytes(0.0) : std::max(stage.working, stage.logits)));
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

}  // namespace

std::vector<KeptActivations> kept_activations(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  return kept_by_stage(graph, stage_ops(plan, graph), software);
}

FrameworkMemory framework_memory(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  const std::vector<StageOps> stages = stage_ops(plan, graph);
  const std::vector<KeptActivations> kept = kept_by_stage(graph, stages, software);
  const ParameterWalk parameters(plan, graph, stages);
  const std::vector<int> rank_of = rank_of_stages(plan);
  const Schedule schedule = schedule_of(plan, stage_graph(plan, graph));
  FrameworkMemory fullest;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    std::vector<const StageOps*> own;
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (rank_of[s] == static_cast<int>(rank)) own.push_back(&stages[s]);
    FrameworkMemory memory;
    add_parameters(parameters.of(own), graph, software, memory);
    memory.activations = peak_activations(schedule[rank], kept);
    memory.allocator = (software.allocator_factor - 1.0) * memory.allocated();
    memory.driver = gibibytes(software.driver_gib);
    if (rank == 0 || memory.allocated() > fullest.allocated()) fullest = memory;
  }
  return fullest;
}

}  // namespace meshwright
