// SPDX-License-Identifier: Apache-2.0
// Inside of lower(): what is decided once per program, shared by the files that build stage executables and instruction
// lists.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/program.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

// Where a layer cut puts every op, and what tensors mean across stages.
struct StageAssignment {
  std::vector<int> stage_of_op;  // [op]
  // The forward tensor whose gradient (or contribution to it) a backward tensor is.
  std::vector<std::optional<TensorId>> gradient_of;  // [tensor]
  // The forward tensor that a recomputed tensor repeats.
  std::vector<std::optional<TensorId>> repeats;   // [tensor]
  std::vector<bool> contributes;                  // [tensor]: to the gradient of its forward tensor, summed with others
  std::vector<std::optional<OpId>> first_reader;  // [tensor]: of parameters, the first forward op
  // Stages that read a tensor in each phase, other than those that make it in the same Run.
  std::vector<std::set<std::pair<int, Phase>>> readers;  // [tensor]
  [[nodiscard]] int stage_of(OpId op) const { return stage_of_op[op.index()]; }
  // What an op of `stage` reads when the graph says `tensor`: a value recomputed on another stage is not sent again,
  // the stage kept the original it received.
  [[nodiscard]] TensorId read_as(int stage, TensorId tensor, const Graph& graph) const;
};
[[nodiscard]] StageAssignment assign_stages(const Plan& plan, const Graph& graph);

// A tensor that travels between stages, in one phase.
struct Crossing {
  TensorId tensor;
  int from, to;
  Phase phase;  // of the Run that makes it
  BufferId source, destination;
};

// Collects buffers and executables of all stages.
struct LoweringState {
  const Plan& plan;
  const Graph& graph;
  const CostModel& costs;
  const StageAssignment& stages;
  Program program;
  std::vector<Crossing> crossings;  // per microbatch
  std::vector<Crossing>
      gradient_crossings;                  // once per step: summed accumulators to the stage that updates the parameter
  std::vector<Crossing> weight_crossings;  // once per step: updated weights to the stages that read a copy
  std::map<std::pair<int, TensorId>, BufferId>
      values;  // (stage, tensor): saved, received or sent values, accumulators, state
  std::map<std::tuple<int, TensorId, ShardingSpec>, BufferId> weights;  // (stage, parameter, spec)

  [[nodiscard]] const StagePlan& stage_plan(int stage) const { return plan.stages[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] const LogicalMesh& mesh(int stage) const {
    return program.stages[static_cast<std::size_t>(stage)].mesh;
  }
  BufferId add_buffer(int stage, TensorId tensor, const ShardingSpec& spec, bool persistent, const std::string& name);
  [[nodiscard]] LocalTensor local(int stage, TensorId tensor, const ShardingSpec& spec) const;

  // How a forward tensor (or its recomputation) is handed out on the stage that makes it; nullptr: as it is kept.
  [[nodiscard]] const FanOut* fan_out(int stage, TensorId tensor) const;
  // How a forward or backward tensor is kept on a stage that makes or receives it.
  [[nodiscard]] ShardingSpec kept_as(int stage, TensorId tensor) const;
  // Mesh axes by iteration axis name for a forward op or anything derived from it.
  [[nodiscard]] const AxesByName& axes(int stage, const Op& op) const;
  // Mesh axes over which `op` works on partial sums: as decided for a forward op and its recomputation, none for
  // others.
  [[nodiscard]] AxisMask partial_sums(int stage, const Op& op) const;
  [[nodiscard]] const ParameterSharding& parameter_sharding(const Op& reader, TensorId parameter) const;
  [[nodiscard]] bool is_parameter_gradient(TensorId tensor) const;
};

// Declares every buffer and every crossing; needs program.stages' meshes.
void declare_buffers(LoweringState& state);
// The forward, backward, sync and update executables of one stage.
void build_executables(LoweringState& state, int stage);
// Transfers and instruction lists.
void build_instructions(LoweringState& state);

// Tile copies that move a tensor kept as `source_spec` on one mesh to `destination_spec` on another. Each destination
// tile is assembled from the source tiles it meets; of replicas, destination rank r takes number r modulo their count.
struct TileCopy {
  int source_rank, destination_rank;
  std::vector<std::int64_t> source_offset, destination_offset, extent;
};
[[nodiscard]] std::vector<TileCopy> tile_copies(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                                const LogicalMesh& source, const ShardingSpec& destination_spec,
                                                const LogicalMesh& destination);

}  // namespace meshwright
