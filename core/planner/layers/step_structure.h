// SPDX-License-Identifier: Apache-2.0
// The training step by forward ops: what autodiff made from each, what it reads and keeps, and which layers are alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/graph/autodiff.h"
#include "core/graph/graph.h"
#include "core/graph/op_table.h"
#include "core/planner/layers/cluster_layers.h"

namespace meshwright {

// What the training graph says about each forward op, independent of any mesh. Built once per graph.
class StepStructure {
 public:
  explicit StepStructure(const Graph& graph, const Layers& layers);  // keeps both
  StepStructure(const Graph& graph, Layers&& layers) = delete;

  struct Gradient {
    OpId made_by;  // backward op
    int result;    // which of its outputs
  };
  struct Operand {
    TensorId tensor;
    bool read_in_backward = false;         // by a backward op of this forward op, or by its recomputation
    std::vector<Gradient> gradients;       // contributions to the operand's gradient made by this op's backward
    bool gradient_passes_through = false;  // the operand's gradient is the result's gradient itself (add, bias add)
    std::optional<TensorId> accumulator;   // parameters
  };
  struct Group {
    OpId forward;
    std::vector<Operand> operands;
    std::vector<OpId> recomputations, backward, sums;  // sums: adds that combine gradients of this op's result
    bool result_gradient_read = false;
    std::vector<OpId> updates;           // of parameters this op is the first to read
    std::vector<bool> for_weights = {};  // [as backward] only gradients of parameters depend on the op
  };
  [[nodiscard]] const Group& group(OpId forward) const { return groups_[forward.index()]; }
  [[nodiscard]] const IterationSpace& space(OpId op) const { return spaces_[op.index()]; }
  // Layers whose backward ops read the tensor (or its recomputation's entering value), ascending.
  [[nodiscard]] const std::vector<int>& backward_readers(TensorId tensor) const {
    return backward_readers_[tensor.index()];
  }
  [[nodiscard]] bool is_first_reader(OpId forward, TensorId parameter) const;
  // The first result of a forward op that is read in the op's own layer only, and there by two or more operands of ops
  // that iterate beyond it (products): their reshardings of it, and the sums of their gradients, may be shared. Readers
  // that iterate over its own axes alone can follow it for nothing.
  [[nodiscard]] bool fans_out(TensorId tensor) const { return fans_out_[tensor.index()]; }
  [[nodiscard]] const std::vector<TensorId>& optimizer_state(TensorId parameter) const {
    return states_[parameter.index()];
  }
  [[nodiscard]] int blocks_in(int layer) const;  // number of the model's blocks with an op in the layer, at least 1
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Layers& layers() const { return layers_; }

  // Tensors made by forward ops of layers < `layer` and read by forward ops of layers >= `layer`, by id.
  [[nodiscard]] const std::vector<TensorId>& crossing(int layer) const { return crossing_[layer]; }
  // Whether an op of layers first..last reads the tensor: of a loss that is cut, some only in the backward.
  [[nodiscard]] bool is_read(TensorId tensor, int first, int last) const;
  // Equal numbers: the forward ops and everything autodiff made from them differ in names and ids alone, and so do the
  // tensors they read and make. The same for all cuts of a graph.
  [[nodiscard]] int group_class(OpId forward) const { return group_classes_[forward.index()]; }
  // Equal texts: the layers are equal problems on every mesh (names and ids do not matter).
  [[nodiscard]] const std::string& layer_signature(int layer) const { return signatures_[layer]; }

 private:
  void find_crossing();
  [[nodiscard]] std::string signature_of(int layer) const;
  void note_backward_reader(const Op& reader, TensorId input);
  void find_for_weights(Group& group) const;
  void find_fan_outs();
  void find_group_classes();

  const Graph& graph_;
  const Layers& layers_;
  std::vector<IterationSpace> spaces_;
  std::vector<Group> groups_;
  std::vector<std::vector<int>> backward_readers_;
  std::vector<std::vector<TensorId>> states_;
  std::vector<std::optional<OpId>> first_reader_;
  std::vector<bool> fans_out_;
  std::vector<int> group_classes_;
  IndexedVector<int, std::vector<TensorId>> crossing_;  // [layer], and one after the last
  IndexedVector<int, std::string> signatures_;          // [layer]
};

// A StepStructure of the same forward ops and layers whose backward recomputes what `recompute` says.
struct StepVariant {
  Recompute recompute;
  const StepStructure* structure;
};

}  // namespace meshwright
