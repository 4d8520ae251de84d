// SPDX-License-Identifier: Apache-2.0
#include "costmodel/framework_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/graph/op_table.h"
#include "core/plan/ranks.h"
#include "core/plan/stage_graph.h"
#include "costmodel/stage_ops.h"

namespace meshwright {

namespace {

double element_bytes(const Graph& graph) { return static_cast<double>(size_of(graph.dtype)); }

// Into how many parts weights and optimizer states are split beyond what the ops that read them need. All uses of a
// tied parameter share its owner's.
struct ParameterSplit {
  double weight = 1.0, state = 1.0;
  bool gradients = false;
};

ParameterSplit split_of(const Tensor& parameter, double used, const ParameterSharding& sharding,
                        const StageOps& stage) {
  if (const auto zero = stage.rules().zero) {
    // Software lays the parameters of a device end to end and splits that, whatever their dimensions.
    const double copies = stage.mesh().devices() * used / static_cast<double>(parameter.elements());
    return {*zero == 3 ? copies : 1.0, *zero >= 1 ? copies : 1.0, *zero >= 2};
  }
  return {std::max(1.0, used / local_elements(parameter, sharding.weight, stage.mesh())),
          std::max(1.0, used / local_elements(parameter, sharding.state, stage.mesh())), sharding.eager};
}

struct UsedParameter {
  int block = -1;
  double elements = 0.0;  // as ops of the device read it
};
using UsedParameters = std::map<TensorId, UsedParameter>;

// Calls use(parameter, op, elements as it reads it).
template <class Use>
void for_each_use(const Graph& graph, const StageOps& stage, const Use& use) {
  for (const StageOps::PlacedOp& placed : stage.ops()) {
    const Op& op = graph.op(placed.op);
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (graph.tensor(op.inputs[i]).kind == TensorKind::Parameter)
        use(graph.tensor(op.inputs[i]), op, stage.operand_elements(op, i));
  }
}

std::map<TensorId, ParameterSplit> parameter_splits(const Graph& graph, const std::vector<StageOps>& stages) {
  std::map<TensorId, ParameterSplit> splits;
  for (const StageOps& stage : stages)
    for_each_use(graph, stage, [&](const Tensor& parameter, const Op& op, double used) {
      if (splits.contains(parameter.id)) return;
      splits.emplace(parameter.id,
                     split_of(parameter, used, stage.plan().parameters.at(op.name + "/" + parameter.name), stage));
    });
  return splits;
}

// Profiles count the moments of Adam, of 32 bits.
constexpr double kAdamMoments = 8.0;

// Bytes of optimizer state of each element of a parameter that the graph updates, without a master copy.
std::map<TensorId, double> moments_of(const Graph& graph) {
  std::map<TensorId, double> moments;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Update || graph.tensor(op.inputs[0]).kind != TensorKind::Parameter) continue;
    const bool has_master = operand_names(op.kind, op.inputs.size(), op.attributes)[1] == "master";
    moments[op.inputs[0]] = has_master ? -size_of(accumulation_dtype(graph.dtype)) : 0.0;
  }
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState)
      moments[*tensor.parameter] +=
          tensor.bytes().si() / static_cast<double>(graph.tensor(*tensor.parameter).elements());
  return moments;
}

void add_parameters(const UsedParameters& used, const std::map<TensorId, ParameterSplit>& splits, const Graph& graph,
                    const SoftwareProfile& software, bool pipeline, FrameworkMemory& memory) {
  const double element = element_bytes(graph);
  const bool half = element < 4.0;
  // 32-bit weights are their own master copy, and their gradients need no other.
  double optimizer = half ? software.optimizer_kept_bytes : software.optimizer_kept_bytes - 4.0;
  if (graph.states_on_host) optimizer = 0.0;
  if (graph.dtype == DType::F16) optimizer += software.gradient_copy_bytes;
  double gradient = std::max(element, software.gradient_kept_bytes);
  if (graph.dtype == DType::BF16) gradient += software.gradient_copy_bytes;
  const std::map<TensorId, double> moments = moments_of(graph);
  double staying = 0.0;          // of what is gathered, to the end of the step: what is outside of the blocks
  std::map<int, double> blocks;  // gathered for each while it is at work
  for (const auto& [id, parameter] : used) {
    const ParameterSplit& split = splits.at(id);
    const bool gathers = split.weight > 1.0;
    const bool from_master = gathers && half && software.weights_from_master;
    if (gathers && (parameter.block < 0 || (pipeline && software.keeps_gathered_stage)))
      staying += parameter.elements;
    else if (gathers)
      blocks[parameter.block] += parameter.elements;
    // What lies on the host and is gathered for its layer counts there alone; other parts stay as long as a pass does.
    const bool elsewhere = from_master || (gathers && graph.weights_on_host);
    memory.weights += Bytes(elsewhere ? 0.0 : element * parameter.elements / split.weight);
    if (graph.fixed.contains(id)) continue;  // it is not trained
    memory.gradients += Bytes(gradient * parameter.elements / (split.gradients ? split.state : 1.0));
    const auto own = moments.find(id);
    const double kept = software.moment_share * (own == moments.end() ? kAdamMoments : own->second) - kAdamMoments;
    memory.optimizer += Bytes((optimizer + (graph.states_on_host ? 0.0 : kept)) * parameter.elements / split.state);
  }
  double largest = 0.0;
  for (const auto& [block, elements] : blocks) largest = std::max(largest, elements);
  // With gradients of the same sizes, of one block at a time.
  memory.gathered = Bytes(element * (2.0 * staying + (software.gathered_layers + 1.0) * largest));
}

// The maximum over the rank's passes of what it keeps for passes to come and needs for this one.
Bytes peak_activations(const std::vector<ScheduledRun>& runs, const std::vector<KeptActivations>& stages) {
  Bytes kept(0.0), peak(0.0);
  for (const ScheduledRun& run : runs) {
    const KeptActivations& stage = stages[run.stage.index()];
    if (run.pass == Pass::Forward) kept += stage.kept;
    peak = std::max(peak, kept + (run.pass == Pass::Forward ? stage.logits : std::max(stage.working, stage.logits)));
    if (run.pass == Pass::Backward || run.pass == Pass::BackwardWeight) kept -= stage.kept;
  }
  return peak;
}

// Without it one plan in two would fit that needs all of the room; four in five do with this many deviations to spare.
constexpr double kDeviationsToFit = 0.8416;
// What the driver, libraries and communicators hold, and an allocator under pressure cannot have. Cached blocks it can.
constexpr double kContextGib = 2.0;

}  // namespace

bool knows_memory(const SoftwareProfile& software, const Plan& plan) {
  const Offload offload = plan.training.offload;
  return plan.schedule != ScheduleKind::Inference && plan.cluster.uniform() && software.memory_spread > 0.0 &&
         !has(offload, Offload::Activations);
}

Bytes allocator_room(Bytes device) { return device - gibibytes(kContextGib); }

bool fits_on(Bytes allocated, Bytes device) { return allocated <= allocator_room(device); }

Bytes safe_room(Bytes device, const SoftwareProfile& software) {
  return std::exp(-kDeviationsToFit * software.memory_spread) * allocator_room(device);
}

FrameworkMemory framework_memory(const Plan& plan, const Graph& graph, const SoftwareProfile& software) {
  const std::vector<StageOps> stages = stage_ops(plan, graph);
  const std::vector<KeptActivations> kept = kept_activations(plan, graph, software);
  const std::map<TensorId, ParameterSplit> splits = parameter_splits(graph, stages);
  const std::vector<int> rank_of = rank_of_stages(plan);
  const Schedule schedule = schedule_of(plan, stage_graph(plan, graph));
  FrameworkMemory fullest;
  for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
    UsedParameters used;
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (rank_of[s] == static_cast<int>(rank))
        for_each_use(graph, stages[s], [&](const Tensor& parameter, const Op& op, double elements) {
          UsedParameter& own = used[parameter.id];
          own.block = op.block;
          own.elements = std::max(own.elements, elements);
        });
    FrameworkMemory memory;
    add_parameters(used, splits, graph, software, schedule.size() > 1, memory);
    memory.activations = peak_activations(schedule[rank], kept);
    memory.allocator = (software.allocator_factor - 1.0) * memory.allocated();
    memory.driver = gibibytes(software.driver_gib);
    if (rank == 0 || memory.allocated() > fullest.allocated()) fullest = memory;
  }
  return fullest;
}

}  // namespace meshwright
