// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/layer_classes.h"

#include <algorithm>
#include <map>

#include "core/base/errors.h"

namespace meshwright {

namespace {

bool equal_borders(const LayerModel& a, const LayerModel& b) {
  const auto equal = [](const Border& one, const Border& other) {
    return one.tensors == other.tensors && one.states == other.states;
  };
  return equal(a.in_border(), b.in_border()) && equal(a.out_border(), b.out_border());
}

// What distinguishes a layer from others beside its ops (StepStructure::layer_signature): its borders, where its blocks
// begin, and which of its tensors are forced.
std::string class_text(const StepStructure& structure, int layer, const LogicalMesh& mesh, const IntraOpRules& rules,
                       KnownResults& known) {
  const Graph& graph = structure.graph();
  const auto& ops = structure.layers().forward[layer];
  std::string text = border_signature(structure, layer, mesh, rules, &known);
  int block = -1;
  // Positions relative to the layer's first op, as equal layers have different block numbers.
  for (const OpId id : ops) {
    if (graph.op(id).block != block)
      text += fmt::format("{}{} ", graph.op(id).block < 0 ? "-" : "b", id.value - ops.front().value);
    block = graph.op(id).block;
  }
  if (rules.forced.empty()) return text;
  const auto note = [&](TensorId id) {
    const auto found = rules.forced.find(graph.tensor(id).name);
    text += found == rules.forced.end() ? "." : found->second.to_text();
  };
  for (const OpId id : ops)
    for (const auto* list : {&graph.op(id).inputs, &graph.op(id).outputs})
      for (const TensorId tensor : *list) {
        note(tensor);
        for (const TensorId state : structure.optimizer_state(tensor)) note(state);
      }
  return text;
}

}  // namespace

LayerClasses LayerClasses::make(const StepStructure& structure, const LogicalMesh& mesh, const CostModel& costs,
                                const IntraOpRules& rules, const std::vector<StepVariant>& ways, bool once_per_value,
                                KnownOps::OnMesh* known_ops) {
  LayerClasses made(structure);
  std::map<std::string, int> known_classes;
  std::optional<KnownOps::OnMesh> own;  // equal ops of all layers are costed once
  // What hides beside an op depends on its layer.
  if (known_ops == nullptr || once_per_value || rules.hiding.beside) known_ops = &own.emplace(mesh, costs);
  ReshardingCosts& resharding = known_ops->resharding;
  LayerModel::Cache& cache = known_ops->cache;
  cache.once_per_value = once_per_value;
  IndexedVector<int, StepVariant> variants(ways);
  if (variants.empty()) variants.push_back({Recompute::None, &structure});
  for (const StepVariant& variant : variants)
    MW_CHECK(variant.structure->layers().forward == structure.layers().forward, "variants are cut into other layers");
  for (int layer = 0; layer < structure.layers().count; ++layer) {
    made.find_blocks(layer);
    IndexedVector<int, std::string> signatures;  // [way]
    std::string text = class_text(structure, layer, mesh, rules, cache.borders);
    for (const StepVariant& variant : variants) {
      signatures.push_back(variant.structure->layer_signature(layer));
      text += signatures.back();
    }
    const auto [known, is_new] = known_classes.emplace(text, made.classes());
    made.class_of_layer_.push_back(known->second);
    if (!is_new) continue;
    LayerClass& of = made.classes_.emplace_back();
    for (int way = 0; way < variants.count(); ++way) {
      // A way that leaves the layer as an earlier one does is no variant of its own.
      const auto same = std::find(signatures.begin(), signatures.end(), signatures[way]) - signatures.begin();
      if (same < way) {
        of.variant_of_way.push_back(of.variant_of_way[static_cast<int>(same)]);
        continue;
      }
      of.variant_of_way.push_back(of.models.count());
      of.recompute.push_back(variants[way].recompute);
      of.models.emplace_back(*variants[way].structure, layer, mesh, costs, resharding, rules, &cache);
      made.impossible_ = of.models.back().impossible();
      // One impossible layer rules out the whole mesh.
      if (made.impossible_) return made;
      // Spans join layers by their border states, so all variants of a layer need the same.
      MW_CHECK(equal_borders(of.models.front(), of.models.back()), "variants of layer {} differ in its borders", layer);
    }
  }
  return made;
}

void LayerClasses::find_blocks(int layer) {
  std::vector<int>& blocks = blocks_.emplace_back();
  for (const OpId id : structure_->layers().forward[layer]) {
    const int block = structure_->graph().op(id).block;
    if (block >= 0 && (blocks.empty() || blocks.back() != block)) blocks.push_back(block);
  }
}

bool LayerClasses::has_variants() const {
  return std::any_of(classes_.begin(), classes_.end(), [](const LayerClass& of) { return of.models.size() > 1; });
}

std::vector<Bytes> LayerClasses::recomputed_by_block(int layer, int variant, const ShardingChoice& choice) const {
  const auto& ops = structure_->layers().forward[layer];
  const std::vector<int>& blocks = blocks_[layer];
  const std::vector<Bytes> by_op = model(layer, variant).recomputed_by_op(choice, ops.size());
  std::vector<Bytes> found(blocks.size(), Bytes(0));
  std::size_t at = 0;  // ops of a block follow each other
  for (std::size_t p = 0; p < ops.size(); ++p) {
    const int block = structure_->graph().op(ops[p]).block;
    if (block < 0) continue;
    while (blocks[at] != block) ++at;
    found[at] += by_op[p];
  }
  return found;
}

std::vector<Bytes> LayerClasses::working_values() const {
  std::vector<Bytes> values;
  Bytes needed(0);  // by the hungriest class, with its smallest variant
  for (const LayerClass& of : classes_) {
    Bytes smallest = of.models.front().min_working();
    for (const LayerModel& model : of.models) {
      for (const Bytes value : model.working_values()) values.push_back(value);
      smallest = std::min(smallest, model.min_working());
    }
    needed = std::max(needed, smallest);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  // With less than `needed`, some layer has no choice at all.
  std::erase_if(values, [&](Bytes value) { return value < needed; });
  return values;
}

void LayerClasses::forget_costs() {
  for (LayerClass& of : classes_)
    for (LayerModel& model : of.models) model.forget_costs();
}

}  // namespace meshwright
