// SPDX-License-Identifier: Apache-2.0
// The layers' models and their cost matrices. Where a layer may make again none, some or all of what its backward
// reads, each variant has a model of its own with the same strategies, and a matrix takes the cheapest for every pair
// of border states: what a layer makes again changes no other layer's costs.
#include <algorithm>
#include <limits>

#include "core/planner/intra_op/layer_model_builder.h"
#include "core/planner/spans/mesh_spans_state.h"

namespace meshwright {

namespace {

// A lower bound of how much more a sharding costs in `one` than in `other`, which have the same strategies.
double least_excess(const ShardingProblem& one, const ShardingProblem& other) {
  double total = 0.0;
  const auto add = [&](const auto& costs, const auto& others) {
    MW_CHECK(costs.size() == others.size(), "variants of a layer have {} and {} strategies", costs.size(),
             others.size());
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < costs.size(); ++i)
      if (costs[i])
        least = std::min(least, others[i] ? (*costs[i] - *others[i]).si() : -std::numeric_limits<double>::infinity());
    total += least;
  };
  for (std::size_t i = 0; i < one.nodes.size(); ++i) add(one.nodes[i].cost, other.nodes[i].cost);
  for (std::size_t i = 0; i < one.edges.size(); ++i) add(one.edges[i].cost, other.edges[i].cost);
  return total;
}

bool equal_borders(const LayerModel& a, const LayerModel& b) {
  const auto equal = [](const Border& one, const Border& other) {
    return one.tensors == other.tensors && one.states == other.states;
  };
  return equal(a.in_border(), b.in_border()) && equal(a.out_border(), b.out_border());
}

}  // namespace

void MeshSpans::State::make_models() {
  std::map<std::string, int> known_classes;
  const IntraOpRules rules = search.rules ? search.rules(mesh) : IntraOpRules{};
  ReshardingCosts prices(mesh, *cost_model);
  LayerModel::Known known_ops;
  std::vector<StepVariant> variants = search.variants;
  if (variants.empty()) variants.push_back({Recompute::None, &structure});
  for (const StepVariant& variant : variants)
    MW_CHECK(variant.structure->layers().forward == structure.layers().forward, "variants are cut into other layers");
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<int> blocks;
    for (const OpId id : structure.layers().forward[static_cast<std::size_t>(layer)]) {
      const int block = structure.graph().op(id).block;
      if (block >= 0 && (blocks.empty() || blocks.back() != block)) blocks.push_back(block);
    }
    blocks_of_layer.push_back(std::move(blocks));

    std::vector<std::string> signatures;
    std::string text = class_text(layer, rules);
    for (const StepVariant& variant : variants) {
      signatures.push_back(variant.structure->layer_signature(layer));
      text += signatures.back();
    }
    const auto [known, is_new] = known_classes.emplace(text, static_cast<int>(classes.size()));
    class_of_layer.push_back(known->second);
    if (!is_new) continue;
    LayerClass& made = classes.emplace_back();
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const auto known_as = std::find(signatures.begin(), signatures.end(), signatures[v]) - signatures.begin();
      made.variant_of.push_back(known_as < static_cast<std::ptrdiff_t>(v)
                                    ? made.variant_of[static_cast<std::size_t>(known_as)]
                                    : made.models.size());
      if (made.variant_of.back() < made.models.size()) continue;
      made.variants.push_back(variants[v].recompute);
      made.models.emplace_back(*variants[v].structure, layer, mesh, *cost_model, prices, rules, &known_ops);
      impossible = made.models.back().impossible();
      if (impossible) return;
      MW_CHECK(equal_borders(made.models.front(), made.models.back()), "variants of layer {} differ in its borders",
               layer);
    }
  }
}

std::string MeshSpans::State::class_text(int layer, const IntraOpRules& rules) const {
  const Graph& graph = structure.graph();
  const auto& ops = structure.layers().forward[static_cast<std::size_t>(layer)];
  std::string text = border_signature(structure, layer, mesh, rules);
  int block = -1;
  for (const OpId id : ops) {  // where its blocks begin and end
    if (graph.op(id).block != block)
      text += fmt::format("{}{} ", graph.op(id).block < 0 ? "-" : "b", id.value - ops.front().value);
    block = graph.op(id).block;
  }
  if (rules.forced.empty()) return text;
  // Layers are equal problems only when the same of their tensors are forced.
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

std::vector<Bytes> MeshSpans::State::made_again(int layer, const LayerModel& of, const ShardingChoice& choice) const {
  const auto& ops = structure.layers().forward[static_cast<std::size_t>(layer)];
  const std::vector<int>& blocks = blocks_of_layer[static_cast<std::size_t>(layer)];
  const std::vector<Bytes> by_op = of.recomputed_by_op(choice, ops.size());
  std::vector<Bytes> again(blocks.size(), Bytes(0));
  std::size_t at = 0;
  for (std::size_t p = 0; p < ops.size(); ++p) {
    const int block = structure.graph().op(ops[p]).block;
    if (block < 0) continue;
    while (blocks[at] != block) ++at;
    again[at] += by_op[p];
  }
  return again;
}

const ShardingProblem& MeshSpans::State::problem(std::size_t price, std::size_t of_class, std::size_t variant) {
  std::optional<ShardingProblem>& known = problems[{price, of_class, variant}].problem;
  if (!known) known = make_problem(price, of_class, variant);
  return *known;
}

ShardingProblem MeshSpans::State::make_problem(std::size_t price, std::size_t of_class, std::size_t variant) const {
  MW_CHECK(!forgotten, "a layer is to be solved that no span has");
  const LayerModel& model = classes[of_class].models[variant];
  ShardingProblem problem = model.problem(weights[price], most_working[price], LayerModel::Texts::No);
  if (search.one_stage) model.price_recomputed(problem, weights[price].memory_price * recomputed_share);
  return problem;
}

BetweenSolver& MeshSpans::State::between(std::size_t price, std::size_t of_class, std::size_t variant) {
  std::optional<BetweenSolver>& known = problems[{price, of_class, variant}].between;
  if (known) return *known;
  MW_CHECK(!forgotten, "a layer is to be solved that no span has");
  const LayerModel& model = classes[of_class].models[variant];
  if (search.one_stage)
    known.emplace(problem(price, of_class, variant), model.in_node(), model.out_node());
  else
    known.emplace(
        model.tables(weights[price], most_working[price]),
        [this, price, of_class, variant] { return make_problem(price, of_class, variant); }, model.in_node(),
        model.out_node());
  return *known;
}

std::vector<std::size_t> MeshSpans::State::useful_variants(std::size_t price, std::size_t of_class) {
  const std::size_t count = classes[of_class].models.size();
  std::vector<std::size_t> useful(count);
  for (std::size_t v = 0; v < count; ++v) useful[v] = v;
  for (std::size_t v = count; v-- > 0 && count > 1;) {
    const bool beaten = std::any_of(useful.begin(), useful.end(), [&](std::size_t other) {
      return other != v && least_excess(problem(price, of_class, v), problem(price, of_class, other)) >= 0.0;
    });
    if (beaten) std::erase(useful, v);
  }
  return useful;
}

void MeshSpans::State::make_matrices(std::size_t price) {
  matrices.emplace_back();
  cheapest_variant.emplace_back();
  for (std::size_t of = 0; of < classes.size(); ++of) {
    Matrix& best = matrices.back().emplace_back();
    std::vector<std::uint8_t>& chosen = cheapest_variant.back().emplace_back();
    Variants wanted;
    for (std::size_t variant = 0; variant < classes[of].models.size(); ++variant) wanted.push_back(variant);
    if (!has_levels(price)) wanted = useful_variants(price, of);
    for (const std::size_t variant : wanted) {
      const Matrix costs = between(price, of, variant).costs();
      if (has_levels(price)) variant_matrices[{price, of, variant}] = costs;
      best.resize(costs.size());
      chosen.resize(costs.size());
      for (std::size_t i = 0; i < costs.size(); ++i) {
        if (!costs[i] || (best[i] && *best[i] <= *costs[i])) continue;
        best[i] = costs[i];
        chosen[i] = static_cast<std::uint8_t>(variant);
      }
    }
    // Problems take much memory.
    if (has_levels(price)) continue;
    for (std::size_t variant = 0; variant < classes[of].models.size(); ++variant)
      if (std::find(chosen.begin(), chosen.end(), variant) == chosen.end()) problems.erase({price, of, variant});
  }
}

}  // namespace meshwright
