// SPDX-License-Identifier: Apache-2.0
// What a plan says comes back from its launch files, or is refused before they are written: nothing is dropped.
#include <gtest/gtest.h>

#include "launch/read/launch_reading.h"
#include "launch/rules/launch_rules.h"
#include "launch/setup/plan_differences.h"
#include "launch/setup/setup_of_plan.h"
#include "launch/write/write_launch.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::round_trip_test {
namespace {

constexpr const char* kModel = "llama:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128";

// Which file of a target is read.
const std::vector<std::pair<std::string, std::string>> kFiles = {
    {"megatron", "run.sh"},     {"megatron-bridge", "run.sh"}, {"torchtitan", "run.sh"},   {"deepspeed", "run.sh"},
    {"fsdp2", "train.py"},      {"accelerate", "run.sh"},      {"maxtext", "plan.yml"},    {"flagscale", "plan.yaml"},
    {"nnscaler", "train.yaml"}, {"alpa", "alpa_plan.py"},      {"jax", "sharding_plan.py"}};

// 32 samples in 4 micro-batches on 8 devices.
PlanningResult made_for(const std::string& target, const Optimizer& optimizer,
                        RecomputeModules modules = RecomputeModules::None) {
  PlanRequest request =
      ask(kModel, "p3.16xlarge:1",
          target == "jax" || target == "alpa" ? "shard"
          : target == "maxtext" || target == "torchtitan" || target == "fsdp2" || target == "accelerate"
              ? "zero3"
              : "megatron:tp=2,pp=1,zero=1,exact=1",
          32, std::int64_t{1});
  request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
  request.training.dtype = target == "megatron-bridge" || target == "deepspeed" ? DType::F16 : DType::F32;
  request.training.optimizer = optimizer;
  request.search.recompute_modules = modules;
  PlanningResult made = planned(request);
  require(made.plan.has_value(), "{}", made.reason);
  return made;
}

LaunchReading read_back(const PlanningResult& made, const LaunchSetup& setup, const std::string& target,
                        const std::string& name) {
  const std::vector<LaunchFile> files =
      launch_files({find_launch_target(target), setup, {}, *made.plan, made.graph, Launcher::Torchrun});
  const auto text_of = [&](const std::string& of) -> std::optional<std::string> {
    for (const LaunchFile& file : files)
      if (file.name == of || file.name.ends_with("/" + of)) return file.text;
    return std::nullopt;
  };
  LaunchInput input{.files = {{name, text_of(name).value()}}};
  input.beside = text_of;
  return read_launch(read_launch_text(input), {1, 8}, {.model = find_builtin_model(kModel), .batch = 32});
}

void expect_same(const Optimizer& found, const Optimizer& wanted, const std::string& target) {
  EXPECT_EQ(found.kind, wanted.kind) << target;
  EXPECT_EQ(found.learning_rate, wanted.learning_rate) << target;
  EXPECT_EQ(found.momentum, wanted.momentum) << target;
  EXPECT_EQ(found.weight_decay, wanted.weight_decay) << target;
  EXPECT_EQ(found.max_norm, wanted.max_norm) << target;
  EXPECT_EQ(found.loss_scale, wanted.loss_scale) << target;
}

TEST(RoundTrips, EveryTargetSaysTheOptimizerOrRefusesIt) {
  using enum Optimizer::Kind;
  int told = 0;
  for (const auto& [target, name] : kFiles)
    for (const Optimizer& optimizer :
         {Optimizer{.kind = Adam, .learning_rate = 3e-4, .weight_decay = 0.1, .max_norm = 1.0},
          Optimizer{.kind = Sgd, .learning_rate = 3e-4},
          Optimizer{.kind = Momentum, .learning_rate = 3e-4, .momentum = 0.95},
          Optimizer{.kind = Adam, .learning_rate = 3e-4, .max_norm = 1.0, .loss_scale = 65536.0}}) {
      const PlanningResult made = made_for(target, optimizer);
      const LaunchSetup setup = setup_of(*made.plan, made.graph, find_launch_target(target));
      if (!broken_launch_rules(setup).empty()) continue;
      ++told;
      expect_same(read_back(made, setup, target, name).setup.optimizer, optimizer, target);
    }
  // Adam for all of the 11; SGD with and without momentum for all but torchtitan and MaxText, and without for that; a
  // scale for two.
  EXPECT_EQ(told, 11 + 2 * 9 + 1 + 2);
}

TEST(RoundTrips, EveryTargetSaysTheModulesOrRefusesThem) {
  const RecomputeModules modules = RecomputeModules::Norms | RecomputeModules::FeedForward;
  std::vector<std::string> told;
  for (const auto& [target, name] : kFiles) {
    const PlanningResult made = made_for(target, {}, modules);
    std::optional<LaunchSetup> setup;
    const std::string why =
        refusal([&, &to = target] { setup = setup_of(*made.plan, made.graph, find_launch_target(to)); });
    if (!setup) {
      EXPECT_NE(why.find("recomputes some layers otherwise than others"), std::string::npos) << why;
    }
    if (!setup || !broken_launch_rules(*setup).empty()) continue;
    told.push_back(target);
    EXPECT_EQ(read_back(made, *setup, target, name).setup.degrees.recompute_modules, modules) << target;
  }
  EXPECT_EQ(told, (std::vector<std::string>{"megatron", "megatron-bridge", "flagscale", "jax"}));
}

// Of two ranks of tp each has whole experts, or a half of all.
TEST(RoundTrips, FlagScaleSaysThatExpertsAreWhole) {
  const std::string mixture =
      "mixtral:layers=2,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128,experts=8,top_k=2";
  for (const bool whole : {false, true}) {
    PlanRequest request =
        ask(mixture, "p3.16xlarge:1",
            fmt::format("megatron:tp=2,pp=1,ep=4,sp=1,zero=1,exact=1{}", whole ? ",etp=1" : ""), 32, std::int64_t{1});
    request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
    request.training.dtype = DType::F16;
    const PlanningResult made = planned(request);
    ASSERT_TRUE(made.plan.has_value()) << made.reason;
    const LaunchSetup setup = setup_of(*made.plan, made.graph, find_launch_target("flagscale"));
    EXPECT_EQ(read_back(made, setup, "flagscale", "plan.yaml").setup.degrees.whole_experts, whole);
  }
}

TEST(RoundTrips, ALossThatIsNoMeanIsRefused) {
  PlanningResult made = made_for("megatron", {});
  made.plan->training.loss = LossReduction::Sum;
  const std::string why = refusal([&] { (void)setup_of(*made.plan, made.graph, find_launch_target("megatron")); });
  EXPECT_NE(why.find("the plan's loss is the sum of the samples'"), std::string::npos) << why;
}

// accelerate's file names no version of FSDP where nothing is split: its costs are the release's, as in the plan.
TEST(RoundTrips, WholeReplicasOfAccelerateAreOfNoOlderRelease) {
  const auto software = [](const std::string& type) {
    return read_launch(read_launch_text({.files = {{"a.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: " +
                                                                  type + "\nmixed_precision: bf16\n"}}}),
                       {1, 8}, {.model = find_builtin_model(kModel), .batch = 32})
        .software;
  };
  EXPECT_EQ(software("MULTI_GPU"), "fsdp2");
  EXPECT_EQ(software("FSDP"), "fsdp");
}

TEST(PlanDifferences, NameTheFirstDecisionOfEachKindInAStage) {
  const Plan plan = *made_for("megatron", {}).plan;
  EXPECT_EQ(plan_differences(plan, plan, "X"), std::vector<std::string>{});
  Plan other = plan;
  other.stages[0].ops.at("blk0.mlp.up").result = replicated(3);
  other.stages[0].ops.at("blk1.mlp.up").result = replicated(3);
  other.stages[0].cross_mesh[3] = CrossMesh::Gather;
  const std::vector<std::string> found = plan_differences(other, plan, "X");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].find("stage 0 has the operator blk0.mlp.up as RRR"), std::string::npos) << found[0];
  EXPECT_NE(found[0].find("(the first of 2)"), std::string::npos) << found[0];
  EXPECT_EQ(found[1], "stage 0 has messages from stage 3 as gather, and the job of X as usual");
}

// One stage under GPipe keeps what all micro-batches leave, and frameworks accumulate gradients one by one.
TEST(PlanDifferences, SayThatOneStageRunsMicroBatchesOneByOne) {
  PlanRequest request = ask(kModel, "p3.16xlarge:1", "zero1", 32, std::int64_t{2});
  request.search.schedule = ScheduleKind::GPipe;
  const PlanningResult made = planned(request);
  const LaunchSetup setup = setup_of(*made.plan, made.graph, find_launch_target("maxtext"));
  EXPECT_EQ(setup.degrees.schedule, ScheduleKind::OneFOneB);
  Plan launched = *made.plan;
  launched.schedule = setup.degrees.schedule;
  EXPECT_EQ(plan_differences(*made.plan, launched, "MaxText"),
            std::vector<std::string>{"the plan has schedule gpipe, and the job of MaxText runs 1f1b"});
}

TEST(RoundTrips, OneStageWithBackwardsInHalvesIsRefused) {
  PlanningResult made = made_for("torchtitan", {.kind = Optimizer::Kind::Adam});
  made.plan->schedule = ScheduleKind::ZeroBubbleH1;
  const LaunchSetup setup = setup_of(*made.plan, made.graph, find_launch_target("torchtitan"));
  EXPECT_EQ(broken_launch_rules(setup),
            std::vector<std::string>{"torchtitan 0.2.2 runs whole backwards where there is one stage, and the plan has "
                                     "schedule zb-h1"});
}

TEST(RoundTrips, StagesOfTheSameDegreesAreOneSetOfThem) {
  LaunchSetup setup;
  setup.devices_per_host = 8;
  setup.degrees = {.dp = 2, .tp = 2, .pp = 2, .zero = 1};
  setup.stages = {{.blocks = 3, .dp = 2, .tp = 2}, {.blocks = 1, .dp = 2, .tp = 2, .recompute = Recompute::Full}};
  LaunchSetup other = setup;
  join_stages(setup);
  EXPECT_TRUE(setup.stages.empty());
  EXPECT_EQ(setup.stage_blocks, (std::vector<int>{3, 1}));
  EXPECT_EQ(to_text(setup.recompute_layers), "3:full");
  other.stages[1].tp = 4;
  other.stages[1].dp = 1;
  join_stages(other);
  EXPECT_EQ(other.stages.size(), 2U);
}

LaunchReading maxtext(const std::string& keys) {
  return read_launch(
      read_launch_text(
          {.files = {{"m.yml",
                      "base_config: base.yml\nbase_emb_dim: 64\nbase_num_query_heads: 4\nbase_num_kv_heads: 4\n"
                      "base_num_decoder_layers: 4\nbase_mlp_dim: 128\nhead_dim: 16\nmax_target_length: 32\n"
                      "per_device_batch_size: 4\n" +
                          keys}}}),
      {1, 8}, {});
}

TEST(ReadMaxtext, OneStageRunsMicroBatchesOneByOneAndSeveralAsTheirRepeatsSay) {
  EXPECT_EQ(maxtext("gradient_accumulation_steps: 2\n").setup.degrees.schedule, ScheduleKind::OneFOneB);
  const std::string stages = "ici_pipeline_parallelism: 2\nici_fsdp_parallelism: 4\n";
  EXPECT_EQ(maxtext(stages + "num_layers_per_pipeline_stage: 2\n").setup.degrees.schedule, ScheduleKind::GPipe);
  const LaunchReading circular = maxtext(stages + "num_layers_per_pipeline_stage: 1\n");
  EXPECT_EQ(circular.setup.degrees.schedule, ScheduleKind::Interleaved);
  EXPECT_EQ(circular.setup.degrees.chunks, 2);
}

}  // namespace
}  // namespace meshwright::round_trip_test
