// SPDX-License-Identifier: Apache-2.0
// The plan of files that leave nothing to search.
#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "launch/read/launch_reading.h"

namespace meshwright {

namespace {

class DecidedPlan {
 public:
  DecidedPlan(const LaunchSetup& setup, const Cluster& cluster) : setup_(setup), given_(*setup.meshes) {
    plan_.model = setup.model;
    plan_.cluster = cluster;
    plan_.method = "manual";
    plan_.schedule = setup.degrees.schedule;
    plan_.runs = given_.runs;
    TrainingOptions& training = plan_.training;
    training.batch = setup.global_batch();
    training.microbatches = setup.degrees.micro_batches;
    training.dtype = setup.dtype;
    training.optimizer = setup.optimizer;
    training.offload = setup.offload;
    training.loss = given_.loss;
    training.recompute = setup.degrees.recompute;
    training.recompute_modules = setup.degrees.recompute_modules;
  }

  PlanOfGraph make() {
    find_positions();
    for (const RecomputedRange& range : given_.recompute_ranges) {
      const auto [first, last] = std::pair{position_of(range.first), position_of(range.last)};
      require(first <= last, "RECOMPUTE_RANGES: '{}' comes after '{}'; give the first operator first.", range.first,
              range.last);
      plan_.training.recompute_ranges.push_back({first, last, range.recompute});
    }
    for (const std::string& start : given_.layer_starts) plan_.layer_starts.push_back(position_of(start));
    auto graph = std::make_shared<const Graph>(build_step_graph(plan_.model, plan_.training, plan_.schedule));
    plan_.graph_fingerprint = fingerprint_of(*graph);
    for (const DecidedStage& stage : given_.decided) add(stage, *graph);
    return {std::move(plan_), std::move(graph)};
  }

 private:
  // Recomputation changes what a step computes again, and no forward operator.
  void find_positions() {
    const Graph graph = build_forward_graph(plan_.model, plan_.training);
    int position = 0;
    for (const OpId id : forward_ops(graph)) positions_[graph.op(id).name] = position++;
  }

  [[nodiscard]] int position_of(const std::string& name) const {
    const auto found = positions_.find(name);
    require(found != positions_.end(), "'{}' is no operator of {}; give the --model of the plan.", name,
            setup_.model.name);
    return found->second;
  }

  void add(const DecidedStage& decided, const Graph& graph) {
    const std::string where = fmt::format("stage {}", plan_.stages.size());
    StagePlan stage = decided.stage;
    std::size_t readers = 0, eager = 0;
    std::map<std::string, int> read;  // by name of the parameter: its readers on the stage
    for (const OpId id : forward_ops(graph)) {
      const Op& op = graph.op(id);
      if (!stage.ops.contains(op.name)) continue;
      for (const TensorId input : op.inputs) {
        const Tensor& tensor = graph.tensor(input);
        if (tensor.kind != TensorKind::Parameter) continue;
        const std::string key = op.name + "/" + tensor.name;
        const auto own = decided.readers.find(key), known = decided.parameters.find(tensor.name);
        require(known != decided.parameters.end(), "{}: 'parameters' does not say how '{}' is split.", where,
                tensor.name);
        if (own != decided.readers.end() && !stage.parameters.contains(key)) ++readers;
        ParameterSharding& sharding = stage.parameters[key];
        sharding = own != decided.readers.end() ? own->second : known->second;
        sharding.eager = decided.eager.contains(key);
        ++read[tensor.name];
      }
    }
    for (const std::string& key : decided.eager) eager += stage.parameters.contains(key) ? 1 : 0;
    for (const auto& [name, sharding] : decided.parameters)
      require(read.contains(name), "{}: no operator of the stage reads '{}' of its 'parameters'.", where, name);
    require(readers == decided.readers.size() && eager == decided.eager.size(),
            "{}: 'readers' or 'eager' has a name that is no operator of the stage with a parameter that it reads.",
            where);
    plan_.stages.push_back(std::move(stage));
  }

  const LaunchSetup& setup_;
  const GivenMeshes& given_;
  std::map<std::string, int> positions_ = {};
  Plan plan_ = {};
};

}  // namespace

std::optional<PlanOfGraph> decided_plan(const LaunchSetup& setup, const Cluster& cluster) {
  if (!setup.meshes || setup.meshes->decided.empty()) return std::nullopt;
  return DecidedPlan(setup, cluster).make();
}

}  // namespace meshwright
