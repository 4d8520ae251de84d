// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/uneven_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/plan/placed_parameters.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

namespace {

// What a device holds beyond its share of the tensor.
Bytes padding_of(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh) {
  return local_bytes(tensor, spec, mesh) - tensor.bytes() / static_cast<double>(shards(spec.used(), mesh));
}

class UnevenCount {
 public:
  UnevenCount(const Method& method, const Plan& plan, const Graph& graph)
      : graph_(graph), unsplit_(plan.stages.size(), Bytes(0.0)), padding_(plan.stages.size(), Bytes(0.0)) {
    for (const StagePlan& stage : plan.stages) {
      meshes_.push_back(mesh_of(stage, plan.cluster));
      rules_.push_back(rules_of(method, stage.logical_shape));
    }
    for (const Tensor& tensor : graph.tensors())
      if (tensor.kind == TensorKind::OptimizerState) states_[*tensor.parameter].push_back(tensor.id);
  }

  void add(const PlacedParameter& placed) {
    const auto s = static_cast<std::size_t>(placed.stage);
    const IntraOpRules& rules = rules_[s];
    const Tensor& parameter = graph_.tensor(placed.tensor);
    Bytes unsplit(0.0);
    // Readers that want the same share a copy.
    if (copies_.insert({s, placed.tensor, placed.sharding->weight}).second)
      unsplit += add(parameter, placed.sharding->weight, rules.weight, s);
    if (placed.first_reader)
      for (const TensorId state : states_[placed.tensor])
        unsplit += add_state(graph_.tensor(state), parameter, *placed.sharding, s);
    if (unsplit == Bytes(0.0)) return;
    unsplit_[s] += unsplit;
    if (std::find(found_.unsplit.begin(), found_.unsplit.end(), parameter.name) == found_.unsplit.end())
      found_.unsplit.push_back(parameter.name);
  }

  [[nodiscard]] UnevenParameters result() && {
    found_.unsplit_bytes = *std::max_element(unsplit_.begin(), unsplit_.end());
    found_.padding = *std::max_element(padding_.begin(), padding_.end());
    return std::move(found_);
  }

 private:
  // Means over a dimension of the parameter are whole along what splits that dimension: they are small, and nothing
  // that could be split otherwise.
  Bytes add_state(const Tensor& state, const Tensor& parameter, const ParameterSharding& sharding, std::size_t stage) {
    const ShardingSpec spec = spec_by_name(state.dims, axes_of_dims(parameter.dims, sharding.state));
    const bool is_mean = state.dims != parameter.dims;
    return add(state, spec, is_mean ? IntraOpRules::Split::Free : rules_[stage].state, stage);
  }

  // The bytes of a device that are not split as the rule asks.
  Bytes add(const Tensor& tensor, const ShardingSpec& spec, IntraOpRules::Split rule, std::size_t stage) {
    const LogicalMesh& mesh = meshes_[stage];
    padding_[stage] += padding_of(tensor, spec, mesh);
    if (rule != IntraOpRules::Split::Most) return Bytes(0.0);
    const auto asked = static_cast<AxisMask>(rules_[stage].split_axes & ~rules_[stage].whole_axes & ~spec.used());
    return shards(asked, mesh) > 1 ? local_bytes(tensor, spec, mesh) : Bytes(0.0);
  }

  const Graph& graph_;
  std::vector<LogicalMesh> meshes_;                   // [stage]
  std::vector<IntraOpRules> rules_;                   // [stage]
  std::map<TensorId, std::vector<TensorId>> states_;  // by parameter
  std::set<std::tuple<std::size_t, TensorId, ShardingSpec>> copies_;
  std::vector<Bytes> unsplit_, padding_;  // [stage]
  UnevenParameters found_;
};

}  // namespace

UnevenParameters uneven_parameters(const Method& method, const Plan& plan, const Graph& graph) {
  UnevenCount count(method, plan, graph);
  for (const PlacedParameter& placed : placed_parameters(plan, graph)) count.add(placed);
  return std::move(count).result();
}

}  // namespace meshwright
