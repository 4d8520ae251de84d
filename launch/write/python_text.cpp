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

namespace {

std::string optimizer_text(const Optimizer& o) {
  std::string text =
      fmt::format("OPTIMIZER = {{'kind': {}, 'learning_rate': {}, 'weight_decay': {}, 'max_norm': {}, 'momentum': {}",
                  python_text(name_of(o.kind)), decimal(o.learning_rate), decimal(o.weight_decay), decimal(o.max_norm),
                  decimal(o.momentum));
  if (o.loss_scale != 0.0)
    text += fmt::format(", 'loss_scale': {}, 'loss_scale_interval': {}", decimal(o.loss_scale), o.loss_scale_interval);
  return text + "}\n";
}

// What most plans leave as it is.
std::string rare_constants(const Plan& plan, const Graph& graph, const std::vector<OpId>& ops) {
  const TrainingOptions& training = plan.training;
  std::string text;
  if (training.loss != LossReduction::Mean) text += fmt::format("LOSS = {}\n", python_text(name_of(training.loss)));
  if (training.offload != Offload::None)
    text += fmt::format("OFFLOAD = {}  # what waits on the host\n", python_text(name_of(training.offload)));
  if (!plan.software.empty())
    text += fmt::format("SOFTWARE = {}  # whose costs are predicted\n", python_text(plan.software));
  const auto name_at = [&](int position) {
    return python_text(graph.op(ops[static_cast<std::size_t>(position)]).name);
  };
  if (!training.recompute_ranges.empty()) {
    text +=
        fmt::format("RECOMPUTE_ELSEWHERE = {}\n# From the first to the last of two operators.\nRECOMPUTE_RANGES = [\n",
                    python_text(name_of(training.recompute)));
    for (const RecomputeRange& range : training.recompute_ranges)
      text += fmt::format("    ({}, {}, {}),\n", name_at(range.first), name_at(range.last),
                          python_text(name_of(range.recompute)));
    text += "]\n";
  }
  if (plan.runs) {
    text += "# What each rank runs, in its order: stage, pass and micro-batch.\nSCHEDULE_RUNS = [\n";
    for (const auto& rank : *plan.runs) {
      std::vector<std::string> runs;
      for (const ScheduledRun& run : rank) runs.push_back(python_text(text_of(run)));
      text += "    [" + join(runs, ", ") + "],\n";
    }
    text += "]\n";
  }
  return text;
}

}  // namespace

std::string plan_constants(const Plan& plan, const Graph& graph) {
  const TrainingOptions& training = plan.training;
  std::string text = fmt::format("BATCH, MICRO_BATCHES = {}, {}\nSCHEDULE, DTYPE, RECOMPUTE = {}, {}, {}\n",
                                 training.batch, training.microbatches, python_text(name_of(plan.schedule)),
                                 python_text(name_of(training.dtype)), python_text(recompute_text(training)));
  const std::vector<OpId> ops = forward_ops(graph);
  text += optimizer_text(training.optimizer) + rare_constants(plan, graph, ops);
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
