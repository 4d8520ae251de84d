// SPDX-License-Identifier: Apache-2.0
// Internal to lower(): decisions made once per program, shared by the files that build stage executables and
// instruction lists.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/plan/lowering/lower.h"
#include "core/plan/lowering/tile_messages.h"
#include "core/plan/plan.h"
#include "core/plan/program/program.h"
#include "core/plan/ranks.h"
#include "core/plan/stage_graph.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

// The stage of every op, and the roles of tensors across stages.
struct StageAssignment {
  std::vector<int> stage_of_op;  // [op] of the first copy, where stages have copies
  int per_copy;                  // stages_per_copy
  StageGraph feeding;
  std::vector<int> rank_of_stage;         // [stage]
  std::vector<BackwardPasses> backwards;  // [stage]
  // The forward tensor whose gradient (or contribution to it) a backward tensor is.
  std::vector<std::optional<TensorId>> gradient_of;  // [tensor]
  // The forward tensor that a recomputed tensor repeats.
  std::vector<std::optional<TensorId>> repeats;   // [tensor]
  std::vector<bool> contributes;                  // [tensor]: to the gradient of its forward tensor, summed with others
  std::vector<std::optional<OpId>> first_reader;  // [tensor]: of parameters, the first forward op
  // Stages that read a tensor in each phase, except those that produce it in the same Run.
  std::vector<std::set<std::pair<int, Phase>>> readers;  // [tensor]
  // For stages with a split backward: ops of its second half, which no other stage waits for.
  std::vector<bool> for_weights;  // [op]
  [[nodiscard]] int stage_of(OpId op) const { return stage_of_op[op.index()]; }
  // The stage that `stage` is a copy of, or itself: what is said of stages below is said of these.
  [[nodiscard]] int original(int stage) const { return stage % per_copy; }
  // The tensor that an op of `stage` reads for the graph's `tensor`: a value recomputed on another stage is not sent
  // again, because the stage kept the original it received.
  [[nodiscard]] TensorId read_as(int stage, TensorId tensor, const Graph& graph) const;
  [[nodiscard]] bool splits(int stage) const { return backwards[static_cast<std::size_t>(stage)].halves; }
  // Whether the halves of a split backward alone keep `tensor`: the whole makes and reads it in one Run.
  [[nodiscard]] bool between_halves(int stage, TensorId tensor, const Graph& graph) const;
  [[nodiscard]] bool on_one_rank(int a, int b) const {
    return rank_of_stage[static_cast<std::size_t>(a)] == rank_of_stage[static_cast<std::size_t>(b)];
  }
};
[[nodiscard]] StageAssignment assign_stages(const Plan& plan, const Graph& graph);

// A tensor that travels between stages, in one phase.
struct Crossing {
  TensorId tensor;
  int from, to;
  Phase phase;  // of the Run that makes it
  BufferId source, destination;
};

// How the squared norm of all gradients, which every update reads, is added up over the stages that read it; not needed
// where one stage does.
struct NormExchange {
  // In all maps: the stages that read it. A stage without gradients of its own has no part.
  std::map<int, BufferId> part;   // (stage): the sum of its own gradients' and later of its children's norms
  std::map<int, BufferId> whole;  // (stage): the sum of all; at the root of the tree its part
  std::map<std::pair<int, TensorId>, BufferId>
      gradients;  // (stage, gradient): in the sharding of the state, for the update
  // Parts up a tree, each added to its parent's, and the sum down again. Those within a rank go first and last.
  std::vector<Crossing> gathered, spread;
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
  std::vector<Crossing> copy_crossings =
      {};                             // once per step, before gradient_crossings: accumulators onto the first copy's
  std::optional<TensorId> norm = {};  // the squared norm that the updates read, if they do
  std::optional<NormExchange> norm_exchange = {};
  std::vector<int> like_mesh = {};  // [stage] the first stage whose mesh is the same
  // What was found once is the same for every tensor of these sizes between the same specs and meshes.
  using Sizes = std::vector<std::int64_t>;
  std::map<std::tuple<int, DType, Sizes, ShardingSpec, ShardingSpec>, Resharding> known_ways = {};  // (like_mesh, ...)
  // Where hosts matter (CrossMesh), of stages; else of stages with like meshes.
  std::map<std::tuple<Sizes, int, ShardingSpec, int, ShardingSpec, bool, CrossMesh>, std::vector<TileMessage>>
      known_messages = {};
  std::map<std::vector<std::int64_t>, std::map<int, std::vector<TileMessage>>> messages_of_copies =
      {};  // (tile, ranks)

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
  // The cheapest way on the stage's mesh, and the messages from mesh to mesh; both stay where they are.
  const Resharding& way(int stage, TensorId tensor, const ShardingSpec& from, const ShardingSpec& to);
  const std::vector<TileMessage>& messages_of(const Crossing& crossing);
  // As the plan has it; Send for what is exchanged once per step.
  [[nodiscard]] CrossMesh form_of(const Crossing& crossing) const;
  // [device of the stage]
  [[nodiscard]] std::vector<int> hosts_of(int stage) const;
  // How the op that makes a tensor leaves output `o` of it, partial sums included.
  [[nodiscard]] ShardingSpec made_as(int stage, const Op& maker, TensorId tensor) const;
};

[[nodiscard]] inline ShardingSpec whole_of(const Tensor& tensor) {
  return {std::vector<AxisMask>(tensor.dims.size(), 0), 0};
}

// Declares every buffer and every crossing; needs program.stages' meshes.
void declare_buffers(LoweringState& state);
// declare_buffers' step for the copies of stages: their own values, weights and accumulators, and what passes between
// them and the first copy.
void declare_copies(LoweringState& state);
// declare_buffers' last step: the norm, and its buffers where several stages read it.
void declare_norm_exchange(LoweringState& state);
// The forward, backward (whole or in halves), sync, norm and update executables of one stage.
void build_executables(LoweringState& state, int stage);
// When the slots of a finished list of ops are used last, and the peak that follows.
void set_lifetimes(StageExecutable& executable);
// Transfers and instruction lists, in place of those of an earlier call. `part`: what is kept of them; null: all.
// The result is PartialProgram::like, of a part.
std::vector<int> build_instructions(LoweringState& state, int microbatches, const KeptPart* part = nullptr);

}  // namespace meshwright
