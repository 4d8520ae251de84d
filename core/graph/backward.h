// SPDX-License-Identifier: Apache-2.0
// The reverse walk over a forward graph, as the derivatives of the op families see it: they ask for operands and add
// derivative ops and contributions to gradients.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "core/graph/autodiff.h"
#include "core/graph/graph.h"

namespace meshwright {

[[nodiscard]] std::vector<std::string> names_of(const Tensor& tensor);

class Backward {
 public:
  Backward(Graph& graph, Recompute recompute, const std::vector<RecomputeRange>& ranges, RecomputeModules modules);
  void run(TensorId output, std::optional<TensorId> seed);

  // --- for derivatives ---
  [[nodiscard]] const Tensor& tensor(TensorId id) const { return graph_.tensor(id); }
  // Operand `i` of `op` as the backward reads it: the recomputed tensor where there is one.
  [[nodiscard]] TensorId read(const Op& op, std::size_t i) const;
  [[nodiscard]] bool wants(const Op& op, std::size_t i) const { return depends_[op.inputs[i].index()]; }
  [[nodiscard]] const std::optional<LossScaling>& loss_scaling() const { return graph_.loss_scaling; }
  // Result of `op` as the backward reads it.
  [[nodiscard]] TensorId result(const Op& op) const;
  // The op that made operand `i`; throws InputError unless it is of kind `kind`.
  [[nodiscard]] Op maker(const Op& op, std::size_t i, OpKind kind) const;
  // Adds the derivative op "<op>.<suffix>".
  std::vector<TensorId> derive(const Op& op, OpKind kind, const char* suffix, std::vector<TensorId> inputs,
                               Attributes attributes = {});
  // Adds the derivative op whose only result is a contribution to the cotangent of operand `i`, if that is wanted.
  void derive_gradient(const Op& op, std::size_t i, OpKind kind, const char* suffix, std::vector<TensorId> inputs,
                       Attributes attributes = {});
  // `gradient` is one contribution to the cotangent of operand `i` of `op`.
  void contribute(const Op& op, std::size_t i, TensorId gradient);

 private:
  struct Use {
    OpId op;
    std::size_t operand;
  };
  // What is repeated together: the ops of one block in one range, which may be a module's.
  struct Piece {
    int block, range;
    auto operator<=>(const Piece&) const = default;
  };
  [[nodiscard]] Piece piece_of(const Op& forward) const { return {forward.block, range_of_[forward.id.index()]}; }
  [[nodiscard]] Recompute recompute_of(const Piece& piece) const {
    return recompute_of_[static_cast<std::size_t>(piece.range)];
  }
  void set_ranges(Recompute recompute, const std::vector<RecomputeRange>& ranges);
  // Ops of a module are a range of their own.
  void set_modules(RecomputeModules modules);
  // What `producer` made is read made again by all ops of its block.
  [[nodiscard]] bool drops_result(const Op& producer) const {
    return dropped_.contains(range_of_[producer.id.index()]);
  }
  // The pieces whose results `op` reads made again.
  void repeat_what_was_dropped(const Op& op);
  void find_dependencies();
  // The loss that makes `output`, or the losses that it is the sum of.
  void find_objectives(TensorId output);
  // Once for each piece, when the walk first comes to it.
  void repeat(const Piece& piece);
  [[nodiscard]] TensorId total_cotangent(const Op& op);
  void differentiate(const Op& op, std::optional<TensorId> dy);
  [[nodiscard]] std::string accumulator_name(const Op& op, std::size_t i) const;

  Graph& graph_;
  std::vector<OpId> forward_;
  std::vector<int> range_of_;            // [forward op]; the ops between two ranges are numbered like one
  std::vector<Recompute> recompute_of_;  // [range]
  std::set<int> dropped_;                // ranges whose results are not kept either
  std::vector<bool> depends_;            // [tensor]: it has a derivative by a parameter; integers have none
  std::map<TensorId, Use> first_use_;    // by parameter
  std::map<TensorId, std::vector<TensorId>>
      cotangents_;                             // by forward tensor: contributions in the order they were made
  std::map<TensorId, TensorId> repeated_;      // by forward tensor: its recomputed value
  std::map<Piece, std::vector<OpId>> pieces_;  // of forward ops in their order; one that was repeated has none
  std::set<OpId> objectives_;
  std::set<OpId> selected_;  // what Recompute::Selective repeats
};

}  // namespace meshwright
