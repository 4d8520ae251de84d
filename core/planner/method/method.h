// SPDX-License-Identifier: Apache-2.0
// Parallel methods: constraints on the one search, never separate code paths.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/intra_op/layer_model.h"
#include "core/planner/method/framework.h"

namespace meshwright {

// The axes that Megatron-LM splits over tensor-parallel ranks (M. Shoeybi et al., 2019): of an op, the first that it
// has and that divides.
inline constexpr std::array kTensorParallelAxes = {"kv_heads", "heads", "mlp", "vocab", "group"};

struct Method {
  enum class Kind {
    Pipeshard,  // no constraints
    Shard,      // one stage
    Data,       // one stage, every op split along "batch" only; weights and optimizer state whole
    Zero1,      // Data, optimizer state split, with padding where its dimensions do not divide
    Zero2,      // Zero1, gradients reduce-scattered in every microbatch and accumulated split
    Zero3,      // Zero2, weights split too (FSDP)
    Megatron,   // degrees given: logical mesh (dp, ep, cp, tp) without those of 1 (but dp and tp); batch on dp and ep,
                // experts on ep, seq on cp; on tp anything but batch, and seq only when sp=1
    Expert,     // one stage, mesh (dp, ep): batch on both axes, an op with an expert axis splits it over ep
    Context,    // one stage, mesh (dp, cp): batch on dp, seq on cp
    Largest,    // one stage: every op splits the largest dimension of its result, every parameter is sharded; the fixed
                // rule that Alpa compares its search with
    Rules,      // one stage: each named axis is split over its mesh axis wherever it divides, nothing else is split
    Specs,      // one stage, some tensors' specs given
    Manual,     // stages given: layers, submeshes, logical shapes
  } kind = Kind::Pipeshard;
  int dp = 0, tp = 1, pp = 1, ep = 1, cp = 1;  // dp = 0: what is left
  int chunks = 1;                              // Megatron: vpp=V, stages of each pipeline rank
  // Megatron: first=F and last=L, blocks of the first and the last pipeline rank, or layout=Et*3|...|t*3L. The model is
  // cut along its blocks, with layers of their own for what comes before and after them.
  StageSplit split = {};
  // Zero1 to Zero3: shard=N splits within groups of N neighbouring devices, and the groups have copies of one another
  // (hybrid sharding, HSDP): logical mesh (copies, N); nullopt: over all devices.
  std::optional<int> shard = {};
  bool sequence_parallel = false;  // Megatron: sp=1
  // Megatron: how far optimizer state (1), gradients (2) and weights (3) are split over the data-parallel axis, as by
  // Zero1 to Zero3; nullopt: as the search likes.
  std::optional<int> zero = {};
  // Megatron: exact=1, tp splits what Megatron-LM splits over it and nothing else: heads, the feed-forward's width,
  // the vocabulary, and with sp=1 the sequence where there is none of these.
  bool exact = false;
  // Megatron: etp=1 with exact=1, experts are whole and those of an ep group lie on its tp ranks, too; nullopt, etp=tp:
  // each expert is split over tp.
  std::optional<int> etp = {};
  ContextExchange context = ContextExchange::AllGather;  // Megatron, Context: cp-comm=
  // Megatron: fold=1 with exact=1, experts of an ep group lie on its cp ranks, too, which have different ones.
  bool folded = false;
  // The cp and tp ranks that have experts of their own.
  [[nodiscard]] int folded_ranks() const { return (etp == 1 ? tp : 1) * (folded ? cp : 1); }
  // Ranks of the mesh's expert axis.
  [[nodiscard]] int expert_axis() const { return ep / folded_ranks(); }
  struct ManualStage {
    int first_layer, last_layer;
    Submesh submesh;
    std::vector<int> logical_shape;
    std::optional<int> batch_axis = {};  // see hold_batch_to_axis; nullopt: the search chooses the batch's sharding
  };
  std::vector<ManualStage> stages;                 // Manual
  std::vector<std::pair<std::string, int>> rules;  // Rules: (axis name, mesh axis), earlier ones first
  ForcedSpecs forced;                              // Specs
  std::string text = "pipeshard";                  // as the user wrote it

  // Every device in one stage.
  [[nodiscard]] bool one_stage() const {
    return kind != Kind::Pipeshard && kind != Kind::Megatron && kind != Kind::Manual;
  }
};

// "pipeshard", "shard", "largest", "data", "zero1", "zero2", "zero3" or "fsdp", the last four also as "zero3:shard=8",
// "megatron:tp=8,pp=4[,vpp=,first=,last=,layout=,dp=,ep=,cp=,cp-comm=,sp=1,zero=0..3,exact=1,etp=,fold=1]",
// "expert:ep=8", "context:cp=4[,cp-comm=p2p]", "rules:batch=0,heads=1,mlp=1", "specs:FILE" (JSON: {"tensor": "S0R",
// ...}), "manual:FILE" (JSON: {"stages":
// [{"layers": [0, 3], "submesh": [1, 4], "logical_shape": [1, 4][, "batch_axis": 0]}, ...]}; a submesh of hosts of
// group g is [1, 4, g]). Throws InputError.
[[nodiscard]] Method method_from_text(const std::string& text);
// "tensor=S0R" into `forced`; throws InputError for another form or a tensor given twice.
void add_forced(ForcedSpecs& forced, const std::string& text);

// Throws InputError unless every forced name is a tensor whose sharding is a decision (results, parameters and
// optimizer state), with as many dimensions as its spec, which leaves no partial sum.
void check_forced(const Graph& graph, const ForcedSpecs& forced);

// The degrees of a megatron method on so many devices; what it does not say is as Degrees has it. Throws InputError
// where they do not divide. REQUIRES: Megatron.
[[nodiscard]] Degrees degrees_of(const Method& method, int devices);

// The constraints of a method on a logical mesh of this shape.
[[nodiscard]] IntraOpRules rules_of(const Method& method, const std::vector<int>& shape);
// Adds a constraint: mesh axis `axis` splits the batch and nothing else.
void force_batch_axis(IntraOpRules& rules, int axis);
// Adds a constraint: batches are split over mesh axis `axis` and over no other, or not at all if it has one device. An
// op whose batch it does not divide has no sharding. Alpa's force_batch_dim_to_mesh_dim (tensorflow-alpa,
// auto_sharding_util.h, FilterStrategy). REQUIRES: 0 <= axis < shape.size().
void hold_batch_to_axis(IntraOpRules& rules, const std::vector<int>& shape, int axis);

// Throws InputError when the method names an axis (those of its rules, `expert` with ep above 1, `seq` with cp above 1)
// that no forward op of the model has and can split: all devices of that axis would do the same work. And where cp does
// not divide a sequence, or with cp-comm=a2a, and tp, the heads of an attention.
void check_axes(const Method& method, const Graph& graph);

// The logical mesh of one of a method's stages of `devices` devices; nullopt: the method leaves it open. Throws
// InputError when the degrees do not divide the devices.
[[nodiscard]] std::optional<std::vector<int>> logical_shape_of(const Method& method, int devices,
                                                               const std::string& cluster);

}  // namespace meshwright
