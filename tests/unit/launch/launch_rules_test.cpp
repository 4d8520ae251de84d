// SPDX-License-Identifier: Apache-2.0
#include "launch/rules/launch_rules.h"

#include <gtest/gtest.h>

#include "core/graph/import/find_model.h"
#include "launch/setup/decoder.h"

namespace meshwright {
namespace launch_rules_test {

LaunchSetup job(const std::string& target, const std::string& model = "llama-3.1-8b") {
  LaunchSetup setup;
  setup.target = target;
  setup.model = find_model(model);
  setup.hosts = 4;
  setup.devices_per_host = 8;
  setup.degrees = {
      .dp = 4, .tp = 2, .pp = 4, .sequence_parallel = true, .zero = 1, .micro_batch = 1, .micro_batches = 8};
  return setup;
}

using Sentences = std::vector<std::string>;

TEST(LaunchRules, TakeAJobThatMegatronTakes) { EXPECT_EQ(broken_launch_rules(job("megatron")), Sentences{}); }

TEST(LaunchRules, NameTheNearestBatches) {
  LaunchSetup setup = job("megatron");
  setup.hosts = 64;
  setup.degrees = {.dp = 64, .tp = 8, .sequence_parallel = true, .zero = 1, .micro_batch = 3, .micro_batches = 5};
  setup.batch = 1000;
  EXPECT_EQ(broken_launch_rules(setup),
            Sentences{"gbs 1000 is not a multiple of mbs x dp = 3 x 64; nearest 960 or 1152"});
  setup.batch = 960;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
}

TEST(LaunchRules, NameTheNearestNumbersOfDevices) {
  LaunchSetup setup = job("megatron");
  setup.devices_per_host = 5;
  EXPECT_EQ(broken_launch_rules(setup),
            Sentences{"4 x 5 = 20 devices are not a multiple of tp x pp x cp = 2 x 4 x 1 = 8; nearest 16 or 24"});
}

TEST(LaunchRules, NameTheNearestDegrees) {
  LaunchSetup setup = job("torchtitan");
  setup.model.layers = 80;
  setup.hosts = 6;
  setup.degrees = {.dp = 3, .tp = 16, .sequence_parallel = true, .micro_batch = 1, .micro_batches = 8};
  EXPECT_EQ(broken_launch_rules(setup), Sentences{"tp=16 does not divide the 8 heads of keys and values; nearest 8"});
}

// Its optimizer state is split over `data` alone, and weights over the axes of experts and of the context unless the
// file says otherwise.
TEST(LaunchRules, MaxtextHasNoZero1WithGroupsAndNoneWithoutAdam) {
  LaunchSetup setup = job("maxtext");
  setup.hosts = 1;
  setup.degrees = {.dp = 4, .cp = 2, .zero = 1, .schedule = ScheduleKind::GPipe, .micro_batch = 1, .micro_batches = 2};
  EXPECT_EQ(broken_launch_rules(setup), Sentences{"maxtext has no ZeRO level 1 with cp=2"});
  for (const int zero : {0, 3}) {
    setup.degrees.zero = zero;
    EXPECT_EQ(broken_launch_rules(setup), Sentences{}) << zero;
  }
  setup.degrees = {.dp = 8, .zero = 1, .schedule = ScheduleKind::GPipe, .micro_batch = 1, .micro_batches = 2};
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.optimizer.kind = Optimizer::Kind::Sgd;
  EXPECT_EQ(broken_launch_rules(setup).size(), 1U);
}

TEST(LaunchRules, SayAllThatIsBrokenAtOnce) {
  LaunchSetup setup = job("megatron");
  setup.batch = 33;
  setup.optimizer.kind = Optimizer::Kind::Adafactor;
  setup.stage_blocks = {8, 8, 8, 7};
  const Sentences broken = broken_launch_rules(setup);
  ASSERT_EQ(broken.size(), 3U);
  EXPECT_EQ(broken[0], "gbs 33 is not a multiple of mbs x dp = 1 x 4; nearest 32 or 36");
  EXPECT_EQ(broken[1], "the stages have 31 blocks together, and the model has 32");
  EXPECT_EQ(broken[2], "the files for Megatron-LM core 0.20 have no adafactor");
}

TEST(LaunchRules, RecomputeTheFirstBlocksOfEveryStageOfMegatron) {
  LaunchSetup setup = job("megatron");
  setup.recompute_layers = {
      {0, 1, Recompute::Full}, {8, 9, Recompute::Full}, {16, 17, Recompute::Full}, {24, 25, Recompute::Full}};
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.recompute_layers.back().last = 26;
  EXPECT_EQ(broken_launch_rules(setup).size(), 1U);
  setup.recompute_layers.back() = {25, 26, Recompute::Full};
  EXPECT_EQ(broken_launch_rules(setup).size(), 1U);
  setup.target = "torchtitan";
  setup.degrees.zero = 2;
  EXPECT_EQ(broken_launch_rules(setup).size(), 1U);
}

TEST(LaunchRules, NameWhatAFrameworkCannotBeToldOfTheModel) {
  LaunchSetup setup = job("megatron", "bloom:layers=4,hidden=64,heads=4,seq=32,vocab=128");
  setup.degrees.pp = 1;
  setup.degrees.dp = 16;
  EXPECT_EQ(broken_model_rules(setup).front(),
            "model bloom has attention biases by distance (ALiBi), which Megatron-LM core 0.20 cannot be told");
  EXPECT_THROW(static_cast<void>(broken_model_rules(job("megatron", "vit-b16"))), InputError);
  EXPECT_EQ(broken_model_rules(job("jax", "vit-b16")), Sentences{});
}

TEST(LaunchRules, WantSequencesSplitWhereExpertsAre) {
  LaunchSetup setup = job("megatron", "mixtral-8x7b");
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.degrees.sequence_parallel = false;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{"experts with tp=2 need the sequence split over tp, as by sp=1"});
}

TEST(LaunchRules, KnowWhatMegatronPartsAndOverlapsByItself) {
  LaunchSetup setup = job("megatron");
  setup.model.layers = 31;
  setup.overlap_weights = true;
  const Sentences broken = broken_launch_rules(setup);
  ASSERT_EQ(broken.size(), 2U);
  EXPECT_EQ(broken[0],
            "31 layers are not a multiple of pp x vpp = 4 x 1; nearest 28 or 32, or a layout that names every stage");
  setup.stage_blocks = {8, 8, 8, 7};
  setup.overlap_gradients = true;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
}

TEST(LaunchRules, OffloadStatesWhereTheFrameworkDoes) {
  LaunchSetup setup = job("megatron");
  setup.offload = Offload::Optimizer;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.degrees.zero = 0;
  EXPECT_EQ(
      broken_launch_rules(setup),
      Sentences{"Megatron-LM core 0.20 offloads optimizer state only where it is split over the replicas (ZeRO 1)"});
  setup.degrees.zero = 1;
  setup.optimizer.kind = Optimizer::Kind::Momentum;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{"Megatron-LM core 0.20 offloads the state of Adam alone"});
}

TEST(LaunchRules, HoldTheMeshesOfFlagScale) {
  LaunchSetup setup = job("flagscale");
  setup.hosts = 1;
  setup.degrees = {.dp = 4, .pp = 2, .micro_batch = 1, .micro_batches = 8};
  setup.stage_blocks = {12, 20};
  setup.stages = {{.blocks = 12, .dp = 4}, {.blocks = 20, .dp = 1, .tp = 4}};
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.stages[1] = {.blocks = 20, .dp = 3, .tp = 1, .recompute = Recompute::Selective};
  const Sentences broken = broken_launch_rules(setup);
  ASSERT_EQ(broken.size(), 3U);
  EXPECT_EQ(broken[0], "stage 1: dp=3 does not divide the 4 samples of a micro-batch on all replicas of stage 0");
  EXPECT_EQ(broken[1], "FlagScale's stages recompute all or nothing, and stages 1 selectively");
  EXPECT_EQ(broken[2], "the stages have 7 devices together, and the job has 8");
}

TEST(Decoder, HasExpertsBehindItsDenseLayers) {
  const Decoder decoder = decoder_of(find_model("deepseek-v3"));
  EXPECT_FALSE(decoder.has_experts(2));
  EXPECT_TRUE(decoder.has_experts(3));
  EXPECT_EQ(decoder.latent->kv_rank, 512);
  EXPECT_EQ(decoder.experts->ffn, 2048);
}

TEST(LaunchRules, MaxtextAccumulatesNoGradientsInFp8AndHasNoWindows) {
  LaunchSetup setup = job("maxtext");
  setup.hosts = 1;
  setup.degrees = {.dp = 8, .zero = 3, .schedule = ScheduleKind::GPipe, .micro_batch = 1, .micro_batches = 2};
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.matmul_dtype = "fp8";
  EXPECT_EQ(
      broken_launch_rules(setup),
      Sentences{"MaxText accumulates no gradients of products in fp8, and the plan has 2 micro-batches; nearest 1"});
  setup.degrees.micro_batches = 1;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{});
  setup.model.more["window"] = 512;
  EXPECT_EQ(broken_launch_rules(setup), Sentences{"MaxText's decoder blocks of one kind have no attention windows"});
}

}  // namespace launch_rules_test
}  // namespace meshwright
