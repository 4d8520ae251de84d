// SPDX-License-Identifier: Apache-2.0
#include "launch/write/python_text.h"

#include "core/base/text.h"
#include "launch/write/script.h"

namespace meshwright {

std::string python_text(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return made + "'";
}

std::string python_tuple(const std::vector<int>& values) {
  return fmt::format("({}{})", fmt::join(values, ", "), values.size() == 1 ? "," : "");
}

std::string plan_constants(const Plan& plan, const Graph& graph) {
  const TrainingOptions& training = plan.training;
  const Optimizer& o = training.optimizer;
  std::string text = fmt::format("BATCH, MICRO_BATCHES = {}, {}\nSCHEDULE, DTYPE, RECOMPUTE = {}, {}, {}\n",
                                 training.batch, training.microbatches, python_text(name_of(plan.schedule)),
                                 python_text(name_of(training.dtype)), python_text(recompute_text(training)));
  text += fmt::format(
      "OPTIMIZER = {{'kind': {}, 'learning_rate': {}, 'weight_decay': {}, 'max_norm': {}, 'momentum': {}}}\n",
      python_text(name_of(o.kind)), decimal(o.learning_rate), decimal(o.weight_decay), decimal(o.max_norm),
      decimal(o.momentum));
  const std::vector<OpId> ops = forward_ops(graph);
  text += "# The first operator of every layer, by the plan's names.\nLAYER_STARTS = [\n";
  for (const int start : plan.layer_starts)
    text += "    " + python_text(graph.op(ops[static_cast<std::size_t>(start)]).name) + ",\n";
  return text + "]\n";
}

std::string partition_spec(const ShardingSpec& spec) {
  std::vector<std::string> dims;
  for (const AxisMask mask : spec.dims) {
    std::vector<std::string> axes;
    for (int axis = 0; axis < 8; ++axis)
      if ((mask >> axis & 1) != 0) axes.push_back(fmt::format("'x{}'", axis));
    dims.push_back(axes.empty() ? "None" : axes.size() == 1 ? axes.front() : "(" + join(axes, ", ") + ")");
  }
  while (!dims.empty() && dims.back() == "None") dims.pop_back();
  return "P(" + join(dims, ", ") + ")";
}

}  // namespace meshwright
