// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/setup_of_plan.h"

#include <gtest/gtest.h>

#include "launch/rules/launch_rules.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {
namespace setup_of_plan_test {

constexpr const char* kModel = "llama:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128";
constexpr const char* kMixture =
    "mixtral:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2";

LaunchSetup setup_for(const std::string& target, const PlanningResult& made) {
  return setup_of(*made.plan, made.graph, find_launch_target(target));
}

// The plan of the degrees, as if it did not say so: they have to follow from its stages.
PlanningResult unnamed(const std::string& method, const std::string& model = kModel) {
  PlanRequest request = ask(model, "p3.16xlarge:1", method, 32, std::int64_t{4});
  request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
  PlanningResult made = planned(request);
  made.plan->method = "pipeshard";
  return made;
}

TEST(SetupOfPlan, ReadsDegreesFromTheStages) {
  for (const std::string method : {"megatron:tp=2,pp=2,zero=1,exact=1", "megatron:tp=4,pp=1,sp=1,zero=0,exact=1",
                                   "megatron:tp=1,pp=4,zero=1,exact=1", "megatron:tp=2,pp=1,sp=1,zero=1,exact=1",
                                   "megatron:tp=1,pp=2,cp=2,zero=1,exact=1", "megatron:tp=1,pp=1,zero=2,exact=1",
                                   "megatron:tp=2,pp=1,zero=3,exact=1"}) {
    const PlanningResult made = unnamed(method);
    Degrees told = degrees_of(method_from_text(method), 8);
    const Degrees found = setup_for(told.zero <= 1 ? "megatron" : "deepspeed", made).degrees;
    told.micro_batches = 4;
    told.micro_batch = 32 / 4 / told.dp;
    EXPECT_EQ(method_text(found), method_text(told)) << method;
    EXPECT_EQ(found.micro_batch, told.micro_batch);
  }
}

TEST(SetupOfPlan, ReadsTheStatesThatAMethodLeavesOpenFromTheStages) {
  const auto zero = [](const std::string& method) {
    PlanRequest request = ask(kModel, "p3.16xlarge:1", method, 32, std::int64_t{4});
    request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
    return setup_for("megatron", planned(request)).degrees.zero;
  };
  EXPECT_EQ(zero("megatron:tp=1,pp=2,exact=1"), 1);  // the search splits them, which costs nothing
  EXPECT_EQ(zero("megatron:tp=1,pp=2,zero=0,exact=1"), 0);
}

TEST(SetupOfPlan, ReadsTheStatesOfATiedEmbeddingFromItsFirstStage) {
  const PlanningResult made =
      unnamed("megatron:tp=2,pp=2,sp=1,zero=1,exact=1", "gpt:layers=8,hidden=64,heads=4,seq=64,vocab=256");
  EXPECT_EQ(setup_for("megatron", made).degrees.zero, 1);
  EXPECT_EQ(setup_for("flagscale", made).stages.size(), 2U);
}

TEST(SetupOfPlan, ReadsExpertParallelismFromTheStages) {
  for (const std::string method :
       {"megatron:tp=1,pp=1,ep=4,zero=1,exact=1", "megatron:tp=2,pp=1,ep=2,zero=1,exact=1"}) {
    const PlanningResult made = unnamed(method, kMixture);
    EXPECT_EQ(method_text(setup_for("megatron", made).degrees), method_text(degrees_of(method_from_text(method), 8)));
  }
}

TEST(SetupOfPlan, CountsTheBlocksOfEveryStage) {
  PlanRequest request = ask("llama:layers=10,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128",
                            "p3.16xlarge:1", "megatron:tp=2,pp=4,exact=1,zero=0", 32, std::int64_t{4});
  request.search.layer_cut.cut = LayerOptions::Cut::BlocksApart;
  EXPECT_EQ(setup_for("megatron", planned(request)).stage_blocks, (std::vector<int>{2, 3, 3, 2}));
}

TEST(SetupOfPlan, NamesTheStageAndWhatOneSetOfDegreesCannotSay) {
  PlanRequest request = ask(kModel, "p3.16xlarge:1", "megatron:tp=2,pp=2,zero=0,exact=1", 32, std::int64_t{4});
  PlanningResult made = planned(request);
  made.plan->method = "pipeshard";
  made.plan->stages[1].ops.begin()->second.axes = {};
  const std::string refused = refusal([&] { return setup_for("megatron", made); });
  EXPECT_NE(refused.find("megatron: stage 1 does not split"), std::string::npos) << refused;
  EXPECT_NE(refused.find("--nearest"), std::string::npos) << refused;
}

TEST(SetupOfPlan, TakesEveryPlanThatWasFoundForTheTarget) {
  for (const LaunchTarget& target : launch_targets()) {
    if (target.framework.empty() || find_framework(target.framework).own_meshes) continue;
    const Framework framework = framework_of(target);
    PlanRequest request = ask(framework.experts ? kMixture : kModel, "p3.16xlarge:1", "pipeshard", 32, std::int64_t{4});
    request.search.schedule = Auto{};
    request.search.recompute = Auto{};
    request.search.launch_for = &framework;
    if (target.name == "megatron-bridge") request.training.dtype = DType::F16;  // its precisions are mixed ones
    const PlanningResult made = planned(request);
    ASSERT_TRUE(made.plan) << target.name;
    EXPECT_EQ(broken_launch_rules(setup_for(target.name, made)), std::vector<std::string>{}) << target.name;
  }
}

constexpr const char* kFurther =
    "deepseek_v3:layers=4,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2,dense_layers=1,"
    "q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16,mtp=1";

TEST(SetupOfPlan, PutsModulesForFurtherTokensWhereTheFrameworkHasThem) {
  PlanRequest request =
      ask(kFurther, "p3.16xlarge:1", "megatron:tp=2,pp=2,layout=Et*3|tmL,sp=1,zero=1,exact=1", 32, std::int64_t{4});
  const PlanningResult beside = planned(request);
  const LaunchSetup setup = setup_for("megatron", beside);
  EXPECT_EQ(setup.stage_blocks, (std::vector<int>{3, 1}));
  EXPECT_FALSE(setup.further_stage);
  EXPECT_EQ(setup.degrees.split.layout, "Et*3|tmL");
  EXPECT_TRUE(broken_launch_rules(setup).empty()) << broken_launch_rules(setup).front();
  request.search.method = method_from_text("megatron:tp=2,pp=4,layout=Et*2|t*2|m|L,sp=1,zero=1,exact=1");
  const LaunchSetup apart = setup_for("megatron", planned(request));
  EXPECT_EQ(apart.stage_blocks, (std::vector<int>{2, 2, 0, 0}));
  EXPECT_EQ(apart.further_stage, 2);
  EXPECT_EQ(apart.degrees.split.layout, "Et*2|t*2|m|L");
  // Others have none, and say so.
  EXPECT_NE(refusal([&] { expect_model_told("torchtitan", beside.plan->model); }).find("predict further tokens"),
            std::string::npos);
}

TEST(SetupOfPlan, FrameworksWithoutModulesForFurtherTokensRefuseToPlanThem) {
  for (const char* name : {"torchtitan", "deepspeed", "fsdp"}) {
    const Framework& framework = find_framework(name);
    PlanRequest request = ask(kFurther, "p3.16xlarge:1", "pipeshard", 32, std::int64_t{4});
    request.search.launch_for = &framework;
    EXPECT_EQ(refusal([&] { (void)planned(request); }).find(std::string(name) + " has no modules that predict further"),
              0U)
        << name;
  }
  for (const char* name : {"megatron", "maxtext"}) {
    const Framework& framework = find_framework(name);
    PlanRequest request = ask(kFurther, "p3.16xlarge:1", "pipeshard", 32, std::int64_t{4});
    request.search.schedule = Auto{};
    request.search.launch_for = &framework;
    const PlanningResult made = planned(request);
    ASSERT_TRUE(made.plan) << name;
    EXPECT_EQ(broken_launch_rules(setup_for(name, made)), std::vector<std::string>{}) << name;
  }
}

}  // namespace setup_of_plan_test
}  // namespace meshwright
