// SPDX-License-Identifier: Apache-2.0
// What each module of a block makes again in the backward, what is then kept, and that training stays the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/graph/recomputation.h"
#include "core/graph/recompute_modules.h"
#include "executor/check/graph_interpreter.h"
#include "tests/op_case.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::recompute_modules_test {
namespace {

using Names = std::set<std::string>;

// One dense block, then one of four experts and a shared one.
constexpr const char* kLatent =
    "deepseek_v3:layers=2,hidden=16,heads=2,intermediate=32,seq=8,vocab=16,experts=4,top_k=2,dense_layers=1,q_rank=8,"
    "kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4,shared_intermediate=8,expert_intermediate=8";

Graph trained(const std::string& modules, const std::string& model = kLatent) {
  TrainingOptions options{.batch = 2, .microbatches = 1, .dtype = DType::F64};
  options.recompute_modules = recompute_modules_from_name(modules);
  return build_training_graph(find_model(model), options);
}

Names repeated(const Graph& graph) {
  Names names;
  for (const Op& op : graph.ops())
    if (is_recomputation(graph, op)) names.insert(graph.op(*op.forward).name);
  return names;
}

// Of the forward, what the backward reads.
Names kept(const Graph& graph) {
  Names names;
  for (const Op& op : graph.ops())
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (op.phase == Phase::Backward && tensor.producer && graph.op(*tensor.producer).phase == Phase::Forward)
        names.insert(tensor.name);
    }
  return names;
}

// Of no longer kept, and of what is kept beside.
Names without(const Names& some, const Names& others) {
  Names left;
  std::set_difference(some.begin(), some.end(), others.begin(), others.end(), std::inserter(left, left.end()));
  return left;
}
Names dropped_by(const std::string& modules) { return without(kept(trained("none")), kept(trained(modules))); }

TEST(RecomputeModules, NamesAreReadInAnyOrder) {
  EXPECT_EQ(name_of(recompute_modules_from_name("moe_act,core_attn")), "core_attn,moe_act");
  EXPECT_EQ(name_of(recompute_modules_from_name("none")), "none");
  EXPECT_EQ(refusal([] { (void)recompute_modules_from_name("mlp,attn"); }),
            "unknown module 'attn'; expected none, or some of core_attn, layernorm, moe_act, mla_up_proj, mlp, moe and "
            "shared_experts, separated by commas.");
  EXPECT_EQ(refusal([] { (void)recompute_modules_from_name("mlp,mlp"); }),
            "modules 'mlp,mlp': 'mlp' is given twice; give it once.");
}

TEST(RecomputeModules, NothingIsRepeatedWithoutAny) { EXPECT_EQ(repeated(trained("none")), Names()); }

TEST(RecomputeModules, NormsAreRepeatedAndTheirResultsDropped) {
  EXPECT_EQ(repeated(trained("layernorm")), (Names{"blk0.ln1", "blk0.ln2", "blk1.ln1", "blk1.ln2"}));
  EXPECT_EQ(dropped_by("layernorm"), (Names{"blk0.ln1", "blk0.ln2", "blk1.ln1", "blk1.ln2"}));
}

TEST(RecomputeModules, ExpertsRepeatFunctionsAndGatesFromTheirProducts) {
  EXPECT_EQ(repeated(trained("moe_act")), (Names{"blk1.moe.silu", "blk1.moe.gated"}));
  EXPECT_EQ(dropped_by("moe_act"), (Names{"blk1.moe.silu", "blk1.moe.gated"}));
}

TEST(RecomputeModules, QueriesKeysAndValuesAreRepeatedFromTheirLatentVectors) {
  const Names repeats = repeated(trained("mla_up_proj"));
  for (const char* name : {"blk0.attn.q_nope", "blk0.attn.q_rope.rotary", "blk0.attn.q", "blk0.attn.k", "blk1.attn.v"})
    EXPECT_TRUE(repeats.contains(name)) << name;
  for (const char* name : {"blk0.attn.kv_down", "blk0.attn.q_norm", "blk0.attn.core", "blk0.attn.out", "blk0.mlp.up"})
    EXPECT_FALSE(repeats.contains(name)) << name;
  const Names dropped = dropped_by("mla_up_proj");
  EXPECT_TRUE(dropped.contains("blk1.attn.q"));
  EXPECT_FALSE(dropped.contains("blk1.attn.kv_norm"));
}

// What leaves a module of products is kept as before: all but that is dropped.
TEST(RecomputeModules, FeedForwardsOfDenseBlocksAndMixturesAreRepeatedWhole) {
  for (const std::string& name : repeated(trained("mlp"))) EXPECT_TRUE(name.starts_with("blk0.mlp.")) << name;
  EXPECT_EQ(dropped_by("mlp"), (Names{"blk0.mlp.gate", "blk0.mlp.silu", "blk0.mlp.up", "blk0.mlp.gated"}));
  const Names repeats = repeated(trained("moe"));
  for (const std::string& name : repeats) EXPECT_TRUE(name.starts_with("blk1.moe.")) << name;
  for (const char* name : {"router", "dispatch", "down", "combine", "shared.up"})
    EXPECT_TRUE(repeats.contains(std::string("blk1.moe.") + name)) << name;
  EXPECT_FALSE(repeats.contains("blk1.moe.residual"));
  for (const std::string& name : repeated(trained("shared_experts")))
    EXPECT_TRUE(name.starts_with("blk1.moe.shared.")) << name;
}

TEST(RecomputeModules, AttentionIsRepeatedAlone) {
  EXPECT_EQ(repeated(trained("core_attn")), (Names{"blk0.attn.core", "blk1.attn.core"}));
}

TEST(RecomputeModules, OneWithinAnotherIsRepeatedWithThat) {
  EXPECT_EQ(repeated(trained("moe,moe_act,shared_experts")), repeated(trained("moe")));
}

// A module that makes again what another one needs is made again first.
TEST(RecomputeModules, ReadWhatOthersDroppedMadeAgain) {
  const Graph graph = trained("layernorm,mlp");
  for (const Op& op : graph.ops()) {
    if (!is_recomputation(graph, op)) continue;
    for (const TensorId input : op.inputs) EXPECT_NE(graph.tensor(input).name, "blk0.ln2") << op.name;
  }
  EXPECT_FALSE(kept(graph).contains("blk0.ln2"));
}

std::map<std::string, Values> gradients(const Graph& graph) {
  GraphInterpreter interpreter(graph, 3, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  std::map<std::string, Values> found;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Accumulator) found[tensor.name] = interpreter.get(tensor.id);
  return found;
}

// All 127 sets of modules.
TEST(RecomputeModules, ChangeNoGradient) {
  const auto wanted = gradients(trained("none"));
  for (int set = 1; set < 128; ++set) {
    const std::string modules = name_of(static_cast<RecomputeModules>(set));
    EXPECT_EQ(gradients(trained(modules)), wanted) << modules;
  }
}

TEST(RecomputeModules, StandInThePlanFileWhereThereAreAny) {
  PlanRequest request = ask(kLatent, "cpu:1", "pipeshard", 4, std::int64_t{1});
  EXPECT_FALSE(to_json(*planned(request).plan)["training"].contains("recompute_modules"));
  request.search.recompute_modules = RecomputeModules::Norms | RecomputeModules::Mixture;
  const Plan plan = *planned(request).plan;
  Json json = to_json(plan);
  EXPECT_EQ(json["training"]["recompute_modules"], "layernorm,moe");
  EXPECT_EQ(plan_from_json(json, "plan.json").training.recompute_modules, request.search.recompute_modules);
  json["training"]["recompute"] = "full";
  EXPECT_EQ(
      refusal([&] { (void)plan_from_json(json, "plan.json"); }),
      "plan.json: training.recompute_modules: modules are recomputed alone; expected recompute none, and no ranges.");
  request.model = find_model("gpt:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  request.search.recompute_modules = RecomputeModules::Mixture;
  EXPECT_EQ(refusal([&] { (void)planned(request); }),
            "recompute modules 'moe': the blocks of gpt have none of them; expected others of core_attn, layernorm, "
            "moe_act, mla_up_proj, mlp, moe and shared_experts.");
}

TEST(RecomputeModules, APlanOfNoneHasNoKeysForThem) {
  TrainingOptions options;
  EXPECT_EQ(recompute_text(options), "none");
  options.recompute_modules = RecomputeModules::Norms | RecomputeModules::Mixture;
  EXPECT_EQ(recompute_text(options), "layernorm,moe");
}

}  // namespace
}  // namespace meshwright::recompute_modules_test
