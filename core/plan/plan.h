// SPDX-License-Identifier: Apache-2.0
// The Plan: which layers form which stage, where each stage runs, and how every op and tensor is split there; with its
// versioned JSON format ("meshwright-plan", version kPlanVersion) and an independent check.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/models.h"
#include "core/mesh/submesh.h"
#include "core/plan/cross_mesh.h"
#include "core/schedule/schedule.h"
#include "core/sharding/sharding_spec.h"

namespace meshwright {

// How one forward op is split: mesh axes per iteration axis, and the spec its result is kept in (after any partial sum
// is resolved). The op's backward ops and recomputed copies iterate over the same names and are split the same way.
struct OpSharding {
  std::map<std::string, AxisMask> axes;  // iteration axis name -> mesh axes; absent: not split
  ShardingSpec result;                   // of the first output
  // Over these mesh axes the op reads its linear operands, and produces its result, as partial sums: an all-reduce is
  // deferred until after the op. A result that stays on the stage may be kept as these partial sums.
  AxisMask partial = 0;
  bool operator==(const OpSharding&) const = default;
};

// `weight`: the sharding of the parameter between uses; `state`: the sharding of its optimizer state (and of its
// update). Both may be padded (core/sharding/sharding_spec.h); everything else of a plan is split evenly. Its gradient
// is accumulated over the microbatches in the sharding that the backward op produces, partial sums included, and
// synchronised once per step; or, if `eager`, synchronised in every microbatch and accumulated in the sharding of the
// state (ZeRO-2: more traffic, a smaller accumulator).
struct ParameterSharding {
  ShardingSpec weight, state;
  bool eager = false;
  auto operator<=>(const ParameterSharding&) const = default;
};

// How a tensor reaches several readers on its stage: it is resharded once from its stored sharding to `copy`, and from
// there for each reader that needs another. The readers' contributions to its gradient are summed as `gradient` (split
// like `copy`, perhaps with partial sums) and then resharded to the stored sharding. Without an entry both are the
// stored sharding.
struct FanOut {
  ShardingSpec copy, gradient;
  auto operator<=>(const FanOut&) const = default;
};

struct StagePlan {
  int first_layer, last_layer;
  Submesh submesh;
  std::vector<int> logical_shape;
  std::vector<int> devices;                             // cluster device numbers (host-major), row-major over the mesh
  std::map<std::string, OpSharding> ops;                // by forward op name
  std::map<std::string, ParameterSharding> parameters;  // by "<forward op that reads it>/<parameter>"
  std::map<std::string, ShardingSpec> inputs;           // forward tensors received from other stages, by tensor name
  std::map<std::string, FanOut> fan_outs = {};          // by the name of a tensor made on this stage
  // By the number of another stage: how what it sends to this one in a micro-batch, results of its forwards or of its
  // backwards, gets here. Without an entry, and between stages of one rank: CrossMesh::Send.
  std::map<int, CrossMesh> cross_mesh = {};
  ContextAxes contexts = {};
  // What the planner expected; checked against the lowered Program, shown to people.
  Seconds forward{0.0}, backward{0.0}, update{0.0};
  Bytes peak_memory{0.0};
};

[[nodiscard]] inline LogicalMesh mesh_of(const StagePlan& stage, const Cluster& cluster) {
  LogicalMesh mesh = make_logical_mesh(cluster, stage.submesh, stage.logical_shape);
  mesh.contexts = stage.contexts;
  return mesh;
}

struct PlanPrediction {
  Seconds step_time{0.0};    // simulated
  Seconds lower_bound{0.0};  // no plan of the same request can be faster, whatever its layers; see docs/search.md
  Bytes peak_memory{0.0};    // largest over devices
};

struct Plan {
  static constexpr int kVersion = 1;
  ModelConfig model;
  TrainingOptions training;
  Cluster cluster;
  std::string method;
  std::string software = {};  // whose way to spend time the costs are of; "": none in particular
  // How the step that the search minimised is run, as in `predicted`: options of `simulate` without their dashes, with
  // their values ("overlap": "", "network": "fluid"); empty: the plain step.
  std::map<std::string, std::string> conditions = {};
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  std::vector<int> layer_starts;  // position in forward_ops() of each layer's first op
  std::vector<StagePlan> stages;  // all layers in their order; under schedules with copies (traits_of) once for each
  PlanPrediction predicted;
  std::string graph_fingerprint;      // fingerprint_of(graph)
  std::optional<Schedule> runs = {};  // of a Custom schedule: what each rank runs; of no other
};

// The number of stages that hold all layers once: all of them where the schedule has one copy. A later stage s is a
// copy of stage s mod this: it has the same layers, split in the same way over a mesh of the same shape, and weights
// and accumulators of its own. The states of the optimizer, and so the updates, are the first copy's: at the end of a
// step it adds the gradients of the others to its own, and sends them the new weights.
[[nodiscard]] inline int stages_per_copy(const Plan& plan) {
  return static_cast<int>(plan.stages.size()) / traits_of(plan.schedule).copies;
}

[[nodiscard]] Json to_json(const Plan& plan);
// Throws InputError for another format, a newer version, missing or mistyped members.
[[nodiscard]] Plan plan_from_json(const Json& json, const std::string& place);

// All errors of the plan for its own graph and cluster, as sentences: layer ranges, device counts, meshes, specs that
// do not divide, unknown op names, a graph whose fingerprint differs from the recorded one. Empty: the plan is valid.
[[nodiscard]] std::vector<std::string> check_plan(const Plan& plan, const Graph& graph);
// The same for many plans of one graph. REQUIRES: fingerprint = fingerprint_of(graph).
[[nodiscard]] std::vector<std::string> check_plan(const Plan& plan, const Graph& graph, const std::string& fingerprint);

// What `schedule` runs of a model: the forward ops alone to serve it, a whole step to train it. Throws InputError as
// build_training_graph.
[[nodiscard]] inline Graph build_step_graph(const ModelConfig& model, const TrainingOptions& training,
                                            ScheduleKind schedule) {
  return schedule == ScheduleKind::Inference ? build_forward_graph(model, training)
                                             : build_training_graph(model, training);
}

}  // namespace meshwright
