// SPDX-License-Identifier: Apache-2.0
// Requests to the planner in one line, and plans made by hand in which every op is split by the names of its axes.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/planner/make_plan.h"
#include "costmodel/cost_models.h"
#include "simulator/pipeline/simulate_pipeline.h"
#include "simulator/program/program_costs.h"
#include "tests/truth/instruction_engines.h"

namespace meshwright {

class SimulatedStep : public PlanEvaluator {
 public:
  explicit SimulatedStep(const CostModel& costs) : costs_(costs) {}
  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override {
    return to_seconds(simulate_pipeline(schedule, microbatches, times, chunks).step);
  }
  [[nodiscard]] std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made) const override {
    return std::make_unique<Trial>(load_plan(made, costs_), *this);
  }
  [[nodiscard]] Seconds step_of(const Program& program, const ProgramCheck& check) const {
    ++calls;
    return to_seconds(simulate_in_order(program, check.order, program_costs(program, costs_).times).timeline.end);
  }
  mutable std::atomic<int> calls = 0;  // simulated programs

 private:
  class Trial final : public PlanTrial {
   public:
    Trial(LoadedPlan loaded, const SimulatedStep& by) : loaded_(std::move(loaded)), by_(by) {
      const Program& program = loaded_.program;
      peaks.resize(program.stages.size(), Bytes(0.0));
      if (!program.host_bytes.empty()) on_host = peaks;
      for (std::size_t d = 0; d < program.stage_of_device.size(); ++d) {
        const std::size_t stage = program.stage_of_device[d].index();
        peaks[stage] = std::max(peaks[stage], loaded_.check.peak_memory[d]);
        if (!on_host.empty()) on_host[stage] = std::max(on_host[stage], program.host_bytes[d]);
      }
    }
    [[nodiscard]] StepOutcome step() override { return {by_.step_of(loaded_.program, loaded_.check)}; }

   private:
    const LoadedPlan loaded_;
    const SimulatedStep& by_;
  };

  const CostModel& costs_;
};

inline PlanRequest ask(const std::string& model, const std::string& cluster, const std::string& method = "pipeshard",
                       std::int64_t batch = 32, OrAuto<std::int64_t> microbatches = std::int64_t{4}) {
  PlanRequest request;
  request.model = find_model(model);
  request.training.batch = batch;
  request.search.microbatches = microbatches;
  request.cluster = find_cluster(cluster);
  request.search.method = method_from_text(method);
  return request;
}

// An answer with its program, where there is a plan.
struct Planned : PlanningResult {
  Program program;
  ProgramCheck check;
};
inline Planned with_program(PlanningResult result, const CostModel& costs) {
  Planned planned{std::move(result), {}, {}};
  if (!planned.plan) return planned;
  LoadedPlan loaded = load_plan({*planned.plan, std::make_shared<const Graph>(planned.graph)}, costs);
  planned.program = std::move(loaded.program);
  planned.check = std::move(loaded.check);
  return planned;
}

inline Planned planned(const PlanRequest& request) {
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  return with_program(make_plan(request, *costs, evaluator), *costs);
}

// --- plans by hand ---

using Names = std::map<std::string, AxisMask>;  // dimension name -> mesh axes that split it

struct HandStage {
  std::string first_op;  // "" = the graph's first
  std::vector<int> shape;
  Names split;
};

inline ShardingSpec spec_by_names(const std::vector<Dim>& dims, const Names& names) {
  ShardingSpec spec;
  for (const Dim& dim : dims) spec.dims.push_back(names.contains(dim.name) ? names.at(dim.name) : AxisMask{0});
  return spec;
}

inline void add_op(const Graph& graph, const Op& op, const Names& split, StagePlan& stage) {
  Names own;
  for (const IterationAxis& axis : iteration_space(graph, op).axes)
    if (axis.splittable && split.contains(axis.name)) own[axis.name] = split.at(axis.name);
  stage.ops[op.name] = {own, spec_by_names(graph.tensor(op.outputs[0]).dims, own), 0};
  for (const TensorId input : op.inputs) {
    const Tensor& tensor = graph.tensor(input);
    const ShardingSpec spec = spec_by_names(tensor.dims, own);
    if (tensor.kind == TensorKind::Parameter) stage.parameters[op.name + "/" + tensor.name] = {spec, spec, false};
    // What an earlier stage made.
    if (tensor.producer && !stage.ops.contains(graph.op(*tensor.producer).name)) stage.inputs[tensor.name] = spec;
  }
}

struct HandPlan {
  Plan plan;
  Graph graph;
  std::unique_ptr<CostModel> costs;
  Program program;
  ProgramCheck check;
};

// On the first devices of `cluster`, one layer per stage. The plan's model is not the graph's unless set.
inline HandPlan by_hand(Graph graph, const std::string& cluster, const TrainingOptions& training,
                        const std::vector<HandStage>& stages, ScheduleKind schedule = ScheduleKind::OneFOneB) {
  HandPlan made;
  Plan& plan = made.plan;
  plan.training = training;
  plan.cluster = find_cluster(cluster);
  plan.schedule = schedule;
  made.graph = std::move(graph);
  const std::vector<OpId> forward = forward_ops(made.graph);
  int device = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    const Op& op = made.graph.op(forward[i]);
    const std::size_t s = plan.stages.size();
    if (s < stages.size() && (i == 0 || op.name == stages[s].first_op)) {
      const int layer = static_cast<int>(s);
      StagePlan stage{layer, layer, {1, 1}, stages[s].shape, {}, {}, {}, {}};
      for (const int size : stages[s].shape) stage.submesh.devices_per_host *= size;
      for (int d = 0; d < stage.submesh.devices(); ++d) stage.devices.push_back(device++);
      plan.stages.push_back(std::move(stage));
      plan.layer_starts.push_back(static_cast<int>(i));
    }
    add_op(made.graph, op, stages[plan.stages.size() - 1].split, plan.stages.back());
  }
  MW_CHECK(plan.stages.size() == stages.size(), "stage {} begins with an op that is not there", plan.stages.size());
  plan.graph_fingerprint = fingerprint_of(made.graph);
  made.costs = make_analytic_cost_model(plan.cluster);
  made.program = lower(plan, made.graph, *made.costs);
  made.check = check_program(made.program);
  return made;
}

// Under a schedule whose stages have copies the same stages again, on the devices that it gives them.
inline void add_copies(Plan& plan) {
  const std::vector<StagePlan> first = plan.stages;
  for (int copy = 1; copy < traits_of(plan.schedule).copies; ++copy)
    plan.stages.insert(plan.stages.end(), first.begin(), first.end());
  for (std::size_t s = first.size(); s < plan.stages.size(); ++s)
    plan.stages[s].devices = plan.stages[plan.stages.size() - 1 - s].devices;
}

inline HandPlan by_hand(const std::string& model, const std::string& cluster, const TrainingOptions& training,
                        const std::vector<HandStage>& stages, ScheduleKind schedule = ScheduleKind::OneFOneB) {
  const ModelConfig config = find_model(model);
  Graph graph = schedule == ScheduleKind::Inference ? build_forward_graph(config, training)
                                                    : build_training_graph(config, training);
  HandPlan made = by_hand(std::move(graph), cluster, training, stages, schedule);
  made.plan.model = config;
  return made;
}

}  // namespace meshwright
