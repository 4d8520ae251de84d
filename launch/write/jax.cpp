// SPDX-License-Identifier: Apache-2.0
// JAX: the mesh of every stage, and the PartitionSpec of every parameter, state and result, as a Python module.
#include <algorithm>
#include <set>

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

std::string parameter_of(const std::string& key) { return key.substr(key.find('/') + 1); }

std::string received_text(const StagePlan& stage) {
  std::string text;
  for (const auto& [name, spec] : stage.inputs) text += (text.empty() ? "" : ", ") + python_text(name);
  return text;
}

std::string stage_text(const LaunchJob& job, const StagePlan& stage) {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < stage.logical_shape.size(); ++a) axes.push_back(fmt::format("'x{}'", a));
  std::string text = fmt::format(
      "    {{\n        'mesh': {},\n        'axes': ({},),\n        'devices': {},\n        'layers': "
      "({}, {}),  # of LAYER_STARTS, the first and the last\n",
      python_tuple(stage.logical_shape), fmt::join(axes, ", "), python_tuple(stage.devices), stage.first_layer,
      stage.last_layer);
  std::string weights, states, sums;
  std::vector<std::string> seen;
  for (const auto& [key, sharding] : stage.parameters) {
    const std::string name = parameter_of(key);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;  // read by several operators
    seen.push_back(name);
    weights += fmt::format("            {}: {},\n", python_text(name), partition_spec(sharding.weight));
    if (sharding.state != sharding.weight)
      states += fmt::format("            {}: {},\n", python_text(name), partition_spec(sharding.state));
  }
  text += "        'parameters': {\n" + weights + "        },\n";
  text += "        # of optimizer state, where it is split otherwise than its parameter\n";
  text += "        'states': {\n" + states + "        },\n        'results': {\n";
  // In the order in which the model computes them.
  for (const OpId id : forward_ops(job.graph)) {
    const Op& op = job.graph.op(id);
    const auto found = stage.ops.find(op.name);
    if (found == stage.ops.end()) continue;
    if (found->second.result.partial != 0) sums += (sums.empty() ? "" : ", ") + python_text(op.name);
    ShardingSpec whole = found->second.result;
    whole.partial = 0;
    text += fmt::format("            {}: {},\n", python_text(op.name), partition_spec(whole));
  }
  return text +
         "        },\n        # kept as partial sums for the next operator, which XLA decides by itself\n        "
         "'sums': [" +
         sums + "],\n        # made on other stages\n        'received': [" + received_text(stage) + "],\n    },\n";
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
  for (const OpId id : forward_ops(job.graph)) {
    const Op& op = job.graph.op(id);
    add(op.name, job.graph.tensor(op.outputs.front()));
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
