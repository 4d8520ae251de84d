// SPDX-License-Identifier: Apache-2.0
// JAX: the mesh of every stage, and the PartitionSpec of every parameter, state and result, as a Python module.
#include <map>
#include <set>

#include "core/base/text.h"
#include "launch/write/python_text.h"
#include "launch/write/script.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

constexpr const char* kFunctions = R"PY(

def mesh_of(stage, devices=None):
    """The stage's jax Mesh, of its devices among `devices` (default: jax.devices(), in the order of the hosts)."""
    devices = np.asarray(jax.devices() if devices is None else devices, dtype=object)
    own = [devices[number] for number in stage["devices"]]
    return Mesh(np.array(own, dtype=object).reshape(stage["mesh"]), stage["axes"])


def shardings_of(stage, table, devices=None):
    """{name: NamedSharding} of one of the stage's tables: "parameters", "states" or "results"."""
    mesh = mesh_of(stage, devices)
    return {name: NamedSharding(mesh, spec) for name, spec in stage[table].items()}


def keep(stage, name, value, devices=None):
    """Within a jitted stage: holds the result `name` to its sharding."""
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh_of(stage, devices), stage["results"][name]))


if __name__ == "__main__":
    for number, stage in enumerate(STAGES):
        print(f"stage {number}: mesh {stage['mesh']} of {len(stage['devices'])} devices, {len(stage['parameters'])} parameters")
        for name, spec in stage["parameters"].items():
            print(f"  {name}: {spec}")
)PY";

// {'batch': ('x0',)}: always tuples, of mesh axes by their names.
std::string axes_text(AxisMask mask) {
  std::vector<std::string> axes;
  for (int axis = 0; axis < 8; ++axis)
    if ((mask >> axis & 1) != 0) axes.push_back(fmt::format("'x{}'", axis));
  return fmt::format("({}{})", join(axes, ", "), axes.size() == 1 ? "," : "");
}

// The spec of the complete tensor.
std::string whole_spec(ShardingSpec spec) {
  spec.partial = 0;
  return partition_spec(spec);
}

// A member of a stage that is a table: its comment, its name, its rows "'name': value".
std::string table(const char* comment, const char* name, const std::vector<std::string>& rows) {
  std::string text = fmt::format("        # {}\n        '{}': {{", comment, name);
  if (rows.empty()) return text + "},\n";
  for (const std::string& row : rows) text += "\n            " + row + ",";
  return text + "\n        },\n";
}

// The same, left out where it has no rows.
std::string rare_table(const char* comment, const char* name, const std::vector<std::string>& rows) {
  return rows.empty() ? "" : table(comment, name, rows);
}

std::string row(const std::string& name, const std::string& value) { return python_text(name) + ": " + value; }

// A parameter is laid out once for all that read it, as a rule; each operator for which it is not has a row of its own.
std::string parameter_tables(const LaunchJob& job, const StagePlan& stage) {
  std::vector<std::string> weights, states, readers, of_readers, eager;
  std::map<std::string, const ParameterSharding*> of_name;
  for (const OpId id : forward_ops(job.graph))
    for (const TensorId input : job.graph.op(id).inputs) {
      const std::string& name = job.graph.tensor(input).name;
      const std::string key = job.graph.op(id).name + "/" + name;
      const auto found = stage.parameters.find(key);
      if (found == stage.parameters.end()) continue;
      const ParameterSharding& sharding = found->second;
      if (sharding.eager) eager.push_back(row(key, "True"));
      const auto [known, first] = of_name.emplace(name, &sharding);
      if (first) {
        weights.push_back(row(name, partition_spec(sharding.weight)));
        if (sharding.state != sharding.weight) states.push_back(row(name, partition_spec(sharding.state)));
        continue;
      }
      if (sharding.weight == known->second->weight && sharding.state == known->second->state) continue;
      readers.push_back(row(key, partition_spec(sharding.weight)));
      of_readers.push_back(row(key, partition_spec(sharding.state)));
    }
  return table("by name, as the first operator that reads it keeps it", "parameters", weights) +
         table("of optimizer state, where it is split otherwise than its parameter", "states", states) +
         rare_table("of an operator that keeps a parameter otherwise than the first one", "readers", readers) +
         rare_table("of that operator's sum of gradients", "readers_states", of_readers) +
         rare_table(
             "operators whose gradients are summed in every micro-batch, split as the state, and not once a step",
             "eager", eager);
}

std::string operator_tables(const LaunchJob& job, const StagePlan& stage) {
  std::vector<std::string> results, splits, sums, reads;
  // In the order in which the model computes them.
  for (const OpId id : forward_ops(job.graph)) {
    const Op& op = job.graph.op(id);
    const auto found = stage.ops.find(op.name);
    if (found == stage.ops.end()) continue;
    const OpSharding& sharding = found->second;
    results.push_back(row(op.name, whole_spec(sharding.result)));
    std::vector<std::string> axes;
    for (const auto& [axis, mask] : sharding.axes) axes.push_back(row(axis, axes_text(mask)));
    splits.push_back(row(op.name, "{" + join(axes, ", ") + "}"));
    if (sharding.result.partial != 0) sums.push_back(row(op.name, axes_text(sharding.result.partial)));
    if (sharding.partial != 0) reads.push_back(row(op.name, axes_text(sharding.partial)));
  }
  return table("by operator, as its result is kept", "results", results) +
         table("how each operator divides its work, which XLA infers by itself", "splits", splits) +
         table("results kept as partial sums over these axes for the next operator, which XLA decides by itself",
               "sums", sums) +
         rare_table("operators that read what they add up as partial sums over these axes", "reads_sums", reads);
}

std::string border_tables(const StagePlan& stage) {
  std::vector<std::string> received, copies, messages;
  for (const auto& [name, spec] : stage.inputs) received.push_back(row(name, whole_spec(spec)));
  for (const auto& [name, fan_out] : stage.fan_outs)
    copies.push_back(row(name, fmt::format("{{'copy': {}, 'gradient': {}, 'sums': {}}}", whole_spec(fan_out.copy),
                                           whole_spec(fan_out.gradient), axes_text(fan_out.gradient.partial))));
  for (const auto& [from, form] : stage.cross_mesh)
    messages.push_back(fmt::format("'{}': {}", from, python_text(name_of(form))));
  return table("made on other stages, as this one gets them", "received", received) +
         rare_table("results that are resharded once for several readers, and their gradients' sums", "copies",
                    copies) +
         rare_table("how what another stage sends gets here, by its number, where it is not sent whole to each device",
                    "messages", messages);
}

std::string stage_text(const LaunchJob& job, const StagePlan& stage) {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < stage.logical_shape.size(); ++a) axes.push_back(fmt::format("'x{}'", a));
  std::string text = fmt::format(
      "    {{\n        'mesh': {},\n        'axes': ({},),\n        'devices': {},\n        'hosts': {},\n"
      "        'layers': ({}, {}),  # of LAYER_STARTS, the first and the last\n",
      python_tuple(stage.logical_shape), fmt::join(axes, ", "), python_tuple(stage.devices), stage.submesh.hosts,
      stage.first_layer, stage.last_layer);
  if (stage.contexts.rings != 0)
    text +=
        fmt::format("        'rings': {},  # along which keys and values go round\n", axes_text(stage.contexts.rings));
  if (stage.contexts.exchanges != 0)
    text += fmt::format("        'exchanges': {},  # along which heads and queries are exchanged\n",
                        axes_text(stage.contexts.exchanges));
  return text + parameter_tables(job, stage) + operator_tables(job, stage) + border_tables(stage) + "    },\n";
}

std::string dimensions(const LaunchJob& job) {
  std::string text =
      "# The dimensions of every parameter and result, in the order of its PartitionSpec.\nDIMENSIONS = {\n";
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    std::vector<std::string> names;
    for (const Dim& dim : tensor.dims) names.push_back(fmt::format("({}, {})", python_text(dim.name), dim.size));
    text += fmt::format("    {}: [{}],\n", python_text(name), fmt::join(names, ", "));
  };
  for (const Tensor& tensor : job.graph.tensors())
    if (tensor.kind == TensorKind::Parameter) add(tensor.name, tensor);
  std::set<std::string> received;
  for (const StagePlan& stage : job.plan.stages)
    for (const auto& [name, spec] : stage.inputs) received.insert(name);
  for (const OpId id : forward_ops(job.graph)) {
    const Op& op = job.graph.op(id);
    add(op.name, job.graph.tensor(op.outputs.front()));
    // What has another name than its operator, and is more than one of its results.
    for (const TensorId output : op.outputs)
      if (const Tensor& tensor = job.graph.tensor(output); tensor.name != op.name && received.contains(tensor.name))
        add(tensor.name, tensor);
  }
  return text + "}\n";
}

// Empty where all parameters have states, or none has.
std::string without_states(const Graph& graph) {
  std::set<TensorId> with;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState && tensor.parameter) with.insert(*tensor.parameter);
  std::vector<std::string> names;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter && !with.contains(tensor.id)) names.push_back(python_text(tensor.name));
  if (with.empty() || names.empty()) return "";
  return fmt::format(
      "# Parameters that the optimizer does not update, so that it keeps nothing of them.\n"
      "WITHOUT_STATES = [{}]\n\n",
      fmt::join(names, ", "));
}

}  // namespace

WrittenJob write_jax(const LaunchJob& job) {
  std::string text = commented(heading(job));
  text += "\"\"\"The plan's meshes and shardings for jax: `import sharding_plan`.\n\n";
  text +=
      "STAGES has a table for every pipeline stage: its mesh, its devices by their numbers, and PartitionSpecs over\n";
  text += "the mesh axes x0, x1, ... by the names of the plan's parameters and operators.\n\"\"\"\n";
  text += "import jax\nimport numpy as np\nfrom jax.sharding import Mesh, NamedSharding\n";
  text += "from jax.sharding import PartitionSpec as P\n\n";
  text += plan_constants(job.plan, job.graph) + "\n";
  text += "STAGES = [\n";
  for (const StagePlan& stage : job.plan.stages) text += stage_text(job, stage);
  text += "]\n\n" + without_states(job.graph) + dimensions(job) + kFunctions;
  WrittenJob made;
  made.files = {{"sharding_plan.py", text, false, "meshes and PartitionSpecs of all stages; run alone it lists them"}};
  made.measure = {
      "step: time your jitted training step after block_until_ready, without the first steps, which compile",
      "TFLOPS per device and MFU: `step.lower(...).compile().cost_analysis()` gives the work as XLA counts it",
      "memory: `step.lower(...).compile().memory_analysis()`"};
  made.differences = {
      "the module says where tensors are, not how they get there: XLA inserts the collectives, and a pipeline is for "
      "the program that imports it to run"};
  return made;
}

}  // namespace meshwright
