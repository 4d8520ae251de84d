// SPDX-License-Identifier: Apache-2.0
// What a training software keeps of each op for the backward pass.
#include <algorithm>
#include <map>
#include <set>

#include "costmodel/framework_memory.h"
#include "costmodel/stage_ops.h"

namespace meshwright {

namespace {

// Attention keeps, for each token and head, the logarithm of the sum over the scores, in 32 bits. Masks are bytes.
constexpr double kStatisticBytes = 4.0, kMaskBytes = 1.0;

bool is_activation(const Tensor& tensor) {
  return tensor.kind == TensorKind::Intermediate && tensor.dtype != DType::I32;
}

// Decides op by op what the software keeps for the backward pass, and counts each tensor once.
class ActivationWalk {
 public:
  ActivationWalk(const Graph& graph, const StageOps& stage, const SoftwareProfile& software)
      : graph_(graph), stage_(stage), software_(software), element_(static_cast<double>(size_of(graph.dtype))) {
    for (const StageOps::PlacedOp& placed : stage.ops()) {
      if (graph.op(placed.op).kind == OpKind::Contract)
        read_by_products_.insert(graph.op(placed.op).inputs.begin(), graph.op(placed.op).inputs.end());
      if (placed.module.kind != RecomputeModules::None) module_of_.emplace(placed.op, placed.module);
    }
  }

  [[nodiscard]] KeptActivations run() {
    for (const StageOps::PlacedOp& placed : stage_.ops()) visit(graph_.op(placed.op), placed);
    KeptActivations sum;
    for (const auto& [number, block] : blocks_) {
      sum.kept += Bytes(block.kept);
      for (const auto& [module, piece] : block.pieces) sum.working = std::max(sum.working, Bytes(piece.recomputed));
    }
    sum.logits = Bytes(logit_bytes_);
    if (software_.keeps_sent && !stage_.is_last())
      sum.kept += Bytes(element_ * stage_.kept_elements(graph_.op(stage_.ops().back().op).outputs[0]));
    return sum;
  }

 private:
  // All ops outside of the model's repeated blocks are block -1, which is never recomputed.
  struct Piece {
    std::set<TensorId> counted, quantised;
    double recomputed = 0.0;
  };
  struct Block {
    std::set<TensorId> counted, quantised;  // of what is kept, and of that in 8 bits
    double kept = 0.0;
    int products = 0;
    std::map<RecomputedModule, Piece> pieces;  // what is recomputed together; that of kind None has no module
  };

  void visit(const Op& op, const StageOps::PlacedOp& placed) {
    number_ = op.block;
    block_ = &blocks_[op.block];
    piece_ = &block_->pieces[placed.module];
    recompute_ = op.block < 0 ? Recompute::None : placed.recompute;
    if (recompute_ == Recompute::Full || by_op()) keep_what_enters(op);
    switch (op.kind) {
      case OpKind::Contract:
      case OpKind::Convolution:
        for (const TensorId input : op.inputs)
          if (quantises(op))
            keep_eight_bits(input);
          else
            keep(input, software_.keeps_gathered_inputs);
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
        if (!software_.weighs_within_experts) keep(op.inputs[0]);
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
        note_logits(op);
        break;
      default:  // sums, biases, layouts: their gradients need no values
        break;
    }
    if (by_op()) keep_result_by_op(op);
  }

  [[nodiscard]] bool by_op() const { return recompute_ == Recompute::Selective && software_.selective_by_op; }

  [[nodiscard]] bool by_cost() const { return recompute_ == Recompute::Selective && software_.selective_by_cost; }

  enum class What { Scores, Cheap, Other };
  [[nodiscard]] bool is_recomputed(What what) const {
    return recompute_ == Recompute::Full || by_op() || (recompute_ == Recompute::Selective && what == What::Scores) ||
           (by_cost() && what == What::Cheap);
  }
  void note(double bytes, What what = What::Other) {
    (is_recomputed(what) ? piece_->recomputed : block_->kept) += bytes;
  }

  // `gathered`: where sequence parallelism splits it, all of it stays.
  void keep(TensorId id, bool gathered = false) {
    if (!is_activation(graph_.tensor(id))) return;
    id = storage_of(id);
    const double bytes = element_ * (gathered ? stage_.gathered_elements(id) : stage_.kept_elements(id));
    if (Piece* dropping = piece_that_drops(id))
      count_recomputed(*dropping, id, bytes);
    else if (is_recomputed(is_cheap(id) ? What::Cheap : What::Other))
      count_recomputed(*piece_, id, bytes);
    else if (block_->counted.insert(id).second)
      block_->kept += bytes;
  }

  // Products with weights of the model's blocks; routers stay in 16 bits.
  [[nodiscard]] bool quantises(const Op& op) const {
    return software_.keeps_eight_bit_inputs && software_.product_dtype == "f8" && op.block >= 0 &&
           op.kind == OpKind::Contract && !op.name.ends_with(".router") &&
           std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId input) { return graph_.tensor(input).kind == TensorKind::Parameter; });
  }
  // A copy of its own, beside what other ops keep of the tensor; one for all products that read it.
  void keep_eight_bits(TensorId id) {
    if (!is_activation(graph_.tensor(id))) return;
    id = storage_of(id);
    const double bytes = software_.keeps_gathered_inputs ? stage_.gathered_elements(id) : stage_.kept_elements(id);
    Piece* piece = piece_that_drops(id);
    if (piece == nullptr && is_recomputed(is_cheap(id) ? What::Cheap : What::Other)) piece = piece_;
    const bool is_new = (piece == nullptr ? block_->quantised : piece->quantised).insert(id).second;
    if (is_new) (piece == nullptr ? block_->kept : piece->recomputed) += bytes;
  }

  void count_recomputed(Piece& piece, TensorId id, double bytes) {
    if (!block_->counted.contains(id) && piece.counted.insert(id).second) piece.recomputed += bytes;
  }

  [[nodiscard]] RecomputedModule module_of(OpId op) const {
    const auto found = module_of_.find(op);
    return found == module_of_.end() ? RecomputedModule{} : found->second;
  }

  // The module of the current block that drops this tensor; nullptr: none does.
  [[nodiscard]] Piece* piece_that_drops(TensorId id) {
    const auto& producer = graph_.tensor(id).producer;
    if (module_of_.empty() || !producer || graph_.op(*producer).block != number_) return nullptr;
    const RecomputedModule module = module_of(*producer);
    return module.drops_results() ? &block_->pieces[module] : nullptr;
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

  // In chunks, those of one at a time; beside them the gradients of all hidden states and of the head's weights, which
  // every chunk adds to.
  void note_logits(const Op& loss) {
    const double logits = stage_.operand_elements(loss, 0);
    const Op* head = software_.loss_chunks == 1 ? nullptr : product_behind(loss.inputs[0]);
    if (head == nullptr) {
      logit_bytes_ += software_.logit_kept_bytes * logits;
      return;
    }
    const double hidden = stage_.operand_elements(*head, 0), weights = stage_.operand_elements(*head, 1);
    const double chunk =
        software_.loss_chunks == kFittingLossChunks ? std::min(logits, hidden) : logits / software_.loss_chunks;
    logit_bytes_ += software_.logit_kept_bytes * chunk + element_ * (hidden + weights);
  }

  // nullptr: the tensor is no product with biases, bounds or scales alone.
  [[nodiscard]] const Op* product_behind(TensorId id) const {
    for (const auto* producer = &graph_.tensor(id).producer; *producer; producer = &graph_.tensor(id).producer) {
      const Op& op = graph_.op(**producer);
      if (op.kind == OpKind::Contract) return &op;
      id = op.inputs[0];
    }
    return nullptr;
  }

  // What a recomputed block, or module, reads of others stays.
  void keep_what_enters(const Op& op) {
    for (TensorId input : op.inputs) {
      if (!is_activation(graph_.tensor(input))) continue;
      input = storage_of(input);
      const Op& maker = graph_.op(*graph_.tensor(input).producer);
      const bool enters = maker.block != op.block || module_of(maker.id) != module_of(op.id);
      if (enters && piece_that_drops(input) == nullptr && block_->counted.insert(input).second)
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
  std::map<OpId, RecomputedModule> module_of_;  // [forward op] of those in one
  // The block of the current op, and its module.
  int number_ = -1;
  Block* block_ = nullptr;
  Piece* piece_ = nullptr;
  Recompute recompute_ = Recompute::None;
  double logit_bytes_ = 0.0;
};

}  // namespace

std::vector<KeptActivations> kept_activations(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  std::vector<KeptActivations> kept;
  for (const StageOps& stage : stage_ops(plan, graph)) kept.push_back(ActivationWalk(graph, stage, software).run());
  return kept;
}

}  // namespace meshwright
