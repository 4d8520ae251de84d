// SPDX-License-Identifier: Apache-2.0
#include "costmodel/stage_ops.h"

#include <algorithm>

#include "core/plan/ranks.h"
#include "core/planner/method/method.h"

namespace meshwright {

namespace {

PlanRules rules_of_plan(const Plan& plan) {
  if (!plan.method.starts_with("megatron:")) return {};
  const Method method = method_from_text(plan.method);
  return {method.tp, method.sequence_parallel && method.tp > 1, method.zero};
}

Recompute recompute_at(const TrainingOptions& training, int position) {
  for (const RecomputeRange& range : training.recompute_ranges)
    if (position >= range.first && position <= range.last) return range.recompute;
  return training.recompute;
}

}  // namespace

double local_elements(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh) {
  return local_bytes(tensor, spec, mesh).si() / static_cast<double>(size_of(tensor.dtype));
}

StageOps::StageOps(const Plan& plan, const Graph& graph, std::size_t stage)
    : graph_(graph), stage_(plan.stages[stage]), mesh_(mesh_of(stage_, plan.cluster)), rules_(rules_of_plan(plan)) {
  const std::vector<OpId> forward = forward_ops(graph);
  const auto start_of = [&](int layer) {
    const auto index = static_cast<std::size_t>(layer);
    return index < plan.layer_starts.size() ? static_cast<std::size_t>(plan.layer_starts[index]) : forward.size();
  };
  const std::size_t end = start_of(stage_.last_layer + 1);
  const std::map<OpId, RecomputedModule> modules = recomputed_modules(graph, plan.training.recompute_modules);
  for (std::size_t i = start_of(stage_.first_layer); i < end; ++i) {
    const auto module = modules.find(forward[i]);
    if (module != modules.end())
      ops_.push_back({forward[i], Recompute::Full, module->second});
    else
      ops_.push_back({forward[i], recompute_at(plan.training, static_cast<int>(i))});
    made_.insert(graph.op(forward[i]).outputs.begin(), graph.op(forward[i]).outputs.end());
  }
  is_last_ = end == forward.size();
}

double StageOps::operand_elements(const Op& op, std::size_t operand) const {
  const IterationSpace space = iteration_space(graph_, op);
  return local_elements(graph_.tensor(op.inputs[operand]), operand_spec(space, operand, axes_of(op, space)), mesh_);
}

double StageOps::gathered_elements(TensorId id) const {
  const Tensor& tensor = graph_.tensor(id);
  return local_elements(tensor, kept_as(tensor), mesh_);
}

double StageOps::kept_elements(TensorId id) const {
  const Tensor& tensor = graph_.tensor(id);
  const ShardingSpec spec = kept_as(tensor);
  const double elements = gathered_elements(id);
  const bool split = rules_.tensor_parallel > 1 && (spec.used() & tensor_bit()) != 0;
  const bool has_sequence =
      std::any_of(tensor.dims.begin(), tensor.dims.end(), [](const Dim& dim) { return dim.name == "seq"; });
  return rules_.sequence_parallel && has_sequence && !split ? elements / rules_.tensor_parallel : elements;
}

AxesByName StageOps::axes_of(const Op& op, const IterationSpace& space) const {
  AxesByName axes = stage_.ops.at(op.name).axes;
  if (rules_.tensor_parallel == 1) return axes;
  for (auto& [name, mask] : axes) mask = static_cast<AxisMask>(mask & ~tensor_bit());
  for (const char* name : kTensorParallelAxes) {
    const auto found = space.find(name);
    if (!found) continue;
    const IterationAxis& axis = space.axes[static_cast<std::size_t>(*found)];
    if (!axis.splittable || axis.size % rules_.tensor_parallel != 0) continue;
    axes[name] = static_cast<AxisMask>(axes[name] | tensor_bit());
    break;
  }
  return axes;
}

ShardingSpec StageOps::kept_as(const Tensor& tensor) const {
  if (made_.contains(tensor.id)) {
    const Op& maker = graph_.op(*tensor.producer);
    if (rules_.tensor_parallel == 1) return whole_sums(stage_.ops.at(maker.name).result);
    const IterationSpace space = iteration_space(graph_, maker);
    return whole_sums(raw_result(space, 0, axes_of(maker, space)));
  }
  const auto received = stage_.inputs.find(tensor.name);
  if (received == stage_.inputs.end()) return replicated(tensor.dims.size());
  ShardingSpec spec = whole_sums(received->second);
  if (rules_.tensor_parallel > 1)
    for (AxisMask& mask : spec.dims) mask = static_cast<AxisMask>(mask & ~tensor_bit());
  return spec;
}

std::vector<StageOps> stage_ops(const Plan& plan, const Graph& graph) {
  std::vector<StageOps> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) stages.emplace_back(plan, graph, s);
  return stages;
}

}  // namespace meshwright
