// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/planner/intra_op/strategies.h"

namespace meshwright {

namespace {

// The specs in which rules let the tensor's op leave it. Without rules every spec counts, so that layers whose inputs
// come from different ops remain equal problems.
std::vector<ShardingSpec> find_specs(const StepStructure& structure, const Tensor& tensor, const LogicalMesh& mesh,
                                     const IntraOpRules& rules) {
  std::vector<ShardingSpec> specs = enumerate_specs(tensor.dims, mesh);
  if (!rules.allow_op) return specs;
  const Op& maker = structure.graph().op(*tensor.producer);
  const auto& result_dims = structure.graph().tensor(maker.outputs.front()).dims;
  std::set<ShardingSpec> made;
  for (const OpStrategy& strategy : enumerate_strategies(maker, structure.space(maker.id), result_dims, mesh, rules))
    made.insert(strategy.result);
  std::erase_if(specs, [&](const ShardingSpec& spec) { return !made.contains(spec); });
  return specs;
}

std::vector<ShardingSpec> possible_specs(const StepStructure& structure, const Tensor& tensor, const LogicalMesh& mesh,
                                         const IntraOpRules& rules, KnownResults& known) {
  const auto forced = rules.forced.find(tensor.name);
  if (forced != rules.forced.end()) return {forced->second};
  const std::vector<TensorId>& results = structure.graph().op(*tensor.producer).outputs;
  const auto output = static_cast<std::size_t>(std::find(results.begin(), results.end(), tensor.id) - results.begin());
  const auto [of, is_new] =
      known.specs.try_emplace({&structure.graph(), structure.group_class(*tensor.producer), output});
  if (is_new) of->second = find_specs(structure, tensor, mesh, rules);
  return of->second;
}

// Whether the state splits dimensions of one name the same way in all its tensors.
bool agrees_by_name(const Graph& graph, const std::vector<TensorId>& tensors, const std::vector<ShardingSpec>& state) {
  AxesByName axes;
  for (std::size_t t = 0; t < state.size(); ++t) {
    const auto& dims = graph.tensor(tensors[t]).dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto [known, inserted] = axes.emplace(dims[d].name, state[t].dims[d]);
      if (!inserted && known->second != state[t].dims[d]) return false;
    }
  }
  return true;
}

}  // namespace

Border make_border(const StepStructure& structure, int layer, const LogicalMesh& mesh, const IntraOpRules& rules,
                   KnownResults* known) {
  constexpr std::size_t kMaxStates = 512;
  KnownResults own;
  Border border{structure.crossing(layer), {{}}};
  for (const TensorId id : border.tensors) {
    const auto specs =
        possible_specs(structure, structure.graph().tensor(id), mesh, rules, known == nullptr ? own : *known);
    std::vector<std::vector<ShardingSpec>> longer;
    for (const auto& state : border.states)
      for (const ShardingSpec& spec : specs) {
        longer.push_back(state);
        longer.back().push_back(spec);
      }
    border.states = std::move(longer);
    if (border.states.size() <= kMaxStates) continue;
    // Rules may ask for one name to be split differently (a batch with experts beside it and one without): then those
    // states come first that agree, but some state always remains.
    const auto rest =
        std::stable_partition(border.states.begin(), border.states.end(), [&](const std::vector<ShardingSpec>& state) {
          return agrees_by_name(structure.graph(), border.tensors, state);
        });
    border.states.erase(rest == border.states.begin() ? rest + kMaxStates : rest, border.states.end());
  }
  return border;
}

std::string border_signature(const StepStructure& structure, int layer, const LogicalMesh& mesh,
                             const IntraOpRules& rules, KnownResults* known) {
  std::string text;
  if (!rules.allow_op && rules.forced.empty()) return text;
  for (const int at : {layer, layer + 1}) {
    for (const auto& state : make_border(structure, at, mesh, rules, known).states) {
      for (const ShardingSpec& spec : state) text += spec.to_text() + " ";
      text += ";";
    }
    text += "|";
  }
  return text;
}

}  // namespace meshwright
