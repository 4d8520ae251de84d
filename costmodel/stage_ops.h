// SPDX-License-Identifier: Apache-2.0
// The forward ops of a plan's stage, with what a training software splits of them. Internal to costmodel.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "core/graph/graph.h"
#include "core/plan/plan.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

// What the degrees of a Megatron plan say of all its ops. The plan may split op by op otherwise where that is faster; a
// software has one rule for all.
struct PlanRules {
  int tensor_parallel = 1;         // on the mesh's last axis; 1: as each op's sharding says
  bool sequence_parallel = false;  // what tensor parallelism leaves whole is split along the sequence
  std::optional<int> zero = {};    // nullopt: as the parameters' shardings say
};

// REQUIRES: check_plan(plan, graph) is empty; both outlive it.
class StageOps {
 public:
  StageOps(const Plan& plan, const Graph& graph, std::size_t stage);

  struct PlacedOp {
    OpId op;
    Recompute recompute;
    // What is recomputed by itself (Full); of kind None: the rest of the block.
    RecomputedModule module = {};
  };
  [[nodiscard]] const std::vector<PlacedOp>& ops() const { return ops_; }
  [[nodiscard]] const StagePlan& plan() const { return stage_; }
  [[nodiscard]] const LogicalMesh& mesh() const { return mesh_; }
  [[nodiscard]] const PlanRules& rules() const { return rules_; }
  [[nodiscard]] bool is_last() const { return is_last_; }

  // As an op reads its operand.
  [[nodiscard]] double operand_elements(const Op& op, std::size_t operand) const;
  // As a tensor stays on the stage between its maker and its readers, and the same before sequence parallelism splits
  // it.
  [[nodiscard]] double kept_elements(TensorId id) const;
  [[nodiscard]] double gathered_elements(TensorId id) const;

 private:
  [[nodiscard]] AxisMask tensor_bit() const { return static_cast<AxisMask>(1 << (mesh_.rank() - 1)); }
  [[nodiscard]] AxesByName axes_of(const Op& op, const IterationSpace& space) const;
  [[nodiscard]] ShardingSpec kept_as(const Tensor& tensor) const;

  const Graph& graph_;
  const StagePlan& stage_;
  LogicalMesh mesh_;
  PlanRules rules_;
  std::vector<PlacedOp> ops_;
  std::set<TensorId> made_;
  bool is_last_ = false;
};

// [stage].
[[nodiscard]] std::vector<StageOps> stage_ops(const Plan& plan, const Graph& graph);

// A tensor's elements on one device.
[[nodiscard]] double local_elements(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh);

}  // namespace meshwright
