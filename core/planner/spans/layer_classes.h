// SPDX-License-Identifier: Apache-2.0
// The distinct layers of a model on one mesh. Layers that are equal problems form a class and share its models: one
// LayerModel for each variant, that is each way to recompute that makes a difference there. The models of a class have
// the same strategies and borders, and other costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/planner/intra_op/known_ops.h"
#include "core/planner/intra_op/layer_model.h"

namespace meshwright {

class LayerClasses {
 public:
  // `ways` lists the ways to recompute that layers choose from; empty: as the structure's graph has it. After a model
  // that is impossible nothing else is made. `once_per_value`: of StageSearchOptions. `known`: what other cuts of the
  // graphs have found on this mesh; nullptr: nothing is. REQUIRES: `structure` outlives this; all ways cut the same
  // layers.
  static LayerClasses make(const StepStructure& structure, const LogicalMesh& mesh, const CostModel& costs,
                           const IntraOpRules& rules, const std::vector<StepVariant>& ways, bool once_per_value = false,
                           KnownOps::OnMesh* known = nullptr);

  // Why some layer has no strategy on the mesh; nothing else may be asked for then.
  [[nodiscard]] const std::optional<std::string>& impossible() const { return impossible_; }
  [[nodiscard]] int layers() const { return class_of_layer_.count(); }
  [[nodiscard]] int classes() const { return classes_.count(); }
  [[nodiscard]] int class_of(int layer) const { return class_of_layer_[layer]; }
  // The models of a class, by variant.
  [[nodiscard]] const IndexedVector<int, LayerModel>& models(int of_class) const { return classes_[of_class].models; }
  // The model of a layer; all variants have the same borders and nodes.
  [[nodiscard]] const LayerModel& model(int layer, int variant = 0) const { return models(class_of(layer))[variant]; }
  [[nodiscard]] std::size_t in_states(int layer) const { return model(layer).in_border().states.size(); }
  [[nodiscard]] std::size_t out_states(int layer) const { return model(layer).out_border().states.size(); }

  // Some class has several variants.
  [[nodiscard]] bool has_variants() const;
  // The variant that stands for ways[way] in a layer.
  [[nodiscard]] int variant_of_class(int of_class, int way) const { return classes_[of_class].variant_of_way[way]; }
  [[nodiscard]] int variant_of(int layer, int way) const { return variant_of_class(class_of(layer), way); }
  [[nodiscard]] Recompute recompute(int layer, int variant) const {
    return classes_[class_of(layer)].recompute[variant];
  }
  // The model's blocks that have an op in the layer, in order.
  [[nodiscard]] const std::vector<int>& blocks(int layer) const { return blocks_[layer]; }
  // Bytes that a choice recomputes in the backward, [position in blocks(layer)].
  [[nodiscard]] std::vector<Bytes> recomputed_by_block(int layer, int variant, const ShardingChoice& choice) const;

  // The working memories that single ops and parameters may need: distinct, ascending; none below what every sharding
  // of all layers needs at its hungriest op.
  [[nodiscard]] std::vector<Bytes> working_values() const;

  // Frees the models' costs: afterwards only borders and decisions may be asked of them.
  void forget_costs();

 private:
  struct LayerClass {
    IndexedVector<int, Recompute> recompute;  // [variant]
    IndexedVector<int, LayerModel> models;    // [variant]
    IndexedVector<int, int> variant_of_way;
  };
  explicit LayerClasses(const StepStructure& structure) : structure_(&structure) {}
  void find_blocks(int layer);

  const StepStructure* structure_;
  std::optional<std::string> impossible_;
  IndexedVector<int, int> class_of_layer_;
  IndexedVector<int, std::vector<int>> blocks_;  // [layer]
  IndexedVector<int, LayerClass> classes_;
};

}  // namespace meshwright
